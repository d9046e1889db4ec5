"""Queries clusters while the caller waits: few at a time, and not for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from typing import TypeVar

from srm_common.domain.flow import FlowSettings
from srm_common.rest.faults import ApiError

T = TypeVar("T")

#: Of one request. A person who waits longer has given up.
LIMIT_SECONDS = 20.0
#: At once, of all callers; each holds connections and the memory of a cluster's metadata.
MOST = 8
#: OpenAPI tag of the routes whose answers wait for clusters.
TAG = "live"


class LiveCalls:
    """Runs calls that ask clusters. A call that is given up continues by itself to its end, and counts until then."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS, most: int = MOST) -> None:
        self._limit_seconds = limit_seconds
        self._free = threading.BoundedSemaphore(most)
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="srm-live")

    def ask(self, what: str, call: Callable[[], T], seconds: float | None = None) -> T:
        """The call's answer, or the error that it raises.

        Args:
            what: is asked for, for people, such as ``the plan of a->b``.
            seconds: to wait at most, where that is less than usual.

        Raises:
            ApiError: 503 when too many are active, 504 when there is no answer in time.
        """
        if not self._free.acquire(blocking=False):
            raise ApiError(
                503, "busy", f"{what}: {MOST} other requests to clusters are in progress; try again in a moment"
            )
        try:
            future: Future[T] = self._pool.submit(call)
        except BaseException:
            self._free.release()
            raise
        future.add_done_callback(lambda _: self._free.release())
        limit = self._limit_seconds if seconds is None else seconds
        try:
            return future.result(limit)
        except NotYet:
            if future.done():
                raise  # the call's own
            raise ApiError(
                504, "clusters_slow", f"{what}: the clusters have not responded within {limit:g} s"
            ) from None


CALLS = LiveCalls()


def hurried(flow: FlowSettings, seconds: float = LIMIT_SECONDS) -> FlowSettings:
    """The flow with clients that give up in time."""
    return replace(
        flow,
        admin_timeout_ms=min(flow.admin_timeout_ms, int(seconds * 1000)),
        request_timeout_ms=min(flow.request_timeout_ms, int(seconds * 1000)),
    )
