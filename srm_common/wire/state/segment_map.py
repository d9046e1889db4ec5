"""The segments of one source partition in log order, decoded one by one on access.

A flow that has run for long has a million segments; for most of them only their start is needed.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import overload

from srm_common.domain.offsets.joined_segments import LEAST_SEGMENTS, MOST_BODY_BYTES, Candidate, groups, joined
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.offsets.translation import Translation, Unmapped, translate
from srm_common.errors import CorruptRecord
from srm_common.wire.state.plain_records import Headers
from srm_common.wire.state.segments import (
    PLACE_BYTES,
    body_bytes,
    decode_segment_value,
    encode_joined,
    header_bytes,
    is_joined,
    joined_key,
    segment_headers,
    segment_key,
)

#: The fixed part of what is kept of a segment: place in the order of commits, downstream start, generation.
_STORED_HEAD = struct.Struct(">QQI")
_NONE = Segment("", 0, 0, 0, 0, 0, ())


class CommittedSegments(Sequence[Segment]):
    """The live segments of one source partition in the order of their commits, joined ones in the place of the last
    chunk that they hold.

    Args:
        unreadable: gets a sentence for each segment that turns out not to be readable when it is looked at; iteration
            passes over it.

    Raises:
        CorruptRecord: from asking for such a segment by its index.
    """

    def __init__(self, topic: str, partition: int, unreadable: list[str]) -> None:
        self.topic = topic
        self.partition = partition
        self._unreadable = unreadable
        # Values behind their places: a flow may have a million of them, so nothing is kept beside the bytes.
        self._values: dict[int, bytes] = {}
        self._joined: dict[tuple[int, int], bytes] = {}

    def put(self, upstream_start: int, value: bytes | None, place: int, headers: bytes = b"") -> None:
        """The log's next record, at the offset ``place``; None is a tombstone. Raises CorruptRecord for headers that
        cannot be read."""
        values = self._values
        if upstream_start in values:
            del values[upstream_start]
        if value is not None:
            values[upstream_start] = place.to_bytes(PLACE_BYTES, "big") + value + header_bytes(headers)

    def put_joined(self, upstream_start: int, value: bytes | None, place: int, headers: bytes = b"") -> None:
        """As :meth:`put`, for a joined segment that belongs at ``place``."""
        if value is None:
            self._joined.pop((upstream_start, place), None)
        else:
            self._joined[upstream_start, place] = place.to_bytes(PLACE_BYTES, "big") + value + header_bytes(headers)

    def items(self) -> Iterable[tuple[int, bytes]]:
        """Upstream starts and encoded values, each behind its place (8 bytes), without what a joined one holds."""
        if not self._joined:
            return self._values.items()
        found = [*self._values.items(), *((start, stored) for (start, _), stored in self._joined.items())]
        # Of those in one place the one that reaches back furthest comes last, and holds the others.
        found.sort(key=_place_and_start)
        out: list[tuple[int, bytes]] = []
        for start, stored in found:
            if is_joined(stored, PLACE_BYTES):
                while out and out[-1][0] >= start:
                    out.pop()
            out.append((start, stored))
        return out

    def record_keys(self) -> Iterator[bytes]:
        """The keys of all live records, also of those that a joined one holds."""
        for start in self._values:
            yield segment_key(self.topic, self.partition, start)
        for start, place in self._joined:
            yield joined_key(self.topic, self.partition, start, place)

    def __len__(self) -> int:
        return len(self._values) if not self._joined else len(list(self.items()))

    def __iter__(self) -> Iterator[Segment]:
        corrupt = []
        for start, stored in self.items():
            try:
                yield self._decoded(start, stored)
            except CorruptRecord as error:
                self._unreadable.append(str(error))
                corrupt.append((start, stored))
        for start, stored in corrupt:
            # By where it lies: damage may make the value of one kind look like the other's.
            if self._values.get(start) is stored:
                del self._values[start]
            else:
                self._joined.pop((start, int.from_bytes(stored[:PLACE_BYTES], "big")), None)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._decoded(*list(self.items())[index])

    def _decoded(self, start: int, stored: bytes) -> Segment:
        return decode_segment_value(self.topic, self.partition, start, stored[PLACE_BYTES:])


class SegmentMap(Sequence[Segment]):
    """What holds of one partition's segments, given in the order of their commits, ordered by upstream start.

    A later segment replaces what earlier ones say about its start and everything after it, on either side: the source
    topic was copied again, or the target's log was cut. What it leaves of an earlier segment keeps that one's spans;
    only ``upstream_end`` is cut. One of another generation replaces all: the source topic was created again, so that
    earlier offsets mean something else.

    Raises:
        CorruptRecord: from looking at a segment that cannot be read.
    """

    def __init__(self, committed: CommittedSegments) -> None:
        self._topic, self._partition = committed.topic, committed.partition
        self.starts: array[int] = array("Q")
        self.downstream_starts: array[int] = array("Q")
        self._values: list[bytes] = []
        self._looked_at: tuple[int, Segment] = (-1, _NONE)
        starts, downs, values = self.starts, self.downstream_starts, self._values
        generation = 0
        last_start = last_down = -1
        head = _STORED_HEAD.unpack_from
        for start, value in committed.items():
            _, down, own = head(value)
            if own != generation and own:
                if generation:
                    del starts[:], downs[:], values[:]
                    last_start = last_down = -1
                generation = own
            while start <= last_start or down <= last_down:
                starts.pop(), downs.pop(), values.pop()
                last_start, last_down = (starts[-1], downs[-1]) if starts else (-1, -1)
            starts.append(start)
            downs.append(down)
            values.append(value)
            last_start, last_down = start, down
        #: Of the source topic that the map is about; 0 where no segment tells.
        self.generation: int = generation

    def place(self, index: int) -> int:
        """A segment's position in the order of commits: its offset in the segments topic."""
        return int.from_bytes(self._values[index][:PLACE_BYTES], "big")

    def key(self, index: int) -> bytes:
        """The key of a segment's record."""
        start = self.starts[index]
        if is_joined(self._values[index], PLACE_BYTES):
            return joined_key(self._topic, self._partition, start, self.place(index))
        return segment_key(self._topic, self._partition, start)

    def body_bytes(self, index: int) -> int:
        """What a segment's runs take before compression."""
        return body_bytes(self._values[index], PLACE_BYTES)

    def left_behind(self, log_start: int) -> int:
        """How many of the oldest lie before ``log_start``, the first offset of the copy that is still there. The newest
        is never among them: it says where the copy ends."""
        # Where one begins at or before it, those before that one have ended.
        count = max(0, bisect_right(self.downstream_starts, log_start) - 1)
        if count < len(self) - 1:
            with suppress(CorruptRecord):  # what cannot be read is not known to be gone
                count += self[count].downstream_end <= log_start
        return count

    def translate(self, position: int, replicated_to: int | None = None) -> Translation:
        """As :func:`srm_common.domain.offsets.translation.translate`; a segment that cannot be read maps nothing."""
        try:
            return translate(
                self,
                position,
                starts=self.starts,
                downstream_starts=self.downstream_starts,
                replicated_to=replicated_to,
            )
        except CorruptRecord as error:
            return Unmapped(f"its place in the offset map cannot be read: {error}")

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self._values)
        if index == self._looked_at[0]:
            return self._looked_at[1]  # groups stand close together
        value = self._values[index][PLACE_BYTES:]
        segment = decode_segment_value(self._topic, self._partition, self.starts[index], value)
        if index + 1 < len(self._values) and segment.upstream_end > self.starts[index + 1]:
            segment = replace(segment, upstream_end=self.starts[index + 1])
        self._looked_at = index, segment
        return segment


