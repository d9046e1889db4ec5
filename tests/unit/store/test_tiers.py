"""Which tier answers a question, and in which steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.metrics.stats import TimeRange
from srm_common.store.tiers import (
    BUCKETS_MS,
    COARSEST,
    RAW,
    Level,
    Retention,
    bucket_start,
    kept_for,
    step_for_series,
    tier_for_series,
    tier_for_statistics,
)

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOW = 1_799_971_200_000 + 13 * HOUR + 17 * MINUTE
KEPT = Retention().tiers_ms


def back(length: int, end: int = NOW) -> TimeRange:
    return TimeRange(end - length, end)


@pytest.mark.parametrize(
    ("length", "tier"),
    [(MINUTE, 0), (15 * MINUTE, 0), (HOUR, 1), (6 * HOUR, 1), (12 * HOUR, 2), (7 * DAY, 3), (30 * DAY, 4)],
)
def test_statistics_are_of_a_dozen_buckets_at_least(length: int, tier: int) -> None:
    assert tier_for_statistics(back(length), NOW, KEPT) == tier


@pytest.mark.parametrize(("length", "tier"), [(HOUR, 0), (DAY, 1), (7 * DAY, 2), (30 * DAY, 3), (300 * DAY, 4)])
def test_a_series_is_as_fine_as_its_points(length: int, tier: int) -> None:
    assert tier_for_series(back(length), 200, NOW, KEPT) == tier


def test_what_is_not_kept_so_finely_any_more_comes_from_a_coarser_tier() -> None:
    assert tier_for_series(back(10 * MINUTE, NOW - 3 * HOUR), 200, NOW, KEPT) == 1
    assert tier_for_series(back(10 * MINUTE, NOW - 3 * DAY), 200, NOW, KEPT) == 2
    assert tier_for_series(back(10 * MINUTE, NOW - 1000 * DAY), 200, NOW, KEPT) == 4
    of_partitions = Retention().partitions_ms
    assert tier_for_series(back(10 * MINUTE, NOW - 1000 * DAY), 200, NOW, of_partitions) == 2


@given(length=st.integers(1, 1000 * DAY), end=st.integers(10**12, 10**13), points=st.integers(1, 1000))
def test_no_more_points_than_asked_for(length: int, end: int, points: int) -> None:
    span = back(length, end)
    tier = tier_for_series(span, points, end, KEPT)
    step = step_for_series(span, points, tier)
    first = bucket_start(span.start_ms, tier)
    assert first <= span.start_ms
    assert first + points * step >= span.end_ms
    assert step % BUCKETS_MS[tier] == 0


@given(at=st.integers(0, 10**13), tier=st.integers(RAW, COARSEST))
def test_buckets_of_a_tier_are_made_of_whole_ones_below(at: int, tier: int) -> None:
    start = bucket_start(at, tier)
    assert start <= at < start + BUCKETS_MS[tier]
    assert all(bucket_start(start, below) == start for below in range(tier))


def test_a_tier_that_is_not_kept_is_made_for_the_next() -> None:
    retention = kept_for(tiers_ms=(0, 0, DAY, 0, 0), partitions_ms=0, runs_ms=0)
    assert [retention.makes(Level.TOPIC, tier) for tier in range(5)] == [True, True, True, False, False]
    assert not any(retention.makes(Level.PARTITION, tier) for tier in range(5))
