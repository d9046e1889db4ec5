from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.offsets.counting import (
    SeenBatch,
    by_syncs,
    counted,
    counted_apart,
    current_syncs,
    looked_between,
    own_offsets,
)
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.offsets.segments import OffsetSpan
from srm_common.domain.offsets.translation import Evidence, Translated, translate
from tests.examples import examples
from tests.unit.domain.offsets.current_map import current_map
from tests.unit.domain.offsets.test_translation import Copy, copies

OURS, OTHERS = (7, 0), (9, 3)


def batches_of(copy: Copy, run: OffsetSpan) -> list[SeenBatch]:
    """The target's log in the run's range, as one batch a record; the sequences of ours count on."""
    own = {down for down in copy.placed.values()}
    out, sequence = [], 100
    for offset in range(run.downstream, run.downstream_end):
        if offset in own:
            out.append(SeenBatch(range(offset, offset + 1), OURS, sequence))
            sequence += 1
        else:
            out.append(SeenBatch(range(offset, offset + 1), OTHERS, 0))
    return out


def refined(copy: Copy, position: int, upstream: set[int] | None, downstream: set[int]) -> Translated:
    """What is made of a translation when the source (None: away) and the target show these records."""
    found = translate(current_map(copy.committed), position)
    assert isinstance(found, Translated)
    run = found.within
    if run is not None and not found.exact:
        seen = [] if upstream is None else sorted(o for o in upstream if run.upstream <= o < run.upstream_end)
        if run.foreign:
            own = own_offsets(run, batches_of(copy, run))
            assert own is not None
            found = counted_apart(found, position, own, seen)
        elif upstream is not None:
            found = counted(found, position, seen)
    return looked_between(found, sorted(downstream))


@settings(max_examples=examples(150))
@given(copies(), st.data())
def test_what_is_counted_is_exact_and_never_skips(copy: Copy, data: st.DataObject) -> None:
    """Both logs may have lost records since; the translation is exact for those that are left on the target."""
    segments = current_map(copy.committed)
    if not segments:
        return
    kept = st.floats(0, 1).map(lambda share: share > 0.3) if data.draw(st.booleans()) else st.just(True)
    upstream = {up for up in copy.placed if data.draw(kept)}
    left = {up: down for up, down in copy.placed.items() if data.draw(kept)}
    visible = set(left.values()) | set(copy.foreign)
    complete = len(upstream) == len(left) == len(copy.placed)
    last = 0
    for position in range(segments[0].upstream_start, segments[-1].upstream_end + 1):
        with_source = refined(copy, position, upstream, visible)
        without = refined(copy, position, None, visible)
        for translated in (with_source, without):
            unread = {down for up, down in left.items() if up >= position}
            would_read = {down for down in left.values() if down >= translated.offset}
            assert unread <= would_read, f"{position} -> {translated} skips"
            assert not translated.exact or unread == would_read, f"{position} -> {translated} repeats"
            assert translated.exact or translated.why
        assert with_source.offset >= without.offset
        assert with_source.offset >= last, "goes backwards"
        last = with_source.offset
        if complete and (with_source.within or with_source.most is None):
            assert with_source.exact, "all was there to be counted"


def floor(run: OffsetSpan, position: int) -> Translated:
    from srm_common.domain.offsets.segments import Segment

    segment = Segment("t", 0, run.upstream, run.upstream_end, run.downstream, run.downstream_end, (run,))
    found = translate([segment], position)
    assert isinstance(found, Translated)
    assert not found.exact
    return found


def test_counting_at_the_source() -> None:
    run = OffsetSpan(100, 20, 1000, 10)  # every second offset is a hole
    seen = list(range(100, 120, 2))
    for position in range(101, 119):
        expected = 1000 + (position - 100 + 1) // 2
        assert counted(floor(run, position), position, seen) == Translated(expected, True, by=Evidence.SOURCE)


