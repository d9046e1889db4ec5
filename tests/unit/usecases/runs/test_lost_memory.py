"""The flow's state was lost, the topic records and the committed offsets were not: what is copied already is not taken
for new, and nothing is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.flow import OnDataLoss, names
from srm_common.domain.flow.start_position import StartRules, TopicStart, parse_topic_starts
from srm_common.domain.topics.selection import CopiedTopic, CopiedTopics
from srm_common.domain.topics.source_topics import LOST, ChosenStart, SourceTopic, SourceTopics
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState
from srm_common.usecases.runs.lost_memory import restored_memory
from tests.unit.usecases.fakes import Sides

STATE = names.flow_state_topic("a")
ROWS = [b"%d" % number for number in range(20)]


def write(sides: Sides, *values: bytes, partition: int = 0) -> None:
    sides.source.write("orders", [(b"k", value) for value in values], partition=partition)


def lose_state(sides: Sides) -> None:
    sides.close()
    sides.target.delete_topic(STATE)
    sides.refresh()


def errors(sides: Sides) -> list[str | None]:
    return [partition.error for partition in sides.run("after").partitions]


@pytest.fixture
def late(sides: Sides) -> Sides:
    """A flow of new records only: partition 0 has progress, partition 1 got nothing new yet."""
    sides.set(auto_offset_reset="latest")
    sides.source.create_topic("orders", 2)
    for partition in (0, 1):
        write(sides, b"old", partition=partition)
    sides.refresh()
    sides.run("first")
    write(sides, b"new")
    assert sides.run("second").records == 1
    return sides


def test_latest_is_not_decided_again(late: Sides) -> None:
    lose_state(late)
    for partition in (0, 1):
        write(late, b"meanwhile", partition=partition)
    said = (
        "orders-1 has no progress and started at 'latest', but the offset was lost with the flow's state, and the "
        "current end would leave out what was written since; say where it starts with: srm-control source-offsets "
        "reset --topic 'orders' --partition 1 --to earliest (or timestamp:<time>, or latest)"
    )
    assert errors(late) == [None, said]
    # Nor by the next run, which remembers the topic again; what has progress goes on.
    assert errors(late) == [None, said]
    assert late.values("a.orders", 0) == [b"new", b"meanwhile"]
    late.set(auto_offset_reset="earliest")
    assert errors(late) == [None, None]
    assert late.values("a.orders", 1) == [b"old", b"meanwhile"]


def test_a_log_without_records_leaves_nothing_out(late: Sides) -> None:
    late.source.create_topic("orders.empty")
    late.source.delete_records("orders", 1, 1)
    lose_state(late)
    late.refresh()
    assert errors(late) == [None, None, None]


def test_a_new_topic_still_starts_at_latest(late: Sides) -> None:
    late.source.create_topic("orders.new", 1)
    late.source.write("orders.new", [(b"k", b"old")])
    late.refresh()
    assert errors(late) == [None, None, None]
    late.source.write("orders.new", [(b"k", b"new")])
    assert errors(late) == [None, None, None]
    assert late.values("a.orders.new") == [b"new"]


def test_a_source_topic_that_was_created_again_is_noticed(sides: Sides) -> None:
    sides.source.create_topic("orders")
    write(sides, *ROWS[:5])
    sides.refresh()
    sides.run("first")
    sides.source.delete_topic("orders")
    sides.source.create_topic("orders")
    write(sides, *ROWS[5:20])
    lose_state(sides)
    (error,) = errors(sides)
    assert error is not None
    assert "orders-0: the topic was deleted and created again at the source" in error
    assert sides.values("a.orders") == ROWS[:5]
    sides.set(on_data_loss=OnDataLoss.SKIP)
    sides.refresh()
    assert errors(sides) == [None]
    assert sides.values("a.orders") == ROWS


def test_a_copy_that_was_cut_off_is_noticed(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.refresh()
    for number in range(5):
        write(sides, ROWS[number])
        sides.run(f"run {number}")
    lose_state(sides)
    sides.target.move_leader("a.orders", keep=4)
    write(sides, ROWS[5])
    (error,) = errors(sides)
    assert error is not None
    assert "the copy a.orders-0 ends at offset 4, 5 offsets before the end that the flow left there" in error
    assert sides.values("a.orders") == ROWS[:2]


def test_a_flow_that_starts_at_the_beginning_goes_on(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    sides.refresh()
    write(sides, *ROWS[:3])
    sides.run("first")
    lose_state(sides)
    write(sides, ROWS[3])
    write(sides, ROWS[4], partition=1)
    assert errors(sides) == [None, None]
    assert (sides.values("a.orders", 0), sides.values("a.orders", 1)) == (ROWS[:4], ROWS[4:5])


# ---- the rule


COPIED = CopiedTopic("orders", "a.orders", 3)


def records() -> CopiedTopics:
    record = TopicRecord(
        "a->b", "orders", "a.orders", "is+not/safe", "d", "id-a", "id-b", "default", TopicState.REPLICATING, 1
    )
    return CopiedTopics("a->b", TopicRecords.of([record]))


def unasked() -> CopiedTopics:
    raise AssertionError("nothing is missing")


def restored(memory: SourceTopics, written: set[str], *topics: CopiedTopic, starts: str = "") -> SourceTopics:
    rules: tuple[TopicStart, ...] = parse_topic_starts(starts) if starts else ()
    asked = records if written else unasked
    return restored_memory(memory, written, topics or (COPIED,), StartRules(rules), asked, lambda: 7)


def test_what_was_never_copied_or_is_remembered_is_left_alone() -> None:
    assert restored(SourceTopics(), set(), COPIED) == SourceTopics()
    known = SourceTopics({"orders": SourceTopic()})
    assert restored(known, {"orders"}) == known
    # Another topic that is new, in a flow that remembers the others.
    assert restored(known, {"orders"}, COPIED, replace(COPIED, upstream="new")) == known
    assert restored(SourceTopics(), {"orders"}, replace(COPIED, heartbeats=True)) == SourceTopics()


@pytest.mark.parametrize(
    ("starts", "where"),
    [
        ("", "earliest"),
        (".*=latest", LOST),
        (".*=timestamp:5", "timestamp:5"),
        (".*=opposite", "opposite"),
        (".*=offsets:0=1", "offsets:0=1"),
    ],
)
def test_the_recorded_topic_is_the_one_that_was_copied(starts: str, where: str) -> None:
    memory = restored(SourceTopics(), {"orders"}, starts=starts)
    assert memory.topic_id("orders") == "is-not_safe"
    assert memory.start("orders") == ChosenStart(where, "decided again after the flow's state was lost", 7, 3)
    assert memory.start_lost("orders") == (where == LOST)


def test_offsets_for_some_partitions_leave_the_others_to_the_general_rule() -> None:
    rules = StartRules(parse_topic_starts(".*=offsets:0=1"), "latest")
    memory = restored_memory(SourceTopics(), {"orders"}, [COPIED], rules, records)
    assert memory.start_lost("orders")
