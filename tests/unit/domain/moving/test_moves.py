from __future__ import annotations

import json
from dataclasses import replace

import pytest

from srm_common.domain.amount import Amount
from srm_common.domain.moving.moves import (
    POSITION_COLUMNS,
    MoveKind,
    MoveMode,
    MoveReport,
    MoveRequest,
    PositionReport,
    StepName,
    StepResult,
    StepState,
    shown_positions,
)

REQUEST = MoveRequest(MoveKind.FAILOVER, MoveMode.CONTROLLED, ("g",), wait_seconds=5.0)
POSITION = PositionReport(
    "g", "a.t", 0, "t", 10, before=3, applied=7, age_ms=12, read_again=Amount.at_most(2), reason="why"
)


def done(step: StepName, *sentences: str) -> StepResult:
    return StepResult(step, StepState.DONE, sentences, 1, 2)


def test_steps_of_each_mode() -> None:
    assert REQUEST.steps[:3] == (StepName.CHECK, StepName.STOP, StepName.DRAIN)
    assert StepName.STOP not in replace(REQUEST, mode=MoveMode.CONTINUOUS).steps
    dry = replace(REQUEST, dry_run=True).steps
    assert not {StepName.STOP, StepName.DRAIN, StepName.APPLY} & set(dry)


def test_a_report_survives_json() -> None:
    failed = StepResult(StepName.STOP, StepState.FAILED, ("one", "two"), 3, 4, 5)
    report = MoveReport(
        "a->b", REQUEST, (done(StepName.CHECK, "fine"), failed), (POSITION, replace(POSITION, group="h"))
    )
    assert MoveReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    everything = replace(report, request=replace(REQUEST, groups=None))
    assert MoveReport.from_json(json.loads(json.dumps(everything.to_json()))).request.groups is None


def test_what_is_no_report_is_refused() -> None:
    document = MoveReport("a->b", REQUEST, (), (POSITION,)).to_json()
    with pytest.raises(ValueError, match="shorter"):
        MoveReport.from_json({**document, "positions": [["g"]]})
    with pytest.raises(ValueError, match="no mode"):
        MoveReport.from_json({**document, "request": {**REQUEST.to_json(), "mode": "no mode"}})


def test_a_step_done_again_takes_back_what_came_after_it() -> None:
    report = MoveReport("a->b", REQUEST)
    for step in REQUEST.steps:
        assert not report.finished
        report = report.with_step(done(step))
    assert report.finished
    again = report.with_step(done(StepName.DRAIN))
    assert [result.step for result in again.steps] == [StepName.CHECK, StepName.STOP, StepName.DRAIN]
    assert not again.finished


def test_a_failed_step_is_not_the_end() -> None:
    report = MoveReport("a->b", replace(REQUEST, dry_run=True))
    for step in report.request.steps:
        report = report.with_step(done(step))
    worse = report.with_step(StepResult(StepName.TRANSLATE, StepState.FAILED, ("no",), exit_code=1))
    assert (report.finished, report.exit_code) == (True, 0)
    assert (worse.finished, worse.exit_code) == (False, 1)


def test_records_read_again_are_those_of_groups_that_go_on() -> None:
    nowhere = replace(POSITION, applied=None, read_again=Amount.at_most(100))
    assert MoveReport("a->b", REQUEST, (), (POSITION, nowhere)).read_again == Amount.at_most(2)


def test_what_is_printed() -> None:
    quiet = replace(POSITION, reason="")
    report = MoveReport("a->b", REQUEST, (done(StepName.CHECK, "one", "two"),), (quiet, POSITION))
    assert report.render().splitlines() == [
        "check     done    one",
        "                  two",
        "g: a.t-0: 7: why",
    ]
    assert not replace(POSITION, before=7).changes
    assert not replace(POSITION, applied=None).changes
    assert POSITION.changes


def test_only_a_change_of_direction_turns() -> None:
    turning = replace(REQUEST, kind=MoveKind.SWITCH_DIRECTION)
    assert set(turning.steps) - set(REQUEST.steps) == {StepName.TURN}
    assert turning.steps[-2:] == (StepName.TURN, StepName.REPORT)
    assert replace(turning, dry_run=True).steps[-1] is StepName.TURN


def test_of_many_positions_those_are_shown_that_somebody_should_look_at() -> None:
    exact = [PositionReport("g", "a.t", number, "t", 7, applied=7) for number in range(600)]
    none = PositionReport("g", "a.t", 600, "t", 7, reason="no checkpoint")
    inexact = PositionReport("g", "a.t", 601, "t", 7, applied=5, reason="two records are read again")
    shown = shown_positions([*exact, inexact, none])
    assert len(shown) == 500
    assert [one["partition"] for one in shown[:3]] == [600, 601, 0]
    assert (shown[0]["applied"], shown[0]["reason"]) == (None, "no checkpoint")


def test_what_nobody_can_say_is_not_counted_as_nothing() -> None:
    """The head of a dry run: 240 offsets ahead of the copy, in use at the source, where nobody knows what comes."""
    known = replace(POSITION, read_again=Amount.at_most(240))
    live = [replace(known, partition=number, read_again=known.read_again.and_more()) for number in range(3)]
    nowhere = replace(POSITION, applied=None, read_again=Amount.not_known())
    assert MoveReport("a->b", REQUEST, (), (known, nowhere)).bound == "records read again: at most 240"
    report = MoveReport("a->b", REQUEST, (), (known, *live))
    assert report.bound == "records read again: unknown in 3 of 4 positions, besides at most 960"
    document = report.to_json()
    assert (document["read_again"]["most"], document["read_again"]["known_most"]) == (None, 960)
    assert document["read_again"]["text"] in report.bound
    assert [row["read_again"]["text"] for row in shown_positions(report.positions)][:2] == [
        "at most 240",
        "unknown, besides at most 240",
    ]


def test_a_move_that_an_earlier_version_kept_is_read() -> None:
    row = POSITION.to_json()
    where = POSITION_COLUMNS.index("read_again")
    row[where] = 2
    assert PositionReport.from_json(row) == POSITION
    row[where] = None
    assert PositionReport.from_json(row).read_again == Amount.not_known()
