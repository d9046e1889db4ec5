"""Committed source offsets that were lost or rolled back, while copies and offset map show more: none comes twice."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import names
from srm_common.domain.flow.start_position import StartKind, StartPosition
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topic_partition import TopicPartition
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.repair_offsets import repair_offsets
from srm_common.usecases.runs.lost_progress import LostProgress
from srm_common.wire.state.mm2 import partition_for, source_offset_key
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides

COPY = "a.orders"
PLACE = TopicPartition("orders", 0)


def write(sides: Sides, first: int, count: int) -> None:
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(first, first + count)])


def home(sides: Sides) -> tuple[str, int]:
    """Where the source offset of the only partition is."""
    key = source_offset_key("a", "orders", 0)
    return names.offsets_topic("a"), partition_for(key, sides.flow.offsets_partitions)


def everything(sides: Sides) -> dict[tuple[str, int], int]:
    """All logs of the flow's state, with their ends."""
    topics = sides.target.topics()
    places = [(name, number) for name in topics if name.endswith("internal") for number in range(topics[name])]
    return {place: sides.target.log(*place).end for place in places}


def cut(sides: Sides, ends: dict[tuple[str, int], int]) -> None:
    sides.close()
    for place, end in ends.items():
        sides.target.move_leader(*place, keep=end)


@pytest.fixture
def copied(steady_sides: Sides) -> Sides:
    """Ten records, and another topic, whose offset is elsewhere."""
    sides = steady_sides
    sides.source.create_topic("orders")
    sides.source.create_topic("orders.more")
    write(sides, 0, 10)
    sides.source.write("orders.more", [(b"k", b"v")])
    sides.refresh()
    assert sides.run("first").records == 11
    return sides


def trouble(record: RunRecord) -> str:
    assert record.records == 0
    (failed,) = record.failed_partitions
    assert (failed.upstream_topic, failed.error_kind) == ("orders", "CorruptRecord")
    return failed.error or ""


def test_a_lost_offset_is_repaired_and_nothing_comes_twice(copied: Sides) -> None:
    cut(copied, {home(copied): 0})
    # Again and again, until somebody does something about it.
    for attempt in range(2):
        assert "orders-0 was lost: " in trouble(copied.run(f"r{attempt}"))
    assert [action.next_offset for action in repair_offsets(copied.flow)] == [10]
    write(copied, 10, 1)
    assert copied.run("later").records == 1
    assert copied.values(COPY) == [b"%d" % number for number in range(11)]


def test_an_older_offset_is_repaired_and_nothing_comes_twice(copied: Sides) -> None:
    place = home(copied)
    end = copied.target.log(*place).end
    write(copied, 10, 10)
    copied.run("second")
    cut(copied, {place: end})
    for attempt in range(2):
        assert "is older than what was copied: the offset map ends at 20" in trouble(copied.run(f"r{attempt}"))
    assert [action.next_offset for action in repair_offsets(copied.flow)] == [20]
    write(copied, 20, 1)
    assert copied.run("later").records == 1
    assert copied.values(COPY) == [b"%d" % number for number in range(21)]


def test_the_map_tells_where_the_copy_may_not_be_read(copied: Sides) -> None:
    ends = {home(copied): copied.target.log(*home(copied)).end}
    write(copied, 10, 5)
    assert copied.run("second").records == 5
    cut(copied, ends)
    with copied.target.refuse("Fetch", TOPIC_AUTHORIZATION_FAILED, when=COPY):
        assert "the offset map ends at 15" in trouble(copied.run("third"))


def test_where_all_of_the_state_is_older_the_copy_itself_tells(copied: Sides) -> None:
    ends = everything(copied)
    write(copied, 10, 10)
    copied.run("second")
    cut(copied, ends)
    assert "the flow itself has written offset 11 of a.orders-0" in trouble(copied.run("after"))
    assert repair_offsets(copied.flow, dry_run=True) == []
    (edit,) = edit_source_offsets(copied.flow, Request("set", {PLACE: 20}))
    assert edit.after == 20
    write(copied, 20, 1)
    assert copied.run("later").records == 1
    assert copied.values(COPY) == [b"%d" % number for number in range(21)]


@pytest.mark.parametrize("expired", [False, True], ids=["tombstone", "expired tombstone"])
def test_an_offset_that_was_deleted_on_purpose_is_not_lost(copied: Sides, expired: bool) -> None:
    copied.close()
    edit_source_offsets(copied.flow, Request("delete", topics=("orders",)))
    if expired:
        log = copied.target.log(*home(copied))
        log.delete_before(log.end)
    assert copied.run("again").records == 10


def test_offsets_that_were_set_back_are_not_older_ones(copied: Sides) -> None:
    copied.close()
    edit_source_offsets(copied.flow, Request("set", {PLACE: 4}))
    assert copied.run("again").records == 6
    assert copied.run("once more").records == 0


def test_a_run_with_a_start_of_its_own_needs_no_offsets(copied: Sides) -> None:
    cut(copied, {home(copied): 0})
    assert copied.run("again", start=StartPosition(StartKind.EARLIEST)).records == 11


def test_what_others_write_into_a_copy_is_no_progress(copied: Sides) -> None:
    """Also into a copy of a partition that has nothing to copy yet."""
    copied.source.create_topic("orders.empty")
    copied.refresh()
    for attempt in range(2):
        for topic in (COPY, "a.orders.empty"):
            copied.target.write(topic, [(b"k", b"other")] * 5)
        assert copied.run(f"r{attempt}").records == 0
    write(copied, 10, 1)
    copied.source.write("orders.empty", [(b"k", b"v")])
    assert copied.run("later").records == 2


def test_the_map_is_not_read_because_others_write_into_the_copy(copied: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    """It grows with all that was copied, and with several flows into one topic every run finds records of others."""

    def mapped(*_: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(LostProgress, "_mapped", mapped)
    for number in range(2):
        copied.target.write(COPY, [(b"k", b"other")])
        write(copied, 10 + number, 1)
        assert copied.run(f"r{number}").records == 1
