from __future__ import annotations

import pytest
from hypothesis import given, settings

from srm_common.domain.offsets.reverse_translation import translate_back
from srm_common.domain.offsets.segments import Run, Segment
from srm_common.domain.offsets.translation import TooOld, Translated, Translation, Unmapped, current_map, translate
from tests.unit.domain.offsets.test_translation import Copy, copies, offset_of


@settings(max_examples=300)
@given(copies())
def test_oracle(copy: Copy) -> None:
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


@settings(max_examples=200)
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


DENSE = Segment("t", 0, 100, 120, 1000, 1017, (Run(100, 10, 1000, 10), Run(112, 5, 1012, 5)))
SPARSE = Segment("t", 0, 120, 140, 1020, 1030, (Run(120, 20, 1020, 10),))
FOREIGN = Segment("t", 0, 140, 150, 1040, 1060, (Run(140, 10, 1040, 20, foreign=True),))


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
    assert translate_back([DENSE, SPARSE, FOREIGN], position) == expected


def test_behind_the_map_nothing_is_passed_over() -> None:
    assert translate_back([DENSE], 1017) == translate_back([DENSE], 1030) == Translated(120, exact=True)


def test_a_position_in_the_older_of_two_copies_is_not_moved_forward() -> None:
    again = Segment("t", 0, 105, 125, 1017, 1037, (Run(105, 20, 1017, 20),))
    segments = current_map([DENSE, again])
    assert translate_back(segments, 1007) == Translated(107, exact=True)
    assert translate_back(segments, 1020) == Translated(108, exact=True)
