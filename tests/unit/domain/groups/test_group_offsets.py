"""Idle groups move forward, others not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.groups.group_offsets import (
    AppliedOffset,
    GroupOffset,
    TargetGroup,
    compared,
    judge_application,
    parse_group_offsets,
    sync_group,
    write_group_offsets,
)
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError


def checkpoint(partition: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", "a.t", partition, 0, downstream)


def test_a_group_that_does_not_exist_gets_every_position() -> None:
    wanted = [checkpoint(1, 7), checkpoint(0, 0)]
    assert sync_group("g", TargetGroup(), wanted).commit == (wanted[1], wanted[0])


@pytest.mark.parametrize("state", ["stable", "preparing-rebalance", "assigning", "reconciling", "unknown"])
def test_a_group_in_use_is_left_alone(state: str) -> None:
    sync = sync_group("g", TargetGroup(state), [checkpoint(0, 5)])
    assert (sync.commit, sync.in_use) == ((), state)


@given(
    st.sampled_from(["empty", "dead"]),
    st.dictionaries(st.integers(0, 5), st.integers(0, 20)),
    st.dictionaries(st.integers(0, 5), st.integers(0, 20)),
)
def test_an_idle_group_never_goes_backwards(state: str, committed: dict[int, int], wanted: dict[int, int]) -> None:
    target = TargetGroup(state, {TopicPartition("a.t", partition): offset for partition, offset in committed.items()})
    sync = sync_group("g", target, [checkpoint(*one) for one in wanted.items()])
    after = {**committed, **{one.partition: one.downstream for one in sync.commit}}
    assert after == {
        partition: max(wanted.get(partition, 0), committed.get(partition, 0)) for partition in {*committed, *wanted}
    }
    assert sync.there + sync.beyond + len(sync.commit) == len(wanted)
    assert sync.beyond == sum(committed.get(partition, -1) > offset for partition, offset in wanted.items())


_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8)
_TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,8}", fullmatch=True)
_OFFSETS = st.lists(
    st.builds(GroupOffset, _NAMES, _TOPICS, st.integers(0, 1000), st.integers(0, (1 << 63) - 1)),
    min_size=1,
    unique_by=lambda one: (one.group, one.topic, one.partition),
)


def test_both_layouts() -> None:
    one = [GroupOffset("g", "a.t", 0, 30), GroupOffset("g", "a.t", 1, 20)]
    assert write_group_offsets(one, one_group=True) == "a.t,0,30\na.t,1,20\n"
    assert write_group_offsets(one, one_group=False) == "g,a.t,0,30\ng,a.t,1,20\n"
    assert parse_group_offsets("a.t,0,30\r\n\na.t, 1 , 20\n", "f", ["g"]) == one
    # As Kafka's tool: the groups that are asked for, of a file that has more.
    assert parse_group_offsets("g,a.t,0,30\nh,a.t,0,7\ng,a.t,1,20\n", "f", ["g"]) == one


@given(_OFFSETS)
def test_what_is_written_is_read(offsets: list[GroupOffset]) -> None:
    assert parse_group_offsets(write_group_offsets(offsets, one_group=False), "f", []) == offsets
    alone = [offset for offset in offsets if offset.group == offsets[0].group]
    assert parse_group_offsets(write_group_offsets(alone, one_group=True), "f", [offsets[0].group]) == alone


@pytest.mark.parametrize(
    ("text", "groups", "reason"),
    [
        ("", ["g"], "f: there are no offsets in it"),
        ("a.t,0\n", ["g"], "f:1: 2 columns where topic,partition,offset or group,topic,partition,offset is expected"),
        ("a.t,0,1\n", [], "f: the lines name no group; say which one is meant with --group G"),
        ("a.t,0,1\n", ["g", "h"], "f: the lines name no group"),
        ("a.t,0,1\ng,a.t,0,1\n", ["g"], "f:2: 4 columns, but the lines before have 3"),
        ("a.t,0,-1\n", ["g"], "f:1: the offset -1 is negative"),
        ("a.t,-3,1\n", ["g"], "f:1: the partition -3 is negative"),
        ("a.t,0,1\n\na.t,one,1\n", ["g"], "f:3: the partition 'one' is not a number"),
        ("a.t,0,9223372036854775808\n", ["g"], "f:1: the offset '9223372036854775808' is not a number"),
        ("a.t,0,²\n", ["g"], "f:1: the offset '²' is not a number"),
        (",0,1\n", ["g"], "f:1: the topic is missing"),
        (",a.t,0,1\n", [], "f:1: the group is missing"),
        ("a.t,0,1\na.t,0,2\n", ["g"], "f:2: a.t-0 of group g is listed twice"),
        ("h,a.t,0,1\n", ["g"], "f: it has no offsets of group g"),
    ],
)
def test_bad_lines_are_one_sentence(text: str, groups: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_group_offsets(text, "f", groups)
    assert str(caught.value).startswith(reason)


WANTED = GroupOffset("g", "a.t", 0, 50)
LOGS: dict[TopicPartition, LogRange | str] = {TopicPartition("a.t", 0): LogRange(10, 90)}


def judged(
    group: TargetGroup | str | None = None, wanted: GroupOffset = WANTED, *, rewind: bool = False
) -> AppliedOffset:
    (offset,) = judge_application([wanted], {} if group is None else {"g": group}, LOGS, rewind=rewind)
    return offset


def test_groups_without_members_are_set() -> None:
    assert (judged().changes, judged().effect) == (True, "is set")
    behind = judged(TargetGroup("empty", {TopicPartition("a.t", 0): 30}))
    assert (behind.before, behind.changes, behind.effect) == (30, True, "forward by 20")
    there = judged(TargetGroup("dead", {TopicPartition("a.t", 0): 50}))
    assert (there.changes, there.effect) == (False, "as it is")


def test_groups_are_not_moved_back_unasked() -> None:
    further = TargetGroup("empty", {TopicPartition("a.t", 0): 60})
    assert not judged(further).changes
    assert judged(further).effect == "left: the group is already further ahead, at 60; --rewind moves it back"
    asked = judged(further, rewind=True)
    assert (asked.changes, asked.effect) == (True, "back by 10, which are read again")


@pytest.mark.parametrize(
    ("group", "wanted", "problem"),
    [
        (TargetGroup("stable"), WANTED, "group g is in use (stable): stop its consumers, then run again"),
        ("it must not be seen", WANTED, "it must not be seen"),
        (None, replace(WANTED, partition=1), "no such partition: a.t-1"),
        (None, replace(WANTED, topic="b"), "no such partition: b-0"),
        (None, replace(WANTED, offset=91), "offset 91 is not in the log, which has the offsets 10 to 90"),
        (None, replace(WANTED, offset=9), "offset 9 is not in the log, which has the offsets 10 to 90"),
    ],
)
def test_what_cannot_be_set(group: TargetGroup | str | None, wanted: GroupOffset, problem: str) -> None:
    offset = judged(group, wanted)
    assert (offset.problem, offset.changes, offset.effect) == (problem, False, problem)


@pytest.mark.parametrize("offset", [10, 90])
def test_the_ends_of_the_log_are_in_it(offset: int) -> None:
    assert judged(wanted=replace(WANTED, offset=offset)).changes


def test_what_was_written_is_compared() -> None:
    applied = judged(TargetGroup("empty", {TopicPartition("a.t", 0): 30}))
    done = compared(applied, TargetGroup("empty", {TopicPartition("a.t", 0): 50}), None)
    assert (done.after, done.problem, done.effect) == (50, None, "set, forward by 20")
    assert compared(applied, TargetGroup("empty", {TopicPartition("a.t", 0): 77}), None).problem == (
        "not set, it is at 77: another client has committed in the meantime"
    )
    assert compared(applied, TargetGroup(), "no right").problem == "not set, nothing is committed: no right"
    assert "cannot tell whether it was set: the cluster is away" in str(
        compared(applied, "the cluster is away", None).problem
    )
    # What was not to be changed is only looked at.
    left = judged(TargetGroup("empty", {TopicPartition("a.t", 0): 60}))
    assert compared(left, TargetGroup("empty", {TopicPartition("a.t", 0): 60}), None).problem is None


@pytest.mark.parametrize("text", ["a\rb", "g,orders,0," + "9" * 5000])
def test_a_file_that_is_no_table_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^file"):
        parse_group_offsets(text, "file", ["g"])
