"""What statistics of a range of time are, by the rule of docs/metrics.md: the model that stores are compared with."""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Sample, Stats, TimeRange
from srm_common.domain.runs.latency_histogram import LatencyHistogram

#: A sample and when it was taken, epoch milliseconds.
Timed = tuple[int, Sample]


def over_time(metric: Metric, span: TimeRange, samples: Iterable[Timed]) -> Stats:
    """Statistics of the samples within ``span``, in any order: the smallest and largest of all their figures, their
    sum and number; ``latest`` is the newest sample's average."""
    found = [(at, one) for at, one in samples if span.start_ms <= at < span.end_ms]
    if not found:
        return Stats(metric, span)
    latest_ms, latest = max(found, key=lambda timed: timed[0])
    spread = [one.latencies for _, one in found if one.latencies is not None]
    return Stats(
        metric,
        span,
        count=sum(one.count for _, one in found),
        min=min(one.min for _, one in found),
        max=max(one.max for _, one in found),
        sum=sum(one.sum for _, one in found),
        latest=latest.value,
        latest_ms=latest_ms,
        latencies=LatencyHistogram.sum(spread) if spread else None,
    )
