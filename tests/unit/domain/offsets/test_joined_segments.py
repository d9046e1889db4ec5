"""Segments that are joined: what becomes of a trickle, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.offsets.joined_segments import MOST_BODY_BYTES, Candidate, groups, joined
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.offset_map import OffsetMap
from srm_common.domain.offsets.resume_point import Log, resume_point
from srm_common.domain.offsets.segments import (
    VALUE_HEAD_BYTES,
    OffsetSpan,
    Segment,
    build_segment,
    value_bytes,
)
from srm_common.domain.offsets.translation import translate, translate_back
from srm_common.domain.verification.foreign_records import suspicious_gaps
from tests.examples import examples
from tests.unit.domain.offsets.current_map import current_map
from tests.unit.domain.offsets.test_translation import Copy, copies, offset_of


def chosen(segments: Sequence[Segment], least: int = 4) -> list[list[int]]:
    candidates = (
        Candidate(n, one, value_bytes(one.upstream_start, one.upstream_end, one.runs) - VALUE_HEAD_BYTES)
        for n, one in enumerate(segments)
    )
    return [[candidate.number for candidate in group] for group in groups(candidates, least)]


def with_joins(segments: Sequence[Segment], least: int = 4) -> list[Segment]:
    """The map after one round of joining."""
    found = {group[0]: group for group in chosen(segments, least)}
    out, number = [], 0
    while number < len(segments):
        group = found.get(number, [number])
        out.append(joined([segments[n] for n in group]) if len(group) > 1 else segments[number])
        number += len(group)
    return out


def trickle(chunks: int, records: int = 2, start: int = 0) -> list[Segment]:
    """Chunk after chunk, each with the marker of its transaction behind it."""
    out = []
    for number in range(start, start + chunks):
        up, down = number * records, number * (records + 1)
        out.append(build_segment("t", 0, up, up + records, [OffsetSpan(up, records, down, records)], 999))
    return out


@settings(max_examples=examples(300))
@given(st.lists(copies(), min_size=1, max_size=4), st.integers(1, 3))
def test_nothing_translates_otherwise(parts: list[Copy], rounds: int) -> None:
    # One long copy: the parts behind one another, so that there is something to join.
    committed: list[Segment] = []
    up = down = 0
    for part in parts:
        for segment in part.committed:
            runs = [
                OffsetSpan(r.upstream + up, r.upstream_length, r.downstream + down, r.length, r.foreign)
                for r in segment.runs
            ]
            start, end = segment.upstream_start + up, segment.upstream_end + up
            committed.append(build_segment("t", 0, start, end, runs, 1 << 30))
        up, down = up + part.source_end, down + part.target_end
    before = current_map(committed)
    after: list[Segment] = list(before)
    for _ in range(rounds):
        after = with_joins(after, least=2)
    for position in range(up + 3):
        assert translate(after, position) == translate(before, position)
        assert translate(after, position, replicated_to=up + 1) == translate(before, position, replicated_to=up + 1)
    for position in range(down + 3):
        assert translate_back(after, position) == translate_back(before, position)
    for exactly_once in (True, False):
        found = list(suspicious_gaps(after, LogRange(0, down + 9), exactly_once=exactly_once))
        # Without transactions a gap of one is suspicious; where chunks were joined it was a marker.
        expected = list(suspicious_gaps(before, LogRange(0, down + 9), exactly_once=exactly_once))
        assert found == expected or (not exactly_once and all(gap in expected for gap in found))
    for position in range(0, max(up, down) + 3, 5):
        for maps in ("along", "back"):
            places = [
                resume_point(position, Log(0, down + 9), **{maps: OffsetMap(found)})  # type: ignore[arg-type]
                for found in (before, after)
            ]
            assert places[0] == places[1]


def test_chunks_of_a_trickle_become_few_and_none_is_written_often() -> None:
    segments: list[Segment] = []
    written = 0
    for number in range(40):
        segments += trickle(500, start=500 * number)
        after = with_joins(segments)
        written += sum(len(segment.runs) for segment in after if segment.joined and segment not in segments)
        segments = after
    assert [run for segment in segments for run in segment.runs] == [
        run for segment in trickle(20_000) for run in segment.runs
    ]
    assert len(segments) < 40
    assert written < 6 * 20_000
    sizes = [value_bytes(segment.upstream_start, segment.upstream_end, segment.runs) for segment in segments]
    assert MOST_BODY_BYTES / 2 < max(sizes) < MOST_BODY_BYTES + 50


def test_where_anything_else_lies_between_two_chunks_they_stay_apart() -> None:
    gap = [OffsetSpan(100, 2, 150, 2)]
    for other in (
        build_segment("t", 0, 100, 102, [OffsetSpan(100, 2, 151, 2)], 999),  # an aborted chunk, or records of others
        build_segment("t", 0, 101, 103, [OffsetSpan(101, 2, 150, 2)], 999),  # lost at the source
        build_segment("t", 0, 100, 102, gap, 999, generation=7),
        build_segment("t", 0, 100, 102, [OffsetSpan(100, 2, 150, 2, foreign=True)], 999),
        build_segment("t", 0, 100, 102, [OffsetSpan(100, 1, 150, 1), OffsetSpan(101, 1, 152, 1)], 999),
    ):
        assert chosen([*trickle(50), other]) == chosen(trickle(50)), other
    for near in (
        build_segment("t", 0, 100, 102, gap, 999),
        build_segment("t", 0, 100, 103, [OffsetSpan(101, 2, 150, 2)], 999),  # begins with a marker of the source
    ):
        assert chosen([*trickle(50), near]) != chosen(trickle(50))


def test_few_small_ones_are_left_alone() -> None:
    assert chosen(trickle(3)) == []
    assert chosen(trickle(4)) == [[0, 1, 2, 3]]
    assert list(groups([None, None])) == []


def test_a_part_that_was_copied_again_counts_from_the_newer_copy_on() -> None:
    chunks = trickle(20)
    again = build_segment("t", 0, 20, 50, [OffsetSpan(20, 30, 90, 30)], 999)
    before = current_map([*chunks, again])
    after = current_map([joined(chunks), again])
    for position in range(60):
        assert translate(after, position) == translate(before, position)
    for position in range(130):
        assert translate_back(after, position) == translate_back(before, position)


def test_a_cut_of_the_target_within_a_joined_segment_skips_nothing() -> None:
    new = build_segment("t", 0, 40, 50, [OffsetSpan(40, 10, 20, 10)], 999)
    segments = current_map([joined(trickle(20)), new])
    places = [translate(segments, position) for position in range(51)]
    offsets = [offset_of(place) for place in places]
    assert offsets[:12] == [offset_of(translate(trickle(20), position)) for position in range(12)]
    assert all(one <= after for one, after in pairwise(offsets))
    assert max(offsets[:41]) == 20
    assert offsets[45] == 25


@pytest.mark.parametrize("records", [1, 40])
def test_without_markers_dense_neighbours_become_one_run(records: int) -> None:
    chunks = [
        build_segment(
            "t", 0, n * records, (n + 1) * records, [OffsetSpan(n * records, records, n * records, records)], 999
        )
        for n in range(8)
    ]
    assert joined(chunks).runs == (OffsetSpan(0, 8 * records, 0, 8 * records),)
