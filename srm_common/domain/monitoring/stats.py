"""Samples of one metric, put together: over time, over partitions, over topics."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.monitoring.metric import Metric
from srm_common.domain.monitoring.time_range import TimeRange


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of ``count`` samples within ``span``; ``avg = sum / count``. Without samples all but ``count`` (0) are
    None. ``latest`` is the newest sample's value and ``latest_ms`` its time (epoch milliseconds)."""

    metric: Metric
    span: TimeRange
    count: int = 0
    min: float | None = None
    max: float | None = None
    sum: float | None = None
    latest: float | None = None
    latest_ms: int | None = None

    @property
    def avg(self) -> float | None:
        return None if self.sum is None or not self.count else self.sum / self.count
