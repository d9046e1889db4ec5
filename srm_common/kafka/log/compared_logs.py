"""Compares what was read with the log of a new leader, where Fetch does not: below version 12 (KIP-595).

As consumers do it (KIP-320): once under each leader. A leader never truncates its own log, and refuses a Fetch with the
epoch of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey
from srm_common.kafka.client.protocol.fetch_request import FetchFrom
from srm_common.kafka.log.log_facts import epoch_ends, log_facts
from srm_common.wire.protocol import fetch


class ComparedLogs:
    """The logs of one cluster, for one reader."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        #: The epoch of the leader under which a partition was compared last.
        self._under: dict[TopicPartition, int] = {}

    async def diverging(self, wanted: Iterable[FetchFrom], node: int) -> list[fetch.FetchedPartition]:
        """What a broker that knows Fetch 12 would answer for the partitions whose log is another one; none for brokers
        that know it. The others may be fetched.

        Args:
            wanted: what is about to be fetched from ``node``, which is connected.

        Raises:
            RetriableFault: a leader did not say where its epochs end.
            AccessDenied: the topic may not be seen.
        """
        if self._link.takes(node, ApiKey.FETCH, fetch.VERSION_BY_NAME):
            return []
        under: dict[TopicPartition, int] = {}
        read: dict[TopicPartition, FetchFrom] = {}
        for one in wanted:
            place = TopicPartition(one.topic, one.partition)
            if one.last_epoch >= 0 and self._under.get(place) != one.leader_epoch:
                under[place], read[place] = one.leader_epoch, one
        if not read:
            return []
        ends, faults = await epoch_ends(self._link, {place: one.last_epoch for place, one in read.items()})
        for fault in faults.values():
            raise RetriableFault(fault)
        self._under |= under
        found = []
        for place, one in read.items():
            end = ends.get(place)
            if end is not None and (end.epoch < one.last_epoch or end.offset < one.offset):
                facts = await log_facts(self._link, place)
                found.append(
                    fetch.FetchedPartition(
                        *place, codes.NONE, facts.end, facts.end, facts.start, [], memoryview(b""),
                        diverging=(end.epoch, end.offset),
                    )
                )  # fmt: skip
        return found
