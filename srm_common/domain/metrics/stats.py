"""Samples of one metric, put together: over time, over partitions, over topics."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.sample import PERCENTILES, within
from srm_common.domain.metrics.time_range import TimeRange
from srm_common.domain.runs.latency_histogram import LatencyHistogram


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
