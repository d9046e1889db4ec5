"""Which topics of a cluster are copies of what: by the records on the cluster, otherwise by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.heartbeats import ancestry, hops
from srm_common.domain.policy import DefaultReplicationPolicy, ReplicationPolicy
from srm_common.domain.topics.topic_records import TopicRecords, TopicState


class SourceTopic(NamedTuple):
    """``topic`` of cluster ``cluster``, an alias."""

    cluster: str
    topic: str


@dataclass(frozen=True)
class RemoteNames:
    """The topics of one cluster.

    ``policies`` are those of the flows into it, by the alias of their sources; where it is empty, ``policy`` is that of
    all of them.
    """

    topics: frozenset[str]
    records: TopicRecords = field(default_factory=TopicRecords)
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)
    policies: Mapping[str, ReplicationPolicy] = field(default_factory=dict)

    @property
    def heartbeat_topics(self) -> frozenset[str]:
        """The cluster's own, and the copies of others'."""
        return frozenset(
            topic for policy in self._policies for topic in self.topics if policy.is_heartbeats_topic(topic)
        )

    @property
    def checkpoint_topics(self) -> frozenset[str]:
        return frozenset(
            topic for policy in self._policies for topic in self.topics if policy.is_checkpoints_topic(topic)
        )

    @property
    def upstream_clusters(self) -> frozenset[str]:
        """The clusters whose heartbeats come here, by any number of hops."""
        heartbeats = self.heartbeat_topics
        return frozenset(
            alias for policy in self._policies for topic in heartbeats for alias in ancestry(policy, topic)
        )

    def hops(self, alias: str) -> int:
        """How many flows lie between ``alias`` and here by the shortest way; -1 where none of its heartbeats came."""
        found = [hops(policy, self.heartbeat_topics, alias) for policy in self._policies]
        return min((count for count in found if count > 0), default=-1)

    def remote_topics(self, source: str | None = None) -> frozenset[str]:
        """The topics that are copies; of cluster ``source``, if it is given, by one hop."""
        return frozenset(
            topic
            for topic in self.topics
            if any(source in (None, source_topic.cluster) for source_topic in self.source_topics(topic))
        )

    def source_topics(self, topic: str) -> tuple[SourceTopic, ...]:
        """What ``topic`` is a copy of, more than one where flows merge; empty for a topic that is not a copy.

        The records in ``srm-meta.internal`` count. A topic without a record is identified by its name, as MirrorMaker
        2 does; where names do not tell, as under the identity policy, it is a copy only on a cluster without any
        records.
        """
        recorded = {
            SourceTopic(FlowName.parse(record.flow).source, record.upstream_topic)
            for record in self.records.feeding(topic)
            if record.state is not TopicState.CLAIMED
        }
        return tuple(sorted(recorded)) or tuple(sorted(self._by_name(topic)))

    def _by_name(self, topic: str) -> Iterable[SourceTopic]:
        found = set()
        for policy in self._policies:
            if policy.is_internal_topic(topic):
                continue
            source, upstream = policy.topic_source(topic), policy.upstream_topic(topic)
            if source is not None and upstream is not None and (upstream != topic or not self.records.topics):
                found.add(SourceTopic(source, upstream))
        return found

    @property
    def _policies(self) -> Iterable[ReplicationPolicy]:
        return self.policies.values() or (self.policy,)
