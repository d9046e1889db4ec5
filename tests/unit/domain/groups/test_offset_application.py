from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.groups.group_offsets_file import GroupOffset
from srm_common.domain.groups.group_sync import TargetGroup
from srm_common.domain.groups.offset_application import AppliedOffset, compared, judge_application
from srm_common.domain.offsets.offset_edits import LogRange

WANTED = GroupOffset("g", "a.t", 0, 50)
LOGS: dict[tuple[str, int], LogRange | str] = {("a.t", 0): LogRange(10, 90)}


def judged(
    group: TargetGroup | str | None = None, wanted: GroupOffset = WANTED, *, rewind: bool = False
) -> AppliedOffset:
    (found,) = judge_application([wanted], {} if group is None else {"g": group}, LOGS, rewind=rewind)
    return found


def test_groups_without_members_are_set() -> None:
    assert (judged().changes, judged().effect) == (True, "is set")
    behind = judged(TargetGroup("empty", {("a.t", 0): 30}))
    assert (behind.before, behind.changes, behind.effect) == (30, True, "forward by 20")
    there = judged(TargetGroup("dead", {("a.t", 0): 50}))
    assert (there.changes, there.effect) == (False, "as it is")


def test_groups_are_not_moved_back_unasked() -> None:
    further = TargetGroup("empty", {("a.t", 0): 60})
    assert not judged(further).changes
    assert judged(further).effect == "left: the group is further, at 60; --rewind moves it back"
    asked = judged(further, rewind=True)
    assert (asked.changes, asked.effect) == (True, "back by 10: so many are read again")


@pytest.mark.parametrize(
    ("group", "wanted", "problem"),
    [
        (TargetGroup("stable"), WANTED, "group g is in use (stable): stop its consumers, then run again"),
        ("it must not be seen", WANTED, "it must not be seen"),
        (None, replace(WANTED, partition=1), "there is no partition a.t-1"),
        (None, replace(WANTED, topic="b"), "there is no partition b-0"),
        (None, replace(WANTED, offset=91), "offset 91 is not in the log, which has the offsets 10 to 90"),
        (None, replace(WANTED, offset=9), "offset 9 is not in the log, which has the offsets 10 to 90"),
    ],
)
def test_what_cannot_be_set(group: TargetGroup | str | None, wanted: GroupOffset, problem: str) -> None:
    found = judged(group, wanted)
    assert (found.problem, found.changes, found.effect) == (problem, False, problem)


@pytest.mark.parametrize("offset", [10, 90])
def test_the_ends_of_the_log_are_in_it(offset: int) -> None:
    assert judged(wanted=replace(WANTED, offset=offset)).changes


def test_what_was_written_is_compared() -> None:
    applied = judged(TargetGroup("empty", {("a.t", 0): 30}))
    done = compared(applied, TargetGroup("empty", {("a.t", 0): 50}), None)
    assert (done.after, done.problem, done.effect) == (50, None, "set, forward by 20")
    assert compared(applied, TargetGroup("empty", {("a.t", 0): 77}), None).problem == (
        "not set, it stands at 77: somebody else has committed meanwhile"
    )
    assert compared(applied, TargetGroup(), "no right").problem == "not set, nothing is committed: no right"
    assert "is not known: the cluster is away" in str(compared(applied, "the cluster is away", None).problem)
    # What was not to be changed is only looked at.
    left = judged(TargetGroup("empty", {("a.t", 0): 60}))
    assert compared(left, TargetGroup("empty", {("a.t", 0): 60}), None).problem is None
