from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.airflow_bridge.lag_report import LagReport
from srm_common.cli.main import run
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.health.health import HealthState
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import UnreachableCluster
from srm_common.testing import FakeCluster
from srm_common.usecases.monitoring.list_flows import status
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.slot_worker import here


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


def test_status_before_after_and_without_the_source(
    flow: FlowSettings,
    source_kafka: FakeCluster,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    assert status(flow).run is None
    source_kafka.create_topic(name, 2)
    write(source_kafka, name, [b"x"] * 30)
    prepare(flow)
    replicate(flow, RunOptions("first"), here)
    write(source_kafka, name, [b"x"] * 5)
    report = status(flow)
    assert report.run is not None
    assert (report.run.run_id, report.run.state, report.healthy) == ("first", RunState.DONE, True)
    rows = [(row.partition, row.position, row.end, row.lag, row.live) for row in report.partitions]
    assert rows == [(0, 30, 35, 5, True), (1, 0, 0, 0, True)]
    assert report.partitions[0].age_seconds is not None
    assert report.partitions[0].behind_seconds is not None
    assert report.partitions[1].behind_seconds == 0.0
    _top_asks_the_clusters(flow, tmp_path, monkeypatch, capsys)
    request.getfixturevalue("impatient")
    away = ClusterSettings.plaintext(flow.source.alias, "127.0.0.1:1")
    report = status(replace(flow, source=away, admin_timeout_ms=1500))
    assert not report.healthy
    assert f"cluster '{flow.source.alias}' (127.0.0.1:1) is not reachable: no broker" in str(report.source_fault)
    assert [(row.end, row.live) for row in report.partitions] == [(30, False), (0, False)]


def test_a_flow_whose_filters_let_nothing_through_copies_heartbeats_only(flow: FlowSettings) -> None:
    flow = replace(flow, topics=("no-topic-has-this-name",), heartbeats_replication=True, emit_heartbeats=True)
    new = status(flow).health
    assert new is not None
    assert (new.state, new.help and new.help.command) == (
        HealthState.NOT_RUN,
        f"srm-control run --flow '{flow.name}'",
    )
    emit_heartbeat(flow)
    prepare(flow)
    replicate(flow, RunOptions("first"), here)
    told = make_report(flow, "first")
    assert (told.data_topics, told.run is not None and len(told.run.partitions) > 0) == (0, True)
    health = LagReport.of(told).health
    assert (health.state, health.help and health.help.command) == (
        HealthState.HEARTBEAT_ONLY,
        f"srm-control topics --explain --flow '{flow.name}'",
    )
    assert "only heartbeats are copied" in status(flow).headline()


def _top_asks_the_clusters(
    flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is not a history: of a flow that has run, of one that never did, and of clusters that are away."""
    monkeypatch.setenv("SRM_DATABASE", f"sqlite:///{tmp_path}/none.db")
    monkeypatch.delenv("SRM_AIRFLOW_URL", raising=False)
    settings = properties_of(flow) | {
        "clusters": f"{flow.name.source}, {flow.name.target}, away",
        "away.bootstrap.servers": "127.0.0.1:1",
        f"{flow.name.target}->{flow.name.source}.enabled": "true",
        f"{flow.name.source}->away.enabled": "true",
        f"{flow.name.source}->away.admin.timeout.ms": 1000,
    }
    path = tmp_path / "srm.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    assert run(["top", "--once", "-o", "json", "--config", str(path)]) == 3, "the state of one flow is not known"
    found = json.loads(capsys.readouterr().out)["flows"]
    lines = {one["flow"]: (one["health"]["state"], one["lag"], one["partitions"], one["asked"]) for one in found}
    assert lines == {
        f"{flow.name.source}->away": ("unknown", None, None, None),
        f"{flow.name.target}->{flow.name.source}": ("not_run", None, None, "clusters"),
        str(flow.name): ("running", 5, 2, "clusters"),
    }
    causes = {one["flow"]: one["health"]["cause"] for one in found}
    assert "cluster 'away' (127.0.0.1:1)" in causes[f"{flow.name.source}->away"]
    assert causes[f"{flow.name.target}->{flow.name.source}"] == "no run of the flow has been reported yet"


def test_an_unreachable_target_is_an_error(flow: FlowSettings) -> None:
    away = flow.target.at("127.0.0.1:1")
    with pytest.raises(UnreachableCluster, match="'target'"):
        status(replace(flow, target=away, admin_timeout_ms=2000))
