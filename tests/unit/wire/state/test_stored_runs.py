"""The map of a chunk from the runs of its batches, beside the one that is made of spans."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.segments import OffsetSpan, build_segment
from srm_common.replication.slots.share import Share
from srm_common.wire.batches.batch import Packed, UpstreamRun
from srm_common.wire.state.segments import encode_segment
from srm_common.wire.state.stored_runs import DenseRuns, StoredRuns, encode_stored
from srm_common.wire.varints import write_uvarint

GAPS = st.sampled_from([0, 0, 1, 5, 200, 70_000])
LENGTHS = st.integers(1, 40) | st.integers(1, 1 << 20)


def dense(runs: Sequence[UpstreamRun]) -> DenseRuns:
    between = b""
    for before, (start, length, _) in pairwise(runs[:-1]):
        between += write_uvarint(start - before[0] - before[1]) + write_uvarint(length << 2)
    start, length, _ = runs[-2]
    return DenseRuns(runs[0], between, start + length, runs[-1], len(runs), sum(run[2] for run in runs))


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, list[StoredRuns]]:
    """Where the last one ends upstream, and batches of both kinds."""
    up, down = 7, 100
    out: list[StoredRuns] = []
    for _ in range(draw(st.integers(1, 8))):
        down += draw(st.sampled_from([0, 0, 1, 300]))
        runs: list[UpstreamRun] = []
        several = draw(st.booleans())
        base = down
        for number in range(draw(st.integers(2, 9)) if several else draw(st.integers(1, 3))):
            up += draw(GAPS) + (several and number > 0)
            length = draw(LENGTHS)
            span = length if several else length + draw(st.sampled_from([0, 0, 3, 500]))
            runs.append((up, span, length))
            up, down = up + span, down + length
        out.append((base, dense(runs) if several else tuple(runs)))
    return up, out


@given(batches(), st.integers(0, 400), st.sampled_from([0, 1, 0xFFFFFFFF]), st.integers(0, 300))
def test_the_value_is_that_of_the_segment_of_all_spans(
    made: tuple[int, list[StoredRuns]], most: int, generation: int, after: int
) -> None:
    end, stored = made
    share = Share(7, 7, 7)
    for base, runs in stored:
        share.acknowledge(Packed(0, 0, 1, sum(run[2] for run in runs), b"", runs, end, True), base)
    value = encode_segment(build_segment("t", 0, 3, end + after, share.runs, 1 << 30, generation))[1]
    assert encode_stored(3, end + after, generation, share.stored, 1 << 30) == value
    kept = encode_stored(3, end + after, generation, share.stored, most)
    assert kept == (value if len(value) <= most or len(share.runs) == 1 else None)


@given(st.lists(st.tuples(st.integers(1, 300), LENGTHS), min_size=2, max_size=20))
def test_dense_runs_are_a_sequence_of_all_of_them(pairs: list[tuple[int, int]]) -> None:
    runs: list[UpstreamRun] = []
    at = 0
    for gap, length in pairs:
        runs.append((at + gap, length, length))
        at += gap + length
    dense_runs = dense(runs)
    assert (len(dense_runs), list(dense_runs), dense_runs[0], dense_runs[-1], dense_runs[1:]) == (
        len(runs),
        runs,
        runs[0],
        runs[-1],
        tuple(runs[1:]),
    )
    assert dense_runs == tuple(runs)
    assert dense_runs != tuple(runs[1:])


@pytest.mark.parametrize(
    ("end", "stored"),
    [
        (100, [(0, ((2, 5, 5),))]),
        (100, [(0, ((5, 5, 5), (9, 2, 2)))]),
        (100, [(50, ((5, 5, 5),)), (54, ((10, 2, 2),))]),
        (100, [(0, ((5, 0, 0),))]),
        (100, [(0, ((5, 2, 3),))]),
        (9, [(0, ((5, 5, 5),))]),
    ],
    ids=["before the start", "overlapping", "backwards downstream", "empty", "too many records", "beyond the end"],
)
def test_impossible_runs_are_refused(end: int, stored: list[StoredRuns]) -> None:
    with pytest.raises(ValueError, match="run"):
        encode_stored(3, end, 0, stored, 1 << 30)
    spans = []
    for base, runs in stored:
        for upstream, length, records in runs:
            spans.append(OffsetSpan(upstream, length, base, records))
            base += records
    with pytest.raises(ValueError, match=r"run|overlaps|records|chunk"):
        build_segment("t", 0, 3, end, spans, 1 << 30)
