"""The DAG file as Airflow reads it: no Kafka, no Spark, no database."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.types import DagRunType

from srm_common.airflow_bridge.operators import MisconfiguredOperator
from srm_common.airflow_bridge.replicate_operator import ReplicateOperator
from srm_common.errors import ConfigError
from tests.compat.trial import DAG_IDS, properties

pytestmark = pytest.mark.airflow

ConfigurationFile = Callable[..., Path]

TWO_CLUSTERS = {
    "clusters": "a, b",
    "a.bootstrap.servers": "a-1.example:9092",
    "b.bootstrap.servers": "b-1.example:9092",
}


def fifty_flows() -> dict[str, str]:
    aliases = [f"c{number}" for number in range(51)]
    properties = {"clusters": ", ".join(aliases)}
    for alias in aliases:
        properties[f"{alias}.bootstrap.servers"] = f"{alias}.example:9092"
    for source, target in itertools.pairwise(aliases):
        properties[f"{source}->{target}.enabled"] = "true"
        properties[f"{source}->{target}.topics"] = "orders.*, payments"
    return properties


@pytest.fixture
def parse(
    dags_folder: Path, configuration_file: ConfigurationFile, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., DagBag]:
    """Loads the repository's DAG file with these properties (or this text) as the configuration."""

    def load(properties: dict[str, str] | str) -> DagBag:
        path = configuration_file(properties if isinstance(properties, dict) else {})
        if isinstance(properties, str):
            path.write_text(properties)
        monkeypatch.setenv("SRM_CONFIG", str(path))
        return DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False)

    return load


def test_each_flow_of_the_file_is_a_dag(parse: Callable[..., DagBag]) -> None:
    bag = parse({**TWO_CLUSTERS, "a->b.enabled": "true", "b->a.topics": "x"})
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["srm.a.b", "srm.b.a"]


def test_a_dag_is_scheduled_as_its_flow_says(parse: Callable[..., DagBag]) -> None:
    dag = parse({**TWO_CLUSTERS, "a->b.enabled": "true", "a->b.schedule.interval.seconds": "45"}).dags["srm.a.b"]
    assert dag.schedule == timedelta(seconds=45)
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert dag.is_paused_upon_creation is False
    assert dag.tags == {"srm", "source:a", "target:b"}


def test_a_flow_that_is_not_enabled_is_paused_at_first(parse: Callable[..., DagBag]) -> None:
    dags = parse({**TWO_CLUSTERS, "a->b.topics": "x", "b->a.enabled": "false"}).dags
    assert [dags[dag_id].is_paused_upon_creation for dag_id in ("srm.a.b", "srm.b.a")] == [True, True]


def test_tasks_of_a_flow(parse: Callable[..., DagBag]) -> None:
    properties = {**TWO_CLUSTERS, "a->b.enabled": "true", "airflow.pool": "srm_{target}", "task.retries": "3"}
    dag = parse(properties).dags["srm.a.b"]
    assert {task.task_id: task.upstream_task_ids for task in dag.tasks} == {
        "refresh_topics": set(),
        "emit_heartbeat": set(),
        "replicate": {"refresh_topics"},
        "sync_checkpoints": {"replicate"},
        "report_lag": {"sync_checkpoints"},
        "outcome": {"refresh_topics", "emit_heartbeat", "replicate", "sync_checkpoints", "report_lag"},
    }
    beat = dag.get_task("emit_heartbeat")
    assert (beat.priority_weight, str(beat.weight_rule)) == (1000, "absolute"), "before the copies of all flows"
    replicate = dag.get_task("replicate")
    assert isinstance(replicate, ReplicateOperator)
    assert (replicate.pool, replicate._conn_id, replicate.retries) == ("srm_b", "spark", 3)
    assert replicate.execution_timeout == timedelta(hours=6)
    assert [str(outlet.uri) for outlet in dag.get_task("report_lag").outlets] == ["srm://a/b"]


@pytest.mark.parametrize("dag_id", ["srm.c0.c1", "srm.c49.c50"])
def test_rules_that_every_dag_keeps(parse: Callable[..., DagBag], dag_id: str) -> None:
    dag = parse(fifty_flows()).dags[dag_id]
    assert dag.doc_md
    assert dag.owner == "srm"
    assert "srm" in dag.tags
    for task in dag.tasks:
        assert task.doc_md, task.task_id
        assert task.retry_delay <= timedelta(minutes=5)
        assert task.execution_timeout is not None or task.task_id == "outcome"


