"""The records of ``srm-meta.internal`` of one cluster: read whole, written by key."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import names
from srm_common.domain.topics.state_topics import meta_topic
from srm_common.domain.topics.topic_records import ClusterBinding, TopicRecord, TopicRecords
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.state.state_reader import LogRecord, StateReader, last_of_each_key
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.kafka.state.state_writer import NewRecord, StateWriter

_VERSION = 1
_TOPIC, _CLUSTER = "topic", "cluster"


class TopicRegistry(Closing):
    """The topic and cluster records that lie on one cluster. A context manager; connections are made when needed.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
    """

    def __init__(self, cluster: ClusterSettings, *, timeout_seconds: float = 30.0) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._reader: StateReader | None = None
        self._writer: StateWriter | None = None
        self._exists = False

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._writer = None

    def read(self) -> TopicRecords:
        """All there is, by one bounded read; nothing where the topic does not exist.

        Records whose keys are not ours (Cloudera's product has a topic of this name) are passed over.

        Raises:
            CorruptRecord: a record with a key of ours cannot be read.
        """
        if self._reader is None:
            self._reader = StateReader(self._cluster, timeout_seconds=self._timeout)
        if not self._reader.partitions(names.META_TOPIC):
            return TopicRecords()
        topics: list[TopicRecord] = []
        bindings: list[ClusterBinding] = []
        for raw, record in last_of_each_key(self._reader.read(names.META_TOPIC)).items():
            kind = _kind(raw)
            if record.value is None or kind is None:
                continue
            found = self._decoded(raw, record, kind)
            if isinstance(found, TopicRecord):
                topics.append(found)
            else:
                bindings.append(found)
        return TopicRecords.of(topics, bindings)

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
            *(_record([_TOPIC, one.flow, one.upstream_topic], one.to_json()) for one in topics),
            *(_record([_CLUSTER, one.alias], one.to_json()) for one in bindings),
            *(_record([_TOPIC, flow, topic], None) for flow, topic in forget),
            *(_record([_CLUSTER, alias], None) for alias in forget_bindings),
        ]
        if not records:
            return
        if not self._exists:
            ensure_topics(self._cluster, [meta_topic(replication_factor)])
            self._exists = True
        if self._writer is None:
            self._writer = StateWriter(self._cluster, timeout_seconds=self._timeout, repeats_matter=False)
        self._writer.write(f"write to state topic {names.META_TOPIC}", records)

    def _decoded(self, raw: bytes, record: LogRecord, kind: str) -> TopicRecord | ClusterBinding:
        place = (
            f"the record of {raw.decode()} at offset {record.offset} of {names.META_TOPIC} on cluster "
            f"'{self._cluster.alias}'"
        )
        try:
            document = json.loads(record.value or b"")
            version = document["version"]
            if version == _VERSION:
                return TopicRecord.from_json(document) if kind == _TOPIC else ClusterBinding.from_json(document)
        except (UnicodeDecodeError, ValueError, TypeError, KeyError) as error:
            raise CorruptRecord(
                f"{place} cannot be read; write a tombstone with that key, and the next refresh records it anew"
            ) from error
        raise CorruptRecord(
            f"{place} has version {version}, but only {_VERSION} is known; run with the newer software that wrote it"
        )


def _kind(raw: bytes) -> str | None:
    try:
        key = json.loads(raw)
    except (UnicodeDecodeError, ValueError):
        return None
    if isinstance(key, list) and key and key[0] in (_TOPIC, _CLUSTER):
        return str(key[0])
    return None


def _record(key: list[str], value: dict[str, Any] | None) -> NewRecord:
    payload = None if value is None else json.dumps({"version": _VERSION, **value}, **_JSON).encode()
    return NewRecord(names.META_TOPIC, 0, json.dumps(key, **_JSON).encode(), payload)


_JSON: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}
