"""What the report task makes of a report and of what it remembers of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from srm_common.airflow_bridge.alarms import MEMORY, AlarmSender, judged
from srm_common.domain.flow.settings import AlarmNotifier
from srm_common.domain.health.alarms import raised
from srm_common.domain.health.health import AlarmKind, Observation
from srm_common.domain.health.notified_alarms import AlarmMemory
from tests.unit.domain.monitoring.reports import START, flow_of, report


class Sender(AlarmSender):
    """Reaches everybody."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        super().__init__(context)
        self.told: list[str] = []

    def sent(self, notifier: AlarmNotifier, alarm: Mapping[str, Any]) -> bool:
        self.told.append(alarm["text"])
        return True


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


def test_what_an_earlier_version_sent_is_compared_from_then_on() -> None:
    copies = Observation("a->b", START, copies_differ="a.t-0 differs")
    (alarm,) = raised(copies)
    (other,) = raised(replace(copies, copies_differ="a.u-1 differs"))
    memory = AlarmMemory({"mail": {"copies_differ": alarm.text}})
    sender = Sender({})
    for now in (alarm, other, other):
        kept: list[AlarmMemory] = []
        sender.tell([AlarmNotifier("mail", "x.Mail")], [now], memory, "a->b", START, informed=True, keep=kept.append)
        memory = kept[-1]
    assert sender.told == [other.text]
