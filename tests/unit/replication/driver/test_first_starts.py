"""Where partitions without progress start: decided once for each topic, whatever the configuration says later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import ChosenStart, SourceTopic, SourceTopics
from srm_common.replication.driver.log_identity import Listed
from tests.unit.replication.driver.simulated_cluster import Log
from tests.unit.replication.driver.simulated_flow import SimulatedFlow, copied, world

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def append(there: SimulatedFlow, place: TopicPartition, *records: int) -> None:
    there.source.logs.setdefault(place, Log()).records.extend(records)


def test_each_topic_goes_by_the_first_rule_that_matches() -> None:
    there = SimulatedFlow(
        {TopicPartition(topic, 0): Log(records=[1, 5, 9]) for topic in ("all", "late", "timed", "later", "there")}
    )
    there.run(
        start_positions="late=latest, timed=timestamp:5, the.*=offsets:0=1, l.*=offsets:0=2",
        opposite_ends=lambda places: pytest.fail("nobody asked for it"),
    )
    assert copied(there) == {("all", 0): [1, 5, 9], ("later", 0): [9], ("there", 0): [5, 9], ("timed", 0): [5, 9]}
    assert there.memory.start("late") == ChosenStart("latest", "start.positions: late=latest", 1000, 1)
    assert there.memory.start("all") == ChosenStart("earliest", "auto.offset.reset=earliest", 1000, 1)
    assert "later: 1 partition without progress start at offsets:0=2 (start.positions: l.*=offsets:0=2)" in there.notes


EVERY_RULE = ("", "t=latest", "t=timestamp:2", "t=offsets:0=1", "t=opposite", ".*=earliest")


@given(st.sampled_from(EVERY_RULE), st.sampled_from(EVERY_RULE), st.integers(0, 5), st.booleans())
def test_a_later_change_of_the_configuration_moves_nothing(first: str, second: str, records: int, crash: bool) -> None:
    def ends(places: Any) -> dict[TopicPartition, int | str]:
        return dict.fromkeys(places, 0)

    def go(rules: str, there: SimulatedFlow) -> dict[TopicPartition, list[int]]:
        there.run(start_positions=rules, opposite_ends=ends)
        append(there, T0, 70, 71)
        append(there, T1, 80)
        there.run(start_positions=rules, opposite_ends=ends)
        return copied(there)

    expected = go(first, world(records, 0))
    there = world(records, 0)
    if records or first != "t=offsets:0=1":
        # A run that decides, and dies before it commits anything.
        there.slots.fate = lambda slot: "fenced" if crash else ""
        there.run(start_positions=first, opposite_ends=ends)
        there.slots.fate = lambda slot: ""
        append(there, T0, 70, 71)
        append(there, T1, 80)
        there.run(start_positions=second, opposite_ends=ends)
        assert copied(there) == expected


@pytest.mark.parametrize("settings", [{"auto_offset_reset": "latest"}, {"start_positions": ".*=latest"}])
def test_a_partition_that_was_added_later_starts_at_its_beginning(settings: dict[str, Any]) -> None:
    there = world(3)
    there.run(**settings)
    append(there, T1, 50, 51)
    there.run(**settings)
    assert copied(there) == {T1: [50, 51]}


def test_a_topic_created_again_before_anything_was_copied_starts_at_its_beginning() -> None:
    there = world(3)
    there.run(auto_offset_reset="latest")
    there.source.logs[T0] = Log("id-2", records=[7, 8])
    there.source.logs[T1] = Log("id-2", records=[9])
    there.run(auto_offset_reset="latest", on_data_loss=OnDataLoss.RESET)
    append(there, T1, 10)
    there.run(auto_offset_reset="latest", on_data_loss=OnDataLoss.RESET)
    assert copied(there) == {T0: [7, 8], T1: [9, 10]}


def test_a_topic_remembered_from_before_choices_were_remembered_is_not_moved() -> None:
    there = world(3, 2)
    there.memory = SourceTopics({"t": SourceTopic("id-1")})
    there.target.offsets[T0] = 1
    there.run(auto_offset_reset="latest")
    assert copied(there) == {T0: [1, 2], T1: [1000, 1001]}


def test_an_impossible_offset_fails_its_partition_until_the_configuration_is_mended() -> None:
    there = world(5, 5, 5)
    passes = there.run(start_positions="t=offsets:0=2;1=6")
    track = passes.tracks[T1]
    assert track.final
    assert track.error == (
        "t-1 cannot start at offset 6 (start.positions: t=offsets:0=2;1=6): its log has the offsets 0 to 5; change "
        "start.positions"
    )
    assert copied(there) == {T0: [2, 3, 4], ("t", 2): [*range(2000, 2005)]}
    there.run(start_positions="t=latest")
    assert T1 not in copied(there)
    append(there, T1, 60)
    there.run()
    assert copied(there)[T1] == [60]
    chosen = there.memory.start("t")
    assert chosen is not None
    assert (chosen.where, chosen.partitions) == ("latest", 3)


def test_partitions_that_the_offsets_do_not_name_go_by_the_reset_setting() -> None:
    there = world(3, 3)
    there.run(start_positions="t=offsets:0=1", auto_offset_reset="latest")
    assert copied(there) == {T0: [1, 2]}


def test_opposite_starts_behind_what_came_from_there() -> None:
    there = world(5, 5, 5, 5)
    there.source.logs[TopicPartition("t", 2)].expire(3)
    there.source.logs[TopicPartition("t", 3)].expire(3)
    passes = there.run(
        start_positions=".*=opposite",
        opposite_ends=lambda places: {T0: 4, T1: "nobody knows", ("t", 2): 1, ("t", 3): 6},
    )
    assert copied(there) == {T0: [4], ("t", 2): [2003, 2004]}
    assert passes.tracks[T1].error == "nobody knows"
    assert "ended, at 6: its log ends at 5" in str(passes.tracks[TopicPartition("t", 3)].error)


def test_records_of_the_other_direction_never_go_back_after_a_second_turn() -> None:
    there = world(5)
    asked: list[Any] = []

    def ends(places: Any) -> dict[TopicPartition, int | str]:
        asked.append(list(places))
        return {T0: 8}

    there.run(start_positions="t=opposite", opposite_ends=lambda places: {})
    append(there, T0, 70, 71, 72, 90)
    passes = there.run(start_positions="t=opposite", opposite_ends=ends)
    assert passes.tracks[T0].error == (
        "t-0 was copied up to offset 5 before; since then the flow in the other direction wrote up to 8, and those "
        "records would be copied back; move past them with: srm-control source-offsets reset --topic 't' --to opposite"
    )
    there.target.offsets[T0] = 8
    there.run(start_positions="t=opposite", opposite_ends=ends, max_seconds=3.0)
    assert copied(there) == {T0: [*range(5), 90]}
    # Once a run, not once a pass.
    assert len(asked) == 2


def test_a_time_that_cannot_be_asked_for_yet_is_asked_for_again() -> None:
    there = world(3)
    answers: list[Listed] = [({}, {T0: "no leader"}), ({T0: 1}, {})]
    there.source.at = lambda partitions, timestamp_ms: answers.pop(0)  # type: ignore[method-assign]
    there.run(start_positions="t=timestamp:1")
    assert copied(there) == {T0: [1, 2]}


def test_the_time_at_which_a_run_is_to_start_is_asked_for_again() -> None:
    there = world(5, 3)
    there.run()
    answers: list[Listed] = [({T1: -1}, {T0: "no leader"}), ({T0: 2}, {})]
    there.source.at = lambda partitions, timestamp_ms: answers.pop(0)  # type: ignore[method-assign]
    passes = there.run(start=StartPosition.parse("timestamp:2"))
    assert not answers
    assert not passes.points.overridden
    assert copied(there)[T0] == [*range(5), 2, 3, 4]


def test_a_partition_that_cannot_be_listed_at_first_starts_where_the_run_is_to() -> None:
    there = world(5, 3)
    there.run()
    log = there.source.logs.pop(T1)
    there.topics = lambda: [CopiedTopic("t", "a.t", 2)]  # type: ignore[method-assign]
    passes = there.passes(start=StartPosition.parse("earliest"))
    passes.points.overridden.add(T1)
    there.while_asleep = lambda: there.source.logs.setdefault(T1, log)
    there.target.refence()
    passes._identities = [*there.target.identities]
    passes.run()
    assert copied(there) == {T0: [*range(5)] * 2, T1: [1000, 1001, 1002] * 2}


@pytest.mark.parametrize("start", [StartPosition(), StartPosition.parse("timestamp:2")])
def test_a_time_that_is_never_told_fails_its_partition(start: StartPosition) -> None:
    there = world(5, 3)
    place = T1
    if start != StartPosition():
        there.run()
        place = T0
    at = there.source.at

    def mute(partitions: Iterable[TopicPartition], timestamp_ms: int) -> Listed:
        found, _ = at(partitions, timestamp_ms)
        faults = {place: "no leader"} if place in found else {}
        return {one: offset for one, offset in found.items() if one != place}, faults

    there.source.at = mute  # type: ignore[method-assign]
    passes = there.run(start=start, start_positions="t=timestamp:2")
    before = copied(there)
    track = passes.tracks[place]
    assert track.error is not None
    assert "cannot start at timestamp:2" in track.error
    assert track.error_kind == "ClusterError"
    # In the next attempt, too, rather than from somewhere else.
    assert (place in passes.points.overridden) is (start != StartPosition())
    assert before.get(place, []) in ([], [*range(5)])


def test_a_run_that_ends_before_it_could_start_a_partition_says_so() -> None:
    there = world(5)
    there.run()
    there.source.at = lambda partitions, timestamp_ms: ({}, {T0: "no leader"})  # type: ignore[method-assign]
    passes = there.run(start=StartPosition.parse("timestamp:2"), max_seconds=5.0)
    passes.points.fail_unplaced(passes.tracks.values())
    assert passes.tracks[T0].error == "it did not start at timestamp:2, as requested for this run: the run ended first"


@pytest.mark.parametrize("rule", EVERY_RULE)
def test_heartbeats_start_at_the_beginning_under_every_rule(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = world(3)
    heartbeats = [replace(topic, heartbeats=True) for topic in there.topics()]
    monkeypatch.setattr(there, "topics", lambda: heartbeats)
    for record in (70, 71):
        there.run(start_positions=rule, opposite_ends=lambda places: pytest.fail("nothing is copied back"))
        append(there, T0, record)
    assert copied(there) == {T0: [0, 1, 2, 70]}
