"""The page judges by the history, the report task by its own memory: both are to find the same, run after run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.health import AlarmKind, HealthState
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.monitoring.run_report import GroupSample
from srm_common.domain.monitoring.schedule import ScheduledFlow
from srm_common.store.metrics_store import MetricsStore
from tests.unit.domain.monitoring.reports import START, flow_of, report

FLOW = FlowName("a", "b")


@pytest.fixture
def flow(tmp_path: Path) -> FlowSettings:
    return flow_of(tmp_path)


NEVER = HeartbeatReport("a->b", "a", START, 1_000, 60_000)
STORY = [
    report(0),
    report(30, lag=11),
    report(60, lag=12),
    report(90, lag=12, error="it broke"),
    report(120, lag=13, stopped="cluster a is not reachable"),
    replace(report(150), run=None, fault="cluster b is not reachable"),
    report(180, lag=10),
    report(210, lost=7, error="7 offsets were deleted; set on.data.loss to skip or reset to continue without them"),
    report(240, lost=7),
    report(270),
    replace(report(300), foreign_writers="a.t-0, offsets 5 to 9", groups=(GroupSample("g", 4, 1, "before the map"),)),
    replace(report(330), heartbeats=NEVER, groups=(GroupSample("g", 4, 4),)),
    replace(report(400), heartbeats=NEVER, groups=(GroupSample("g", 4, 4),)),
    report(90_000),
]


def test_a_flow_that_the_file_disables_is_paused_whatever_airflow_says(tmp_path: Path) -> None:
    flow = replace(flow_of(tmp_path), enabled=False, disabled=True)
    memory = AlarmMemory().after(report(0))
    late = START + 10 * 86_400_000
    for paused in (True, False):
        found = judge(observe(FLOW, memory.history, flow, ScheduledFlow(FLOW, "srm.a.b", paused), late))
        assert found.health.state is HealthState.PAUSED
        assert found.health.cause.startswith("the file disables a->b (a->b.enabled = false), so no run of it is ")
        assert found.health.help is not None
        assert (found.health.help.action, "enabled to true" in found.health.help.text) == (None, True)
        assert found.alarms == []
    # Where there is no Airflow, something else starts its runs.
    found = judge(observe(FLOW, memory.history, flow, None, late))
    assert found.health.state is HealthState.STALLED


def test_the_alarm_of_skipped_records_names_the_dead_letter_topic_of_the_file(tmp_path: Path) -> None:
    """Also where no run could say it in a note, since it did not end well."""
    flow = flow_of(
        tmp_path,
        "transforms = drop",
        "transforms.drop.type = org.apache.kafka.connect.transforms.DropHeaders",
        "transforms.drop.headers = h",
        "errors.tolerance = all",
        "errors.deadletterqueue.topic.name = refused",
    )
    memory = AlarmMemory().after(report(0, skipped=3, letters=3, stopped="cluster a is not reachable"))
    (alarm,) = (
        one
        for one in judge(observe(FLOW, memory.history, flow, None, START)).alarms
        if one.kind is AlarmKind.SKIPPED_RECORDS
    )
    assert alarm.text == (
        "transforms of a->b could not handle 3 records of t; all of them are in the dead letter topic refused"
    )


def test_the_history_and_the_memory_of_the_report_task_agree(flow: FlowSettings, tmp_path: Path) -> None:
    store = MetricsStore(f"sqlite:///{tmp_path}/srm-metrics.db")
    memory = AlarmMemory()
    states = []
    for run_report in STORY:
        store.write(run_report)
        memory = memory.after(run_report)
        (row,) = store.flows()
        by_history = judge(observe(FLOW, row.history, flow, None, run_report.reported_ms))
        by_memory = judge(observe(FLOW, memory.history, flow, None, run_report.reported_ms))
        assert by_history.health == by_memory.health, run_report.run_id
        assert by_history.alarms == by_memory.alarms, run_report.run_id
        states.append(by_history.health.state.value)
    store.close()
    assert states == [
        "running",
        "catching_up",
        "catching_up",
        "failing",
        "failing",
        "failing",
        "running",
        "lost_data",
        "lost_data",
        "lost_data",
        "lost_data",
        "lost_data",
        "lost_data",
        "running",
    ]


def test_what_only_the_scheduler_knows(flow: FlowSettings, tmp_path: Path) -> None:
    store = MetricsStore(f"sqlite:///{tmp_path}/srm-metrics.db")
    store.write(report(0))
    (row,) = store.flows()
    store.close()
    later = START + 3_600_000

    def state(schedule: ScheduledFlow | None, fault: str | None = None) -> HealthState:
        return judge(observe(FLOW, row.history, flow, schedule, later, schedule_fault=fault)).health.state

    scheduled = ScheduledFlow(FLOW, "srm.a.b", paused=False)
    assert state(scheduled) is HealthState.STALLED
    assert state(None) is HealthState.STALLED
    assert state(None, "Airflow does not respond") is HealthState.UNKNOWN
    assert state(replace(scheduled, paused=True)) is HealthState.PAUSED
    assert state(replace(scheduled, running_since_ms=later - 5_000)) is HealthState.RUNNING
    assert state(replace(scheduled, misconfigured="srm.properties:3: it is wrong")) is HealthState.FAILING


def test_a_flow_that_is_not_in_the_file_is_judged_by_what_it_reported(tmp_path: Path) -> None:
    store = MetricsStore(f"sqlite:///{tmp_path}/srm-metrics.db")
    store.write(report(0, lag=11))
    (row,) = store.flows()
    store.close()
    seen = observe(FLOW, row.history, None, None, START + 119_000)
    assert (seen.schedule_interval_seconds, seen.lag_objective_records) == (30.0, 10)
    assert judge(seen).health.state is HealthState.CATCHING_UP
    assert judge(replace(seen, now_ms=START + 121_000)).health.state is HealthState.STALLED
