"""Many segments of one source partition as they lie in the log, decoded one by one when they are looked at.

A flow that has run for long has a million segments; of most of them nobody wants to know more than where they start.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import overload

from srm_common.domain.offsets.segments import Segment
from srm_common.domain.offsets.translation import Translation, Unmapped, translate
from srm_common.errors import CorruptRecord
from srm_common.wire.segments import VALUE_HEAD, decode_segment_value

_NONE = Segment("", 0, 0, 0, 0, 0, ())


class CommittedSegments(Sequence[Segment]):
    """The live segments of one source partition in the order of their commits.

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
        self._values: dict[int, bytes] = {}

    def put(self, upstream_start: int, value: bytes | None) -> None:
        """The log's next record; None is a tombstone."""
        values = self._values
        if upstream_start in values:
            del values[upstream_start]
        if value is not None:
            values[upstream_start] = value

    def items(self) -> Iterable[tuple[int, bytes]]:
        """Upstream starts and encoded values."""
        return self._values.items()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Segment]:
        corrupt = []
        for start in self._values:
            try:
                yield self._decoded(start)
            except CorruptRecord as error:
                self._unreadable.append(str(error))
                corrupt.append(start)
        for start in corrupt:
            del self._values[start]

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        if isinstance(index, slice):
            return list(self)[index]
        return self._decoded(next(reversed(self._values)) if index == -1 else list(self._values)[index])

    def _decoded(self, start: int) -> Segment:
        return decode_segment_value(self.topic, self.partition, start, self._values[start])


class SegmentMap(Sequence[Segment]):
    """What holds of the segments, ordered by upstream start: :func:`srm_common.domain.offsets.translation.current_map`.

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
        head = VALUE_HEAD.unpack_from
        for start, value in committed.items():
            down, own = head(value)
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
        segment = decode_segment_value(self._topic, self._partition, self.starts[index], self._values[index])
        if index + 1 < len(self._values) and segment.upstream_end > self.starts[index + 1]:
            segment = replace(segment, upstream_end=self.starts[index + 1])
        self._looked_at = index, segment
        return segment