def test_records_that_the_source_has_lost_leave_a_range() -> None:
    run = OffsetSpan(100, 20, 1000, 10)
    translated = counted(floor(run, 110), 110, [100, 102, 112, 118])
    assert (translated.offset, translated.exact, translated.most) == (1002, False, 1008)
    # Compaction took the same records from the copy, or did not.
    assert looked_between(translated, [1000, 1001, 1008, 1009]) == Translated(1002, True, by=Evidence.TARGET)
    assert looked_between(translated, [1000, 1001, 1007, 1009]) == translated


def test_a_log_with_more_records_than_were_copied_is_not_believed() -> None:
    run = OffsetSpan(100, 20, 1000, 10)
    assert counted(floor(run, 110), 110, list(range(100, 120))) == floor(run, 110)


def test_a_run_that_others_wrote_into_is_told_by_the_target_alone_when_the_source_has_no_holes() -> None:
    run = OffsetSpan(0, 4, 50, 7, foreign=True)
    batches = [
        SeenBatch(range(50, 52), OURS, 2**31 - 1),
        SeenBatch(range(52, 55), OTHERS, 0),
        SeenBatch(range(55, 57), OURS, 1),
    ]
    own = own_offsets(run, batches)
    assert own == [50, 51, 55, 56]
    assert counted_apart(floor(run, 2), 2, own, []) == Translated(55, True, by=Evidence.TARGET)
    assert counted_apart(floor(run, 1), 1, own, []) == Translated(51, True, by=Evidence.TARGET)


@pytest.mark.parametrize("gone", range(3))
def test_own_records_are_proven_by_their_sequence_numbers(gone: int) -> None:
    run = OffsetSpan(0, 9, 10, 11, foreign=True)
    batches = [SeenBatch(range(10 + 4 * n, 13 + 4 * n), OURS, 3 * n) for n in range(3)]
    assert own_offsets(run, batches) == [10, 11, 12, 14, 15, 16, 18, 19, 20]
    assert own_offsets(run, batches[:gone] + batches[gone + 1 :]) is None
    assert own_offsets(run, [replace(batch, sequence=-1) for batch in batches]) is None


SYNCS = [OffsetSync("t", 0, *pair) for pair in ((0, 0), (100, 90), (150, 130))]


@pytest.mark.parametrize(
    ("position", "expected", "exact"),
    [(0, 0, True), (1, 1, False), (99, 1, False), (100, 90, True), (120, 91, False), (151, 131, False)],
)
def test_mirror_makers_rule(position: int, expected: int, exact: bool) -> None:
    translated = by_syncs(SYNCS, position, 0, 140)
    assert translated is not None
    assert (translated.offset, translated.exact, translated.by) == (expected, exact, Evidence.SYNCS)
    assert "MirrorMaker 2" in translated.why or exact


def test_syncs_that_lie_next_to_each_other_leave_nothing_open() -> None:
    close = [OffsetSync("t", 0, 10, 5), OffsetSync("t", 0, 20, 6)]
    assert by_syncs(close, 15, 0, 50) == Translated(6, True, by=Evidence.SYNCS)
    assert by_syncs(close, 25, 0, 7) == Translated(7, True, by=Evidence.SYNCS)


def test_syncs_of_another_part_are_not_used() -> None:
    assert by_syncs(SYNCS, 120, 91, 140) is None
    assert by_syncs(SYNCS, 120, 0, 90) is None
    assert by_syncs(SYNCS[1:], 50, 0, 140) is None


def test_later_syncs_replace_earlier_ones() -> None:
    again = OffsetSync("t", 0, 120, 200)
    assert current_syncs([*SYNCS, again]) == [*SYNCS[:2], again]
    cut = OffsetSync("t", 0, 160, 50)
    assert current_syncs([*SYNCS, cut]) == [SYNCS[0], cut]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_translations_by_syncs_never_go_backwards(pairs: list[tuple[int, int]]) -> None:
    syncs = current_syncs([OffsetSync("t", 0, *pair) for pair in pairs])
    translateds = [by_syncs(syncs, position, 0, 100) for position in range(60)]
    places = [translated.offset for translated in translateds if translated is not None]
    assert places == sorted(places)
