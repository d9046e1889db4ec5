"""What the report task makes of a report and of what it remembers of earlier ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from srm_common.airflow_bridge.alarms import MEMORY, judged
from srm_common.domain.health.health import AlarmKind
from tests.unit.domain.monitoring.reports import flow_of, report


def test_alarms_go_by_the_newest_report_although_one_was_from_an_hour_ahead(tmp_path: Path) -> None:
    """Where no cluster tells its time. The deadline for good runs is counted from the next report on."""
    flow = flow_of(tmp_path)
    memory, _ = judged(flow, report(3_600), {})
    failed = replace(report(30, error="it broke", lag=11), run_id="r2")
    memory, verdict = judged(flow, failed, {MEMORY: memory.to_json()})
    assert memory.history.run_id == "r2"
    assert verdict.health.cause == "1 of 1 partition failed, the first t-0: it broke"
    assert [alarm.kind for alarm in verdict.alarms] == [AlarmKind.LAG_OBJECTIVE]
    late = replace(report(131, error="it broke", lag=11), run_id="r3")
    _, verdict = judged(flow, late, {MEMORY: memory.to_json()})
    assert [alarm.kind for alarm in verdict.alarms] == [AlarmKind.STALLED, AlarmKind.LAG_OBJECTIVE]
