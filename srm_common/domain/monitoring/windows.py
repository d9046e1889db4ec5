"""Samples over time: statistics of a span, series of buckets, sliding windows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from srm_common.domain.monitoring.metric import Metric
from srm_common.domain.monitoring.sample import Sample
from srm_common.domain.monitoring.stats import Stats
from srm_common.domain.monitoring.time_range import TimeRange

#: A sample and when it was taken, epoch milliseconds.
Timed = tuple[int, Sample]


def over_time(metric: Metric, span: TimeRange, samples: Iterable[Timed]) -> Stats:
    """Statistics of the samples within ``span``, in any order: the smallest and largest of all their figures, their
    sum and number; ``latest`` is the newest sample's average."""
    found = [(at, one) for at, one in samples if span.start_ms <= at < span.end_ms]
    if not found:
        return Stats(metric, span)
    latest_ms, latest = max(found, key=lambda timed: timed[0])
    return Stats(
        metric,
        span,
        count=sum(one.count for _, one in found),
        min=min(one.min for _, one in found),
        max=max(one.max for _, one in found),
        sum=sum(one.sum for _, one in found),
        latest=latest.value,
        latest_ms=latest_ms,
    )


def combined(metric: Metric, span: TimeRange, parts: Iterable[Stats]) -> Stats:
    """Statistics of adjoining spans, or of different things that are pooled, as if their samples had been one set."""
    found = [one for one in parts if one.count]
    if not found:
        return Stats(metric, span)
    newest = max(found, key=lambda one: one.latest_ms or 0)
    return Stats(
        metric,
        span,
        count=sum(one.count for one in found),
        min=min(one.min for one in found if one.min is not None),
        max=max(one.max for one in found if one.max is not None),
        sum=sum(one.sum for one in found if one.sum is not None),
        latest=newest.latest,
        latest_ms=newest.latest_ms,
    )


def buckets(span: TimeRange, points: int) -> list[TimeRange]:
    """``span`` in at most ``points`` pieces of equal length, the last one perhaps shorter."""
    if span.milliseconds <= 0 or points < 1:
        return []
    step = -(-span.milliseconds // points)
    return [TimeRange(start, min(start + step, span.end_ms)) for start in range(span.start_ms, span.end_ms, step)]


def series(metric: Metric, span: TimeRange, samples: Iterable[Timed], points: int) -> list[Stats]:
    """The buckets of ``span`` that have samples, oldest first."""
    pieces = buckets(span, points)
    if not pieces:
        return []
    step = pieces[0].milliseconds
    filled: dict[int, list[Timed]] = {}
    for at, one in samples:
        if span.start_ms <= at < span.end_ms:
            filled.setdefault((at - span.start_ms) // step, []).append((at, one))
    return [over_time(metric, pieces[number], filled[number]) for number in sorted(filled)]


def sliding(metric: Metric, samples: Sequence[Timed], window_ms: int) -> list[Stats]:
    """For each sample the statistics of the window that ends with it, itself included; samples sorted by time."""
    times = [at for at, _ in samples]
    out = []
    for number, at in enumerate(times):
        first = bisect_left(times, at - window_ms + 1, hi=number + 1)
        out.append(over_time(metric, TimeRange(at - window_ms + 1, at + 1), samples[first : number + 1]))
    return out
