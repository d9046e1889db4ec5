"""Wakes a coroutine of kafka-python's loop; a wake-up that comes while no one waits is kept."""

from __future__ import annotations

from kafka.future import Future

from srm_common.kafka.event_loop import EventLoop


class Signal:
    """One waiter at a time."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiting: Future | None = None
        self._kept = False
        #: How often it was set.
        self.count = 0

    def set(self) -> None:
        """Wake the waiter, or the next one."""
        self.count += 1
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            self._kept = True
        elif not waiting.is_done:
            waiting.success(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Return after the next :meth:`set`, or after ``seconds``."""
        if self._kept:
            self._kept = False
            return
        self._waiting = future = Future()
        timer = None if seconds is None else self._loop.call_later(max(seconds, 0.0), self._wake)
        try:
            await future
        finally:
            if timer is not None:
                self._loop.cancel(timer)
