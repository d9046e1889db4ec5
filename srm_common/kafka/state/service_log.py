"""``srm-services.internal`` of one cluster: the services that write to that cluster, and their addresses.

Each renews its record periodically; the key is its address. A service that stops cleanly deletes its record; for
others, the time of the last renewal decides (:meth:`srm_common.domain.flow.service_advertisement.Advertisement.stale`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import SERVICES_TOPIC
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.topics.state_topics import services_topic
from srm_common.errors import ClusterError, CorruptRecord
from srm_common.kafka.state.keyed_topic import KeyedTopic
from srm_common.kafka.state.state_topics import ensure_topics


def read_services(cluster: ClusterSettings, *, timeout_seconds: float) -> tuple[list[Advertisement], list[str]]:
    """All services, including stale ones, and a sentence for each record that cannot be read.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    advertisements: list[Advertisement] = []
    unreadable: list[str] = []
    with KeyedTopic(cluster, SERVICES_TOPIC, timeout_seconds=timeout_seconds) as topic:
        for record in topic.newest() or ():
            try:
                advertisements.append(
                    topic.parse(record, partial(Advertisement.from_json, seen_ms=record.timestamp_ms))
                )
            except CorruptRecord as error:
                unreadable.append(str(error))
    return advertisements, unreadable


class ServiceLog:
    """One service's own record on one cluster; the first one creates the topic.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
        StateTopicInvalid: from :meth:`renew`, the topic exists and cannot be used.
    """

    def __init__(self, cluster: ClusterSettings, replication_factor: int, *, timeout_seconds: float = 30.0) -> None:
        self._topic = KeyedTopic(cluster, SERVICES_TOPIC, timeout_seconds=timeout_seconds)
        self._replication_factor = replication_factor
        self._timeout = timeout_seconds
        self._ensured = self._written = False

    def renew(self, service: Advertisement) -> None:
        if not self._ensured:
            ensure_topics(
                self._topic.cluster, [services_topic(self._replication_factor)], timeout_seconds=self._timeout
            )
        self._ensured = self._written = True
        try:
            self._write(service.url, service.to_json())
        except ClusterError:
            self._ensured = False  # the topic may have been deleted: the next renewal checks
            raise

    def withdraw(self, service: Advertisement) -> None:
        """Delete the record of a service that ends; does nothing if it was never written."""
        if self._written:
            self._write(service.url, None)

    def _write(self, key: str, document: Mapping[str, Any] | None) -> None:
        self._topic.write(f"write to {SERVICES_TOPIC}", [self._topic.record(key, document)])
