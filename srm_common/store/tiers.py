"""The tiers of the history: as reported first, then in ever longer buckets. Pure.

A bucket is computed from the tier below, when a report of a later bucket arrives. So a tier is complete up to the
bucket of the newest report, and what is newer is in the tiers below.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from srm_common.domain.metrics.stats import TimeRange

# What a sample is of.


class Level(IntEnum):
    """The numbers are in the database."""

    FLOW = 0
    TOPIC = 1
    PARTITION = 2


_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000

#: Length of a bucket by tier; tier 0 has samples as they were reported.
BUCKETS_MS = (1, 5 * _MINUTE, _HOUR, 6 * _HOUR, _DAY)
RAW = 0
COARSEST = len(BUCKETS_MS) - 1
#: Statistics of a range consist of at least so many buckets, if they are kept for so long: the range is wider than
#: requested by one bucket at most.
_STATISTIC_BUCKETS = 12
_FLOWS_MS = 40 * _DAY


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each tier is kept, milliseconds, counted from a flow's newest report: of flows and topics, and of
    partitions. 0: not longer than the next tier needs it. ``flows_ms``: how long flows are kept that no longer report,
    counted from the newest report of any flow."""

    tiers_ms: tuple[int, ...] = (2 * _HOUR, 2 * _DAY, 8 * _DAY, 40 * _DAY, 400 * _DAY)
    partitions_ms: tuple[int, ...] = (_HOUR, 6 * _HOUR, 2 * _DAY, 0, 0)
    runs_ms: int = 7 * _DAY
    flows_ms: int = _FLOWS_MS

    def of(self, level: int) -> tuple[int, ...]:
        return self.partitions_ms if level == Level.PARTITION else self.tiers_ms

    def makes(self, level: int, tier: int) -> bool:
        """Whether the tier, or one that is made of it, is kept."""
        return any(self.of(level)[tier:])


def kept_for(tiers_ms: tuple[int, ...], partitions_ms: int, runs_ms: int, flows_ms: int = _FLOWS_MS) -> Retention:
    """``partitions_ms`` is how long one-hour buckets of partitions are kept. There are many of them: finer buckets are
    kept only briefly, coarser ones not at all."""
    raw, fine, *_ = (min(one, most) for one, most in zip(tiers_ms, Retention().partitions_ms, strict=True))
    of_partitions = (min(raw, partitions_ms), min(fine, partitions_ms), partitions_ms, 0, 0)
    return Retention(tiers_ms, of_partitions, runs_ms, flows_ms)


def bucket_start(at_ms: int, tier: int) -> int:
    return at_ms - at_ms % BUCKETS_MS[tier]


def tier_for_statistics(span: TimeRange, newest_ms: int, kept_ms: tuple[int, ...]) -> int:
    """The coarsest tier with enough buckets in the range; a coarser one if that is not kept for so long."""
    return _kept(_finest(span.milliseconds // _STATISTIC_BUCKETS), span, newest_ms, kept_ms)


def tier_for_series(span: TimeRange, points: int, newest_ms: int, kept_ms: tuple[int, ...]) -> int:
    """The coarsest tier whose buckets are not longer than a point's."""
    return _kept(_finest(span.milliseconds // points), span, newest_ms, kept_ms)


def step_for_series(span: TimeRange, points: int, tier: int) -> int:
    """Length of a point's bucket, milliseconds: whole buckets of the tier (whole seconds of tier 0), so that at most
    ``points`` of them cover the range from the start of its first bucket."""
    unit = max(BUCKETS_MS[tier], _SECOND)
    start = bucket_start(span.start_ms, tier)
    length = max(1, span.end_ms - start)
    return -(-length // (points * unit)) * unit


def _finest(bucket_ms: int) -> int:
    return max(tier for tier, length in enumerate(BUCKETS_MS) if tier == RAW or length <= bucket_ms)


def _kept(tier: int, span: TimeRange, newest_ms: int, kept_ms: tuple[int, ...]) -> int:
    for one in range(tier, len(kept_ms)):
        if kept_ms[one] and newest_ms - kept_ms[one] <= span.start_ms:
            return one
    # None goes back so far: the one that goes back farthest.
    return max(range(tier, len(kept_ms)), key=lambda one: kept_ms[one])