def _place_and_start(item: tuple[int, bytes]) -> tuple[bytes, int]:
    return item[1][:PLACE_BYTES], -item[0]


# What keeps the map of one partition small: records to write to the segments topic, and keys to drop from it.


#: So many stay as they are: groups that keep up stand there, and one chunk is decoded sooner.
_NEWEST = 4


@dataclass(slots=True)
class MapChanges:
    """``written`` are joined segments (key, value and headers), which hold ``joined`` others. ``dropped`` are the keys
    of those, and of ``replaced`` ones that say nothing of the target's log any more; drop them after the first are
    written."""

    written: list[tuple[bytes, bytes, Headers]] = field(default_factory=list)
    dropped: list[bytes] = field(default_factory=list)
    joined: int = 0
    replaced: int = 0


def map_changes(
    committed: CommittedSegments, log_start: int, read_up_to: int, *, least: int = LEAST_SEGMENTS, newest: int = _NEWEST
) -> MapChanges:
    """What is to be done about one partition's segments.

    Args:
        log_start: the first offset of the copy that is still there.
        read_up_to: offset in the segments topic up to which incremental readers have read; later segments are not
            joined.
        least: fewer segments are not worth a record, unless they are large.
        newest: so many at the end of the map are not joined.
    """
    changes = MapChanges()
    known = SegmentMap(committed)
    gone = known.left_behind(log_start)
    live = {known.key(number) for number in range(gone, len(known))}
    changes.dropped += [key for key in committed.record_keys() if key not in live]
    changes.replaced = len(changes.dropped)
    for group in groups(_candidates(known, gone, read_up_to, newest), least):
        segment = joined([candidate.segment for candidate in group])
        key, value = encode_joined(segment, known.place(group[-1].number))
        changes.written.append((key, value, segment_headers(segment)))
        changes.dropped += [known.key(candidate.number) for candidate in group]
        changes.joined += len(group)
    return changes


def _candidates(known: SegmentMap, first: int, read_up_to: int, newest: int) -> Iterator[Candidate | None]:
    for number in range(first, len(known) - newest):
        size = known.body_bytes(number)
        # Half of the most cannot be joined with its like any more, and is not decoded again at each round.
        if size > MOST_BODY_BYTES // 2 or known.place(number) >= read_up_to:
            yield None
            continue
        try:
            yield Candidate(number, known[number], size)
        except CorruptRecord:  # reported when it is needed for a translation
            yield None
