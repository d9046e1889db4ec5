"""Queries clusters while the caller waits: few at a time, and not for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from typing import TypeVar

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.rest.app_context import AppContext
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Caller, Scheduler
from srm_common.usecases.filters.edited_filters import FilterPlace, RecordedFilters, VariableFilters

T = TypeVar("T")

#: How long one request may take. Whoever has waited longer has given up.
LIMIT_SECONDS = 20.0
#: Calls at a time, of all callers; each holds connections and the memory of a cluster's metadata.
MOST = 8
#: OpenAPI tag of the routes whose answers wait for clusters.
TAG = "live"


class Writing:
    """A call that writes, after it has read: whichever comes first, the end of its caller's patience or its write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = self._given_up = False

    def begin(self) -> None:
        """To be called right before the write. Raises :class:`ApiError`, which nobody reads, if the caller was told
        that nothing was written."""
        with self._lock:
            if self._given_up:
                raise ApiError(504, "clusters_slow", "the caller has been told that nothing was written")
            self._begun = True

    def give_up(self) -> str:
        """The caller waits no longer; what becomes of the write."""
        with self._lock:
            self._given_up = not self._begun
        if self._given_up:
            return "nothing was written"
        return "the write has begun and may still be carried out: read the state again before you repeat it"


class LiveCalls:
    """Runs calls that query clusters. An abandoned call continues to its end, and counts as active until then."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS, most: int = MOST) -> None:
        self._limit_seconds = limit_seconds
        self._free = threading.BoundedSemaphore(most)
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="srm-live")

    def ask(self, what: str, call: Callable[[], T], seconds: float | None = None, writing: Writing | None = None) -> T:
        """The call's answer, or the error that it raises.

        Args:
            what: what is requested, for messages, such as ``the plan of a->b``.
            seconds: the longest wait, if it is shorter than usual.
            writing: of a call that writes, which begins it right before its write.

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
                return future.result()  # by now; or the error is the call's own
            sentence = f"{what}: the clusters have not responded within {limit:g} s"
            if writing is not None:
                sentence += f"; {writing.give_up()}"
            raise ApiError(504, "clusters_slow", sentence) from None


CALLS = LiveCalls()


def hurried(flow: FlowSettings, seconds: float = LIMIT_SECONDS) -> FlowSettings:
    """The flow with clients that time out early enough."""
    return replace(
        flow,
        admin_timeout_ms=min(flow.admin_timeout_ms, int(seconds * 1000)),
        request_timeout_ms=min(flow.request_timeout_ms, int(seconds * 1000)),
    )


# A flow as its next run would have it: the properties file, with the lists that were edited.


_HINT = (
    "name that Airflow to this service (SRM_AIRFLOW_URL), or edit them with srm-control topics --store kafka, which "
    "Airflow uses only if it has no variable"
)


class CallersVariables:
    """Airflow's variables on behalf of one caller."""

    def __init__(self, scheduler: Scheduler, caller: Caller) -> None:
        self._scheduler = scheduler
        self._caller = caller

    def variable(self, name: str) -> str | None:
        return self._scheduler.variable(name)

    def set_variable(self, name: str, text: str, description: str) -> None:
        self._scheduler.set_variable(name, text, description, self._caller)


def filters_of(context: AppContext, name: FlowName, caller: Caller) -> tuple[FlowSettings, FilterPlace]:
    """The flow as the file has it, and where its edited lists are kept. Does not query anything yet.

    Raises:
        ConfigError: there is no such flow, or its keys are wrong.
    """
    configuration = context.configuration()
    flow = hurried(configuration.flow(name))
    if context.scheduler is None:
        return flow, RecordedFilters(flow, who=caller.name, hint=_HINT)
    flows = (*configuration.flows, *configuration.faults)
    return flow, VariableFilters(flow, flows, CallersVariables(context.scheduler, caller), who=caller.name)


def flow_now(context: AppContext, name: FlowName, caller: Caller) -> FlowSettings:
    """The flow with the lists in effect.

    Raises:
        ConfigError: as :func:`filters_of`.
        AirflowError, UnreachableCluster, AccessDenied, ClusterError: the system that stores the edits does not respond.
    """
    return filters_of(context, name, caller)[1].effective().flow
