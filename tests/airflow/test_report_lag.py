"""The task ``report_lag``: of a flow whose state cannot be read, of one whose report nobody may read, and when it tells
other DAGs that there are new records."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from confluent_kafka import Producer

from srm_common.airflow_bridge import lag_report
from srm_common.airflow_bridge.lag_report import AirflowMetric
from srm_common.airflow_bridge.operators import ReportLagOperator
from srm_common.domain.flow import names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.settings_files.configuration import load_configuration
from srm_common.store.location import open_store
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring import report_run
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.airflow.test_alarms import State
from tests.slot_worker import here

pytestmark = pytest.mark.airflow

FUTURE = b'{"version":99,"written_ms":1,"value":{}}'


def test_the_flow_is_failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the run itself does not need, as after a return to an older version."""
    monkeypatch.setenv("AIRFLOW_VAR_SRM_FILTERS__A__B", "{}")
    state = State()
    with FakeCluster() as target:
        topic = names.flow_state_topic("a")
        target.create_topic(topic, 1, config={"cleanup.policy": "compact"})
        producer = Producer({"bootstrap.servers": target.bootstrap_servers, "log_level": 0})
        producer.produce(topic, key=StateKey.VERIFICATION, value=FUTURE, partition=0)
        assert producer.flush(60) == 0
        file = tmp_path / "srm.properties"
        file.write_text(
            f"clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = {target.bootstrap_servers}\n"
            f"a->b.enabled = true\nmetrics.database.url = sqlite:///{tmp_path}/metrics.db\n"
        )
        task = ReportLagOperator(
            task_id="report_lag", flow="a->b", config=str(file), asset=Asset(name="srm.a.b", uri="srm://a/b")
        )
        context: Any = {
            "run_id": "r",
            "ti": SimpleNamespace(xcom_pull=lambda **_: None),
            "asset_state_store": {task.asset: state},
        }
        with pytest.raises(AirflowFailException, match=f"'{StateKey.VERIFICATION}' .* has version 99"):
            task.execute(context)
    status = state["status"]
    assert status["state"] == "failing"
    assert f"'{StateKey.VERIFICATION}' at offset 0" in status["cause"]
    # The page has it, too.
    store = open_store(load_configuration(file, connections=None))
    with closing(store):
        (row,) = store.flows(["a->b"])
    assert (row.history.ok, row.history.error) == (False, status["cause"].partition(": ")[2])


@pytest.mark.parametrize(
    ("executor", "named", "told"),
    [("LocalExecutor", False, False), ("CeleryExecutor", False, True), ("CeleryExecutor", True, False)],
)
def test_a_store_that_the_page_may_not_read_is_told_in_the_log(
    executor: str,
    named: bool,
    told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setenv("SRM_DATABASE", f"sqlite:///{tmp_path}/named.db" if named else "")
    file = tmp_path / "srm.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n")
    asset = Asset(name="srm.a.b", uri="srm://a/b")
    task = ReportLagOperator(task_id="report_lag", flow="a->b", config=str(file), asset=asset)
    warnings: list[str] = []
    log = SimpleNamespace(warning=lambda text, *arguments: warnings.append(text % arguments))
    monkeypatch.setattr(ReportLagOperator, "log", log)
    task._warn_of_store(load_configuration(file, connections=None))
    assert [warning.partition(",")[0] for warning in warnings] == [
        f"{executor} may run tasks on several machines"
    ] * told


def test_the_asset_has_an_event_only_where_something_was_copied(tmp_path: Path) -> None:
    file = tmp_path / "srm.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\na->b.enabled = true\n"
    )
    flow = load_configuration(file, connections=None).flow("a->b")
    asset = Asset(name="srm.a.b", uri="srm://a/b")
    task = ReportLagOperator(task_id="report_lag", flow="a->b", config=str(file), asset=asset)
    context: Any = {"asset_state_store": {asset: State()}}

    def event(records: int, total: int | None, *, state: RunState = RunState.DONE, beats: int = 1) -> bool:
        """Whether a run creates an event that copied so many records, and so many heartbeats besides."""
        orders = PartitionRecord("orders", "a.orders", 0, records, records_total=total)
        heartbeats = PartitionRecord("heartbeats", "a.heartbeats", 0, beats, records_total=beats)
        run = RunRecord("a->b", "r", 1, 2, 1, state, error=None, partitions=(orders, heartbeats))
        task._announce(flow, RunReport("a->b", "r", 2, run), context)
        return bool(task.outlets)

    assert not event(0, None), "nothing at all"
    assert event(10, 10)
    assert not event(0, 10, beats=5), "nothing but heartbeats"
    assert event(5, 15, state=RunState.FAILED), "one partition failed, others were copied"
    assert not event(0, 15, state=RunState.FAILED)
    assert event(0, 18), "its first attempt copied three, and failed"
    assert not event(0, 18)
    task._announce(flow, RunReport("a->b", "r", 2, None, fault="the cluster is away"), context)
    assert not task.outlets


