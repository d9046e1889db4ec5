from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment
from srm_common.domain.offsets.translation import (
    UNBOUNDED,
    NotReplicatedYet,
    TooOld,
    Translated,
    Translation,
    Unmapped,
    translate,
    translate_back,
)
from tests.examples import examples
from tests.unit.domain.offsets.current_map import current_map


@dataclass
class Copy:
    """A source partition, its copy and the map between them, grown at random."""

    committed: list[Segment] = field(default_factory=list)
    placed: dict[int, int] = field(default_factory=dict)  # upstream -> downstream offset
    source_end: int = 0
    target_end: int = 0
    foreign: list[int] = field(default_factory=list)  # downstream offsets of records of others


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    """Chunks of records and holes; markers, aborted chunks and foreign records in the target's log."""
    copy = Copy()
    copy.source_end = draw(st.integers(0, 3))
    #: Where the newest segment ended, while chunks follow that have nothing to copy.
    mapped: int | None = None
    for _ in range(draw(st.integers(1, 6))):
        start = copy.source_end if mapped is None else mapped
        pairs: list[tuple[int, int]] = []
        runs: list[OffsetSpan] = []
        for is_record in draw(st.lists(st.sampled_from([True, True, True, False]), min_size=1, max_size=25)):
            if is_record:
                others = draw(st.sampled_from([0] * 12 + [3]))  # foreign records in between
                copy.foreign += range(copy.target_end, copy.target_end + others)
                copy.target_end += others
                pairs.append((copy.source_end, copy.target_end))
                copy.target_end += 1
            copy.source_end += 1
        if not pairs:
            # Whoever goes on may not know what was read before: another process.
            mapped = start if draw(st.booleans()) else None
            continue
        mapped = None
        piece = draw(st.sampled_from([1, 1, 4]))  # a run per record, or a sparse one per re-encoded batch
        for at in range(0, len(pairs), piece):
            part = pairs[at : at + piece]
            (u, d), (last_u, last_d) = part[0], part[-1]
            if last_d - d + 1 == len(part):
                runs.append(OffsetSpan(u, last_u - u + 1, d, len(part)))
            else:
                runs += [OffsetSpan(up, 1, down, 1) for up, down in part]
        max_bytes = draw(st.sampled_from([1 << 30, 1 << 30, 12, 1]))
        copy.committed.append(build_segment("t", 0, start, copy.source_end, runs, max_bytes))
        copy.placed.update(pairs)
        copy.target_end += 1 + draw(st.sampled_from([0, 0, 5]))  # commit marker, sometimes an aborted chunk
        copy.source_end += draw(st.sampled_from([0, 0, 0, 4]))  # lost at the source before they were copied
    return copy


def offset_of(translation: Translation) -> int:
    assert not isinstance(translation, Unmapped)
    return translation.offset


@settings(max_examples=examples(300))
@given(copies())
def test_oracle(copy: Copy) -> None:
    segments = current_map(copy.committed)
    if not segments:
        assert isinstance(translate(segments, 0), Unmapped)
        return
    previous = 0
    for position in range(copy.source_end + 3):
        translation = translate(segments, position)
        offset = offset_of(translation)
        unread = {down for up, down in copy.placed.items() if up >= position}
        would_read = {down for down in copy.placed.values() if down >= offset}
        assert unread <= would_read, f"{position} -> {translation} skips"
        assert offset >= previous, f"{position} -> {translation} goes backwards"
        previous = offset
        match translation:
            case Translated(_, True):
                assert unread == would_read, f"{position} -> {translation} repeats"
            case TooOld(oldest):
                assert position < segments[0].upstream_start == oldest
            case NotReplicatedYet(behind):
                assert behind == position - segments[-1].upstream_end > 0
                assert not would_read


@settings(max_examples=examples(200))
@given(copies(), st.integers(0, 40), st.integers(0, 2))
def test_oracle_after_a_rewind(copy: Copy, back: int, ahead: int) -> None:
    """At-least-once flows may copy a stretch twice; the second copy counts, and nothing is skipped."""
    start = max(0, copy.source_end - back)
    length = max(1, back - ahead)
    again = build_segment("t", 0, start, start + length, [OffsetSpan(start, length, copy.target_end, length)], 1 << 30)
    segments = current_map([*copy.committed, again])
    twice = {u: {d} for u, d in copy.placed.items()}
    for i in range(length):
        twice.setdefault(start + i, set()).add(copy.target_end + i)
    for position in range(start + length + 1):
        offset = offset_of(translate(segments, position))
        for upstream, places in twice.items():
            if upstream >= position and upstream < start + length:
                assert max(places) >= offset


