"""Records in a copy that the flow did not write: those that the offset map does not cover.

In a copy that only its flow writes to, every offset is a record of some run of the map, or the marker of one of the
flow's transactions, or was aborted. So whatever can be read between the runs came from another writer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.verification.map_gaps import GapKind, gap_behind


def foreign_record(sentence: str | None, checked_ms: int) -> dict[str, Any]:
    """For the flow's state. ``sentence`` is None where nothing was found; ``checked_ms`` in epoch milliseconds."""
    return {"sentence": sentence, "checked_ms": checked_ms}


def foreign_from(record: Any) -> str | None:
    """The sentence; None where there is none, or no record that can be read."""
    sentence = record.get("sentence") if isinstance(record, dict) else None
    return sentence if isinstance(sentence, str) else None


@dataclass(frozen=True, slots=True)
class ForeignRecords:
    """Records of a copy that the flow did not write: ``records`` in the offsets ``first`` to ``last``, with timestamps
    from ``first_ms`` to ``last_ms``; None where they lie among the flow's own, so that they cannot be counted.
    ``unmapped``: the source has a part there that no map tells of, and MirrorMaker 2 may have copied it."""

    topic: str
    partition: int
    first: int
    last: int
    records: int | None
    first_ms: int | None = None
    last_ms: int | None = None
    unmapped: bool = False

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}, offsets {self.first} to {self.last}"
        if self.records is None:
            return f"{where}: records of another writer are among the flow's own"
        many = f"{self.records} record" + ("" if self.records == 1 else "s")
        return f"{where}: {many} that the flow did not write" + (
            ", unless MirrorMaker 2 copied them" if self.unmapped else ""
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "first": self.first,
            "last": self.last,
            "records": self.records,
            "first_ms": self.first_ms,
            "last_ms": self.last_ms,
            "unmapped": self.unmapped,
        }


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of the copy outside all runs. ``unmapped``: the source's log has a gap there, too."""

    offsets: LogRange
    unmapped: bool = False


def suspicious_gaps(segments: Iterable[Segment], log: LogRange, *, exactly_once: bool) -> Iterator[Gap]:
    """The gaps of one partition's map in which records of others may lie, oldest first.

    Records before the beginning of the map are not reported, nor those that the flow has copied again since.

    Args:
        segments: the current map, in order.
        log: the copy's.
        exactly_once: chunks are transactions, so that one offset behind each is its marker.
    """
    before: Segment | None = None
    marker = 1 if exactly_once else 0
    for segment in segments:
        if before is not None:
            gap = gap_behind(before, segment.after, segment.upstream_start)
            end = max(before.downstream_end, gap.own_end)
            jumps = segment.downstream_start - end > marker
            offsets = _within(end, segment.downstream_start, log) if jumps else None
            if offsets is not None:
                unmapped = gap.kind is GapKind.UNKNOWN and segment.upstream_start > before.upstream_end
                yield Gap(offsets, unmapped)
        end = segment.downstream_start
        # Chunks were joined only where nothing but their markers lay between them.
        inner = 1 if segment.joined else 0
        for run in segment.runs:
            offsets = _within(end, run.downstream, log) if run.downstream - end > inner else None
            if offsets is not None:
                yield Gap(offsets)
            end = run.downstream_end
        before = segment
    # Without transactions a chunk may be seen before its segment is.
    if before is not None and exactly_once and log.end - before.downstream_end > marker:
        offsets = _within(before.downstream_end, log.end, log)
        if offsets is not None:
            yield Gap(offsets, unmapped=True)


def come_again(records: Iterable[Hashable], following: Iterable[Hashable]) -> bool:
    """Whether the ``records`` of a gap are beginnings of what lies behind it, one after the other. A flow that copies
    at least once leaves them where it was interrupted between a chunk and its commit, each time that it was."""
    places: dict[Hashable, int] = {}
    for number, record in enumerate(following):
        places[record] = places.get(record, 0) | 1 << number
    # Of each bit: so many records of a beginning have come. Any record may be the first of another one.
    come = 0
    for record in records:
        come = (come << 1 | 1) & places.get(record, 0)
        if not come:
            return False
    return True


def mixed_runs(segments: Iterable[Segment], log: LogRange) -> Iterator[LogRange]:
    """Stretches of the copy in which the flow's records and others lie among one another."""
    for segment in segments:
        for run in segment.runs:
            offsets = _within(run.downstream, run.downstream_end, log) if run.foreign else None
            if offsets is not None:
                yield offsets


def _within(start: int, end: int, log: LogRange) -> LogRange | None:
    start, end = max(start, log.start), min(end, log.end)
    return LogRange(start, end) if start < end else None
