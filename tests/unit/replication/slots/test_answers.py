"""What an answer brings for a range, as a row of small batches and batch by batch."""

from __future__ import annotations

import pytest

from srm_common.domain.runs.copying import CopyRange
from srm_common.replication.slots.answers import _portion, _portion_of_row
from srm_common.replication.slots.blocks import Turn
from srm_common.replication.slots.ranges import RangeState
from srm_common.wire.batches.batch import split
from srm_common.wire.batches.visibility import visible
from srm_common.wire.reencoding.batch_walk import small_batches
from tests.unit.wire.built_batches import batch_bytes, some


@pytest.mark.parametrize("start", [0, 9, 10, 11, 14, 15, 39, 40, 41])
@pytest.mark.parametrize("end", [5, 10, 12, 15, 16, 38, 40, 41, 99])
def test_a_row_moves_a_range_on_as_its_batches_do(start: int, end: int) -> None:
    offsets = [*range(10, 14), *range(15, 40)]
    data = memoryview(b"".join(batch_bytes(some([offset])) for offset in offsets))
    row = small_batches(data)
    assert row is not None
    one, other = (RangeState(CopyRange("t", "a.t", 0, start, end)) for _ in range(2))
    expected = _portion(one, visible(split(data), []))
    portion = _portion_of_row(other, row)
    assert list(portion.batches) == list(expected.batches)
    assert (portion.first_offset, portion.next_offset) == (expected.first_offset, expected.next_offset)
    assert portion.unproved == expected.unproved == {}
    assert [other.epochs.at(at) for at in range(45)] == [one.epochs.at(at) for at in range(45)]


def test_a_batch_that_reaches_beyond_the_known_end_is_not_copied_twice() -> None:
    """The rest of it is fetched again, and by then the source may have named a later end."""
    data = memoryview(batch_bytes(some(range(20))))
    state = RangeState(CopyRange("t", "a.t", 0, 0, 15), tailing=True)
    copied = []
    for end in (15, 20):
        state.log_ends(end)
        portion = _portion(state, visible(split(data), []))
        state.fetched = portion.next_offset
        state.log_ends(20)
        turn = Turn(portion)
        while turn.look():
            copied += [(start, length) for start, length, _ in turn.take().runs]
    assert copied == [(0, 15), (15, 5)]