WHY_SPARSE = "the map does not say where the 990 records of upstream offsets 0 to 1000 lie"
DENSE = Segment("t", 0, 100, 120, 1000, 1015, (OffsetSpan(100, 10, 1000, 10), OffsetSpan(112, 5, 1010, 5)))
LATER = Segment("t", 0, 120, 130, 1016, 1026, (OffsetSpan(120, 10, 1016, 10),))


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (99, TooOld(100, 1000)),
        (100, Translated(1000, True)),
        (105, Translated(1005, True)),
        (110, Translated(1010, True)),  # the holes 110 and 111
        (111, Translated(1010, True)),
        (112, Translated(1010, True)),
        (116, Translated(1014, True)),
        (118, Translated(1015, True)),  # markers at the end of the chunk
        (120, Translated(1015, True)),
        (121, Translated(1017, True)),
        (130, Translated(1026, True)),
        (133, NotReplicatedYet(3, 1026)),
    ],
)
def test_dense(position: int, expected: Translation) -> None:
    assert translate([DENSE, LATER], position) == expected


def test_the_end_of_a_chunk_translates_the_same_before_and_after_the_next_one() -> None:
    assert translate([DENSE], 120) == translate([DENSE, LATER], 120)


def test_positions_behind_the_map_are_floors() -> None:
    why = "the map ends at upstream offset 130, and does not say what was copied up to 150"
    assert translate([LATER], 140, replicated_to=150) == Translated(1026, False, most=UNBOUNDED, why=why)
    assert translate([LATER], 130, replicated_to=150) == Translated(1026, True)
    assert translate([LATER], 155, replicated_to=150) == NotReplicatedYet(5, 1026)
    assert translate([LATER], 133, replicated_to=120) == NotReplicatedYet(3, 1026)


def test_sparse_run_gives_the_best_floor_and_says_where_to_count() -> None:
    run = OffsetSpan(0, 1000, 50, 990)  # ten holes somewhere
    segments = [Segment("t", 0, 0, 1000, 50, 1040, (run,))]
    assert translate(segments, 0) == Translated(50, True)
    assert translate(segments, 5) == Translated(50, False, run, 55, why=WHY_SPARSE)
    assert translate(segments, 500) == Translated(50 + 490, False, run, 50 + 500, why=WHY_SPARSE)
    assert translate(segments, 1000) == Translated(1040, True)


def test_a_run_with_foreign_records_gives_its_start() -> None:
    run = OffsetSpan(0, 15, 0, 15, foreign=True)
    why = "others wrote among the records of upstream offsets 0 to 15"
    assert translate([Segment("t", 0, 0, 15, 0, 15, (run,))], 7) == Translated(0, False, run, 15, why=why)


@pytest.mark.parametrize(("next_start", "exact"), [(11, True), (12, False), (500, False)])
def test_between_two_segments(next_start: int, exact: bool) -> None:
    a = Segment("t", 0, 0, 10, 0, 10, (OffsetSpan(0, 10, 0, 10),))
    b = Segment("t", 0, 100, 110, next_start, next_start + 10, (OffsetSpan(100, 10, next_start, 10),))
    found = translate([a, b], 50)
    assert isinstance(found, Translated)
    assert (found.offset, found.exact, found.most) == (10, exact, None if exact else next_start)
    assert bool(found.why) is not exact


@pytest.mark.parametrize(("next_start", "place"), [(10, 10), (11, 10), (12, 12), (40, 40)])
def test_an_aborted_chunk_between_two_segments_is_passed_over(next_start: int, place: int) -> None:
    a = Segment("t", 0, 0, 10, 0, 10, (OffsetSpan(0, 10, 0, 10),))
    b = Segment("t", 0, 10, 20, next_start, next_start + 10, (OffsetSpan(10, 10, next_start, 10),))
    assert translate([a, b], 10) == Translated(place, True)


def test_a_recreated_source_topic_drops_the_old_map() -> None:
    new = Segment("t", 0, 0, 5, 1100, 1105, (OffsetSpan(0, 5, 1100, 5),))
    assert current_map([DENSE, LATER, new]) == [new]


