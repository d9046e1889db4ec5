"""The DAG ``srm.verify``: as Airflow parses it, and in a real scheduler with real brokers and Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import StateKey
from srm_common.domain.verification.verification import PartitionVerified
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.verification.kept_verification import results_in, summary_in, verify_and_keep
from tests.kafka.flows import write

DAG = "srm.verify"
pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]

# ---- as Airflow parses it


@pytest.fixture
def dags(
    dags_folder: Path, configuration_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str]], dict[str, Any]]:
    from airflow.dag_processing.dagbag import DagBag

    def load(properties: dict[str, str]) -> dict[str, Any]:
        monkeypatch.setenv("SRM_CONFIG", str(configuration_file(properties)))
        bag = DagBag(str(dags_folder / "verify_copies.py"), load_op_links=False)
        assert bag.import_errors == {}
        return dict(bag.dags)

    return load


def two_clusters(**more: str) -> dict[str, str]:
    return {"clusters": "a, b", "a.bootstrap.servers": "a:9092", "b.bootstrap.servers": "b:9092", **more}


def test_the_form_asks_for_a_flow_and_what_to_compare(dags: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    one = dags(two_clusters(**{"a->b.enabled": "true"}))[DAG]
    assert (one.schedule, one.is_paused_upon_creation, one.tags) == (None, False, {"srm-verify"})
    assert one.params.dump() == {
        "flow": "a->b",
        "against": "map",
        "resume": False,
        "topics": None,
        "topics.exclude": None,
        "sample": 100,
        "since": None,
    }
    assert all(one.params.get_param(name).schema.get("title") for name in one.params)
    for name, wrong in (("sample", 0), ("sample", 101), ("against", "nothing")):
        with pytest.raises(Exception, match=str(wrong)):
            one.params[name] = wrong
    two = dags(two_clusters(**{"a->b.enabled": "true", "b->a.enabled": "true"}))[DAG].params
    with pytest.raises(Exception, match="No value passed"):
        two.validate()
    assert dags(two_clusters()) == {}


def test_it_takes_a_slot_of_the_pool_that_all_flows_have(dags: Callable[[dict[str, str]], dict[str, Any]]) -> None:
    both = {"a->b.enabled": "true", "b->a.enabled": "true"}
    for pool, wanted in (("srm", "srm"), ("srm_{target}", "default_pool")):
        (task,) = dags(two_clusters(**both, **{"airflow.pool": pool}))[DAG].tasks
        assert (task.task_id, task.pool, task.retries, bool(task.doc_md)) == ("verify", wanted, 2, True)


# ---- in a real scheduler

CONFIGURATION = """\
clusters = a, b
a.bootstrap.servers = {a}
b.bootstrap.servers = {b}
a->b.enabled = true
a->b.topics = {topic}
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
# Once, when it is seen first.
schedule.interval.seconds = 86400
spark.min.bytes = {spark}
tasks.max = 2
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
"""


class Site:
    """Two clusters of its own, since their aliases are, and the file."""

    def __init__(self, a: LocalKafka, b: LocalKafka, file: Path) -> None:
        self.a, self.b, self.file = a, b, file

    def configure(self, spark_min_bytes: int) -> None:
        """From the next task on."""
        addresses = {"a": self.a.bootstrap_servers, "b": self.b.bootstrap_servers}
        self.file.write_text(CONFIGURATION.format(topic="orders", spark=spark_min_bytes, **addresses))

    def clusters(self) -> FlowClusters:
        return FlowClusters(load_configuration(self.file).flow(FlowName("a", "b")))


@pytest.fixture(scope="module")
def site(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with LocalKafka(name="a", jvm=broker_jvm) as a, LocalKafka(name="b", jvm=broker_jvm) as b:
        a.create_topic("orders", 4)
        for partition in range(4):
            write(a, "orders", [b"%d" % number * 20 for number in range(100)], partition)
        site = Site(a, b, tmp_path_factory.mktemp("verify") / "srm.properties")
        site.configure(1 << 20)
        yield site


@pytest.fixture(scope="module")
def airflow(site: Site, dags_folder: Path) -> Iterator[LocalAirflow]:
    environment = {
        "SRM_CONFIG": str(site.file),
        "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2,4]"}),
    }
    with LocalAirflow(
        dags_folder=dags_folder,
        environment=environment,
        directory=site.file.parent / "airflow",
        refresh_seconds=600,
        triggerer=False,
    ) as running:
        for dag_id in (DAG, "srm.a.b"):
            running.wait_for_dag(dag_id)
        running.unpause("srm.a.b")
        assert running.wait_for_run("srm.a.b", running.trigger("srm.a.b"), 600) == "success"
        yield running


def verified(airflow: LocalAirflow, **params: Any) -> tuple[str, dict[str, Any], str, int]:
    """State, XCom, log and number of tries of a run."""
    run_id = airflow.trigger(DAG, {"flow": "a->b", **params})
    state = airflow.wait_for_run(DAG, run_id, 600)
    tries = int(airflow.tasks(DAG, run_id)["verify"]["try_number"])
    log = airflow.log(DAG, run_id, "verify", tries)
    entry = airflow.get(
        f"/api/v2/dags/{DAG}/dagRuns/{run_id}/taskInstances/verify/xcomEntries/return_value", deserialize=True
    )
    return state, entry["value"], log, tries


def test_it_proves_a_flow_and_then_names_a_planted_difference(site: Site, airflow: LocalAirflow) -> None:
    state, found, log, _ = verified(airflow)
    assert state == "success", log
    assert (found["clean"], found["counts"], found["records"]) == (True, {"proved": 4}, 400)
    assert found["sentence"] in log
    assert "verify.py" not in log, "it is too little for Spark"

    # The same in Spark, as if records were large, so that partitions are cut.
    site.configure(0)
    with site.clusters() as clusters:
        clusters.state.write(StateKey.SIZES, {"orders": 64 << 20})
    state, found, log, _ = verified(airflow, against="source", topics=["ord.*"])
    assert state == "success", log
    assert (found["counts"], found["records"]) == ({"proved": 4}, 400)
    assert "verify.py" in log

    write(site.b, "a.orders", [b"not ours"], 2)
    for spark_min_bytes in (0, 1 << 40):
        site.configure(spark_min_bytes)
        state, found, log, tries = verified(airflow)
        assert (state, tries) == ("failed", 1), log
        assert (found["clean"], found["counts"]) == (False, {"different": 1, "proved": 3})
        assert "a.orders-2, offset " in found["sentence"]
        assert "records that the flow did not write" in found["sentence"]
        assert found["sentence"] in log
        (line,) = found["not_proved"]
        assert line.startswith("a.orders-2: different")
        assert line in log
        assert ("verify.py" in log) == (not spark_min_bytes)
        with site.clusters() as clusters:
            summary = summary_in(clusters.state.read_all(StateKey.VERIFICATION))
        assert summary is not None
        assert summary.sentence == found["sentence"]

    # Other topics have no such fault.
    state, found, log, _ = verified(airflow, **{"topics.exclude": ["orders"]})
    assert (state, found["counts"]) == ("success", {}), log


def test_what_was_compared_before_a_fault_is_left_out_by_the_retry(site: Site, airflow: LocalAirflow) -> None:
    """The target's broker is away during the first try. A part was compared shortly before, as if by it."""
    site.configure(1 << 40)
    seen: list[PartitionVerified] = []

    def stop(result: PartitionVerified) -> None:
        seen.append(result)
        raise KeyboardInterrupt

    with site.clusters() as clusters, pytest.raises(KeyboardInterrupt):
        verify_and_keep(clusters, report=stop)
    (done,) = seen
    site.b.stop()
    run_id = airflow.trigger(DAG, {"flow": "a->b"})
    wait_until(lambda: airflow.tasks(DAG, run_id)["verify"]["state"] == "up_for_retry", 600, "the first try to fail")
    site.b.start()
    site.b.wait_until_ready()
    airflow.wait_for_run(DAG, run_id, 600)
    tries = int(airflow.tasks(DAG, run_id)["verify"]["try_number"])
    assert tries == 2, airflow.log(DAG, run_id, "verify", tries)
    with site.clusters() as clusters:
        known = clusters.state.read_all(StateKey.VERIFICATION, prefix=StateKey.VERIFIED)
    summary, results = summary_in(known), results_in(known)["orders"]
    assert summary is not None
    assert summary.ended_ms is not None
    assert {number for number, one in results.items() if one.checked_ms == done.checked_ms} == {done.partition}
    assert all(partition_verified.checked_ms >= summary.started_ms for partition_verified in results.values())
