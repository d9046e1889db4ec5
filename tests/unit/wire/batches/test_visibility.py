"""Which batches of an answer a read_committed consumer sees."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import CONTROL, TRANSACTIONAL, SourceBatch
from srm_common.wire.batches.visibility import visible
from tests.unit.wire.built_batches import ABORT, COMMIT, Record, marker, source_batch


def data(offset: int, producer: int = -1, *, transactional: bool = True, records: int = 2) -> SourceBatch:
    ones = [Record(offset + number, 0, None, b"v") for number in range(records)]
    return source_batch(
        ones,
        base_offset=offset,
        next_offset=offset + 2,
        attributes=TRANSACTIONAL if transactional else 0,
        producer_id=producer,
    )


def seen(batches: list[SourceBatch], aborted: list[tuple[int, int]]) -> list[int]:
    found = visible(batches, aborted)
    assert found.fault is None
    assert [batch for batch, _ in found.batches] == batches  # each comes, so that the position moves over it
    return [batch.header.base_offset for batch, is_data in found.batches if is_data]


def test_plain_batches() -> None:
    assert seen([data(0, transactional=False), data(2, 5, transactional=False)], []) == [0, 2]


def test_markers_are_never_data() -> None:
    assert seen([data(0, 1), marker(2, 1, COMMIT), marker(3, 2, ABORT)], []) == [0]


def test_aborted_data_up_to_its_marker() -> None:
    log = [data(0, 1), data(2, 1), marker(4, 1, ABORT), data(5, 1), marker(7, 1, COMMIT)]
    assert seen(log, [(1, 0)]) == [5]


def test_interleaved_producers() -> None:
    log = [data(0, 1), data(2, 2), data(4, 1), marker(6, 2, COMMIT), data(7, 2), marker(9, 1, ABORT), data(10, 1)]
    assert seen(log, [(1, 0)]) == [2, 7, 10]


def test_an_answer_that_begins_inside_an_aborted_transaction() -> None:
    # The broker lists transactions whose first offset lies before the fetched range.
    assert seen([data(100, 1), data(102, 3), marker(104, 1, ABORT), data(105, 1)], [(1, 7)]) == [102, 105]


def test_an_aborted_transaction_that_ends_in_a_later_answer() -> None:
    assert seen([data(0, 3), data(2, 1), data(4, 1)], [(1, 2)]) == [0]


def test_a_marker_overrules_a_list_that_lacks_its_transaction() -> None:
    found = visible([data(0, 1), data(2, 2), marker(4, 1, ABORT), marker(5, 2, COMMIT)], [])
    assert [one for _, one in found.batches] == [False, True, False, False]
    assert (found.unlisted, found.unproved) == ({1}, {})


def test_a_marker_overrules_a_list_that_names_a_committed_transaction() -> None:
    assert seen([data(0, 1), marker(2, 1, COMMIT), data(3, 1)], [(1, 0)]) == [0, 3]


def test_data_without_a_marker_in_the_answer_is_not_proved() -> None:
    found = visible([data(0, 1), marker(2, 1, COMMIT), data(3, 1), data(5, 1), data(7, 2), data(9, 3)], [(2, 7)])
    assert found.unproved == {1: 3, 3: 9}
    found.decide({1: True, 3: None})
    assert [batch.header.base_offset for batch, one in found.batches if one] == [0, 9]
    assert (found.unlisted, found.unproved) == ({1}, {})


def test_a_damaged_batch_is_not_dropped_by_a_marker() -> None:
    sound = data(2, 1)
    damaged = sound._replace(data=memoryview(bytes(sound.data[:-1]) + b"?"))
    found = visible([data(0, 2), damaged, data(4, 3), marker(6, 1, ABORT)], [])
    assert [batch.header.base_offset for batch, _ in found.batches] == [0]
    assert isinstance(found.fault, CorruptBatch)
    assert found.unproved == {2: 0}


def test_read_uncommitted_sees_all_data() -> None:
    found = visible([data(0, 1), marker(2, 1, ABORT), data(3, 2)], None)
    assert [one for _, one in found.batches] == [True, False, True]
    assert not found.unproved


def test_the_first_offset_may_lie_inside_a_batch_range() -> None:
    # Compaction may remove an aborted transaction's first records; the batch that is left starts later.
    assert seen([data(0, 1), data(2, 1)], [(1, 3)]) == [0]


def test_two_aborted_transactions_of_one_producer() -> None:
    log = [
        data(0, 1),
        marker(2, 1, ABORT),
        data(3, 1),
        marker(5, 1, COMMIT),
        data(6, 1),
        marker(8, 1, ABORT),
        data(9, 1),
    ]
    assert seen(log, [(1, 6), (1, 0)]) == [3, 9]


def test_not_transactional_data_of_an_aborted_producer_is_seen() -> None:
    # A producer id is used without transactions first only by other clients; the rule looks at the bit.
    assert seen([data(0, 1, transactional=False), data(2, 1), marker(4, 1, ABORT)], [(1, 0)]) == [0]


def test_a_batch_emptied_by_compaction_is_not_data() -> None:
    assert seen([data(0, 1, records=0), data(2, 1)], []) == [2]


def test_a_control_batch_emptied_by_compaction_is_no_marker() -> None:
    empty = source_batch([], base_offset=2, next_offset=3, attributes=TRANSACTIONAL | CONTROL, producer_id=1)
    assert seen([data(0, 1), empty, data(3, 1), marker(5, 1, ABORT), data(6, 1)], [(1, 0)]) == [6]


# ---- against an oracle


class Step(NamedTuple):
    producer: int
    what: str  # "data", "plain", "commit", "abort"


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[SourceBatch], list[tuple[int, int, int]], set[int]]:
    """A log, its aborted transactions (producer, first offset, offset of the marker) and the offsets to be seen.

    The oracle goes by transactions, not by batches: each one's data is seen when its own end is a commit.
    """
    log: list[SourceBatch] = []
    open_: dict[int, list[int]] = {}
    aborted: list[tuple[int, int, int]] = []
    expected: set[int] = set()
    offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 40))):
        producer = draw(st.integers(1, 4))
        what = draw(st.sampled_from(["data", "data", "data", "plain", "commit", "abort"]))
        if what == "plain":
            log.append(data(offset, transactional=False))
            expected.add(offset)
            offset += 2
        elif what == "data":
            log.append(data(offset, producer))
            open_.setdefault(producer, []).append(offset)
            offset += 2
        else:
            mine = open_.pop(producer, [])
            log.append(marker(offset, producer, COMMIT if what == "commit" else ABORT))
            if what == "commit":
                expected.update(mine)
            elif mine:
                aborted.append((producer, mine[0], offset))
            offset += 1
        offset += draw(st.integers(0, 1))  # holes between batches
    # What is still open lies behind the last stable offset: such batches are never fetched.
    end = min((mine[0] for mine in open_.values()), default=offset)
    return [b for b in log if b.header.base_offset < end], aborted, {one for one in expected if one < end}


@given(logs(), st.data())
def test_transactions_cut_into_answers_at_random_places(
    log: tuple[list[SourceBatch], list[tuple[int, int, int]], set[int]], draws: st.DataObject
) -> None:
    """Also where brokers leave transactions out of their lists, if the markers behind each answer are looked for."""
    batches, aborted, expected = log
    forgotten = draws.draw(st.sets(st.sampled_from(aborted)) if aborted else st.just(set()))
    found: set[int] = set()
    at = 0
    while at < len(batches):
        size = draws.draw(st.integers(1, len(batches)))
        answer = batches[at : at + size]
        start, end = answer[0].header.base_offset, answer[-1].header.next_offset
        # Kafka's rule for the list: those whose [first offset, marker] overlaps what was read, in marker order.
        overlapping = [one[:2] for one in aborted if one[2] >= start and one[1] < end and one not in forgotten]
        answered = visible(answer, overlapping)
        if forgotten:
            # An aborted one whose marker comes after the answer, and which has begun before what is not proved of it.
            answered.decide(
                {
                    one: any(who == one and begun <= first and last >= end for who, begun, last in aborted)
                    for one, first in answered.unproved.items()
                }
            )
        found.update(batch.header.base_offset for batch, is_data in answered.batches if is_data)
        at += size
    assert found == expected
