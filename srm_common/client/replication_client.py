"""Queries about one cluster that flows copy into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName
from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.settings.layers import Entry
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.remote_names import RemoteNames, SourceTopic
from srm_common.errors import ConfigError, CorruptRecord
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.connections.client_keys import cluster_settings, is_connection_key
from srm_common.settings_files.user_classes import policy_of

#: The name in messages of a cluster without an alias.
_LOCAL = "local"


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """``offset`` is the next record to read here, ``metadata`` what the group noted with its commit.

    ``upstream_offset`` is what it had committed at the source when the checkpoint was written, which was at
    ``written_ms`` (epoch milliseconds).
    """

    offset: int
    metadata: str
    upstream_offset: int
    written_ms: int


class ReplicationClient(Closing):
    """Asks one cluster, usually the one near the program, about what flows have copied into it. A context manager.

    Every question is answered from the cluster as it is then; nothing is kept. Clusters upstream are never asked, so
    that all of it works while they are down.

    Args:
        properties: how to reach the cluster, by the keys of Kafka's Java clients: ``bootstrap.servers``,
            ``security.protocol``, ``sasl.jaas.config``... ``replication.policy.class`` and its like choose a policy, as
            for ``RemoteClusterUtils``; ``source.cluster.alias`` is what ``IdentityReplicationPolicy`` calls the source.
            Other keys are ignored.
        policy: instead of ``replication.policy.class``.
        timeout_seconds: how long one question may take.

    Raises:
        ConfigError: the properties cannot be used.
        UnreachableCluster, AccessDenied, ClusterError: from every question, as the cluster answers.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        policy: ReplicationPolicy | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        if not properties.get("bootstrap.servers", "").strip():
            raise ConfigError("bootstrap.servers is missing: it says where the cluster is")
        entries = {
            key: Entry(key, value, "the client's properties", 0)
            for key, value in properties.items()
            if is_connection_key(key)
        }
        cluster = cluster_settings(_LOCAL, entries, lambda entry: entry.value)
        self._set(cluster, _policy(properties) if policy is None else policy, {}, timeout_seconds)

    @classmethod
    def of_cluster(cls, configuration: str | Path, alias: str, *, timeout_seconds: float = 30.0) -> Self:
        """The client of the cluster ``alias`` of a properties file, with the policies of the flows into it.

        Raises:
            ConfigError: the file cannot be used, or has no such cluster.
        """
        loaded = load_configuration(Path(configuration))
        if alias in loaded.cluster_faults:
            raise loaded.cluster_faults[alias]
        if alias not in loaded.clusters:
            known = ", ".join(loaded.clusters)
            raise ConfigError(f"'{alias}' is not one of the clusters ({known})", file=str(configuration))
        policies = {name.source: flow.policy for name, flow in loaded.flows.items() if name.target == alias}
        made = cls.__new__(cls)
        made._set(loaded.clusters[alias], DefaultReplicationPolicy(), policies, timeout_seconds)
        return made

    def _set(
        self,
        cluster: ClusterSettings,
        policy: ReplicationPolicy,
        policies: Mapping[str, ReplicationPolicy],
        timeout_seconds: float,
    ) -> None:
        # It changes nothing there.
        self._cluster = cluster.of_role(only_read=True)
        self._policy = policy
        self._policies = policies
        self._timeout = timeout_seconds
        self._reader: StateReader | None = None

    def close(self) -> None:
        """Close all connections; the next question makes new ones."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # ---- clusters

    def replication_hops(self, cluster: str) -> int:
        """How many flows lie between ``cluster`` and this one, by the shortest way on which its heartbeats come; -1
        where none have come."""
        return self._names(records=False).hops(cluster)

    def upstream_clusters(self) -> frozenset[str]:
        """The aliases of all clusters whose heartbeats come here, directly or by others."""
        return self._names(records=False).upstream_clusters

    # ---- topics

    def heartbeat_topics(self) -> frozenset[str]:
        """``heartbeats``, and the copies of other clusters'."""
        return self._names(records=False).heartbeat_topics

    def checkpoint_topics(self) -> frozenset[str]:
        """The topics with translated offsets, one for each flow into this cluster."""
        return self._names(records=False).checkpoint_topics

    def remote_topics(self, source: str | None = None) -> frozenset[str]:
        """The topics that are copies, heartbeats among them; only those that came straight from cluster ``source``, if
        it is given.

        What flows have recorded in ``srm-meta.internal`` is believed; other topics are identified by name.
        """
        return self._names().remote_topics(source)

    def source_topics(self, remote_topic: str) -> tuple[SourceTopic, ...]:
        """What ``remote_topic`` is a copy of: one topic, several where flows merge into it, none if it is not a copy.

        Also for copies that were deleted since, as long as their record is there.
        """
        return self._names().source_topics(remote_topic)

    # ---- offsets

    def translated_offsets(self, cluster: str, group: str) -> dict[TopicPartition, TranslatedOffset]:
        """Where consumer group ``group`` of ``cluster`` resumes here, by the newest checkpoints; empty where
        there are none of it."""
        return self.translated_offsets_of_groups(cluster, [group]).get(group, {})

    def translated_offsets_of_groups(
        self, cluster: str, groups: Iterable[str] | re.Pattern[str] | None = None
    ) -> dict[str, dict[TopicPartition, TranslatedOffset]]:
        """The same for several groups, by name; groups without a checkpoint are absent.

        Args:
            groups: their names, or an expression that matches the whole name; None are all groups.
        """
        topic = self._policies.get(cluster, self._policy).checkpoints_topic(cluster)
        wanted = groups if groups is None or isinstance(groups, re.Pattern) else frozenset(groups)
        found: dict[str, dict[TopicPartition, TranslatedOffset]] = {}
        checkpoints = newest_checkpoints(self._state(), topic)
        for place, checkpoint in checkpoints.by_place.items():
            group, remote, partition = place
            if not _is_wanted(group, wanted):
                continue
            found.setdefault(group, {})[TopicPartition(remote, partition)] = TranslatedOffset(
                checkpoint.downstream, checkpoint.metadata, checkpoint.upstream, checkpoints.written_ms[place]
            )
        return {group: dict(sorted(found[group].items())) for group in sorted(found)}

    def _names(self, *, records: bool = True) -> RemoteNames:
        topics = frozenset(ClusterAdmin(self._cluster, timeout_seconds=self._timeout).topics().partitions)
        names = RemoteNames(topics, policy=self._policy, policies=self._policies)
        if not records:
            return names
        with TopicRegistry(self._cluster, timeout_seconds=self._timeout) as registry:
            known = registry.read()
        for fault in known.unreadable.values():
            raise CorruptRecord(fault)  # the name of a copy must not be guessed
        return RemoteNames(topics, known, self._policy, self._policies)

    def _state(self) -> StateReader:
        if self._reader is None:
            self._reader = StateReader(self._cluster, timeout_seconds=self._timeout)
        return self._reader


def _is_wanted(group: str, wanted: frozenset[str] | re.Pattern[str] | None) -> bool:
    if isinstance(wanted, re.Pattern):
        return wanted.fullmatch(group) is not None
    return wanted is None or group in wanted


def _policy(properties: Mapping[str, str]) -> ReplicationPolicy:
    separator = properties.get("replication.policy.separator", ".")
    if not separator:
        raise ConfigError("replication.policy.separator must not be empty")
    internal = properties.get("replication.policy.internal.topic.separator.enabled", "true").strip().lower() != "false"
    source = properties.get("source.cluster.alias", "").strip()
    settings = {key: value for key, value in properties.items() if key.startswith("replication.policy.")}
    policy: ReplicationPolicy = policy_of(
        properties.get("replication.policy.class", "DefaultReplicationPolicy").strip(),
        separator,
        internal,
        FlowName(source, _LOCAL),
        settings,
    )
    if isinstance(policy, IdentityReplicationPolicy | MigratingReplicationPolicy) and not source:
        return replace(policy, source_alias=None)
    return policy
