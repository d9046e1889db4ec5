from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.segments import (
    MOST_VALUE_BYTES,
    OffsetSpan,
    Segment,
    build_segment,
    generation_of,
    value_bytes,
)

UNLIMITED = 1 << 40


@st.composite
def run_lists(draw: st.DrawFn, sparse: bool = True, max_size: int = 60) -> list[OffsetSpan]:
    """Runs in order on both sides, dense or sparse, with jumps on either side or none."""
    upstream = draw(st.integers(0, 1 << 40))
    downstream = draw(st.integers(0, 1 << 40))
    runs = []
    for _ in range(draw(st.integers(1, max_size))):
        upstream += draw(st.sampled_from([0, 0, 1, 1, 2, 300]))
        downstream += draw(st.sampled_from([0, 0, 0, 0, 1, 200]))
        length = draw(st.sampled_from([1, 2, 3, 31, 32, 5000]))
        holes = draw(st.sampled_from([0, 0, 1, 700])) if sparse else 0
        runs.append(OffsetSpan(upstream, length + holes, downstream, length))
        upstream += length + holes
        downstream += length
    return runs


def built(runs: list[OffsetSpan], max_bytes: int = UNLIMITED, before: int = 0, after: int = 0) -> Segment:
    start = max(0, runs[0].upstream - before)
    return build_segment("t", 3, start, runs[-1].upstream_end + after, runs, max_bytes)


def test_adjacent_dense_runs_become_one() -> None:
    segment = built([OffsetSpan(10, 4, 70, 4), OffsetSpan(14, 2, 74, 2), OffsetSpan(17, 1, 76, 1)], before=3, after=2)
    assert segment == Segment("t", 3, 7, 20, 70, 77, (OffsetSpan(10, 6, 70, 6), OffsetSpan(17, 1, 76, 1)))


def test_generations_tell_topics_apart_however_their_ids_are_spelled() -> None:
    assert generation_of("pZ-x_3") == generation_of("pZ+x/3") != generation_of("pZ-x_4")
    assert 0 < generation_of("a") < 1 << 32
    assert generation_of(None) == generation_of("") == 0


def test_coarsening_takes_small_runs_first() -> None:
    small = [OffsetSpan(2 * i, 1, i, 1) for i in range(100)]
    long = OffsetSpan(1000, 100_000, 100, 100_000)
    segment = built([*small, long], max_bytes=32)
    assert value_bytes(segment.upstream_start, segment.upstream_end, segment.runs) <= 32
    assert long in segment.runs
    assert not segment.runs[0].dense


def test_a_merge_over_a_downstream_gap_is_never_dense() -> None:
    # Both sides jump by five: the lengths of the merged run agree, but arithmetic would be wrong inside.
    segment = built([OffsetSpan(0, 5, 0, 5), OffsetSpan(10, 5, 10, 5)], max_bytes=1)
    assert segment.runs == (OffsetSpan(0, 15, 0, 15, foreign=True),)
    assert not segment.runs[0].dense


@pytest.mark.parametrize(
    ("start", "end", "runs"),
    [
        (0, 10, []),
        (0, 10, [OffsetSpan(0, 0, 0, 0)]),
        (0, 10, [OffsetSpan(0, 11, 0, 11)]),
        (5, 10, [OffsetSpan(4, 2, 0, 2)]),
        (0, 10, [OffsetSpan(0, 5, 0, 5), OffsetSpan(4, 2, 5, 2)]),
        (0, 10, [OffsetSpan(0, 5, 0, 5), OffsetSpan(5, 2, 4, 2)]),
        (0, 10, [OffsetSpan(0, 5, 0, 6)]),
        (0, 10, [OffsetSpan(0, 5, -1, 5)]),
    ],
)
def test_impossible_runs_are_refused(start: int, end: int, runs: list[OffsetSpan]) -> None:
    with pytest.raises(ValueError, match=r"run|overlaps|records|chunk"):
        build_segment("t", 0, start, end, runs, UNLIMITED)


@given(run_lists(), st.integers(0, 400))
def test_limit_is_kept_or_one_run_is_left(runs: list[OffsetSpan], max_bytes: int) -> None:
    segment = built(runs, max_bytes)
    size = value_bytes(segment.upstream_start, segment.upstream_end, segment.runs)
    assert size <= max_bytes or len(segment.runs) == 1


@given(run_lists(), st.integers(0, 400), st.integers(0, 5), st.integers(0, 5))
def test_coarsening_keeps_bounds_order_and_every_offset(
    runs: list[OffsetSpan], max_bytes: int, before: int, after: int
) -> None:
    fine = built(runs, before=before, after=after)
    coarse = built(runs, max_bytes, before=before, after=after)
    assert (coarse.upstream_start, coarse.upstream_end) == (fine.upstream_start, fine.upstream_end)
    assert (coarse.downstream_start, coarse.downstream_end) == (fine.downstream_start, fine.downstream_end)
    for a, b in zip(coarse.runs, coarse.runs[1:], strict=False):
        assert a.upstream_end <= b.upstream
        assert a.downstream_end <= b.downstream
    for run in runs:
        (home,) = [r for r in coarse.runs if r.upstream <= run.upstream and run.upstream_end <= r.upstream_end]
        assert home.downstream <= run.downstream
        assert run.downstream_end <= home.downstream_end
        if home.dense:
            assert run.downstream - home.downstream == run.upstream - home.upstream


@given(run_lists(sparse=False))
def test_without_a_limit_nothing_is_lost(runs: list[OffsetSpan]) -> None:
    segment = built(runs)
    fine = [(r.upstream + i, r.downstream + i) for r in runs for i in (0, r.length - 1)]
    kept = {u: r.downstream + u - r.upstream for r in segment.runs if r.dense for u, _ in fine
            if r.upstream <= u < r.upstream_end}  # fmt: skip
    assert kept == dict(fine)


def test_a_map_fits_into_a_record_however_large_its_chunk() -> None:
    """What half a percent of a chunk of 400 MB would allow, no broker takes with its settings by default."""
    runs = [OffsetSpan(3 * n, 2, 2 * n, 2) for n in range(300_000)]
    segment = build_segment("t", 0, 0, 900_000, runs, 2_000_000)
    assert len(segment.runs) > 1000
    assert value_bytes(segment.upstream_start, segment.upstream_end, segment.runs) <= MOST_VALUE_BYTES
    assert (segment.runs[0].upstream, segment.runs[-1].downstream_end) == (0, 600_000)