def test_a_task_that_is_tried_again_sends_its_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_SRM_FILTERS__A__B", "{}")
    file = tmp_path / "srm.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:2\na->b.enabled = true\n"
        f"metrics.database.url = sqlite:///{tmp_path}/metrics.db\n"
    )
    orders = PartitionRecord("orders", "a.orders", 0, 10, records_total=10)
    report = RunReport("a->b", "r", 2, RunRecord("a->b", "r", 1, 2, 1, RunState.DONE, partitions=(orders,)))
    sent: list[AirflowMetric] = []
    monkeypatch.setattr(report_run, "make_report", lambda *_, **__: report)
    monkeypatch.setattr(lag_report, "send", sent.extend)
    task = ReportLagOperator(
        task_id="report_lag", flow="a->b", config=str(file), asset=Asset(name="srm.a.b", uri="srm://a/b")
    )
    state = State()
    context: Any = {
        "run_id": "r",
        "ti": SimpleNamespace(xcom_pull=lambda **_: None),
        "asset_state_store": {task.asset: state},
    }
    keys: list[str] = []
    with monkeypatch.context() as patched:
        # The last thing that is stored.
        patched.setattr(state, "set", _refusing("announced_records", keys))
        with pytest.raises(AirflowException, match="announced"):
            task.execute(context)
    assert (sent, keys[-1]) == ([], "announced_records")
    task.execute(context)
    assert [metric.value for metric in sent if metric.name == "srm.records"] == [10]


def test_a_run_that_was_followed_by_another_is_not_reported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its task is cleared in Airflow, days later."""
    monkeypatch.setenv("AIRFLOW_VAR_SRM_FILTERS__A__B", "{}")
    factors = ("offset.storage", "status.storage", "config.storage", "checkpoints.topic", "heartbeats.topic")
    file, state = tmp_path / "srm.properties", State()
    with FakeCluster() as source, FakeCluster() as target:
        lines = [
            "clusters = a, b",
            f"a.bootstrap.servers = {source.bootstrap_servers}",
            f"b.bootstrap.servers = {target.bootstrap_servers}",
            "a->b.enabled = true",
            "a->b.topics = orders",
            "a->b.emit.heartbeats.enabled = false",
            "replication.factor = 1",
            *(f"{key}.replication.factor = 1" for key in (*factors, "offset-syncs.topic")),
            f"metrics.database.url = sqlite:///{tmp_path}/metrics.db",
        ]
        file.write_text("\n".join(lines))
        source.create_topic("orders", 1)
        configuration = load_configuration(file)
        task = ReportLagOperator(
            task_id="report_lag", flow="a->b", config=str(file), asset=Asset(name="srm.a.b", uri="srm://a/b")
        )
        began: dict[str, int] = {}

        def report(run_id: str) -> Any:
            """The state of the flow after the task, with the health that the page shows."""
            xcom = {"began_ms": began[run_id]}
            context: Any = {
                "run_id": run_id,
                "ti": SimpleNamespace(xcom_pull=lambda key, **_: xcom.get(key)),
                "asset_state_store": {task.asset: state},
            }
            task.execute(context)
            return state["status"]["state"]

        producer = Producer({"bootstrap.servers": source.bootstrap_servers})
        with FlowClusters(configuration.flow("a->b")) as clusters:
            for run_id, count in (("r1", 10), ("r2", 5)):
                for _ in range(count):
                    producer.produce("orders", b"v")
                assert producer.flush(60) == 0
                began[run_id] = clusters.now_ms() - 1
                refresh_topics(clusters)
                replicate(clusters, RunOptions(run_id), here)
                assert report(run_id) != "failing"
        assert report("r1") != "failing"
        assert not task.outlets
        with closing(open_store(configuration)) as store:
            assert [(row.run_id, row.ok, row.records) for row in store.runs("a->b").rows] == [
                ("r2", True, 5),
                ("r1", True, 10),
            ]
        # One that began after the newest record was written, and left none, has failed.
        began["r3"] = time.time_ns() // 1_000_000 + 60_000
        assert report("r3") == "failing"


def _refusing(refused: str, keys: list[str]) -> Callable[[str, object], None]:
    def put(key: str, _value: object) -> None:
        keys.append(key)
        if key == refused:
            raise AirflowException(f"{key} cannot be stored")

    return put
