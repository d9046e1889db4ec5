from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.monitoring.metric import Metric
from srm_common.domain.monitoring.sample import Sample, pooled
from srm_common.domain.monitoring.stats import Stats
from srm_common.domain.monitoring.time_range import TimeRange
from srm_common.domain.monitoring.windows import Timed, buckets, combined, over_time, series, sliding

LAG = Metric.RECORDS_LAG
SPAN = TimeRange(0, 100)
SAMPLES = [(10, Sample.of(4)), (40, Sample(1, 9, 10, 2)), (80, Sample.of(7)), (100, Sample.of(1_000))]

figures = st.integers(-1_000, 1_000).map(Sample.of)
timed = st.lists(st.tuples(st.integers(-50, 1_050), figures), max_size=40, unique_by=lambda one: one[0])


def test_statistics_of_a_span() -> None:
    found = over_time(LAG, SPAN, SAMPLES)
    assert found == Stats(LAG, SPAN, count=4, min=1, max=9, sum=21, latest=7, latest_ms=80)
    assert found.avg == 5.25
    assert over_time(LAG, TimeRange(11, 40), SAMPLES) == Stats(LAG, TimeRange(11, 40))


def test_a_span_ends_before_its_end() -> None:
    assert over_time(LAG, TimeRange(80, 100), SAMPLES).count == 1
    assert over_time(LAG, TimeRange(81, 101), SAMPLES).latest == 1_000


def test_a_series() -> None:
    first, second, last = series(LAG, SPAN, SAMPLES, points=4)
    assert (first.span, first.avg) == (TimeRange(0, 25), 4)
    assert (second.span, second.avg, second.latest) == (TimeRange(25, 50), 5, 5)
    assert (last.span, last.sum) == (TimeRange(75, 100), 7)


def test_sliding_windows_end_with_their_sample() -> None:
    found = sliding(LAG, [(0, Sample.of(10)), (30, Sample.of(20)), (59, Sample.of(60)), (90, Sample.of(2))], 60)
    # [-59, 0], [-29, 30], [0, 59], [31, 90]
    assert [one.avg for one in found] == [10, 15, 30, 31]
    assert [(one.min, one.max, one.latest) for one in found] == [(10, 10, 10), (10, 20, 20), (10, 60, 60), (2, 60, 2)]


def test_empty_spans_have_no_buckets() -> None:
    assert buckets(TimeRange(5, 5), 10) == []
    assert series(LAG, TimeRange(5, 5), SAMPLES, 10) == []


@given(st.integers(0, 10**13), st.integers(1, 10**11), st.integers(1, 500))
def test_buckets_cover_the_span_without_gaps(start: int, length: int, points: int) -> None:
    span = TimeRange(start, start + length)
    found = buckets(span, points)
    assert 1 <= len(found) <= points
    assert (found[0].start_ms, found[-1].end_ms) == (span.start_ms, span.end_ms)
    assert all(one.end_ms == other.start_ms for one, other in pairwise(found))
    assert len({one.milliseconds for one in found[:-1]}) <= 1


@given(timed, st.integers(1, 60))
def test_a_series_put_together_is_the_statistics_of_its_span(samples: list[Timed], points: int) -> None:
    span = TimeRange(0, 1_000)
    assert combined(LAG, span, series(LAG, span, samples, points)) == over_time(LAG, span, samples)


@given(st.lists(figures, max_size=20), st.integers(0, 20))
def test_pooling_parts_is_pooling_all(samples: list[Sample], at: int) -> None:
    assert pooled([pooled(samples[:at]), pooled(samples[at:])]) == pooled(samples)
