"""Samples of one metric, the smallest unit of statistics, and their statistics over a time range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.runs.latency_histogram import LatencyHistogram


@dataclass(frozen=True, slots=True, order=True)
class TimeRange:
    """From ``start_ms`` (inclusive) to ``end_ms`` (exclusive), epoch milliseconds; ``start_ms <= end_ms``."""

    start_ms: int
    end_ms: int

    @property
    def midpoint_ms(self) -> int:
        return (self.start_ms + self.end_ms) // 2

    @property
    def milliseconds(self) -> int:
        return self.end_ms - self.start_ms


#: By their names in the REST API and in names of metrics.
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Sample:
    """``count`` figures with their smallest, their largest and their sum; a single figure is all three.

    The smallest and the largest may lie beyond the average of what was measured more finely than it is counted: a
    partition's latency is one figure, and knows those of its single batches. ``latencies`` counts the records by it;
    None where that is not known, and of all other metrics.
    """

    min: float
    max: float
    sum: float
    count: int = 1
    latencies: LatencyHistogram | None = None

    @classmethod
    def of(cls, value: float) -> Self:
        return cls(value, value, value)

    @property
    def value(self) -> float:
        """The average: what counts as the metric's value at this time."""
        return self.sum / self.count

    def percentile(self, share: float) -> float | None:
        """The figure that ``share`` of the records did not exceed; None where that is not known."""
        return within(None if self.latencies is None else self.latencies.percentile(share), self.min, self.max)

    def shifted(self, by: float) -> Sample:
        """Every figure larger by so much; how the records are spread then is not known."""
        return Sample(self.min + by, self.max + by, self.sum + by * self.count, self.count)


def pooled(samples: Iterable[Sample | None]) -> Sample | None:
    """All figures of the samples together; None when there are none."""
    found = [sample for sample in samples if sample is not None]
    if len(found) < 2:
        return found[0] if found else None
    spread = [sample.latencies for sample in found if sample.latencies is not None]
    return Sample(
        min(sample.min for sample in found),
        max(sample.max for sample in found),
        sum(sample.sum for sample in found),
        sum(sample.count for sample in found),
        LatencyHistogram.sum(spread) if spread else None,
    )


def within(estimate: float | None, least: float | None, most: float | None) -> float | None:
    """An estimate from a histogram, which only has buckets; never beyond the measured minimum and maximum."""
    if estimate is None or least is None or most is None:
        return estimate
    return min(max(estimate, least), most)


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of ``count`` samples within ``span``; ``avg = sum / count``. Without samples all but ``count`` (0) are
    None. ``latest`` is the newest sample's value and ``latest_ms`` its time (epoch milliseconds). ``latencies`` counts
    the records of all samples where the metric is a latency, each record once; None where no sample knows it."""

    metric: Metric
    span: TimeRange
    count: int = 0
    min: float | None = None
    max: float | None = None
    sum: float | None = None
    latest: float | None = None
    latest_ms: int | None = None
    latencies: LatencyHistogram | None = None

    @property
    def avg(self) -> float | None:
        return None if self.sum is None or not self.count else self.sum / self.count

    @property
    def p50(self) -> float | None:
        """What half of the records did not exceed; within an eighth (:class:`LatencyHistogram`)."""
        return self.percentile(PERCENTILES["p50"])

    @property
    def p95(self) -> float | None:
        return self.percentile(PERCENTILES["p95"])

    @property
    def p99(self) -> float | None:
        return self.percentile(PERCENTILES["p99"])

    def percentile(self, share: float) -> float | None:
        return None if self.latencies is None else within(self.latencies.percentile(share), self.min, self.max)
