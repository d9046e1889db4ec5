"""The records of ``srm-meta.internal`` of one cluster: read in full, written by key."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import names
from srm_common.domain.topics.state_topics import meta_topic
from srm_common.domain.topics.topic_records import ClusterBinding, TopicRecord, TopicRecords
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.cluster_clients import ClusterClients
from srm_common.kafka.state.keyed_topic import KeyedTopic, encode_key
from srm_common.wire.state.plain_records import NewRecord

_TOPIC, _CLUSTER = "topic", "cluster"


class TopicRegistry(Closing):
    """The topic and cluster records that one cluster holds. A context manager; connections are made when needed.

    ``clients`` are those of the cluster, where they are shared; they stay open.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
    """

    def __init__(
        self, cluster: ClusterSettings, *, timeout_seconds: float = 30.0, clients: ClusterClients | None = None
    ) -> None:
        self._topic = KeyedTopic(
            cluster,
            names.META_TOPIC,
            timeout_seconds=timeout_seconds,
            clients=clients,
            remedy="to drop it, and the next refresh records it again",
        )
        self._exists = False

    def close(self) -> None:
        self._topic.close()

    def read(self) -> TopicRecords:
        """All records, by one bounded read; none where the topic does not exist.

        Records whose keys are not ours (Cloudera's product has a topic of this name) are skipped. Those of topics that
        cannot be read are ``unreadable``.

        Raises:
            CorruptRecord: the record of a cluster cannot be read.
        """
        topics: list[TopicRecord] = []
        bindings: list[ClusterBinding] = []
        unreadable: dict[tuple[str, str], str] = {}
        for record in self._topic.newest() or ():
            match _key(record.key or b""):
                case [kind, str(flow), str(topic)] if kind == _TOPIC:
                    try:
                        topics.append(self._topic.parse(record, TopicRecord.from_json))
                    except CorruptRecord as error:
                        unreadable[flow, topic] = str(error)
                case [kind, str()] if kind == _CLUSTER:
                    bindings.append(self._topic.parse(record, ClusterBinding.from_json))
        return replace(TopicRecords.of(topics, bindings), unreadable=unreadable)

    def write(
        self,
        topics: Iterable[TopicRecord] = (),
        bindings: Iterable[ClusterBinding] = (),
        *,
        forget: Iterable[tuple[str, str]] = (),
        forget_bindings: Iterable[str] = (),
        replication_factor: int = -1,
    ) -> None:
        """Write records, and tombstones for the keys to forget; returns when all in-sync replicas have them.

        Args:
            forget: (flow, upstream topic).
            replication_factor: of the topic, when it has to be created.

        Raises:
            StateTopicInvalid: the topic exists with settings that would lose records.
        """
        records = [
            *(self._record([_TOPIC, record.flow, record.upstream_topic], record.to_json()) for record in topics),
            *(self._record([_CLUSTER, binding.alias], binding.to_json()) for binding in bindings),
            *(self._record([_TOPIC, flow, topic], None) for flow, topic in forget),
            *(self._record([_CLUSTER, alias], None) for alias in forget_bindings),
        ]
        if not records:
            return
        if not self._exists:
            self._topic.ensure(meta_topic(replication_factor))
            self._exists = True
        self._topic.write(f"write to state topic {names.META_TOPIC}", records)

    def _record(self, key: list[str], document: dict[str, Any] | None) -> NewRecord:
        return self._topic.record(encode_key(key), document)


def _key(raw: bytes) -> object:
    """What a key says; None for one that is not JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
