"""One cluster, as a task, command or request uses it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from srm_common.domain.cluster import REQUEST_TIMEOUT_MS, ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.state_topics import StateTopic
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.groups.group_commits import GroupCommitter, other_groups
from srm_common.kafka.groups.group_offsets import Group, GroupFault, GroupReader
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.flow_state import kept_by_flow
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.kafka.state.topic_registry import TopicRegistry

if TYPE_CHECKING:
    # Made of kafka-python, whose import costs what many commands do without.
    from srm_common.kafka.admin.acl_admin import AclAdmin
    from srm_common.kafka.client.links.link import ClusterLink
    from srm_common.kafka.groups.group_watch import GroupWatch
    from srm_common.schema_registry.registry import SchemaRegistry

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
#: A schema registry is not asked any more after two requests in a row without a response: the first may be one that it
#: cannot answer, and the second undoes what the first may have begun. What is left of a refresh then takes less than a
#: minute.
_SILENT_AFTER = 2
_SILENT_SECONDS = 60.0
#: What a partition without a leader may take; the others have answered by then.
_LOG_END_SECONDS = 10.0


class OpenCluster(Closing):
    """Its clients share one admin client, created on first use, and one pool of links, from which they take connections
    and to which they return them. A context manager.

    Responses of a cluster are not cached: another request gets a new response.

    Args:
        request_seconds: how long a small request may take.
        admin_seconds: the same of requests about topics and access control (``admin.timeout.ms``).
        link_timeout_ms: after so long without an answer a link closes its connection (``request.timeout.ms``).
        state_seconds: how long reading and writing records may take where that is less than usual.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        request_seconds: float = 30.0,
        admin_seconds: float = 60.0,
        link_timeout_ms: int = REQUEST_TIMEOUT_MS,
        state_seconds: float | None = None,
    ) -> None:
        self.settings = cluster
        self.alias = cluster.alias
        self.clients = ClusterClients(cluster)
        self.request_seconds = request_seconds
        self._admin_seconds = admin_seconds
        self.link_timeout_ms = link_timeout_ms
        self._state_limit = state_seconds
        self._schema_registry: SchemaRegistry | None = None

    def close(self) -> None:
        """End all connections."""
        self.clients.close()

    @property
    def links(self) -> LinkPool:
        """The idle connections of kafka-python."""
        return self.clients.links

    @property
    def _state_seconds(self) -> float:
        return self.request_seconds if self._state_limit is None else self._state_limit

    @property
    def admin(self) -> ClusterAdmin:
        """Topics and their settings; a request may take ``admin.timeout.ms``."""
        return self.admin_within(self._admin_seconds)

    def admin_within(self, seconds: float) -> ClusterAdmin:
        """The same, with another limit for a request."""
        return ClusterAdmin(self.settings, timeout_seconds=seconds, admin=self.clients.admin)

    @property
    def acls(self) -> AclAdmin:
        """Access control bindings."""
        from srm_common.kafka.admin.acl_admin import AclAdmin

        return AclAdmin(self.settings, timeout_seconds=self._admin_seconds, admin=self.clients.admin, pool=self.links)

    @property
    def schema_registry(self) -> SchemaRegistry:
        """The client of the cluster's schema registry, always the same one, since it remembers that a registry does not
        respond. For one thread at a time; the caller closes the connection, and can use it again."""
        from srm_common.schema_registry.registry import SchemaRegistry

        if self._schema_registry is None:
            self._schema_registry = SchemaRegistry(
                self.settings,
                timeout_seconds=self.request_seconds,
                silent_after=_SILENT_AFTER,
                silent_seconds=_SILENT_SECONDS,
            )
        return self._schema_registry

    def schema_registry_within(self, seconds: float) -> SchemaRegistry:
        """Another client, with another limit for a request, to be closed by the caller."""
        from srm_common.schema_registry.registry import SchemaRegistry

        return SchemaRegistry(self.settings, timeout_seconds=seconds)

    def groups(self, timeout_seconds: float | None = None) -> GroupReader:
        """Consumer groups and their committed offsets; a request may take as long as the flow's other small
        requests."""
        seconds = self.request_seconds if timeout_seconds is None else timeout_seconds
        return GroupReader(self.settings, timeout_seconds=seconds, pool=self.links)

    def group_watch(self, timeout_seconds: float) -> GroupWatch:
        """What groups have committed, asked for again and again; to be closed by the caller."""
        from srm_common.kafka.groups.group_watch import GroupWatch

        return GroupWatch(self.settings, timeout_seconds=timeout_seconds, pool=self.links)

    def other_groups(self, timeout_seconds: float = math.inf) -> tuple[list[Group], list[GroupFault]]:
        """Share and streams groups, with the kind as their protocol; see :func:`other_groups`."""
        seconds = min(timeout_seconds, self.request_seconds)
        return other_groups(self.settings, timeout_seconds=seconds, pool=self.links)

    @property
    def group_offsets(self) -> GroupCommitter:
        """Commits offsets of groups."""
        return GroupCommitter(self.settings, timeout_seconds=self.request_seconds, pool=self.links)

    @property
    def registry(self) -> TopicRegistry:
        """The records of topics and clusters that lie here."""
        return TopicRegistry(self.settings, timeout_seconds=self._state_seconds, clients=self.clients)

    def kept_by_flow(self, source: str, prefix: str, parse: Callable[[Any], T]) -> list[T]:
        """What the flow from ``source`` keeps here, see :func:`kept_by_flow`."""
        seconds = self._state_seconds
        return kept_by_flow(self.settings, source, prefix, parse, timeout_seconds=seconds, clients=self.clients)

    @property
    def reader(self) -> StateReader:
        """Reads topics, with the patience of an interactive command."""
        return self.clients.reader.with_patience(timeout_seconds=self._state_seconds)

    def log_reader(self, *, committed: bool) -> StateReader:
        """Reads topics as the flow reads them: only what is ``committed``, or all; to be closed by the caller."""
        return StateReader(self.settings, timeout_seconds=self.request_seconds, committed=committed, pool=self.links)

    def writer(self, *, repeats_matter: bool = True) -> StateWriter:
        """Writes to topics, see :class:`StateWriter`."""
        return self.clients.writer(repeats_matter=repeats_matter, timeout_seconds=self._state_limit)

    def segment_log(
        self, topic: str, partitions: int | None = None, *, reader: StateReader | None = None
    ) -> SegmentLog:
        """The offset map in a segments topic of this cluster, empty where that does not exist.

        Args:
            partitions: of the topic, where the caller knows them.
            reader: of this cluster, where it takes more patience than that of a command.
        """
        reader = self.reader if reader is None else reader
        return SegmentLog(reader, topic, reader.partitions(topic) if partitions is None else partitions)

    def log_ends(self, expected: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """High watermarks; a partition without a response is left out.

        Args:
            expected: where each log ends at least, as far as that is known. Where one is found to end before, several
                brokers are asked for its leader: the log of one that was deposed ends earlier.

        Raises:
            UnreachableCluster, AccessDenied: as the cluster answers.
        """
        if not expected:
            return {}
        seconds = min(_LOG_END_SECONDS, self.request_seconds)
        with self.link("control") as link:
            ends, _ = link.end_offsets(expected, committed=False, timeout_seconds=seconds)
            if shorter := {place for place, end in ends.items() if end < expected[place]}:
                link.run(link.agree)
                again, _ = link.end_offsets(shorter, committed=False, timeout_seconds=seconds)
                ends = {place: end for place, end in ends.items() if place not in shorter} | again
        return ends

    def ensure(self, topics: Sequence[StateTopic], *, timeout_seconds: float | None = None) -> dict[str, int]:
        """Create state topics, or check them, as :func:`ensure_topics`; their partitions by name."""
        seconds = self.request_seconds if timeout_seconds is None else timeout_seconds
        partitions, notes = ensure_topics(self.settings, topics, timeout_seconds=seconds, admin=self.clients.admin)
        for note in notes:
            _LOG.info("%s", note)
        return partitions

    def link(self, part: str, *, timeout_ms: int | None = None) -> ClusterLink:
        """A link, to be closed by the caller; ``part`` is the purpose, for client ids.

        Args:
            timeout_ms: after so long without an answer it closes its connection, where that is not ``link_timeout_ms``.
        """
        from srm_common.kafka.client.links.link import ClusterLink

        timeout = self.link_timeout_ms if timeout_ms is None else timeout_ms
        return ClusterLink(self.settings, part=part, request_timeout_ms=timeout, pool=self.links)
