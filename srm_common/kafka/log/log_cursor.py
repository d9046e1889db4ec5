"""A partition's log, read forward batch by batch on request, so that two logs can be compared without holding
either."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.log.committed_log import PartitionReading
from srm_common.wire.batches.batch import SourceBatch


def batches_between(
    link: ClusterLink,
    place: TopicPartition,
    start: int,
    end: int,
    *,
    committed: bool,
    patience_seconds: float,
    fetch_bytes: int,
    leases: dict[int, Lease],
) -> Iterator[SourceBatch]:
    """The batches of records from ``start`` on that begin before ``end``, in log order; each is valid until the next
    one is requested.

    Args:
        start: as it was listed; what retention has removed since is skipped.
        end: at most the last stable offset, or the high watermark where not ``committed``.
        committed: leave out what was aborted.
        patience_seconds: how long the partition may return nothing.
        fetch_bytes: the most bytes of an answer.
        leases: receive buffers by node, which all readings of a link share, one after the other.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, CorruptBatch: as
            :func:`~srm_common.kafka.log.committed_log.read_committed` does.
    """
    if start >= end:
        return
    reading = PartitionReading(link, place, start, end, patience_seconds, committed, fetch_bytes, leases)
    while (answer := reading.next_answer()) is not None:
        for batch in answer:
            if batch.header.next_offset > start and batch.header.base_offset < end:
                yield batch
