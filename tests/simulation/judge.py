"""Whether a flow kept its promises: nothing lost, doubled or out of order, each offset translated, nothing unsaid."""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.domain.offsets.segments import Segment
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster import Record
from srm_common.wire.segments import decode_segment
from tests.simulation.load import Load, Partition, Written


class Wrong(Exception):
    """What a run promised and did not keep."""


@dataclass
class Judge:
    """Compares both clusters once everything is copied.

    ``excused``: offsets at the source that need not be in the copy, since a run has said that they are lost.
    """

    load: Load
    target: FakeCluster
    copies: dict[str, str]
    segments_topic: str
    excused: dict[Partition, set[int]] = field(default_factory=dict)

    def check(self) -> int:
        """How many records were compared. Raises Wrong."""
        maps = self._maps()
        count = 0
        for place, written in self.load.written.items():
            copied = self.target.records(self.copies[place[0]], place[1])
            pairs = self._pairs(place, written, copied)
            self._check_map(place, maps.get(place, []), pairs)
            count += len(pairs)
        return count

    def _pairs(self, place: Partition, written: dict[int, Written], copied: list[Record]) -> list[tuple[int, int]]:
        """(upstream, downstream) offset of every copied record."""
        name = f"{place[0]}-{place[1]}"
        by_value = {one.record.value: one for one in written.values()}
        last = -1
        pairs: list[tuple[int, int]] = []
        for record in copied:
            origin = by_value.get(record.value)
            if origin is None:
                raise Wrong(
                    f"{name}: the copy has a record at {record.offset} that was never written: {record.value!r}"
                )
            offset = origin.record.offset
            if not origin.committed:
                raise Wrong(f"{name}: the record at {offset}, of an aborted transaction, is in the copy")
            if offset == last or any(offset == up for up, _ in pairs[-3:]):
                raise Wrong(f"{name}: the record at {offset} is in the copy twice")
            if offset < last:
                raise Wrong(f"{name}: the record at {offset} comes after that at {last} in the copy")
            if record._replace(offset=offset) != origin.record:
                raise Wrong(f"{name}: the record at {offset} was changed")
            last = offset
            pairs.append((offset, record.offset))
        there = {up for up, _ in pairs}
        excused = self.excused.get(place, set())
        missing = [offset for offset, one in written.items() if one.committed and offset not in there | excused]
        if missing:
            raise Wrong(f"{name}: {len(missing)} records are not in the copy, from {missing[0]} on")
        return pairs

    def _maps(self) -> dict[Partition, list[Segment]]:
        """The offset map, the newest segment for each key."""
        topic = self.segments_topic
        newest: dict[bytes, bytes | None] = {}
        for number in range(self.target.topics()[topic]):
            newest |= {one.key or b"": one.value for one in self.target.records(topic, number)}
        found: dict[Partition, list[Segment]] = {}
        for key, value in newest.items():
            if value is not None:
                segment = decode_segment(key, value)
                found.setdefault((segment.topic, segment.partition), []).append(segment)
        return {place: sorted(some, key=lambda one: one.upstream_start) for place, some in found.items()}

    @staticmethod
    def _check_map(place: Partition, segments: list[Segment], pairs: list[tuple[int, int]]) -> None:
        name = f"{place[0]}-{place[1]}"
        rest = iter(pairs)
        pair = next(rest, None)
        end = 0
        for segment in segments:
            if segment.upstream_start < end:
                raise Wrong(f"{name}: segments of the map overlap at {segment.upstream_start}")
            end = segment.upstream_end
            for run in segment.runs:
                counted = 0
                while pair is not None and pair[0] < run.upstream_end:
                    up, down = pair
                    if up < run.upstream:
                        raise Wrong(f"{name}: the record at {up} lies between two runs of the map")
                    distance = up - run.upstream if run.dense else counted
                    if down != run.downstream + distance:
                        raise Wrong(f"{name}: the record at {up} is at {down}, not where the map says")
                    counted += 1
                    pair = next(rest, None)
                if counted != run.length:
                    raise Wrong(f"{name}: the map has {run.length} records from {run.upstream} on, the copy {counted}")
        if pair is not None:
            raise Wrong(f"{name}: no segment of the map covers the record at {pair[0]}")
