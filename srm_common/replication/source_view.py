"""What the driver asks the source: ends, starts and topic ids of many partitions, one request a broker
each."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from srm_common.domain.flow import FlowSettings
from srm_common.kafka.link import ClusterLink, Partition

#: How long one listing waits for partitions without a leader before it answers without them.
LISTING_SECONDS = 5.0

Listed = tuple[dict[Partition, int], dict[Partition, str]]
"""Offsets found, and a sentence for each partition that has none."""


class SourceView:
    """A connection to the source cluster for questions. Close it at the end.

    All questions raise :class:`UnreachableCluster` when no broker answers and :class:`AccessDenied` for a
    refused login.
    """

    def __init__(self, flow: FlowSettings) -> None:
        self._read_committed = flow.read_committed
        self._link = ClusterLink(flow.source, client_id="srm-driver", request_timeout_ms=flow.request_timeout_ms)

    def ends(self, partitions: Iterable[Partition]) -> Listed:
        """Where reading can go to now: the last stable offsets, or high watermarks of an uncommitted
        reader."""
        return self._link.end_offsets(partitions, committed=self._read_committed, timeout_seconds=LISTING_SECONDS)

    def high_watermarks(self, partitions: Iterable[Partition]) -> Listed:
        """Where the logs end."""
        return self._link.end_offsets(partitions, committed=False, timeout_seconds=LISTING_SECONDS)

    def starts(self, partitions: Iterable[Partition]) -> Listed:
        """Where the logs begin."""
        return self._link.start_offsets(partitions, timeout_seconds=LISTING_SECONDS)

    def at(self, partitions: Iterable[Partition], timestamp_ms: int) -> Listed:
        """The first offsets at or after a time; -1 where there is none."""
        return self._link.offsets_at(partitions, timestamp_ms, timeout_seconds=LISTING_SECONDS)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Ids as they are now, in Kafka's spelling; None for a topic that does not exist (any more)."""
        wanted = list(topics)

        async def ask() -> None:
            await self._link.open()
            await self._link.track(wanted)
            await self._link.refresh()

        self._link.run(ask)
        cluster = self._link.manager.cluster
        found: dict[str, str | None] = {}
        for topic in wanted:
            known = cluster.topic_id(topic) if cluster.partitions_for_topic(topic) else None
            found[topic] = None if known is None else base64.urlsafe_b64encode(known.bytes).rstrip(b"=").decode()
        return found

    def close(self) -> None:
        """End all connections."""
        self._link.close()

    def __enter__(self) -> SourceView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
