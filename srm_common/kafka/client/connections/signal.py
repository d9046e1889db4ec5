"""Wakes a coroutine of kafka-python's loop; a wake-up without a waiter is kept."""

from __future__ import annotations

from typing import Any

from srm_common.kafka.client.connections.event_loop import EventLoop


class Signal:
    """One waiter at a time."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiting: list[Any] = []
        self._kept = False
        #: How often it was set.
        self.count = 0

    def set(self) -> None:
        """Wake the waiter, or the next one."""
        self.count += 1
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._loop.unpark(self._waiting.pop())
        else:
            self._kept = True

    async def wait(self, seconds: float | None = None) -> None:
        """Return after the next :meth:`set`, or after ``seconds``."""
        if self._kept:
            self._kept = False
            return
        timer = None if seconds is None else self._loop.call_later(max(seconds, 0.0), self._wake)
        try:
            await self._loop.park(self._waiting)
        finally:
            self._waiting.clear()
            if timer is not None:
                self._loop.cancel(timer)
