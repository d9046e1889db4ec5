"""Watches a slot from inside its event loop: logs what it is waiting for, and ends it if no responses arrive at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from srm_common.domain.runs.copying import CopyJob
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.signal import Signal

_LOG = logging.getLogger(__name__)
_EVERY_SECONDS = 30.0


class Stuck(Exception):
    """Nothing arrived for longer than all other limits allow; the text says what the slot was waiting for."""


def quiet_seconds(job: CopyJob) -> float:
    """How long a slot may receive nothing at all: longer than each of its own limits."""
    return job.retry_timeout_seconds + (3 * job.request_timeout_ms + job.transaction_timeout_ms) / 1000


class SlotWatch:
    """The watch of one slot.

    Every 30 s without a commit it logs what the slot is waiting for, unless the source has nothing for it. If no
    response arrives, nor any part of one from the source, for longer than all limits of requests, retries and
    transactions together, it throws :class:`Stuck` into the coroutine that called :meth:`start`.

    Args:
        commits: how many transactions were committed.
        arriving: a figure that changes while a response of the source arrives.
        waits_for: what there is to wait for, besides ``doing``; empty when nothing is to be copied.
    """

    def __init__(
        self,
        name: str,
        job: CopyJob,
        signal: Signal,
        loop: EventLoop,
        commits: Callable[[], int],
        arriving: Callable[[], int],
        waits_for: Callable[[], str],
    ) -> None:
        self._name = name
        self._signal = signal
        self._loop = loop
        self._commits = commits
        self._arriving = arriving
        self._waits_for = waits_for
        self._limit = quiet_seconds(job)
        self._doing = ""
        self._steps = 0
        self._heard, self._heard_at = (-1, -1, -1), 0.0
        self._committed, self._committed_at = -1, 0.0
        self._slot: Any = None
        self._timer: Any = None

    @property
    def doing(self) -> str:
        """What the slot does besides reading and writing."""
        return self._doing

    @doing.setter
    def doing(self, what: str) -> None:
        if what != self._doing:
            self._steps += 1
            self._doing = what

    def start(self) -> None:
        """Called by the slot's coroutine, which is watched from now on."""
        self._slot = self._loop.current_task()
        self._heard_at = self._committed_at = time.monotonic()
        self._timer = self._loop.call_later(min(_EVERY_SECONDS, self._limit), self._look)

    def end(self) -> None:
        """The slot is done."""
        self._slot = None
        self._loop.cancel(self._timer)

    def __str__(self) -> str:
        return ", ".join(text for text in (self._doing, self._waits_for()) if text)

    def _look(self) -> None:
        if self._slot is None:
            return
        now = time.monotonic()
        heard, committed = (self._signal.count, self._steps, self._arriving()), self._commits()
        if heard != self._heard:
            self._heard, self._heard_at = heard, now
        if committed != self._committed:
            self._committed, self._committed_at = committed, now
        waits = str(self)
        if not waits:
            self._committed_at = now
        elif now - self._heard_at >= self._limit:
            self._loop.throw(self._slot, Stuck(f"no response for {now - self._heard_at:.0f} s; waited for: {waits}"))
            return
        elif now - self._committed_at >= _EVERY_SECONDS:
            since = now - self._committed_at
            _LOG.warning("%s has committed nothing for %.0f s; waits for: %s", self._name, since, waits)
        self._timer = self._loop.call_later(min(_EVERY_SECONDS, self._limit), self._look)
