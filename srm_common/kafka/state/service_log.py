"""``srm-services.internal`` of one cluster: the services that write to that cluster, and where they can be asked.

Each renews its record every while; the key is its address. Who stops well takes its record back, of the others the time
of the last renewal tells (:meth:`srm_common.domain.flow.service_advertisement.Advertisement.stale`).
"""

from __future__ import annotations

import json

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import SERVICES_TOPIC
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.topics.state_topics import services_topic
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.state_reader import StateReader, last_of_each_key
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.kafka.state.state_writer import NewRecord, StateWriter


def read_services(cluster: ClusterSettings, *, timeout_seconds: float) -> tuple[list[Advertisement], list[str]]:
    """All there are, stale ones too, and a sentence for each record that cannot be read.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    found: list[Advertisement] = []
    unreadable: list[str] = []
    with StateReader(cluster, timeout_seconds=timeout_seconds) as reader:
        if not reader.partitions(SERVICES_TOPIC):
            return found, unreadable
        records = last_of_each_key(reader.read(SERVICES_TOPIC)).values()
    for record in records:
        if record.value is None:
            continue
        try:
            found.append(Advertisement.from_json(json.loads(record.value), record.timestamp_ms))
        except (CorruptRecord, UnicodeDecodeError, ValueError) as error:
            unreadable.append(
                f"the record at offset {record.offset} of {SERVICES_TOPIC} on cluster '{cluster.alias}' cannot be "
                f"read: {error}"
            )
    return found, unreadable


class ServiceLog:
    """One service's own record on one cluster; the topic is made by the first one.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
        StateTopicInvalid: from :meth:`renew`, the topic exists and cannot be used.
    """

    def __init__(self, cluster: ClusterSettings, replication_factor: int, *, timeout_seconds: float = 30.0) -> None:
        self._cluster = cluster
        self._replication_factor = replication_factor
        self._timeout = timeout_seconds
        self._writer: StateWriter | None = None

    def renew(self, service: Advertisement) -> None:
        if self._writer is None:
            ensure_topics(self._cluster, [services_topic(self._replication_factor)], timeout_seconds=self._timeout)
        payload = json.dumps(service.to_json(), separators=(",", ":"), ensure_ascii=False).encode()
        self._write(service.url, payload)

    def withdraw(self, service: Advertisement) -> None:
        """The service ends; where it was never there, nothing is written."""
        if self._writer is not None:
            self._write(service.url, None)

    def _write(self, key: str, payload: bytes | None) -> None:
        if self._writer is None:
            self._writer = StateWriter(self._cluster, timeout_seconds=self._timeout, repeats_matter=False)
        self._writer.write(f"write to {SERVICES_TOPIC}", [NewRecord(SERVICES_TOPIC, 0, key.encode(), payload)])
