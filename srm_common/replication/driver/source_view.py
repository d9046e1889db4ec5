"""The driver's queries to the source: end offsets, start offsets and topic ids of many partitions, one request per
broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link import LATEST, ClusterLink, LogOffset, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.log import log_facts
from srm_common.kafka.log.topic_ids import id_text, topic_ids
from srm_common.kafka.transactions.hanging_transactions import holders
from srm_common.replication.driver.log_identity import EpochEnds

#: How long one listing waits for partitions without a leader before it answers without them.
LISTING_SECONDS = 5.0
_COMMAND_SECONDS = 10.0

Listed = tuple[dict[TopicPartition, int], dict[TopicPartition, str]]
"""Offsets found, and a sentence for each partition that has none."""


class SourceView(Closing):
    """Queries to the source cluster, over connections of their own. Close it at the end.

    Args:
        patience_seconds: how long to wait for the cluster's first response, and for topic ids; by default no longer
            than the user of a command should wait.
        pool: of the source's connections.

    All queries raise :class:`UnreachableCluster` when no broker responds and :class:`AccessDenied` for a refused login.
    """

    def __init__(
        self, flow: FlowSettings, *, patience_seconds: float = _COMMAND_SECONDS, pool: LinkPool | None = None
    ) -> None:
        self._read_committed = flow.read_committed
        self._patience = patience_seconds
        self._link = ClusterLink(flow.source, part="driver", request_timeout_ms=flow.request_timeout_ms, pool=pool)

    def ends(self, partitions: Iterable[TopicPartition]) -> Listed:
        """Up to where records can be read now: the last stable offsets, or the high watermarks for flows that read
        uncommitted."""
        return self._listed_ends(partitions, self._read_committed)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Listed:
        """Where the logs end."""
        return self._listed_ends(partitions, False)

    def _listed_ends(self, partitions: Iterable[TopicPartition], committed: bool) -> Listed:
        link, places = self._opened(), dict.fromkeys(partitions, LATEST)

        async def ask() -> tuple[dict[TopicPartition, LogOffset], dict[TopicPartition, str]]:
            await link.track({topic for topic, _ in places})
            return await link.listed(places, committed=committed, timeout_seconds=LISTING_SECONDS)

        ends, faults = link.run(ask)
        return {place: end.offset for place, end in ends.items()}, faults

    def held(self, ends: Mapping[TopicPartition, int]) -> Listed:
        """Where the logs end of partitions whose last stable offset still is the one in ``ends``, although records
        follow it: transactions are open there."""
        if not (ends and self._read_committed):
            return {}, {}
        # In this order: a transaction that ends in between holds nothing.
        highs, faults = self.high_watermarks(ends)
        stable, more = self.ends([place for place, high in highs.items() if high > ends[place]])
        return {place: highs[place] for place, end in stable.items() if end == ends[place]}, {**faults, **more}

    def holders(self, held: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, str | None]]:
        """As :func:`srm_common.kafka.transactions.hanging_transactions.holders`."""
        return self._link.run(lambda: holders(self._link, held)) if held else {}

    def starts(self, partitions: Iterable[TopicPartition]) -> Listed:
        """Where the logs begin."""
        return self._opened().start_offsets(partitions, timeout_seconds=LISTING_SECONDS)

    def at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Listed:
        """The first offsets at or after a time; -1 where there is none."""
        return self._opened().offsets_at(partitions, timestamp_ms, timeout_seconds=LISTING_SECONDS)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Ids as they are now, in Kafka's spelling; None for a topic that does not exist (any more)."""
        link = self._opened()
        return link.run(lambda: topic_ids(link, topics, self._patience))

    def partitions(self, topics: Iterable[str]) -> dict[str, frozenset[int]]:
        """The partitions of topics as they are now, including those without a leader; none for a topic that is gone."""
        link = self._opened()
        return link.run(lambda: link.know(topics))

    def _opened(self) -> ClusterLink:
        self._link.run(lambda: self._link.open(timeout_seconds=self._patience))
        return self._link

    def saw(self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str | None]) -> None:
        """Leaders of these epochs were seen, in the topics with these ids; answers of earlier ones are not believed."""
        for place, epoch in epochs.items():
            if self._is_of(place.topic, topic_ids.get(place.topic)):
                self._link.saw(place, epoch)

    def leader_epoch(self, place: TopicPartition) -> int:
        """The epoch of a partition's leader, by the metadata or by the listing of its end; -1 when it is not known."""
        return log_facts.leader_epoch(self._link, place)

    def leader_epoch_of(self, place: TopicPartition, topic_id: str | None) -> int:
        """The same, of the topic with this id; -1 also where what is known is of another one: the metadata may be from
        before it was created."""
        return self.leader_epoch(place) if self._is_of(place.topic, topic_id) else -1

    def _is_of(self, topic: str, topic_id: str | None) -> bool:
        """Whether the metadata have the topic with this id."""
        known = id_text(self._link.manager.cluster.topic_id(topic))
        return known == topic_id != NO_TOPIC_ID

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> EpochEnds:
        """Where leader epochs end in the logs of their partitions."""

        async def ask() -> EpochEnds:
            await self._link.open()
            await self._link.track({topic for topic, _ in epochs})
            deadline = time.monotonic() + LISTING_SECONDS
            ends, faults = await log_facts.epoch_ends(self._link, epochs)
            while faults and time.monotonic() < deadline:
                await self._link.loop.sleep(0.1)
                await self._link.refresh()
                more, faults = await log_facts.epoch_ends(self._link, {place: epochs[place] for place in faults})
                ends.update(more)
            return ends, faults

        return self._link.run(ask)

    def compacted(self, topics: Iterable[str]) -> dict[str, bool | None]:
        """Whether topics are compacted; None where that is unknown."""
        wanted = list(topics)

        async def ask() -> dict[str, bool | None]:
            try:
                return await log_facts.compaction(self._link, wanted)
            except RetriableFault:
                return dict.fromkeys(wanted)

        return self._link.run(ask)

    def close(self) -> None:
        """End all connections."""
        self._link.close()
