"""The time of a fake cluster."""

from __future__ import annotations

import time


class Clock:
    """A cluster's clock, in ms since 1970: the machine's, until a test sets it."""

    def __init__(self) -> None:
        self._set_ms: int | None = None

    def now_ms(self) -> int:
        return int(time.time() * 1000) if self._set_ms is None else self._set_ms

    def set(self, ms: int) -> None:
        """Stop the clock at the current time."""
        self._set_ms = ms

    def advance(self, seconds: float) -> None:
        """Advance the clock, which is stopped from then on."""
        self._set_ms = self.now_ms() + int(seconds * 1000)
