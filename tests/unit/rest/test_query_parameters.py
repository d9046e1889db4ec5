"""Ranges of time as requests give them."""

from __future__ import annotations

import pytest

from srm_common.domain.metrics.stats import TimeRange
from srm_common.rest.faults import ApiError
from srm_common.rest.query_parameters import DEFAULT_MS, LONGEST_MS, time_range

NOON = 1_700_000_000_000


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ({"to_ms": NOON}, NOON - 7_200_000, NOON),
        ({"to_ms": NOON, "minutes": 5}, NOON - 300_000, NOON),
        ({"to_ms": NOON, "hours": 1, "minutes": 30}, NOON - 5_400_000, NOON),
        ({"to_ms": NOON, "days": 30}, NOON - 2_592_000_000, NOON),
        ({"from_ms": 5, "to_ms": 5}, 5, 5),
        ({"from_ms": NOON - 1, "to_ms": NOON}, NOON - 1, NOON),
        ({"to_ms": 100}, 0, 100),
    ],
)
def test_a_range_is_from_a_moment_or_of_a_length(given: dict[str, int], start: int, end: int) -> None:
    assert time_range(**given) == TimeRange(start, end)


def test_the_default_ends_now() -> None:
    found = time_range()
    assert found.milliseconds == DEFAULT_MS
    assert found.end_ms > NOON


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"from_ms": 2, "to_ms": 1}, r"the range ends \(1\) before it starts \(2\)"),
        ({"from_ms": 1, "hours": 1}, "cannot be combined"),
        ({"from_ms": 0, "to_ms": LONGEST_MS + 1}, "longer than 1830 days"),
        ({"to_ms": NOON, "days": 1830, "minutes": 1}, "longer than 1830 days"),
    ],
)
def test_what_is_no_range_is_refused_in_a_sentence(given: dict[str, int], sentence: str) -> None:
    with pytest.raises(ApiError, match=sentence) as refused:
        time_range(**given)
    assert (refused.value.status, refused.value.fault.code) == (422, "invalid_range")
