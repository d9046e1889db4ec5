"""Compares what was read with the log of a new leader, where Fetch does not: below version 12 (KIP-595).

As consumers do it (KIP-320): once under each leader, since a leader never truncates its own log, and a Fetch that names
the epoch of an earlier leader is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import SrmError
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey
from srm_common.kafka.client.protocol.fetch_request import FetchFrom
from srm_common.kafka.log.log_facts import epoch_ends, log_facts
from srm_common.wire.protocol import fetch


class Comparison(NamedTuple):
    """``parted``: what a broker that knows Fetch 12 would answer for partitions whose log is another one. ``faults``:
    why partitions could not be compared. All others may be fetched."""

    parted: list[fetch.FetchedPartition]
    faults: dict[TopicPartition, str | SrmError]


_EQUAL = Comparison([], {})


class ComparedLogs:
    """The logs of one cluster, for one reader."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link
        #: The epoch of the leader under which a log was found to be the one that was read.
        self._under: dict[TopicPartition, int] = {}

    def by_brokers(self, node: int) -> bool:
        """Whether a broker, which is connected, compares them with each Fetch. Otherwise leaders are to be read from: a
        follower may yet have to truncate its log."""
        return self._link.takes(node, ApiKey.FETCH, fetch.VERSION_BY_NAME)

    async def compare(self, wanted: Iterable[FetchFrom], node: int) -> Comparison:
        """Nothing is asked where the broker compares them with each Fetch.

        Args:
            wanted: what is about to be fetched from ``node``, which is connected.
        """
        if self.by_brokers(node):
            return _EQUAL
        read = {}
        for one in wanted:
            place = TopicPartition(one.topic, one.partition)
            if one.last_epoch >= 0 and self._under.get(place) != one.leader_epoch:
                read[place] = one
        if not read:
            return _EQUAL
        epochs = {place: one.last_epoch for place, one in read.items()}
        leading = {place: one.leader_epoch for place, one in read.items()}
        ends, unknown = await epoch_ends(self._link, epochs, leading)
        faults: dict[TopicPartition, str | SrmError] = {**unknown}
        parted = []
        for place, one in read.items():
            end = ends.get(place)
            if place in faults:
                continue
            if end is None or (end.epoch >= one.last_epoch and end.offset >= one.offset):
                self._under[place] = one.leader_epoch
                continue
            try:
                facts = await log_facts(self._link, place)
            except (RetriableFault, SrmError) as error:
                faults[place] = error if isinstance(error, SrmError) else str(error)
                continue
            parted.append(
                fetch.FetchedPartition(
                    *place, codes.NONE, facts.end, facts.end, facts.start, [], memoryview(b""),
                    diverging=(end.epoch, end.offset),
                )
            )  # fmt: skip
        return Comparison(parted, faults)
