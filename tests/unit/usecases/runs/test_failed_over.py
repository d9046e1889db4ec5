"""A run after a failover whose pause was lost, as with Airflow's database, says what it does to the groups."""

from __future__ import annotations

import pytest

from srm_common.domain.flow.names import StateKey
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepName, StepResult, StepState
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.moving.failover import Move
from srm_common.usecases.offsets.resume_points import opposite
from srm_common.usecases.runs.failed_over import failed_over
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides

DAY_MS = 24 * 3_600_000
SAID = (
    "groups failed over along a->b 0 s ago and have not come back since: what is copied now was not on 'b' then, so "
    "groups that had read it on 'a' read it again; pause the flow until the failback (Airflow's database has lost the "
    "pause, or someone ended it)"
)


def moved(kind: MoveKind, mode: MoveMode, at_ms: int, state: StepState = StepState.DONE) -> MoveReport:
    steps = (StepResult(StepName.CHECK, StepState.DONE), StepResult(StepName.APPLY, state, ended_ms=at_ms))
    return MoveReport("a->b", MoveRequest(kind, mode), steps)


def said(sides: Sides, move: MoveReport | None, last_run_ms: int | None = None) -> str | None:
    return failed_over(sides.clusters(), None if move is None else move.to_json(), last_run_ms)


def now_ms(sides: Sides) -> int:
    return sides.clusters().now_ms()


def test_runs_after_a_failover_have_a_note_until_the_failback(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(5)])
    sides.refresh()
    sides.run("first")
    sides.source.commit("group", {("orders", 0): 5})
    request = MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, groups=("group",))
    move = Move(sides.flow, request)
    for step in request.steps:
        assert not move.run(step).failed
    sides.close()
    for run_id in ("second", "third"):
        assert any(note.startswith("groups failed over along a->b ") for note in sides.run(run_id).notes)
    with FlowClusters(opposite(sides.flow)) as clusters:
        report = moved(MoveKind.FAILBACK, MoveMode.CONTROLLED, clusters.now_ms())
        sides.source.create_topic("srm-flow-state.b.internal", config={"cleanup.policy": "compact"})
        clusters.state.write(StateKey.MOVE, report.to_json())
    assert [note for note in sides.run("fourth").notes if "failed over" in note] == []


def test_it_is_said_by_the_first_run_and_for_a_day(sides: Sides) -> None:
    now = now_ms(sides)
    recent, older = (moved(MoveKind.FAILOVER, MoveMode.DISASTER, at) for at in (now, now - 3 * DAY_MS))
    assert said(sides, recent) == SAID
    assert said(sides, recent, now + 5) == SAID
    assert said(sides, older, now - 4 * DAY_MS) == SAID.replace(" 0 s ", " 3 d ")
    assert said(sides, older, now - 2 * DAY_MS) is None


@pytest.mark.parametrize(
    ("kind", "mode", "state"),
    [
        (MoveKind.FAILOVER, MoveMode.CONTINUOUS, StepState.DONE),
        (MoveKind.FAILBACK, MoveMode.CONTROLLED, StepState.DONE),
        (MoveKind.SWITCH_DIRECTION, MoveMode.CONTROLLED, StepState.DONE),
        (MoveKind.FAILOVER, MoveMode.DISASTER, StepState.FAILED),
    ],
)
def test_other_moves_leave_the_flow_as_it_is(sides: Sides, kind: MoveKind, mode: MoveMode, state: StepState) -> None:
    assert said(sides, moved(kind, mode, now_ms(sides), state)) is None
    assert said(sides, None) is None


def test_what_cannot_be_read_keeps_no_run_from_copying(sides: Sides) -> None:
    broken = failed_over(sides.clusters(), {"request": 1}, None)
    assert broken is not None
    assert broken.startswith("the record of the last move along a->b cannot be read (")
    sides.source.create_topic("srm-flow-state.b.internal", config={"cleanup.policy": "compact"})
    with sides.source.refuse("Fetch", TOPIC_AUTHORIZATION_FAILED, when="srm-flow-state.b.internal"):
        sides.source.write("srm-flow-state.b.internal", [(b"move", b"{}")])
        assert said(sides, moved(MoveKind.FAILOVER, MoveMode.DISASTER, now_ms(sides))) == SAID
