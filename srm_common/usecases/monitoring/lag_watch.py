"""The current lag of flows, queried in the background while it is in use.

Callers never wait for a cluster: they get the latest value, with its time. Each cluster has its own thread, which ends,
together with its connections, when it has not been used for a while.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.monitoring.flow_lag import FlowLag
from srm_common.errors import SrmError
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.flow_positions import FlowPositions, Standing
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.open_cluster import OpenCluster
from srm_common.usecases.monitoring.source_ends import Reader, SourceEnds

#: A cluster is asked no more often.
EVERY_SECONDS = 15.0
#: It is asked for so long after the last look: longer than Prometheus usually waits between two scrapes.
INTEREST_SECONDS = 150.0
_PATIENCE_SECONDS = 10.0
#: What takes longer ends with the process.
_CLOSING_SECONDS = 2.0


class TargetPositions(Closing):
    """Positions of flows into one target, read over its own connection. Belongs to one thread."""

    def __init__(self, target: OpenCluster, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._link = target.link("lag", timeout_ms=int(patience_seconds * 1000))
        self._positions = FlowPositions(self._link)

    def look(self, flows: Iterable[FlowName]) -> dict[FlowName, Standing | SrmError | None]:
        """As :meth:`FlowPositions.look`."""

        async def ask() -> dict[FlowName, Standing | SrmError | None]:
            await self._link.open(timeout_seconds=self._patience)
            return await self._positions.look(list(flows), self._patience)

        return self._link.run(ask)

    def close(self) -> None:
        """Give the connections back to the cluster."""
        self._link.close()


def lag_now(given: FlowSettings | FlowClusters, *, patience_seconds: float = _PATIENCE_SECONDS) -> FlowLag | None:
    """Asked of both clusters of a flow while the caller waits; None for one that never ran.

    Raises:
        SrmError: as the clusters answer.
    """
    with clusters_of(given) as clusters:
        return _lag_now(clusters, patience_seconds)


def _lag_now(clusters: FlowClusters, patience_seconds: float) -> FlowLag | None:
    flow = clusters.flow
    with TargetPositions(clusters.target, patience_seconds=patience_seconds) as target:
        standing = target.look([flow.name])[flow.name]
    if isinstance(standing, SrmError):
        raise standing
    if standing is None:
        return None
    with SourceEnds(clusters.source, patience_seconds=patience_seconds) as source:
        return source.look({flow.name: Reader(standing, flow.read_committed)})[flow.name]


@dataclass
class _Wanted:
    """A flow that was looked at. ``until``: monotonic seconds; ``answered``: it was queried once, or could not
    be."""

    flow: FlowSettings
    until: float
    standing: Standing | None = None
    lag: FlowLag | None = None
    target_fault: str | None = None
    source_fault: str | None = None
    answered: bool = False
    #: The standing is newer than the lag.
    stale: bool = False


class LagWatch:
    """What many threads may ask. Opens nothing before the first question; :meth:`close` ends everything.

    Args:
        patience_seconds: how long a cluster may take to answer before that is its fault.
        clock: monotonic seconds, for the age of values, and for the time since the last request.
    """

    def __init__(
        self,
        *,
        every_seconds: float = EVERY_SECONDS,
        patience_seconds: float = _PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._every = every_seconds
        self._patience = patience_seconds
        self._wanted: dict[FlowName, _Wanted] = {}
        self._threads: dict[tuple[str, ClusterSettings], threading.Thread] = {}
        self._changed = threading.Condition()
        self._closed = False

    def of(self, flows: Iterable[FlowSettings]) -> dict[FlowName, FlowLag]:
        """The latest values of the flows, which also keeps them being queried. Does not block."""
        with self._changed:
            if self._closed:
                return {}
            return {flow.name: lag for flow in flows if (lag := self._want(flow)) is not None}

    def wait_for(self, flows: Iterable[FlowSettings], seconds: float) -> dict[FlowName, FlowLag]:
        """The same, when all of them were asked about once, or after so many seconds."""
        wanted = list(flows)
        with self._changed:
            self.of(wanted)
            self._changed.wait_for(
                lambda: self._closed or all(self._wanted[flow.name].answered for flow in wanted), seconds
            )
            return self.of(wanted)

    def close(self, seconds: float = _CLOSING_SECONDS) -> None:
        """End all threads and their connections; what is asked afterwards is not known. A thread that waits for an
        answer is waited for so long, and ends by itself."""
        with self._changed:
            self._closed = True
            threads = list(self._threads.values())
            self._changed.notify_all()
        atexit.unregister(self.close)
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _want(self, flow: FlowSettings) -> FlowLag | None:
        now = self._clock()
        known = self._wanted.get(flow.name)
        if known is None or known.until < now or _ways(known.flow) != _ways(flow):
            # Positions of long ago, or of another place, are worth nothing.
            known = self._wanted[flow.name] = _Wanted(flow, now, lag=None if known is None else known.lag)
            self._changed.notify_all()
        known.flow, known.until = flow, now + INTEREST_SECONDS
        self._ensure("target", flow.target, self._follow_target)
        self._ensure("source", flow.source, self._follow_source)
        if known.lag is None:
            return None
        faults = [one for one in (known.source_fault, known.target_fault) if one is not None]
        return known.lag.with_fault("; ".join(faults)) if faults else known.lag

    def _ensure(self, side: str, cluster: ClusterSettings, work: Callable[[ClusterSettings], None]) -> None:
        if (side, cluster) in self._threads:
            return
        if not self._threads:
            # Airflow tells no plugin that it ends.
            atexit.register(self.close)
        thread = threading.Thread(
            target=self._follow, args=(side, cluster, work), name=f"srm-lag-{side}-{cluster.alias}", daemon=True
        )
        self._threads[side, cluster] = thread
        thread.start()

    def _follow(self, side: str, cluster: ClusterSettings, work: Callable[[ClusterSettings], None]) -> None:
        try:
            work(cluster)
        finally:
            # What it fell over is in the log; the next question starts another one.
            with self._changed:
                if self._threads.get((side, cluster)) is threading.current_thread():
                    del self._threads[side, cluster]

    def _follow_target(self, cluster: ClusterSettings) -> None:
        positions: TargetPositions | None = None
        with ExitStack() as opened:
            for flows in self._rounds("target", cluster):
                try:
                    if positions is None:
                        target = opened.enter_context(OpenCluster(cluster))
                        positions = opened.enter_context(TargetPositions(target, patience_seconds=self._patience))
                    self._take_positions(flows, positions.look(flows))
                except SrmError as error:
                    positions = None
                    opened.close()
                    self._take_positions(flows, dict.fromkeys(flows, error))

    def _follow_source(self, cluster: ClusterSettings) -> None:
        ends: SourceEnds | None = None
        with ExitStack() as opened:
            for flows in self._rounds("source", cluster):
                try:
                    if ends is None:
                        source = opened.enter_context(OpenCluster(cluster))
                        ends = opened.enter_context(SourceEnds(source, patience_seconds=self._patience))
                    self._take_lags(flows, ends.look(_readers(flows)), None)
                except SrmError as error:
                    ends = None
                    opened.close()
                    self._take_lags(flows, {}, str(error))

    def _rounds(self, side: str, cluster: ClusterSettings) -> Iterator[dict[FlowName, _Wanted]]:
        """The flows to ask the cluster about, each time that some are due, until none are in use any more."""
        asked = -self._every
        while flows := self._due(side, cluster, asked):
            asked = self._clock()
            yield flows

    def _due(self, side: str, cluster: ClusterSettings, asked: float) -> dict[FlowName, _Wanted]:
        """The flows to query, when they are due; none when they are no longer in use, which ends the thread. A target
        is queried at once for a new flow, a source only when its flows have newer data."""
        with self._changed:
            while True:
                now = self._clock()
                mine = {
                    name: one
                    for name, one in self._wanted.items()
                    if getattr(one.flow, side) == cluster and one.until >= now
                }
                if self._closed or not mine:
                    del self._threads[side, cluster]
                    return {}
                due = asked + self._every
                if side == "target" and any(
                    wanted.standing is None and not wanted.answered for wanted in mine.values()
                ):
                    due = now
                ready = side == "target" or any(wanted.stale for wanted in mine.values())
                if ready and now >= due:
                    return mine
                self._changed.wait(due - now if ready else self._every)

    def _take_positions(
        self, flows: Mapping[FlowName, _Wanted], found: Mapping[FlowName, Standing | SrmError | None]
    ) -> None:
        with self._changed:
            for name, one in flows.items():
                result = found[name]
                one.target_fault = str(result) if isinstance(result, SrmError) else None
                if not isinstance(result, SrmError):
                    one.standing = result
                if one.standing is None:
                    one.answered, one.lag = True, one.lag if isinstance(result, SrmError) else None
                else:
                    # Also where nothing newer came: the source continues.
                    one.stale = True
            self._changed.notify_all()

    def _take_lags(
        self, flows: Mapping[FlowName, _Wanted], found: Mapping[FlowName, FlowLag], fault: str | None
    ) -> None:
        with self._changed:
            for name, one in flows.items():
                if one.standing is None:
                    continue
                one.lag, one.source_fault = found.get(name, one.lag), fault
                one.answered, one.stale = True, False
            self._changed.notify_all()


def _readers(flows: Mapping[FlowName, _Wanted]) -> dict[FlowName, Reader]:
    return {
        name: Reader(one.standing, one.flow.read_committed) for name, one in flows.items() if one.standing is not None
    }


def _ways(flow: FlowSettings) -> tuple[ClusterSettings, ClusterSettings]:
    return flow.source, flow.target
