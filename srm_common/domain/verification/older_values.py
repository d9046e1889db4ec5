"""Compares each record of a compacted copy with the source, where that still has it.

    source  [ 10:a1 ][ 12:a2 ]           11 is compacted away
    map     [ 10 .. 12 ) -> [ 70 .. 72 )
    copy    [ 70:a1 ][ 71:b1 ][ 72:a2 ]  70 has to be what 10 is, and 72 what 12 is; of 71 the source says nothing

What cleaners leave on either side is a part of what was copied, at the offsets that it had. So a record of the copy has
to be the one that the map says, unless the source has none there any more. Between neighbours of the map only the flow
has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings
from srm_common.domain.verification.map_gaps import GapKind, gap_behind
from srm_common.domain.verification.named_keys import NamedKeys
from srm_common.domain.verification.source_comparison import ComparedBatch, LogRecord
from srm_common.domain.verification.unmapped_batches import CopyTraits

#: With so many differences the rest is not looked at.
_MOST = 10_000


class MappedOffsets(NamedTuple):
    """Downstream offsets, the end exclusive, and how far behind their upstream ones lie; None where only others
    can have written."""

    start: int
    end: int
    shift: int | None


def mapped_offsets(segments: Iterable[Segment], copy: LogRange, traits: CopyTraits) -> Iterator[MappedOffsets]:
    """What the map says exactly of a copy, in order.

    Args:
        segments: all of them.
        copy: its log, as it was before the map was read.
    """
    before: Segment | None = None
    for segment in segments:
        if before is not None:
            yield from _runs(before, segment.downstream_start)
            yield from _between(
                before, segment.after, segment.upstream_start, segment.downstream_start, traits.both_ways
            )
        if segment.downstream_start >= copy.end:
            return
        before = segment
    if before is not None:
        yield from _runs(before, before.downstream_end)
        if traits.exactly_once:  # else a chunk may be seen before its segment is
            yield from _between(before, traits.copied_to, traits.position, copy.end, traits.both_ways)


def _runs(segment: Segment, following: int) -> Iterator[MappedOffsets]:
    if following < segment.downstream_end or segment.runs[-1].upstream_end > segment.upstream_end:
        return  # the next one took a part of it
    for run in segment.runs:
        if run.dense and not run.foreign:
            yield MappedOffsets(run.downstream, run.downstream_end, run.upstream - run.downstream)


def _between(
    before: Segment, after: CopiedTo | None, position: int | None, end: int, both_ways: bool
) -> Iterator[MappedOffsets]:
    """Behind a segment, up to the next or the end of the log."""
    gap, start = gap_behind(before, after, position), before.downstream_end
    may_be = gap.kind is GapKind.UNKNOWN or (both_ways and gap.kind is GapKind.NOTHING)
    if may_be and position != before.upstream_end:
        return  # others may have copied that part
    if gap.is_own:
        start = max(start, gap.own_end)
    if start < end:
        yield MappedOffsets(start, end, None)


class OlderValues:
    """One partition.

    Args:
        source: batches of its log, from the first mapped offset on or before.
        same_times: whether the copies keep timestamps (their brokers do not set their own).
        findings: gets what is found.
        keys: how records are named.
    """

    def __init__(
        self,
        source: Iterator[ComparedBatch],
        mapped: Iterator[MappedOffsets],
        *,
        same_times: bool,
        findings: Findings,
        keys: NamedKeys,
    ) -> None:
        self._source = source
        self._records: list[LogRecord] = []
        self._number = 0
        self._mapped = mapped
        self._now = next(mapped, None)
        self._same_times = same_times
        self._findings = findings
        self._keys = keys
        self._foreign: Difference | None = None
        self._next = -1
        #: Downstream offsets of records that are different.
        self.different: set[int] = set()

    def take(self, copy: Iterable[ComparedBatch]) -> None:
        """The whole copy, in the order of its log. Raises CorruptBatch where a batch cannot be read."""
        for batch in copy:
            self._findings.bytes += batch.size
            for record in batch.records():
                if self._compare(record) is None:
                    break
            if self._now is None or len(self.different) >= _MOST:
                break
        self._tell_foreign()

    def _compare(self, record: LogRecord) -> MappedOffsets | None:
        """One record, and its position; None if the map ends before it."""
        while self._now is not None and record.offset >= self._now.end:
            self._tell_foreign()
            self._now = next(self._mapped, None)
        now, before = self._now, self._next
        self._next = max(before, record.offset + 1)
        if now is None:
            return None
        if record.offset < before:
            self._differ(Difference(DifferenceKind.DOUBLED, record.offset, record.offset), record)
        elif record.offset >= now.start and now.shift is None:
            if self._foreign is None:
                one = Difference(DifferenceKind.FOREIGN, record.offset, record.offset)
                self._foreign = self._keys.named(one, record.content)
            self._foreign = replace(self._foreign, downstream_last=record.offset)
            self.different.add(record.offset)
        elif record.offset >= now.start and now.shift is not None:
            there = self._at(record.offset + now.shift)
            if there is not None:
                self._look(there, record)
        return now

    def _look(self, there: LogRecord, record: LogRecord) -> None:
        same = there.content == record.content
        if same and (not self._same_times or there.timestamp == record.timestamp):
            return
        what = "its timestamp" if same else "its key, value or headers"
        detail = f"{what} differ from the source"
        place = (record.offset, record.offset, there.offset, there.offset)
        self._differ(Difference(DifferenceKind.CHANGED, *place, detail), there, record)

    def _at(self, offset: int) -> LogRecord | None:
        """The source's record there, None where it has none any more. Offsets only grow."""
        while True:
            while self._number < len(self._records):
                one = self._records[self._number]
                if one.offset >= offset:
                    return one if one.offset == offset else None
                self._number += 1
            batch = next(self._source, None)
            if batch is None:
                return None
            self._findings.bytes += batch.size
            self._records, self._number = (batch.records() if batch.next_offset > offset else []), 0

    def _differ(self, difference: Difference, *records: LogRecord) -> None:
        self._findings.add(self._keys.named(difference, *(record.content for record in records)))
        self.different.add(difference.downstream_first)

    def _tell_foreign(self) -> None:
        """Everything between two neighbouring segments of the map is one difference."""
        if self._foreign is not None:
            self._findings.add(self._foreign)
            self._foreign = None
