"""Wakes a coroutine of kafka-python's loop; a wake-up without a waiter is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from srm_common.kafka.client.connections.event_loop import EventLoop

T = TypeVar("T")


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

    async def silence(self, seconds: float, heard: Callable[[], int]) -> None:
        """Return after the next :meth:`set`, or once ``heard()`` has been the same for ``seconds``."""
        count, before, latest = self.count, None, heard()
        while self.count == count and latest != before:
            await self.wait(seconds)
            before, latest = latest, heard()


async def side_by_side(loop: EventLoop, works: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """What they return, in their order. They end with the caller: when one raises, or the caller is cancelled, the
    others are cancelled."""
    results: dict[int, T] = {}
    failed: list[Exception] = []
    signal = Signal(loop)

    async def run(number: int, work: Callable[[], Awaitable[T]]) -> None:
        try:
            results[number] = await work()
        except Exception as error:  # raised in the caller
            failed.append(error)
        signal.set()

    tasks = [loop.call_soon(partial(run, number, work)) for number, work in enumerate(works)]
    try:
        while len(results) < len(works) and not failed:
            await signal.wait()
    finally:
        for task in tasks:
            loop.cancel(task)
    if failed:
        raise failed[0]
    return [results[number] for number in range(len(works))]
