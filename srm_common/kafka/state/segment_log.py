"""The offset map in the segments topic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from srm_common.domain.offsets.segments import Segment
from srm_common.domain.offsets.translation import Translation, translate
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.wire.state.segment_map import CommittedSegments, SegmentMap
from srm_common.wire.state.segments import (
    START_BYTES,
    VALUE_HEAD,
    decode_segment_key_prefix,
    place_of_key,
    plain_key,
    segment_partition,
)

#: How many offsets of the topic are held in memory at a time while the whole map is read: about 50 MB.
_PIECE = 300_000


@dataclass
class SegmentBatch:
    """Live segments of a stretch of the log, by source partition in the order of their commits.

    ``unreadable`` has one sentence for each record that is not a known kind of segment.
    """

    segments: dict[TopicPartition, CommittedSegments] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    _places: dict[bytes, CommittedSegments | None] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return sum(len(found) for found in self.segments.values())

    def put(self, key: bytes, value: bytes | None, offset: int, headers: bytes = b"") -> None:
        """The log's next record, which is at ``offset``; ``headers`` from their number on. Raises CorruptRecord if it
        is not a segment."""
        place = place_of_key(key)
        key = plain_key(key)
        prefix = key[:-START_BYTES]
        segments = self._places.get(prefix)
        if segments is None:
            of = decode_segment_key_prefix(prefix)
            segments = self._places[prefix] = self.segments.setdefault(of, CommittedSegments(*of, self.unreadable))
        if value is not None and len(value) <= VALUE_HEAD.size:
            raise CorruptRecord(f"the segment of {segments.topic}-{segments.partition} ends too early")
        start = int.from_bytes(key[-START_BYTES:], "big")
        if place is None:
            segments.put(start, value, offset, headers)
        else:
            segments.put_joined(start, value, place, headers)


class SegmentLog:
    """Reads the topic in stretches and translates with what was read; more is read only where it is needed.

    A long-lived flow has hundreds of thousands of segments, while nearly all groups are in the newest few. A caller
    that remembers how far it read last time reads only what is new, and the history of single partitions only for
    groups that moved within it. :meth:`read_new` has to be called before anything is asked about a partition.

    Args:
        partitions: of the topic; 0 where it does not exist.
    """

    def __init__(self, reader: StateReader, topic: str, partitions: int) -> None:
        self._reader = reader
        self._topic = topic
        self._partitions = partitions
        self._ends: dict[int, int] = {}
        self._news = SegmentBatch()
        self._maps: dict[TopicPartition, SegmentMap] = {}
        self._complete: set[int] = set()

    def read_new(self, positions: Mapping[int, int]) -> tuple[SegmentBatch, dict[int, int]]:
        """What was committed since ``positions`` (partition -> next offset), and the positions after it.

        A partition that is not named is read from its start, and so is one whose log ends before its position:
        the topic was re-created.
        """
        wanted = range(self._partitions)
        with self._reader.session() as reader:
            ends = reader.offsets(self._topic, wanted, LATEST)
            earliest = reader.offsets(self._topic, wanted, EARLIEST)
            starts = {}
            for partition in wanted:
                start = positions.get(partition, 0)
                starts[partition] = start if earliest[partition] < start <= ends[partition] else 0
            self._ends = ends
            self._complete = {partition for partition, start in starts.items() if not start}
            self._news = self._read(starts, ends, reader)
        self._maps = {}
        return self._news, ends

    def translate(self, topic: str, partition: int, position: int, replicated_to: int | None = None) -> Translation:
        """The downstream offset of a position, by the new segments if they reach back that far, else by the whole map.

        Args:
            replicated_to: the flow's committed next offset, where known.
        """
        known = self._map(topic, partition)
        if not known or position < known.starts[0]:
            known = self.complete_map(topic, partition)
        if known is None:
            return translate((), position, replicated_to=replicated_to)
        return known.translate(position, replicated_to)

    def complete_map(self, topic: str, partition: int) -> SegmentMap | None:
        """The whole map of a partition, None where there is none."""
        if self._partitions:
            home = segment_partition(topic, partition, self._partitions)
            if home not in self._complete:
                self._complete_partition(home)
        return self._map(topic, partition)

    def newest(self, topic: str, partition: int) -> Segment | None:
        """The last segment of a partition, which tells the end and the generation of the copy."""
        known = self._map(topic, partition) or self.complete_map(topic, partition)
        return known[-1] if known else None

    def read_all(self) -> SegmentBatch:
        """The whole map."""
        with self._reader.session() as reader:
            return self._read({}, reader.offsets(self._topic, range(self._partitions), LATEST), reader)

    def pieces(self, homes: Collection[int] | None = None) -> Iterator[tuple[SegmentBatch, dict[int, int]]]:
        """The whole map, or the part in partitions ``homes`` of the topic: some partitions at a time, with the ends up
        to which they were read."""
        wanted = range(self._partitions) if homes is None else sorted(homes)
        ends = self._reader.offsets(self._topic, wanted, LATEST)
        earliest = self._reader.offsets(self._topic, wanted, EARLIEST)
        piece: dict[int, int] = {}
        size = 0
        for home in wanted:
            length = ends[home] - earliest[home]
            if piece and size + length > _PIECE:
                yield self._read({}, piece), piece
                piece, size = {}, 0
            if length:
                piece[home] = ends[home]
                size += length
        if piece:
            yield self._read({}, piece), piece

    def maps(self, of: Collection[TopicPartition] | None = None) -> Iterator[tuple[TopicPartition, SegmentMap]]:
        """The maps of all source partitions, or of these, as far as they have one; only some are in memory at a time,
        and nothing is decoded."""
        homes = None
        if of is not None:
            homes = {segment_partition(*place, self._partitions) for place in of} if self._partitions else set()
        for batch, _ in self.pieces(homes):
            for place, committed in batch.segments.items():
                if of is None or place in of:
                    segment_map = SegmentMap(committed)
                    if segment_map:
                        yield place, segment_map

    def keys_since(self, starts: Mapping[int, int]) -> dict[int, set[bytes]]:
        """The keys that were written since, by partition; partitions held back by an open transaction are left out."""
        with self._reader.session() as reader:
            stable = reader.offsets(self._topic, starts, LATEST)
            marks = reader.offsets(self._topic, starts, LATEST, committed=False)
            ends = {home: end for home, end in marks.items() if stable[home] == end}
            records = reader.read(self._topic, starts, ends)
        keys: dict[int, set[bytes]] = {home: set() for home in ends}
        for record in records:
            if record.key is not None:
                keys[record.partition].add(record.key)
        return keys

    def _map(self, topic: str, partition: int) -> SegmentMap | None:
        segment_map = self._maps.get(TopicPartition(topic, partition))
        if segment_map is None:
            committed = self._news.segments.get(TopicPartition(topic, partition))
            if committed:
                segment_map = self._maps[TopicPartition(topic, partition)] = SegmentMap(committed)
        return segment_map

    def _complete_partition(self, home: int) -> None:
        """Read all of it, since newer records may have replaced or deleted older ones."""
        self._complete.add(home)
        for place, segments in self._read({}, {home: self._ends[home]}).segments.items():
            self._maps[place] = SegmentMap(segments)

    def _read(
        self, starts: Mapping[int, int], ends: Mapping[int, int], reader: StateReader | None = None
    ) -> SegmentBatch:
        batch = SegmentBatch()

        def take(record: LogRecord) -> None:
            assert record.key is not None
            if starts.get(record.partition) and place_of_key(record.key) is not None:
                return  # its content was committed before the stretch, and is not new
            try:
                batch.put(record.key, record.value, record.offset, record.headers)
            except CorruptRecord as error:
                batch.unreadable.append(f"{self._topic}-{record.partition} at offset {record.offset}: {error}")

        (reader or self._reader).read_by_markers(self._topic, starts, ends, take)
        return batch
