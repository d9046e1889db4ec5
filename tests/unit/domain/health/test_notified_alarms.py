"""From run to run: since when something holds, and whom it was told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.health.health import HealthState
from srm_common.domain.health.judge import judge
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.health.observe_flow import observe
from srm_common.domain.monitoring.run_report import GroupSample, untranslated
from tests.unit.domain.monitoring.reports import START, flow_of, report


@pytest.fixture
def flow(tmp_path: Path) -> FlowSettings:
    return flow_of(tmp_path)


def test_a_flow_that_falls_behind_fails_and_comes_back(flow: FlowSettings) -> None:
    memory, told = AlarmMemory(), []
    for one in (
        report(0),
        report(30, lag=11),
        report(60, lag=12),
        report(90, lag=12, error="it broke"),
        report(170, lag=12, error="it broke"),
        replace(report(200), run=None, fault="cluster b is not reachable"),
        report(230, lag=10),
    ):
        memory = AlarmMemory.from_json(json.loads(json.dumps(memory.to_json())))
        memory = memory.after(one)
        health, alarms = judge(observe(flow.name, memory.history, flow, None, one.reported_ms))
        begun, over = memory.news("mail", alarms, informed=one.run is not None)
        for alarm in begun:
            memory = memory.mark_notified("mail", alarm.kind, alarm.text)
        for kind in over:
            memory = memory.mark_notified("mail", kind, None)
        told.append((health.state.value, health.since_ms, [alarm.kind.value for alarm in begun], sorted(over)))

    def at(second: int) -> int:
        return START + second * 1000

    assert told == [
        ("running", None, [], []),
        ("catching_up", at(30), ["lag_objective"], []),
        ("catching_up", at(30), [], []),
        ("failing", at(90), [], []),
        # 110 seconds after the last good run, which ended at 60.
        ("failing", at(90), ["stalled"], []),
        ("failing", at(90), [], []),
        ("running", None, [], ["lag_objective", "stalled"]),
    ]
    assert memory.told == {}


def test_lost_data_is_told_once_and_kept_for_a_day(flow: FlowSettings) -> None:
    note = "t-0: 7 offsets were deleted; on.data.loss=skip: continuing at offset 7"
    memory = AlarmMemory().after(report(0, lost=7, notes=("slot 1 lost its worker", note)))
    verdicts = []
    for second in (1, 86_000, 86_500):
        one = report(second)
        memory = memory.after(one)
        verdicts.append(judge(observe(flow.name, memory.history, flow, None, one.reported_ms)))
    assert [verdict.health.state for verdict in verdicts] == [
        HealthState.LOST_DATA,
        HealthState.LOST_DATA,
        HealthState.RUNNING,
    ]
    (alarm,) = verdicts[0].alarms
    assert alarm.text == f"7 records of a->b disappeared at the source before they were copied: {note}"
    assert verdicts[2].alarms == []


def test_a_notifier_is_told_what_it_does_not_know(flow: FlowSettings) -> None:
    one = report(0, lag=11)
    memory = AlarmMemory().after(one)
    alarms = judge(observe(flow.name, memory.history, flow, None, one.reported_ms)).alarms
    memory = memory.mark_notified("mail", alarms[0].kind, alarms[0].text)
    assert memory.news("mail", alarms) == ([], {})
    assert memory.news("chat", alarms) == (alarms, {})
    assert memory.news("mail", []) == ([], {"lag_objective": "a->b is 11 records behind; its objective is 10"})
    assert memory.limited_to(["chat"]).told == {}


@pytest.mark.parametrize("document", [None, "x", {}, {"told": 5}, {"told": {"mail": 5}}, {"lost_text": 5, "told": {}}])
def test_a_memory_of_another_form_is_none(document: object) -> None:
    assert AlarmMemory.from_json(document) == AlarmMemory()


def test_untranslated_groups() -> None:
    assert untranslated([GroupSample("g", 3, 3)]) == (0, None)
    found = untranslated([GroupSample("h", 3, 2), GroupSample("g", 4, 1, "before the map"), GroupSample("i", 1, 1)])
    assert found == (2, "g on 3 of 4 partitions: before the map")
