from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.flow.control_record import ControlRecord, standing


def record(key: str, based_on: str | None = None) -> ControlRecord:
    return ControlRecord(key, "filters", "a->b", 1_700_000_000_000, based_on=based_on)


def keys(*records: ControlRecord) -> list[str]:
    return [found.key for found in standing(records)]


def test_a_chain_stands() -> None:
    assert keys(record("1"), record("2", "1"), record("3", "2")) == ["1", "2", "3"]


def test_of_two_edits_of_the_same_state_the_first_in_the_log_stands() -> None:
    assert keys(record("1"), record("2", "1"), record("late", "1"), record("3", "2")) == ["1", "2", "3"]
    assert keys(record("1"), record("late"), record("2", "1")) == ["1", "2"]


def test_what_builds_on_an_edit_that_did_not_stand_does_not_stand() -> None:
    assert keys(record("1"), record("2", "1"), record("late", "1"), record("later", "late")) == ["1", "2"]


def test_a_lost_beginning_or_middle_does_not_void_the_rest() -> None:
    assert keys(record("2", "1"), record("3", "2")) == ["2", "3"]
    assert keys(record("1"), record("3", "lost"), record("4", "3")) == ["1", "3", "4"]


@pytest.mark.parametrize("when_ms", [10**18, -(10**18), 10**400, "now", None])
def test_a_time_that_cannot_be_shown_is_refused(when_ms: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        ControlRecord("1", "filters", "a->b", when_ms)


def test_times_are_utc() -> None:
    assert record("1").when == "2023-11-14T22:13:20Z"
    assert record("1").to_json()["when"] == "2023-11-14T22:13:20Z"