def test_what_may_be_chosen_for_one_run(parse: Callable[..., DagBag]) -> None:
    params = parse({**TWO_CLUSTERS, "a->b.enabled": "true"}).dags["srm.a.b"].params
    assert params.dump() == {
        "topics": None,
        "topics.exclude": None,
        "run.max.seconds": None,
        "start": "committed",
        "refresh.at.once": False,
    }
    params["topics"] = ["orders.*"]
    params["run.max.seconds"] = 30
    params["start"] = "timestamp:2026-01-31T12:00:00Z"
    with pytest.raises(Exception, match="yesterday"):
        params["start"] = "yesterday"
    with pytest.raises(Exception, match="-1"):
        params["run.max.seconds"] = -1


def test_the_same_file_gives_the_same_dags(parse: Callable[..., DagBag]) -> None:
    """Whatever differs from parse to parse would make a new version of each DAG every time."""

    def serialized() -> dict[str, Any]:
        dags = parse(fifty_flows()).dags
        return {dag_id: json.dumps(DagSerialization.serialize_dag(dag), sort_keys=True) for dag_id, dag in dags.items()}

    assert serialized() == serialized()


def test_a_broken_file_is_an_import_error_that_says_where_and_why(parse: Callable[..., DagBag]) -> None:
    bag = parse("clusters = a, b\na.bootstrap.servers = a:9092\nb.bootstrap.servers = \\u00zz\n")
    assert not bag.dags
    (error,) = bag.import_errors.values()
    assert "srm.properties:3: " in error
    assert error.strip().splitlines()[-1].startswith("srm_common.errors.ConfigError: ")


