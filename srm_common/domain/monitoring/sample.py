"""What one report says of one metric, at one level: the smallest thing that statistics are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Sample:
    """``count`` figures with their smallest, their largest and their sum; a single figure is all three."""

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


def pooled(samples: Iterable[Sample]) -> Sample | None:
    """All figures of the samples together; None when there are none."""
    found = list(samples)
    if not found:
        return None
    return Sample(
        min(one.min for one in found),
        max(one.max for one in found),
        sum(one.sum for one in found),
        sum(one.count for one in found),
    )
