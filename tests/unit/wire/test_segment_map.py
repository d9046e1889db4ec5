from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.offsets.segments import Run, Segment, build_segment
from srm_common.domain.offsets.translation import Translated, Unmapped, current_map, translate
from srm_common.errors import CorruptRecord
from srm_common.wire.segment_map import CommittedSegments, SegmentMap
from srm_common.wire.segments import encode_segment


@st.composite
def histories(draw: st.DrawFn) -> list[Segment]:
    """Segments in the order of their commits; now and then the topic is copied again, cut, or made anew."""
    upstream = downstream = 0
    generation = draw(st.sampled_from([0, 1]))
    out = []
    for _ in range(draw(st.integers(0, 12))):
        what = draw(st.sampled_from(["on"] * 6 + ["back", "cut", "anew", "unknown"]))
        if what == "back":
            upstream = draw(st.integers(0, upstream))
        elif what == "cut":
            downstream = draw(st.integers(0, downstream))
        elif what == "anew":
            upstream, generation = draw(st.integers(0, 200)), generation + 1
        length = draw(st.integers(1, 30))
        runs = [Run(upstream, length, downstream, length)]
        label = 0 if what == "unknown" else generation
        out.append(build_segment("t", 4, upstream, upstream + length + 2, runs, 999, label))
        upstream += length + 2
        downstream += length + draw(st.sampled_from([1, 1, 9]))
    return out


def committed_of(history: list[Segment]) -> CommittedSegments:
    committed = CommittedSegments("t", 4, [])
    for offset, segment in enumerate(history):
        committed.put(segment.upstream_start, encode_segment(segment)[1], offset)
    return committed


@settings(max_examples=300)
@given(histories())
def test_it_says_what_the_plain_map_says(history: list[Segment]) -> None:
    committed = committed_of(history)
    last = {segment.upstream_start: number for number, segment in enumerate(history)}
    live = [segment for number, segment in enumerate(history) if last[segment.upstream_start] == number]
    assert list(committed) == live
    assert [committed[number] for number in range(len(live))] == committed[:] == live
    plain, packed = current_map(live), SegmentMap(committed)
    assert list(packed) == plain == packed[:]
    assert plain[-1:] == ([packed[-1]] if plain else [])
    for position in range(0, 500, 3):
        assert packed.translate(position) == translate(plain, position)


def test_a_tombstone_takes_its_segment_out() -> None:
    first = build_segment("t", 4, 0, 5, [Run(0, 5, 0, 5)], 999)
    second = build_segment("t", 4, 5, 9, [Run(5, 4, 6, 4)], 999)
    committed = committed_of([first, second])
    committed.put(0, None, 2)
    committed.put(77, None, 3)
    assert list(committed) == [second]
    assert SegmentMap(committed).translate(6) == Translated(7, True)


def test_what_cannot_be_read_maps_nothing_and_is_told_once() -> None:
    unreadable: list[str] = []
    committed = CommittedSegments("t", 4, unreadable)
    for start in (0, 5):
        _, value = encode_segment(build_segment("t", 4, start, start + 5, [Run(start, 5, start, 5)], 999))
        committed.put(start, value if start else value + b"\0", start)
    packed = SegmentMap(committed)
    found = packed.translate(2)
    assert isinstance(found, Unmapped)
    assert "segment of t-4 from offset 0 goes on after its end" in found.reason
    assert packed.translate(7) == Translated(7, True)
    with pytest.raises(CorruptRecord):
        committed[0]
    assert len(list(committed)) == len(list(committed)) == 1
    assert len(unreadable) == 1


def test_an_empty_map_knows_nothing() -> None:
    assert isinstance(SegmentMap(CommittedSegments("t", 0, [])).translate(0), Unmapped)


def test_only_the_segments_of_the_position_are_decoded() -> None:
    history = [build_segment("t", 4, n * 5, n * 5 + 5, [Run(n * 5, 5, n * 6, 5)], 999) for n in range(50)]
    committed = committed_of(history)
    broken = encode_segment(replace(history[30], upstream_end=10_000))[1][:-1]
    committed.put(1_000_000, broken, 50)  # behind all others, and never looked at
    assert SegmentMap(committed).translate(12) == Translated(14, True)