def test_a_missing_file_is_an_import_error_that_says_what_to_set(
    dags_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SRM_CONFIG", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    (error,) = DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False).import_errors.values()
    assert f"{tmp_path}/srm.properties: " in error
    assert "SRM_CONFIG is not set" in error


def test_a_faulty_flow_stops_alone_and_visibly(parse: Callable[..., DagBag]) -> None:
    properties = {
        **TWO_CLUSTERS,
        "a->b.enabled": "true",
        "b->a.enabled": "true",
        "b->a.tasks.max": "many",
    }
    bag = parse(properties)
    assert bag.import_errors == {}
    healthy, faulty = bag.dags["srm.a.b"], bag.dags["srm.b.a"]
    assert "srm:misconfigured" not in healthy.tags
    assert "srm:misconfigured" in faulty.tags
    assert faulty.dag_display_name == "srm.b.a (misconfigured)"
    assert "tasks.max" in (faulty.description or "")
    assert faulty.is_paused_upon_creation is False
    (task,) = faulty.tasks
    assert isinstance(task, MisconfiguredOperator)
    with pytest.raises(Exception, match=r"srm.properties:6: .*tasks.max") as raised:
        task.execute({})
    assert type(raised.value).__name__ == "AirflowFailException"


def test_a_flow_with_the_dag_id_of_another_is_refused_beside_it(parse: Callable[..., DagBag]) -> None:
    aliases = ("a", "a.b", "b.c", "c")
    hook = {"alarm.notifiers": "chat", "alarm.notifier.chat.class": "airflow.sdk.BaseNotifier"}
    bag = parse(
        {
            "clusters": ", ".join(aliases),
            "replication.policy.separator": "_",
            **{f"{alias}.bootstrap.servers": f"{alias}.example:9092" for alias in aliases},
            **hook,
            "a.b->c.enabled": "true",
            "a->b.c.enabled": "true",
        }
    )
    assert bag.import_errors == {}
    assert sorted(bag.dags) == ["srm.a.b.c", "srm.a.b.c.misconfigured", "srm.watch"]
    assert bag.dags["srm.a.b.c"].tags == {"srm", "source:a.b", "target:c"}
    refused = bag.dags["srm.a.b.c.misconfigured"]
    assert refused.tags == {"srm", "srm:misconfigured", "source:a", "target:b.c"}
    assert "a->b.c, which would have the same DAG id as a.b->c, srm.a.b.c; rename an alias" in (
        refused.description or ""
    )


def test_credentials_are_in_no_dag(parse: Callable[..., DagBag]) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush-hush";'
    properties = {
        **TWO_CLUSTERS,
        "a.security.protocol": "SASL_SSL",
        "a.sasl.mechanism": "PLAIN",
        "a.sasl.jaas.config": jaas,
        "a->b.enabled": "true",
    }
    bag = parse(properties)
    assert bag.import_errors == {}
    assert "hush-hush" not in json.dumps(DagSerialization.serialize_dag(bag.dags["srm.a.b"]))


# Runs in a fresh interpreter: whatever Airflow itself loads and opens is there before the DAG file is.
_AUDIT = """
import json, sys
import airflow.dag_processing.dagbag, airflow.sdk, airflow.providers.standard.operators.empty
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
DagBag("/nonexistent", load_op_links=False)
before, opened = set(sys.modules), []
def audit(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "sqlite3.connect", "subprocess.Popen", "os.system"):
        opened.append(f"{event} {arguments}")
sys.addaudithook(audit)
bag = DagBag(sys.argv[1], load_op_links=False)
print(json.dumps({"dags": len(bag.dags), "errors": bag.import_errors, "opened": opened,
                  "modules": sorted(set(sys.modules) - before)}))
"""
HEAVY = (
    "kafka",
    "confluent_kafka",
    "pyspark",
    "py4j",
    "pandas",
    "numpy",
    "pyarrow",
    "cramjam",
    "crc32c",
    "rich",
    "click",
)


@pytest.mark.parametrize(("file", "dags"), [("replicate_flows.py", 50), ("move_groups.py", 3), ("verify_copies.py", 1)])
def test_parsing_loads_nothing_heavy_and_opens_nothing(
    dags_folder: Path, configuration_file: ConfigurationFile, file: str, dags: int
) -> None:
    environment = {**os.environ, "SRM_CONFIG": str(configuration_file(fifty_flows()))}
    environment["PYTHONPATH"] = str(dags_folder.parent)
    command = [sys.executable, "-c", _AUDIT, str(dags_folder / file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["dags"], seen["errors"], seen["opened"]) == (dags, {}, [])
    assert [module for module in seen["modules"] if module.partition(".")[0] in HEAVY] == []


def test_a_worker_builds_only_the_dag_of_its_task(
    dags_folder: Path, configuration_file: ConfigurationFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file(fifty_flows())))
    # What Airflow's task runner sets; see airflow.sdk.definitions.context.
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "srm.c7.c8")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "replicate")
    assert list(DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False).dags) == ["srm.c7.c8"]


@pytest.mark.parametrize("file", ["replicate_flows.py", "move_groups.py", "verify_copies.py"])
def test_the_dag_file_is_three_lines(dags_folder: Path, file: str) -> None:
    code = [line for line in (dags_folder / file).read_text().splitlines() if line.strip()]
    assert len(code) == 3


def test_a_named_file_goes_before_the_environment(
    configuration_file: ConfigurationFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    from srm_common.airflow_bridge import flow_dags

    monkeypatch.setenv("SRM_CONFIG", "/nowhere/srm.properties")
    with pytest.raises(ConfigError, match="SRM_CONFIG names it"):
        flow_dags()
    assert list(flow_dags(configuration_file({**TWO_CLUSTERS, "a->b.enabled": "true"}))) == ["srm.a.b"]


@pytest.fixture
def every_dag(
    dags_folder: Path, configuration_file: ConfigurationFile, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], dict[str, DAG]]:
    """Parses all files of the repository: the DAGs of a flow, of one that the file stops, and all of our own."""
    properties = {
        **TWO_CLUSTERS,
        "a->b.enabled": "true",
        "b->a.enabled": "true",
        "b->a.tasks.max": "many",
        "alarm.notifiers": "chat",
        "alarm.notifier.chat.class": "airflow.sdk.BaseNotifier",
    }
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file(properties)))

    def load() -> dict[str, DAG]:
        bag = DagBag(str(dags_folder), load_op_links=False)
        assert bag.import_errors == {}
        own = {"srm.failover", "srm.failback", "srm.switch_direction", "srm.verify", "srm.watch"}
        assert set(bag.dags) == {"srm.a.b", "srm.b.a", *own}
        return bag.dags

    return load


