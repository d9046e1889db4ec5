"""Whether a flow kept its promises: nothing lost, doubled or out of order, each offset translated, nothing unsaid."""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.domain.offsets.segments import Segment
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster import Record
from srm_common.wire.state.segments import decode_segment
from tests.simulation.load import Load, Partition, Written


class Wrong(Exception):
    """What a run promised and did not keep."""


@dataclass
class Judge:
    """Compares both clusters once everything is copied.

    ``told``: partitions of which a run has said that records were lost.
    """

    load: Load
    target: FakeCluster
    copies: dict[str, str]
    segments_topic: str
    told: set[Partition] = field(default_factory=set)

    def check(self) -> int:
        """How many records were compared. Raises Wrong."""
        maps = self._maps()
        count = 0
        for place, written in self.load.written.items():
            copied = self.target.records(self.copies[place[0]], place[1])
            pairs = self._pairs(place, written, copied)
            # The map of a log that was cut has both its past and what came in its place.
            if not self.load.cut_away[place]:
                self._check_map(place, maps.get(place, []), pairs)
            count += len(pairs)
        return count

    def _pairs(self, place: Partition, written: dict[int, Written], copied: list[Record]) -> list[tuple[int, int]]:
        """(upstream, downstream) offset of every copied record."""
        name = f"{place[0]}-{place[1]}"
        cut = {one.record.value: one for one in self.load.cut_away[place]}
        by_value = cut | {one.record.value: one for one in written.values()}
        last: Written | None = None
        seen: set[int] = set()
        pairs: list[tuple[int, int]] = []
        for record in copied:
            origin = by_value.get(record.value)
            if origin is None:
                raise Wrong(f"{name}: the record at {record.offset} of the copy was never written: {record.value!r}")
            offset = origin.record.offset
            if not origin.committed:
                raise Wrong(f"{name}: the record at {offset}, of an aborted transaction, is in the copy")
            if origin.number in seen:
                raise Wrong(f"{name}: the record at {offset} is in the copy twice")
            if last is not None and origin.number < last.number:
                raise Wrong(f"{name}: the record at {offset} comes after that at {last.record.offset} in the copy")
            if record[1:] != origin.record[1:]:
                raise Wrong(f"{name}: the record at {offset} was changed")
            last = origin
            seen.add(origin.number)
            pairs.append((offset, record.offset))
        deleted = self.load.deleted.get(place, 0)
        missing = [offset for offset, one in written.items() if one.committed and one.number not in seen]
        if any(offset >= deleted for offset in missing):
            raise Wrong(f"{name}: {len(missing)} records are not in the copy, from {missing[0]} on")
        missing = [offset for offset in missing if offset >= self.load.not_promised.get(place, 0)]
        if missing and place not in self.told:
            raise Wrong(f"{name}: {len(missing)} records were deleted before they were copied, and no run has said so")
        if any(one.number in seen for one in cut.values()) and place not in self.told:
            raise Wrong(f"{name}: the copy has records that the source has lost, and no run has said so")
        return pairs

    def _maps(self) -> dict[Partition, list[Segment]]:
        """The offset map, the newest segment for each key."""
        topic = self.segments_topic
        newest: dict[bytes, bytes | None] = {}
        for number in range(self.target.topics()[topic]):
            newest |= {record.key or b"": record.value for record in self.target.records(topic, number)}
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
