"""Reads a copy that the offset map covers: uncommitted, looking up markers only for records that the map does not
cover. A chunk's record in the map was committed with its records, so their marker need not be looked up: for large
transactions that would mean reading the log twice. A marker that is read anyway and contradicts this is reported.
"""

from __future__ import annotations

from typing import Protocol

from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import PartitionError, UnreachableCluster
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.committed_log import read_answers
from srm_common.kafka.log.transaction_markers import Marker, MarkerSearch, find_markers
from srm_common.wire.batches.batch import CONTROL, TRANSACTIONAL, SourceBatch, split, verify
from srm_common.wire.batches.visibility import fate


class MappedReader(Protocol):
    """A consumer of the log, in order."""

    def is_mapped(self, first: int, end: int) -> bool:
        """Whether a batch at these offsets, end exclusive, was committed according to the map."""

    def take(self, batch: SourceBatch) -> None:
        """A batch that a read_committed consumer sees, or that is mapped; valid only during the call."""

    def take_row(self, records: memoryview, position: int, first: int) -> tuple[int, int]:
        """Take the batches from byte ``position`` on as far as they can be taken together: of one producer, and all
        mapped. Returns how many bytes, and the offset after them. The first has this offset, and is not a marker."""

    def aborted(self, first: int, last: int) -> None:
        """Mapped batches between these offsets, inclusive, belong to a transaction that was aborted."""


async def read_mapped(
    link: ClusterLink,
    place: TopicPartition,
    start: int,
    end: int,
    reader: MappedReader,
    *,
    patience_seconds: float,
    fetch_bytes: int,
) -> None:
    """Show the log from ``start`` to ``end``, which is at most its last stable offset.

    Args:
        patience_seconds: how long the partition may return nothing.
        fetch_bytes: the most bytes of an answer.

    Raises:
        UnreachableCluster: it returned nothing for that long, or a marker cannot be found.
        AccessDenied, ClusterError: the broker refuses, and would again.
        CorruptBatch: the log cannot be split into batches, or a marker cannot be read.
    """
    reading = _MappedReading(link, place, start, end, reader, patience_seconds)
    await read_answers(
        link,
        place.topic,
        {place.partition: start},
        {place.partition: end},
        reading.absorb,
        patience_seconds=patience_seconds,
        fetch_bytes=fetch_bytes,
    )


class _MappedReading:
    def __init__(
        self, link: ClusterLink, place: TopicPartition, start: int, end: int, reader: MappedReader, patience: float
    ) -> None:
        self._link = link
        self._place = place
        self._at = start
        self._end = end
        self._reader = reader
        self._patience = patience
        self._markers: dict[int, Marker] = {}
        #: Producer id -> offset of its first mapped batch since its last marker.
        self._mapped: dict[int, int] = {}

    async def absorb(self, partition: int, records: memoryview) -> int:
        """Read one response; returns the offset after it."""
        is_mapped, take, take_row, end = self._reader.is_mapped, self._reader.take, self._reader.take_row, self._end
        position = 0
        while (batch := next(split(records[position:]), None)) is not None:
            header = batch.header
            first, following, size = header.base_offset, header.next_offset, header.size
            attributes = header.attributes
            if following <= self._at:
                pass
            elif attributes & CONTROL:
                self._meet(batch)
            elif first < end and header.record_count:
                row, behind = take_row(records, position, first) if first >= self._at else (0, first)
                if row or is_mapped(first, following):
                    if attributes & TRANSACTIONAL:
                        self._mapped.setdefault(header.producer_id, first)
                    if row:
                        size, following = row, behind
                    else:
                        take(batch)
                elif not attributes & TRANSACTIONAL or not await self._is_aborted(records[position:]):
                    take(batch)
            self._at = max(self._at, following)
            position += size
        return self._at

    def _meet(self, marker: SourceBatch) -> None:
        verify(marker)
        header = marker.header
        first = self._mapped.get(header.producer_id)
        if first is not None:
            aborted = fate(marker)
            if aborted is not None:
                del self._mapped[header.producer_id]
            if aborted:
                self._reader.aborted(first, header.base_offset - 1)

    async def _is_aborted(self, records: memoryview) -> bool:
        """Whether the transaction of the first batch was aborted. While its data exists, compaction removes its marker
        only if it was committed (Kafka's ``CleanedTransactionMetadata``)."""
        header = next(split(records)).header
        producer, first = header.producer_id, header.base_offset
        known = self._markers.get(producer)
        if known is None or not known.follows(first):
            known, end = _next_marker(records, producer, first)
            if known is None:
                search = MarkerSearch(self._place, end, {producer: first})
                try:
                    await find_markers(self._link, [search], self._patience)
                    if search.fault is not None:
                        raise search.fault
                except PartitionError as error:
                    raise UnreachableCluster(str(error)) from error
                marker = search.found[producer]
                known = Marker(first, marker.offset, marker.aborted)
            self._markers[producer] = known
        return bool(known.aborted)


def _next_marker(records: memoryview, producer: int, first: int) -> tuple[Marker | None, int]:
    """The first marker of a producer from the offset ``first`` on, and the offset after what was searched. No more of
    the response is split than necessary: markers of small transactions are near."""
    end = first
    for batch in split(records):
        header = batch.header
        end = header.next_offset
        if header.attributes & CONTROL and header.producer_id == producer:
            verify(batch)
            aborted = fate(batch)
            if aborted is not None:
                return Marker(first, header.base_offset, aborted), end
    return None, end