def test_airflow_pauses_no_dag_that_fails(
    every_dag: Callable[[], dict[str, DAG]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not resume when its cluster is back, and nobody would hear of it."""
    monkeypatch.setenv("AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG", "3")
    assert DAG("another").max_consecutive_failed_dag_runs == 3
    for dag_id, dag in every_dag().items():
        kept = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        assert (dag.max_consecutive_failed_dag_runs, kept.max_consecutive_failed_dag_runs) == (0, 0), dag_id


def test_runs_are_of_every_type_but_backfills(every_dag: Callable[[], dict[str, DAG]]) -> None:
    for dag_id, dag in every_dag().items():
        kept = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).allowed_run_types
        assert set(kept or ()) == {run_type.value for run_type in DagRunType} - {"backfill"}, dag_id


def test_keys_that_do_nothing_are_on_the_flows_page(parse: Callable[..., DagBag]) -> None:
    bag = parse({**TWO_CLUSTERS, "a->b.enabled": "true", "b->a.enabled": "false", "a->b.task.max": "3"})
    assert "a->b.task.max is unknown and has no effect; did you mean a->b.tasks.max?" in (
        bag.dags["srm.a.b"].doc_md or ""
    )
    assert "has no effect" not in (bag.dags["srm.b.a"].doc_md or "")


def test_parsing_asks_for_no_airflow_connection(dags_folder: Path, configuration_file: ConfigurationFile) -> None:
    properties = {**TWO_CLUSTERS, "a->b.enabled": "true", "b.connection": "kafka_nowhere"}
    del properties["b.bootstrap.servers"]
    environment = {**os.environ, "SRM_CONFIG": str(configuration_file(properties))}
    environment["PYTHONPATH"] = str(dags_folder.parent)
    command = [sys.executable, "-c", _AUDIT, str(dags_folder / "replicate_flows.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["dags"], seen["errors"], seen["opened"]) == (1, {}, [])


def test_the_next_parse_sees_what_changed_in_the_file(parse: Callable[..., DagBag]) -> None:
    properties = {**TWO_CLUSTERS, "a->b.enabled": "true"}
    assert parse(properties).dags["srm.a.b"].schedule == timedelta(seconds=30)
    changed = parse({**properties, "schedule.interval.seconds": "60", "b->a.enabled": "true"}).dags
    assert {dag_id: dag.schedule for dag_id, dag in changed.items()} == {
        "srm.a.b": timedelta(seconds=60), "srm.b.a": timedelta(seconds=60)
    }  # fmt: skip


def test_flows_of_other_installations_have_no_dag(parse: Callable[..., DagBag]) -> None:
    both = {**TWO_CLUSTERS, "a->b.enabled": "true", "b->a.enabled": "true"}
    assert list(parse({**both, "streams.replication.manager.driver.target.cluster": "b"}).dags) == ["srm.a.b"]


def test_several_files_are_one_configuration(
    dags_folder: Path, configuration_file: ConfigurationFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = configuration_file(TWO_CLUSTERS, name="clusters.properties")
    flows = configuration_file({"a->b.enabled": "true"}, name="flows.properties")
    for value in (str(clusters.parent), f"{clusters}{os.pathsep}{flows}"):
        monkeypatch.setenv("SRM_CONFIG", value)
        bag = DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False)
        assert (bag.import_errors, list(bag.dags)) == ({}, ["srm.a.b"])
    monkeypatch.setenv("SRM_CONFIG", f"{clusters}{os.pathsep}/nowhere.properties")
    (error,) = DagBag(str(dags_folder / "replicate_flows.py"), load_op_links=False).import_errors.values()
    assert "/nowhere.properties: there is no such file (SRM_CONFIG names it)" in error


def test_what_make_compat_tries_has_every_dag(
    dags_folder: Path, configuration_file: ConfigurationFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DAG that its configuration does not lead to is one that no other version of Airflow has parsed."""
    path = configuration_file({})
    path.write_text(properties("localhost:1", "localhost:2"))
    monkeypatch.setenv("SRM_CONFIG", str(path))
    bag = DagBag(str(dags_folder), load_op_links=False)
    assert bag.import_errors == {}
    assert set(bag.dags) == set(DAG_IDS)
    assert bag.dags["srm.watch"].deadline
