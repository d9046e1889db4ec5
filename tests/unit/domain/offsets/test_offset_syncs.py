from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.offset_syncs import OffsetSync, SyncState, syncs_for
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment


def segment(*runs: OffsetSpan, max_bytes: int = 1 << 30) -> Segment:
    return build_segment("t", 0, runs[0].upstream, runs[-1].upstream_end, runs, max_bytes)


def dense(upstream: int, downstream: int, length: int) -> OffsetSpan:
    return OffsetSpan(upstream, length, downstream, length)


def pairs(syncs: list[OffsetSync]) -> list[tuple[int, int]]:
    return [(sync.upstream, sync.downstream) for sync in syncs]


def test_state_machine_of_mirror_maker() -> None:
    # OffsetSyncWriterTest / MirrorSourceTaskTest#testOffsetSync with offset.lag.max=50
    vectors = [
        (0, 100, True), (2, 102, True), (3, 152, False), (4, 153, True), (5, 154, False), (6, 203, False),
        (7, 204, True), (2, 206, True), (3, 207, False), (4, 3, True), (5, 4, False), (7, 6, True),
    ]  # fmt: skip
    state = SyncState()
    for upstream, downstream, expected in vectors:
        forced, state = state.after(upstream, downstream, 50)
        assert forced is expected, (upstream, downstream)


@pytest.mark.parametrize(
    ("offset_lag_max", "expected"),
    [(100, [0, 101, 202, 303]), (10, list(range(0, 400, 11))), (0, list(range(400)))],
)
def test_gap_free_data(offset_lag_max: int, expected: list[int]) -> None:
    syncs, state = syncs_for([segment(dense(0, 0, 400))], SyncState(), offset_lag_max)
    assert pairs(syncs) == [(i, i) for i in expected] + [(399, 399)] * (expected[-1] != 399)
    assert state == SyncState(399, 399, expected[-1])


def test_the_newest_position_does_not_count_as_forced() -> None:
    first, state = syncs_for([segment(dense(0, 0, 50))], SyncState(), 100)
    second, state = syncs_for([segment(dense(50, 51, 60))], state, 100)
    assert pairs(first) == [(0, 0), (49, 49)]
    assert pairs(second) == [(100, 101), (109, 110)]
    assert state.last_sync_downstream == 101


def test_sparse_runs_give_their_end() -> None:
    syncs, _ = syncs_for([segment(OffsetSpan(0, 100, 0, 60), dense(100, 60, 5))], SyncState(), 100)
    assert pairs(syncs) == [(99, 59), (104, 64)]


def test_nothing_new_gives_nothing() -> None:
    assert syncs_for([], SyncState(1, 2, 3), 100) == ([], SyncState(1, 2, 3))


def test_of_too_many_the_newest_stays() -> None:
    syncs, state = syncs_for([segment(dense(0, 0, 1_000_000))], SyncState(), 10, limit=100)
    assert len(syncs) <= 100
    assert pairs(syncs)[-1] == (999_999, 999_999)
    assert state.last_sync_downstream == 999_999 // 11 * 11
    steps = {b.upstream - a.upstream for a, b in pairwise(syncs[:-1])}
    assert len(steps) == 1


@st.composite
def segment_lists(draw: st.DrawFn) -> list[Segment]:
    upstream = downstream = 0
    out = []
    for _ in range(draw(st.integers(1, 4))):
        runs = []
        for _ in range(draw(st.integers(1, 4))):
            upstream += draw(st.sampled_from([0, 1, 5]))
            downstream += draw(st.sampled_from([0, 0, 2]))
            length = draw(st.integers(1, 40))
            runs.append(dense(upstream, downstream, length))
            upstream, downstream = upstream + length, downstream + length
        out.append(segment(*runs, max_bytes=draw(st.sampled_from([1 << 30, 8]))))
        downstream += 1
    return out


@given(segment_lists(), st.integers(0, 30))
def test_dense_runs_in_bulk_equal_record_by_record(segments: list[Segment], offset_lag_max: int) -> None:
    state = SyncState()
    expected = []
    newest = (-1, -1)
    for s in segments:
        for run in s.runs:
            steps = range(run.length) if run.dense else [None]
            for i in steps:
                newest = (run.upstream_end - 1, run.downstream_end - 1) if i is None else (
                    run.upstream + i, run.downstream + i)  # fmt: skip
                forced, state = state.after(*newest, offset_lag_max)
                expected += [newest] * forced
    if expected[-1] != newest:
        expected.append(newest)
    syncs, state_in_bulk = syncs_for(segments, SyncState(), offset_lag_max, limit=1 << 30)
    assert pairs(syncs) == expected
    assert state_in_bulk == state


@given(segment_lists(), st.integers(0, 30), st.integers(2, 20))
def test_no_pair_lets_a_reader_skip(segments: list[Segment], offset_lag_max: int, limit: int) -> None:
    syncs, _ = syncs_for(segments, SyncState(), offset_lag_max, limit)
    assert len(syncs) <= limit
    ends = [(r.upstream_end, r.downstream_end) for s in segments for r in s.runs]
    starts = [(r.upstream, r.downstream) for s in segments for r in s.runs]
    for sync in syncs:
        for upstream, downstream in ends:  # everything that is read at up + 1 lies before down + 1
            assert upstream <= sync.upstream + 1 or downstream > sync.downstream
        for upstream, downstream in starts:
            assert upstream <= sync.upstream or downstream > sync.downstream
