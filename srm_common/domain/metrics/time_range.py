"""A span of time, asked for or covered."""

from __future__ import annotations

from dataclasses import dataclass


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
