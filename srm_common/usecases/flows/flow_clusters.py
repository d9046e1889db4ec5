"""The two clusters of a flow, as one task, command or request uses them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.state_topics import StateTopic
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.groups.group_commits import GroupCommitter
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.control_log import ControlLog
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import StateTopics, ensure_state_topics, ensure_topics
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.kafka.state.topic_registry import TopicRegistry

if TYPE_CHECKING:
    # Made of kafka-python, whose import costs what many commands do without.
    from srm_common.kafka.admin.acl_admin import AclAdmin
    from srm_common.kafka.client.links.link import ClusterLink
    from srm_common.replication.driver.source_view import SourceView
    from srm_common.schema_registry.registry import SchemaRegistry


class FlowCluster:
    """One of them. What it gives out shares one admin client, which is made by its first use, and one pool of links:
    these take connections from it and give them back.

    Responses of a cluster are not cached: another request gets a new response.
    """

    def __init__(self, flow: FlowSettings, cluster: ClusterSettings, timeout_seconds: float | None) -> None:
        self.settings = cluster
        self.alias = cluster.alias
        self.clients = ClusterClients(cluster)
        self._flow = flow
        self._timeout = timeout_seconds

    @property
    def links(self) -> LinkPool:
        """The connections of kafka-python that nobody uses at the moment."""
        return self.clients.links

    @property
    def _request_seconds(self) -> float:
        return self._flow.request_seconds if self._timeout is None else self._timeout

    @property
    def admin(self) -> ClusterAdmin:
        """Topics and their settings; a request may take ``admin.timeout.ms``."""
        return self.admin_within(self._flow.admin_timeout_ms / 1000)

    def admin_within(self, seconds: float) -> ClusterAdmin:
        """The same, with another limit for a request."""
        return ClusterAdmin(self.settings, timeout_seconds=seconds, admin=self.clients.admin)

    @property
    def acls(self) -> AclAdmin:
        """Access control bindings."""
        from srm_common.kafka.admin.acl_admin import AclAdmin

        seconds = self._flow.admin_timeout_ms / 1000
        return AclAdmin(self.settings, timeout_seconds=seconds, admin=self.clients.admin, pool=self.links)

    @property
    def schema_registry(self) -> SchemaRegistry:
        """A connection to the cluster's schema registry, to be closed by the caller."""
        from srm_common.schema_registry.registry import SchemaRegistry

        return SchemaRegistry(self.settings, timeout_seconds=self._flow.request_seconds)

    def groups(self, timeout_seconds: float | None = None) -> GroupReader:
        """Consumer groups and what they have committed; a request may take as long as the flow's small ones may."""
        seconds = self._flow.request_seconds if timeout_seconds is None else timeout_seconds
        return GroupReader(self.settings, timeout_seconds=seconds, pool=self.links)

    @property
    def group_offsets(self) -> GroupCommitter:
        """Commits offsets of groups."""
        return GroupCommitter(self.settings, timeout_seconds=self._flow.request_seconds, pool=self.links)

    @property
    def registry(self) -> TopicRegistry:
        """The records of topics and clusters that lie here."""
        return TopicRegistry(self.settings, timeout_seconds=self._request_seconds, clients=self.clients)

    @property
    def reader(self) -> StateReader:
        """Reads topics, with the patience of an interactive command."""
        return self.clients.reader.with_patience(timeout_seconds=self._request_seconds)

    def writer(self, *, repeats_matter: bool = True) -> StateWriter:
        """Writes to topics, see :class:`StateWriter`."""
        return self.clients.writer(repeats_matter=repeats_matter, timeout_seconds=self._timeout)

    def segment_log(self, topic: str) -> SegmentLog:
        """The offset map in a segments topic of this cluster, empty where that does not exist."""
        reader = self.reader
        return SegmentLog(reader, topic, reader.partitions(topic))

    def ensure(self, topics: Sequence[StateTopic], *, timeout_seconds: float | None = None) -> dict[str, int]:
        """Make state topics, or check them, as :func:`ensure_topics`; their partitions by name."""
        seconds = self._flow.request_seconds if timeout_seconds is None else timeout_seconds
        return ensure_topics(self.settings, topics, timeout_seconds=seconds, admin=self.clients.admin)[0]

    def link(self, part: str) -> ClusterLink:
        """A link, to be closed by the caller; ``part`` is the purpose, for client ids."""
        from srm_common.kafka.client.links.link import ClusterLink

        return ClusterLink(self.settings, part=part, request_timeout_ms=self._flow.request_timeout_ms, pool=self.links)


class FlowClusters(Closing):
    """Source and target of ``flow``, opened by what is used of them and closed once; a context manager.

    One task, command or request opens one and hands it on.

    Args:
        patience_seconds: a run's: how long the target may take to read and write the flow's state.
        timeout_seconds: how long reading and writing may take where that is less than usual.
        clock: epoch seconds; the host's by default.
    """

    def __init__(
        self,
        flow: FlowSettings,
        *,
        patience_seconds: float | None = None,
        timeout_seconds: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.flow = flow
        self.clock = clock
        self._timeout = timeout_seconds
        self.source = FlowCluster(flow, flow.source, timeout_seconds)
        self.target = FlowCluster(flow, flow.target, timeout_seconds)
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
        other = FlowClusters(flow, timeout_seconds=self._timeout, clock=self.clock)
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

    def close(self) -> None:
        """End all connections."""
        self.source.clients.close()
        self.target.clients.close()


@contextmanager
def clusters_of(flow: FlowSettings | FlowClusters) -> Iterator[FlowClusters]:
    """For verbs that may be all that a task does: what the task has open, or clusters that are opened for this verb."""
    if isinstance(flow, FlowClusters):
        yield flow
        return
    with FlowClusters(flow) as clusters:
        yield clusters
