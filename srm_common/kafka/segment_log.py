"""The offset map as it lies in the segments topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from srm_common.domain.segments import Segment
from srm_common.domain.translation import Translation, Unmapped, current_map, translate
from srm_common.errors import CorruptRecord
from srm_common.kafka.compacted import EARLIEST, LATEST, StateReader, last_of_each_key
from srm_common.wire.segments import decode_segment, segment_partition

Partition = tuple[str, int]


@dataclass
class SegmentBatch:
    """Live segments of a stretch of the log, by source partition in the order of their commits.

    ``unreadable`` has one sentence for each record that is not a segment we know.
    """

    segments: dict[Partition, list[Segment]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(found) for found in self.segments.values())


class SegmentLog:
    """Reads the topic in stretches and translates with what was read; more is read only where it is needed.

    A long-lived flow has hundreds of thousands of segments, while nearly all groups stand in the newest few: a
    caller who remembers how far he has read last time reads the news, and the history of single partitions only
    for groups that moved within it.
    """

    def __init__(self, reader: StateReader, topic: str, partitions: int) -> None:
        self._reader = reader
        self._topic = topic
        self._partitions = partitions
        self._ends: dict[int, int] = {}
        self._news = SegmentBatch()
        self._maps: dict[Partition, list[Segment]] = {}
        self._starts: dict[Partition, list[int]] = {}
        self._complete: set[int] = set()

    def read_news(self, positions: Mapping[int, int]) -> tuple[SegmentBatch, dict[int, int]]:
        """What was committed since ``positions`` (partition -> next offset), and the positions after it.

        A partition that is not named is read from its start, and so is one whose log ends before its position:
        the topic was made anew.
        """
        wanted = range(self._partitions)
        ends = self._reader.offsets(self._topic, wanted, LATEST)
        earliest = self._reader.offsets(self._topic, wanted, EARLIEST)
        starts = {}
        for partition in wanted:
            start = positions.get(partition, 0)
            starts[partition] = start if earliest[partition] < start <= ends[partition] else 0
        self._ends = ends
        self._complete = {partition for partition, start in starts.items() if not start}
        self._news = self._read(starts, ends)
        self._maps = {place: current_map(found) for place, found in self._news.segments.items()}
        self._starts = {}
        return self._news, ends

    def translate(self, topic: str, partition: int, position: int) -> Translation:
        """The downstream place of a position, by the news where they reach back so far, else by all there is."""
        home = segment_partition(topic, partition, self._partitions)
        known = self._maps.get((topic, partition))
        if home not in self._complete and (not known or position < known[0].upstream_start):
            self._complete_partition(home)
            known = self._maps.get((topic, partition))
        if not known:
            return Unmapped("nothing of this partition was copied yet")
        starts = self._starts.get((topic, partition))
        if starts is None:
            starts = self._starts[topic, partition] = [segment.upstream_start for segment in known]
        return translate(known, position, starts=starts)

    def has_news(self, topic: str, partition: int) -> bool:
        """Whether anything of the partition was committed since the positions given."""
        return bool(self._news.segments.get((topic, partition)))

    def read_all(self) -> SegmentBatch:
        """The whole map."""
        return self._read(None, self._reader.offsets(self._topic, range(self._partitions), LATEST))

    def _complete_partition(self, home: int) -> None:
        """Read all of it: what the news replaced or dropped must not be taken from the older part."""
        self._complete.add(home)
        for place, found in self._read(None, {home: self._ends[home]}).segments.items():
            self._maps[place] = current_map(found)
            self._starts.pop(place, None)

    def _read(self, starts: Mapping[int, int] | None, ends: Mapping[int, int]) -> SegmentBatch:
        batch = SegmentBatch()
        for record in last_of_each_key(self._reader.read(self._topic, starts, ends)).values():
            if record.value is None:
                continue
            try:
                segment = decode_segment(record.key, record.value)
            except CorruptRecord as error:
                batch.unreadable.append(f"{self._topic}-{record.partition} at offset {record.offset}: {error}")
                continue
            batch.segments[segment.topic, segment.partition].append(segment)
        return batch
