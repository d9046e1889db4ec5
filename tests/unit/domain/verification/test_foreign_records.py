from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.verification.foreign_records import ForeignRecords, Gap, come_again, mixed_runs, suspicious_gaps


def segment(upstream: int, downstream: int, length: int) -> Segment:
    runs = (OffsetSpan(upstream, length, downstream, length),)
    return Segment("t", 0, upstream, upstream + length, downstream, downstream + length, runs)


CHUNKS = [segment(0, 0, 10), segment(10, 11, 10), segment(20, 25, 5)]


def test_one_offset_between_two_transactions_is_a_marker() -> None:
    """0-9, marker, 11-20, marker and three more, 25-29, marker."""
    assert list(suspicious_gaps(CHUNKS, LogRange(0, 31), exactly_once=True)) == [Gap(LogRange(21, 25))]


def test_without_transactions_there_are_no_markers() -> None:
    gaps = list(suspicious_gaps(CHUNKS, LogRange(0, 31), exactly_once=False))
    # What is behind the last segment may be a chunk on its way.
    assert gaps == [Gap(LogRange(10, 11)), Gap(LogRange(21, 25))]


def test_what_is_behind_the_map_is_told() -> None:
    assert list(suspicious_gaps(CHUNKS[:1], LogRange(0, 14), exactly_once=True)) == [Gap(LogRange(10, 14), True)]
    assert list(suspicious_gaps([], LogRange(0, 14), exactly_once=True)) == []


def test_a_part_that_somebody_else_copied_is_told_apart() -> None:
    between = [segment(0, 0, 10), segment(40, 50, 10)]
    assert list(suspicious_gaps(between, LogRange(5, 61), exactly_once=True)) == [Gap(LogRange(10, 50), True)]
    assert list(suspicious_gaps(between, LogRange(30, 61), exactly_once=True)) == [Gap(LogRange(30, 50), True)]


def test_what_the_flow_has_copied_again_is_its_own() -> None:
    """Ten records, twenty more, and these again from 10 on, with two of others before them."""
    again = [CHUNKS[0], replace(segment(10, 35, 20), after=CopiedTo(30, 32))]
    assert list(suspicious_gaps(again, LogRange(0, 56), exactly_once=True)) == [Gap(LogRange(32, 35))]
    again[1] = replace(again[1], after=CopiedTo(30, 34))
    assert list(suspicious_gaps(again, LogRange(0, 56), exactly_once=True)) == []
    on = [CHUNKS[0], replace(segment(40, 20, 10), after=CopiedTo(10, 10))]
    assert list(suspicious_gaps(on, LogRange(0, 31), exactly_once=True)) == [Gap(LogRange(10, 20))]


def test_a_jump_within_a_chunk() -> None:
    runs = (OffsetSpan(0, 5, 0, 5), OffsetSpan(5, 5, 8, 5))
    assert list(suspicious_gaps([Segment("t", 0, 0, 10, 0, 13, runs)], LogRange(0, 14), exactly_once=True)) == [
        Gap(LogRange(5, 8))
    ]
    mixed = (OffsetSpan(0, 10, 0, 13, foreign=True),)
    assert list(mixed_runs([Segment("t", 0, 0, 10, 0, 13, mixed)], LogRange(0, 14))) == [LogRange(0, 13)]
    assert list(mixed_runs(CHUNKS, LogRange(0, 31))) == []


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 8), max_size=4), st.integers(0, 2))
def test_beginnings_of_what_follows_come_again(following: list[int], interrupted: list[int], other: int) -> None:
    records = [record for length in interrupted for record in following[:length]]
    assert come_again(records, following)
    with_other = [*records, other]
    assert come_again(with_other, following) == _is_beginnings(with_other, following)


def _is_beginnings(records: list[int], following: list[int]) -> bool:
    return not records or any(
        records[:length] == following[:length] and _is_beginnings(records[length:], following)
        for length in range(1, min(len(records), len(following)) + 1)
    )


def test_in_words() -> None:
    assert str(ForeignRecords("a.t", 1, 5, 7, 2)) == "a.t-1, offsets 5 to 7: 2 records that the flow did not write"
    assert str(ForeignRecords("a.t", 1, 5, 5, 1, unmapped=True)).endswith("unless MirrorMaker 2 copied them")
    assert "among the flow's own" in str(ForeignRecords("a.t", 1, 5, 7, None))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1, max_size=8), st.integers(0, 30))
def test_every_offset_without_a_run_is_a_marker_or_in_a_gap(chunks: list[tuple[int, int]], log_start: int) -> None:
    """Chunks of some records, with some offsets behind each, the first of which is its marker."""
    made, upstream, downstream = [], 0, 0
    markers, others = set(), set()
    for records, behind in chunks:
        made.append(segment(upstream, downstream, records))
        upstream, downstream = upstream + records, downstream + records
        markers.add(downstream)
        others |= set(range(downstream + 1, downstream + behind))
        downstream += behind
    log = LogRange(min(log_start, downstream), downstream)
    found = {
        offset
        for gap in suspicious_gaps(made, log, exactly_once=True)
        for offset in range(gap.offsets.start, gap.offsets.end)
    }
    assert found - markers == {offset for offset in others if offset >= log.start}
