"""The model itself, by values worked out by hand."""

from __future__ import annotations

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Sample, Stats, TimeRange
from tests.unit.store.windows import over_time

LAG = Metric.RECORDS_LAG
SPAN = TimeRange(0, 100)
SAMPLES = [(10, Sample.of(4)), (40, Sample(1, 9, 10, 2)), (80, Sample.of(7)), (100, Sample.of(1_000))]


def test_statistics_of_a_span() -> None:
    stats = over_time(LAG, SPAN, SAMPLES)
    assert stats == Stats(LAG, SPAN, count=4, min=1, max=9, sum=21, latest=7, latest_ms=80)
    assert stats.avg == 5.25
    assert over_time(LAG, TimeRange(11, 40), SAMPLES) == Stats(LAG, TimeRange(11, 40))


def test_a_span_ends_before_its_end() -> None:
    assert over_time(LAG, TimeRange(80, 100), SAMPLES).count == 1
    assert over_time(LAG, TimeRange(81, 101), SAMPLES).latest == 1_000


def test_a_window_that_slides() -> None:
    samples = [(0, Sample.of(10)), (30, Sample.of(20)), (59, Sample.of(60)), (90, Sample.of(2))]
    stats = [over_time(LAG, TimeRange(at - 59, at + 1), samples) for at, _ in samples]
    # [-59, 0], [-29, 30], [0, 59], [31, 90]
    assert [stat.avg for stat in stats] == [10, 15, 30, 31]
    assert [(stat.min, stat.max, stat.latest) for stat in stats] == [
        (10, 10, 10),
        (10, 20, 20),
        (10, 60, 60),
        (2, 60, 2),
    ]
