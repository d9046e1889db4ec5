"""A range's share of a chunk: the runs that become segments of the offset map, and figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.segments import OffsetSpan, with_neighbours_joined
from srm_common.replication.slots.share import Share
from srm_common.wire.batches.batch import Packed
from tests.unit.wire.built_batches import packed


def test_dense_neighbours_become_one_run() -> None:
    share = Share(10, 10, 10)
    share.acknowledge(packed((10, 5, 5)), 70)
    share.acknowledge(packed((15, 5, 5)), 75)
    assert share.runs == [OffsetSpan(10, 10, 70, 10)]
    assert (share.downstream_start, share.acknowledged) == (70, 20)


@pytest.mark.parametrize(
    ("second", "base"),
    [(packed((16, 5, 5)), 75), (packed((15, 5, 5)), 76), (packed((15, 9, 5)), 75)],
    ids=["upstream jumps", "downstream jumps", "sparse"],
)
def test_a_jump_on_either_side_begins_a_run(second: Packed, base: int) -> None:
    share = Share(10, 10, 10)
    share.acknowledge(packed((10, 5, 5)), 70)
    share.acknowledge(second, base)
    up, length, records = second.runs[0]
    assert share.runs == [OffsetSpan(10, 5, 70, 5), OffsetSpan(up, length, base, records)]


def test_nothing_is_added_to_a_sparse_run() -> None:
    share = Share(10, 10, 10)
    share.acknowledge(packed((10, 9, 5)), 70)
    share.acknowledge(packed((19, 5, 5)), 75)
    assert share.runs == [OffsetSpan(10, 9, 70, 5), OffsetSpan(19, 5, 75, 5)]


def test_runs_of_one_batch_lie_one_after_the_other_downstream() -> None:
    share = Share(0, 0, 0)
    share.acknowledge(packed((0, 3, 3), (5, 4, 4), (20, 30, 7), end=60), 1000)
    assert share.runs == [OffsetSpan(0, 3, 1000, 3), OffsetSpan(5, 4, 1003, 4), OffsetSpan(20, 30, 1007, 7)]
    assert share.acknowledged == 60


Batches = list[tuple[int, list[tuple[int, int, int]]]]
"""How far the copy's log jumps before each, and of its runs the gap before it, its records, and its holes."""
BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 9]),
        st.lists(
            st.tuples(st.sampled_from([0, 0, 1, 200]), st.integers(1, 40), st.sampled_from([0, 0, 0, 3])),
            min_size=1,
            max_size=4,
        ),
    ),
    max_size=12,
)


@given(BATCHES)
def test_runs_of_a_share_are_those_of_its_batches_with_dense_neighbours_joined(batches: Batches) -> None:
    share = Share(5, 5, 5)
    up, down = 5, 100
    plain = []
    for jump, gaps in batches:
        down += jump
        base = down
        runs = []
        for gap, length, holes in gaps:
            up += gap
            runs.append((up, length + holes, length))
            plain.append(OffsetSpan(up, length + holes, down, length))
            up, down = up + length + holes, down + length
        share.acknowledge(packed(*runs), base)
    assert share.runs == with_neighbours_joined(plain)


def test_figures_of_a_share() -> None:
    share = Share(0, 0, 0)
    share.acknowledge(packed((0, 3, 3), newest=500), 0)
    share.acknowledge(packed((3, 2, 2), newest=-1, again=True), 3)
    share.acknowledge(packed((5, 1, 1), newest=300), 5)
    assert (share.records, share.batches, share.bytes) == (6, 3, 300)
    assert (share.reencoded_batches, share.reencoded_records) == (1, 2)
    # A batch without times does not count for the delay.
    assert (share.newest_ms, share.oldest_ms, share.times_sum_ms, share.times) == (500, 300, 800, 2)
