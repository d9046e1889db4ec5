"""The two clusters of a flow, as one task, command or request uses them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.control_log import ControlLog
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.state_topics import StateTopics, ensure_state_topics
from srm_common.usecases.flows.open_cluster import OpenCluster

if TYPE_CHECKING:
    # Made of kafka-python, whose import costs what many commands do without.
    from srm_common.replication.driver.source_view import SourceView


class FlowClusters(Closing):
    """Source and target of ``flow``, opened by what is used of them and closed once; a context manager.

    One task, command or request opens one and hands it on.

    Args:
        patience_seconds: a run's: how long the target may take to read and write the flow's state.
        timeout_seconds: how long reading and writing may take where that is less than usual.
        limits: by alias, how long any request to that cluster may take where that is less than usual.
        clock: epoch seconds; the host's by default.
    """

    def __init__(
        self,
        flow: FlowSettings,
        *,
        patience_seconds: float | None = None,
        timeout_seconds: float | None = None,
        limits: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.flow = flow
        self.clock = clock
        self._timeout = timeout_seconds
        self._limits = limits or {}
        self.source = self._opened(flow.source)
        self.target = self._opened(flow.target)
        self.state = FlowState(flow, patience_seconds=patience_seconds, clients=self.target.clients)

    def now_ms(self) -> int:
        """Epoch milliseconds by the clock."""
        return int(self.clock() * 1000)

    def with_flow(self, flow: FlowSettings, *, patience_seconds: float | None = None) -> FlowClusters:
        """The same clients for a flow between the same clusters: with other filters, or another patience."""
        assert (flow.source, flow.target) == (self.flow.source, self.flow.target)
        return self._shared(flow, self.source.clients, self.target.clients, patience_seconds)

    def opposite(self, flow: FlowSettings) -> FlowClusters:
        """The same clients for a flow in the other direction."""
        assert (flow.source, flow.target) == (self.flow.target, self.flow.source)
        return self._shared(flow, self.target.clients, self.source.clients, None)

    def _shared(
        self, flow: FlowSettings, source: ClusterClients, target: ClusterClients, patience_seconds: float | None
    ) -> FlowClusters:
        other = FlowClusters(flow, timeout_seconds=self._timeout, limits=self._limits, clock=self.clock)
        other.source.clients, other.target.clients = source, target
        other.state = FlowState(flow, patience_seconds=patience_seconds, clients=target)
        return other

    def state_topics(self, *, patience_seconds: float = 0.0) -> StateTopics:
        """Those of the flow, created and fixed as :func:`ensure_state_topics` does."""
        return ensure_state_topics(
            self.flow,
            patience_seconds=patience_seconds,
            source=self.source.clients.admin,
            target=self.target.clients.admin,
        )

    def source_view(self, **patience: float) -> SourceView:
        """A link for questions about the source's logs, to be closed by the caller."""
        from srm_common.replication.driver.source_view import SourceView

        return SourceView(self.flow, pool=self.source.links, **patience)

    def control_log(self, writes_to: ClusterSettings | None = None) -> ControlLog:
        """The history of changes to the flow; a context manager."""
        return ControlLog(self.flow, writes_to=writes_to, clients=self.target.clients)

    def _opened(self, cluster: ClusterSettings) -> OpenCluster:
        flow, limit = self.flow, self._limits.get(cluster.alias, math.inf)
        state = [seconds for seconds in (self._timeout, limit) if seconds is not None and seconds < math.inf]
        return OpenCluster(
            cluster,
            request_seconds=min(flow.request_seconds, limit),
            admin_seconds=min(flow.admin_timeout_ms / 1000, limit),
            link_timeout_ms=int(min(flow.request_timeout_ms, limit * 1000)),
            state_seconds=min(state, default=None),
        )

    def close(self) -> None:
        """End all connections."""
        self.source.close()
        self.target.close()


@contextmanager
def clusters_of(flow: FlowSettings | FlowClusters) -> Iterator[FlowClusters]:
    """For verbs that may be all that a task does: what the task has open, or clusters that are opened for this verb."""
    if isinstance(flow, FlowClusters):
        yield flow
        return
    with FlowClusters(flow) as clusters:
        yield clusters