def test_another_generation_replaces_all_that_was_known() -> None:
    old, newer = replace(DENSE, generation=1), replace(LATER, generation=2)
    assert current_map([old, newer]) == [newer]
    assert current_map([old, replace(LATER, generation=1)])[0] == old
    assert len(current_map([DENSE, newer])) == len(current_map([old, LATER])) == 2  # unknown ids say nothing


def test_a_cut_target_log_drops_what_was_cut() -> None:
    new = Segment("t", 0, 130, 135, 1010, 1015, (OffsetSpan(130, 5, 1010, 5),))
    segments = current_map([DENSE, LATER, new])
    assert segments == [DENSE, new]
    assert translate(segments, 105) == Translated(1005, True)
    # The records of 110 to 119 are gone from the copy: nothing before 1010 is left to be read.
    assert translate(segments, 115) == translate(segments, 125) == Translated(1010, True)


def test_given_starts_are_used_and_agree() -> None:
    segments = [DENSE, LATER]
    for position in range(95, 135):
        assert translate(segments, position, starts=[100, 120]) == translate(segments, position)


@settings(max_examples=examples(300))
@given(copies())
def test_reverse_oracle(copy: Copy) -> None:
    segments = current_map(copy.committed)
    if not segments:
        assert isinstance(translate_back(segments, 0), Unmapped)
        return
    previous = 0
    for position in range(copy.target_end + 3):
        translation = translate_back(segments, position)
        offset = offset_of(translation)
        unread = {up for up, down in copy.placed.items() if down >= position}
        would_read = {up for up in copy.placed if up >= offset}
        assert unread <= would_read, f"{position} -> {translation} skips"
        assert offset >= previous, f"{position} -> {translation} goes backwards"
        previous = offset
        match translation:
            case Translated(_, True):
                assert unread == would_read, f"{position} -> {translation} repeats"
            case TooOld(oldest):
                assert position < segments[0].downstream_start == oldest


@settings(max_examples=examples(200))
@given(copies())
def test_there_and_back_never_goes_forward(copy: Copy) -> None:
    segments = current_map(copy.committed)
    for position in range(copy.source_end + 1):
        there = translate(segments, position)
        if isinstance(there, Translated):
            back = translate_back(segments, there.offset)
            assert not isinstance(back, Unmapped)
            unread = {up for up in copy.placed if up >= position}
            assert unread <= {up for up in copy.placed if up >= back.offset}


DENSE_BACK = Segment("t", 0, 100, 120, 1000, 1017, (OffsetSpan(100, 10, 1000, 10), OffsetSpan(112, 5, 1012, 5)))
SPARSE = Segment("t", 0, 120, 140, 1020, 1030, (OffsetSpan(120, 20, 1020, 10),))
FOREIGN = Segment("t", 0, 140, 150, 1040, 1060, (OffsetSpan(140, 10, 1040, 20, foreign=True),))


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (999, TooOld(1000, 100)),
        (1000, Translated(100, exact=True)),
        (1007, Translated(107, exact=True)),
        (1010, Translated(112, exact=True)),  # between two runs: the next one's first record
        (1013, Translated(113, exact=True)),
        (1017, Translated(120, exact=True)),  # a marker
        (1020, Translated(120, exact=True)),
        (1023, Translated(123, exact=False, within=SPARSE.runs[0])),
        (1035, Translated(140, exact=True)),  # records of others
        (1045, Translated(140, exact=False)),
        (1060, Translated(150, exact=True)),
        (9999, Translated(150, exact=True)),
    ],
)
def test_examples(position: int, expected: Translation) -> None:
    assert translate_back([DENSE_BACK, SPARSE, FOREIGN], position) == expected


def test_behind_the_map_nothing_is_passed_over() -> None:
    assert translate_back([DENSE_BACK], 1017) == translate_back([DENSE_BACK], 1030) == Translated(120, exact=True)


def test_a_position_in_the_older_of_two_copies_is_not_moved_forward() -> None:
    again = Segment("t", 0, 105, 125, 1017, 1037, (OffsetSpan(105, 20, 1017, 20),))
    segments = current_map([DENSE_BACK, again])
    assert translate_back(segments, 1007) == Translated(107, exact=True)
    assert translate_back(segments, 1020) == Translated(108, exact=True)
