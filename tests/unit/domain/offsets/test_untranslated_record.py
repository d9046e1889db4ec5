from __future__ import annotations

import json

import pytest

from srm_common.domain.offsets.checkpoints import Untranslated
from srm_common.domain.offsets.untranslated_record import other_groups_from, untranslated_from, untranslated_record

ROWS = [Untranslated("h", "t", 0, 5, "too old"), Untranslated("g", "t", 1, 7, "not copied")]


def test_a_record_comes_back_sorted() -> None:
    record = untranslated_record(ROWS)
    assert record == untranslated_record(ROWS[::-1])
    assert untranslated_from(json.loads(json.dumps(record))) == (ROWS[::-1], 0)


def test_a_record_fits_into_a_message() -> None:
    many = [Untranslated("g", "t", number, 0, "r") for number in range(10_007)]
    rows, left_out = untranslated_from(untranslated_record(many))
    assert (len(rows), left_out) == (10_000, 7)


@pytest.mark.parametrize("record", [None, [], {}, {"positions": [["g"]], "left_out": 0}, {"positions": []}])
def test_what_is_no_record_says_nothing(record: object) -> None:
    assert untranslated_from(record) == ([], 0)


def test_groups_of_other_kinds_are_kept_with_it() -> None:
    others = [("s", "share"), ("k", "streams")]
    assert other_groups_from(untranslated_record(ROWS, others)) == sorted(others)
    assert other_groups_from(untranslated_record(ROWS)) == []
    assert other_groups_from(None) == []
