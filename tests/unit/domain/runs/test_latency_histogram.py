from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.runs.latency_histogram import LatencyHistogram, bucket_of, bucket_start
from srm_common.errors import CorruptRecord

#: Up to half a century; below 0 where the clock of a producer is ahead.
LATENCIES = st.one_of(st.integers(-1000, 100), st.integers(0, 10**6), st.integers(0, 1_600_000_000_000))
MANY = st.lists(LATENCIES, max_size=60)


def histogram(latencies: list[int]) -> LatencyHistogram:
    return LatencyHistogram.of(Counter(bucket_of(latency) for latency in latencies))


def test_buckets() -> None:
    starts = [bucket_start(bucket) for bucket in range(20)]
    assert starts == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56]
    assert bucket_of(-7) == 0


@given(st.integers(0, 2**45))
def test_a_latency_is_in_the_bucket_that_starts_at_or_before_it(latency: int) -> None:
    bucket = bucket_of(latency)
    assert bucket_start(bucket) <= latency < bucket_start(bucket + 1)
    assert bucket_start(bucket + 1) - bucket_start(bucket) <= max(1, bucket_start(bucket) / 4)


@given(MANY, MANY)
def test_added_up_it_is_that_of_the_whole(one: list[int], other: list[int]) -> None:
    whole = histogram(one + other)
    assert histogram(one) + histogram(other) == whole
    assert whole.without(histogram(other)) == histogram(one)
    assert whole.records == len(one) + len(other)


@given(st.lists(LATENCIES, min_size=1, max_size=60), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_as_exact_as_it_says(latencies: list[int], share: float) -> None:
    exact = max(0, sorted(latencies)[math.ceil(share * len(latencies)) - 1])
    found = histogram(latencies).percentile(share)
    assert found is not None
    assert abs(found - exact) <= max(0.5, exact / 8)


def test_nothing_has_no_percentile() -> None:
    assert LatencyHistogram().percentile(0.5) is None
    assert LatencyHistogram().sum_ms == 0


def test_records_below_a_latency() -> None:
    latency_histogram = histogram([1, 9, 10, 31, 32])
    assert [latency_histogram.below(edge) for edge in (1, 2, 8, 32, 64)] == [0, 1, 1, 4, 5]
    assert latency_histogram.sum_ms == 1.5 + 9 + 11 + 30 + 36


@given(MANY, MANY)
def test_it_is_read_back_as_it_was(one: list[int], other: list[int]) -> None:
    latency_histogram, more = histogram(one), histogram(other)
    assert LatencyHistogram.parse(latency_histogram.text()) == latency_histogram
    assert LatencyHistogram.parse(f"{latency_histogram.text()};{more.text()}") == latency_histogram + more


def test_it_stays_small() -> None:
    assert histogram([100] * 5000 + [120] * 70 + [60_000]).text() == "22,5000,70,-35,1"


@pytest.mark.parametrize("text", ["1,x", "1,2.5", "-1,5", "3,1,-100000,5", {"1": 2}, "181,1", None, 7])
def test_what_is_no_histogram_is_refused(text: object) -> None:
    with pytest.raises(CorruptRecord, match="histogram of latencies"):
        LatencyHistogram.parse(text)
