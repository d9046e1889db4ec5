"""The replica from which each partition is read: its leader, or the one that the leader named (KIP-392).

The rules of Java's consumer: a named replica is used until the metadata expires or the replica fails; then the leader
is queried again. A leader names a replica by its ``replica.selector.class`` and the reader's ``client.rack``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink

_METADATA_MAX_AGE_MS = 300_000
#: How long a partition is read from its leader after its replica failed; the leader is asked without a rack.
_LEADER_SECONDS = 5.0


@dataclass(slots=True)
class _Choice:
    node: int
    until: float


class PreferredReplicas:
    """The replicas of one reader of one cluster."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        age_ms = link.settings.kafka_python.get("metadata_max_age_ms", _METADATA_MAX_AGE_MS)
        self._keep_seconds = float(age_ms) / 1000
        self._choices: dict[TopicPartition, _Choice] = {}
        self._leader_until: dict[TopicPartition, float] = {}

    def node(self, place: TopicPartition) -> int | None:
        """Where to read a partition now; None when it has no leader."""
        leader = self._link.leader(*place)
        if not self._choices:
            return leader
        choice = self._choices.get(place)
        if choice is None or leader is None:
            return leader
        if choice.until < time.monotonic() or self._link.manager.cluster.broker_metadata(choice.node) is None:
            del self._choices[place]
            return leader
        return choice.node

    def named(self, place: TopicPartition, node: int) -> None:
        """The leader wants the partition to be read from ``node``.

        A node that is not in the metadata, such as one that has just come back, is looked up first; until then the
        leader is asked without a rack, since it would only name the node again.
        """
        if self._link.manager.cluster.broker_metadata(node) is None:
            self._leader_until[place] = time.monotonic() + _LEADER_SECONDS
            self._link.manager.cluster.request_update()
        else:
            self._choices[place] = _Choice(node, time.monotonic() + self._keep_seconds)

    def failed(self, place: TopicPartition) -> bool:
        """The partition's replica did not deliver. True when the leader will be asked next; False when it was the
        leader that failed."""
        if self._choices.pop(place, None) is None:
            return False
        self._leader_until[place] = time.monotonic() + _LEADER_SECONDS
        return True

    def rack(self, places: Iterable[TopicPartition]) -> str:
        """The rack to send to a broker in a request for these partitions."""
        if self._leader_until:
            now = time.monotonic()
            self._leader_until = {place: until for place, until in self._leader_until.items() if until > now}
            if not self._leader_until.keys().isdisjoint(places):
                return ""
        return self._link.settings.rack
