"""Looks of the watch at a flow: what it tells, when, and that nobody else tells it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.health import AlarmKind
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.health.watched_flow import (
    WATCHED,
    FlowActivity,
    Look,
    WatchedFlow,
    WatchMemory,
    look_at,
)
from tests.unit.domain.monitoring.reports import START, flow_of, report

NAME = FlowName("a", "b")
NO_POOL = FlowActivity(waiting="task replicate waits for a slot of pool 'x' or of the executor")
AT_WORK, PAUSED = FlowActivity(at_work=True), FlowActivity(paused=True)


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> FlowSettings:
    """Stalled 100 seconds after its last good run."""
    return flow_of(tmp_path_factory.mktemp("flow"))


def never() -> FlowActivity:
    raise AssertionError("a flow that is well is not asked about")


class Watch:
    """A flow, its watch, and what a notifier heard: ("stalled", at that second) when it began, "over" when it ended."""

    def __init__(self, flow: FlowSettings | None, misconfigured: str | None = None) -> None:
        self.runs, self.memory = AlarmMemory(), WatchMemory()
        self.flow, self.misconfigured = flow, misconfigured
        self.heard: list[tuple[str, int]] = []

    def run(self, second: int, error: str | None = None) -> None:
        assert self.flow is not None
        self.runs = self.runs.after(report(second, stopped=error))

    def look(self, second: int, activity: FlowActivity | None = None) -> Look:
        kept = WatchMemory.from_json(json.loads(json.dumps(self.memory.to_json())))
        now_ms = START + second * 1000
        seen = WatchedFlow(NAME, now_ms, self.flow, self.runs.history, kept, self.misconfigured)
        look = look_at(seen, never if activity is None else lambda: activity)
        begun, over = look.memory.unsent("mail", look.alarms, now_ms, informed=look.informed)
        self.memory = look.memory
        for alarm in begun:
            self.memory = self.memory.mark_notified("mail", alarm, now_ms)
            self.heard.append((alarm.kind.value, second))
        for kind in over:
            self.memory = self.memory.mark_resolved("mail", kind)
            self.heard.append(("over", second))
        return look


def test_a_flow_that_waits_for_ever_is_told_once_and_once_when_it_came_right(flow: FlowSettings) -> None:
    watch = Watch(flow)
    watch.run(0)
    watch.look(60)
    for second in (120, 180):
        watch.look(second, NO_POOL)
    assert watch.heard == [], "it may have been between two tasks"
    (alarm,) = watch.look(240, NO_POOL).alarms
    assert alarm.text == (
        "no run of a->b has succeeded for 4 min, although one should every 100 s; "
        "task replicate waits for a slot of pool 'x' or of the executor"
    )
    assert alarm.since_ms == START
    watch.look(300, NO_POOL)
    watch.look(360, AT_WORK)
    assert watch.heard == [("stalled", 240)], "a run that has begun may fail"
    watch.run(400)
    watch.look(420)
    watch.look(480)
    assert watch.heard == [("stalled", 240), ("over", 420)]


def test_a_paused_flow_has_not_stalled_and_gets_its_time_when_it_is_resumed(flow: FlowSettings) -> None:
    watch = Watch(flow)
    watch.run(0)
    for second in (600, 660):
        watch.look(second, PAUSED)
    for second in (700, 770, 830):
        watch.look(second, NO_POOL)
    assert watch.heard == [("stalled", 830)]
    (alarm,) = watch.look(831, NO_POOL).alarms
    assert alarm.since_ms == START + 660_000
    watch.look(900, PAUSED)
    assert watch.heard[1:] == [("over", 900)]


def test_a_flow_that_never_ran_is_due_from_the_first_look_on(flow: FlowSettings) -> None:
    watch = Watch(flow)
    nothing = FlowActivity(waiting="this Airflow has no DAG srm.a.b")
    watch.look(0)
    for second in (101, 161, 221):
        watch.look(second, nothing)
    assert watch.heard == [("stalled", 221)]


def test_a_run_at_work_may_take_as_long_as_airflow_lets_it(flow: FlowSettings) -> None:
    watch = Watch(replace(flow, execution_timeout_seconds=3600.0))
    watch.run(0)
    for second in (101, 1_000, 3_800):
        watch.look(second, AT_WORK)
    assert watch.heard == []
    watch.look(3_802, AT_WORK)
    assert watch.heard == [("stalled", 3_802)]


def test_runs_that_all_fail_are_told_without_waiting_for_a_quiet_moment(flow: FlowSettings) -> None:
    watch = Watch(flow)
    watch.run(0)
    watch.run(90, error="it broke")
    watch.look(95)
    (alarm,) = watch.look(101, AT_WORK).alarms
    assert alarm.text.endswith("; the last one failed: it broke")
    watch.run(150, error="it broke")
    watch.look(160, FlowActivity(waiting="Airflow starts none"))
    assert watch.heard == [("stalled", 101)]


def test_a_flow_that_the_file_stops_is_told_unless_it_is_paused() -> None:
    watch = Watch(None, "srm.properties:6: tasks.max is not a number")
    watch.look(0, PAUSED)
    assert watch.heard == []
    (alarm,) = watch.look(60, AT_WORK).alarms
    assert alarm.text == "a->b is disabled by the configuration: srm.properties:6: tasks.max is not a number"
    watch.look(120, PAUSED)
    assert watch.heard == [("stalled", 60), ("over", 120)]


@pytest.mark.parametrize(
    "document", [None, "x", {}, {"told": 5}, {"told": {"m": 5}}, {"due_since_ms": "1", "told": {}}]
)
def test_a_memory_of_another_form_is_none(document: object) -> None:
    assert WatchMemory.from_json(document) == WatchMemory()


_ACTIVITIES = st.sampled_from([NO_POOL, AT_WORK, PAUSED])
_RUNS = st.sampled_from(["good", "failed"])


@given(st.lists(st.tuples(st.integers(1, 200), _RUNS | _ACTIVITIES), max_size=60))
def test_whatever_happens_each_alarm_is_told_by_one_alone_and_begins_and_ends_in_turn(
    flow: FlowSettings, events: list[tuple[int, str | FlowActivity]]
) -> None:
    """Runs and looks in any order: as the two of them keep account of different kinds, none can be told twice."""
    watch, second, by_runs = Watch(flow), 0, set[AlarmKind]()
    for pause, event in events:
        second += pause
        if isinstance(event, str):
            watch.run(second, error=None if event == "good" else "it broke")
            seen = observe(NAME, watch.runs.history, flow, None, START + second * 1000)
            by_runs |= {alarm.kind for alarm in judge(seen).alarms} - WATCHED
        else:
            watch.look(second, event)
            assert {kind for kinds in watch.memory.told.values() for kind in kinds} <= WATCHED
    assert not by_runs & WATCHED
    said = [what for what, _ in watch.heard]
    assert said == ["stalled", "over"] * (len(said) // 2) + ["stalled"] * (len(said) % 2)
    # A good run in time ends it, whatever was before.
    watch.run(second + 1)
    watch.look(second + 2, AT_WORK)
    assert watch.memory.told == {}
