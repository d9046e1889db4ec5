"""What one report says of one metric, at one level: the smallest thing that statistics are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Sample:
    """``count`` figures with their smallest, their largest and their sum; a single figure is all three.

    The smallest and the largest may lie beyond the average of what was measured more finely than it is counted: a
    partition's latency is one figure, and knows those of its single batches.
    """

    min: float
    max: float
    sum: float
    count: int = 1

    @classmethod
    def of(cls, value: float) -> Self:
        return cls(value, value, value)

    @property
    def value(self) -> float:
        """The average: what counts as the metric's value at this time."""
        return self.sum / self.count

    def shifted(self, by: float) -> Sample:
        """Every figure larger by so much."""
        return Sample(self.min + by, self.max + by, self.sum + by * self.count, self.count)


def pooled(samples: Iterable[Sample | None]) -> Sample | None:
    """All figures of the samples together; None when there are none."""
    found = [one for one in samples if one is not None]
    if len(found) < 2:
        return found[0] if found else None
    return Sample(
        min(one.min for one in found),
        max(one.max for one in found),
        sum(one.sum for one in found),
        sum(one.count for one in found),
    )
