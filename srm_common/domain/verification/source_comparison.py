"""Compares a copy with its source, record by record, stretch by stretch of the offset map.

    source  [ 10 .. 14 ] C [ 16 .. 19 ]            C: markers, which a reader does not see
    map     [ segment       ][ segment ]
    copy    [ 70 .. 74 ] C [ 76 .. 79 ] C

A segment says where both sides begin and end; within it the records that a reader sees have to be the same, in the same
order. So a difference never moves what comes behind it. Batches that hold the same bytes are not opened. Both logs are
read once and neither is held: a batch of each is open at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.verification.cut_segments import first_copied_again, own_end, records_from
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.map_gaps import GapKind, gap_behind
from srm_common.domain.verification.named_keys import NamedKeys

#: So much is looked at behind a difference, to say of what kind it is.
_AHEAD, _AHEAD_BYTES = 5_000, 8 << 20
#: Records of a batch that are looked at together. The other side's batches may be much smaller, and after each of them
#: the rest of this one is looked at again.
_AT_A_TIME = 50


class LogRecord(NamedTuple):
    """``content`` is key, value and headers; ``timestamp`` (epoch milliseconds) what a consumer sees."""

    offset: int
    timestamp: int
    content: bytes


class ComparedBatch(NamedTuple):
    """A batch that a reader sees. ``term``: equal where two batches hold the same records; None where that takes to
    open them. ``records``: opens it, once at most, and raises CorruptBatch where it cannot be read."""

    base_offset: int
    next_offset: int
    held: int
    size: int
    term: int | None
    records: Callable[[], list[LogRecord]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Upstream offsets and what became of them; ends are exclusive. ``unmapped``: no segment says that the flow has
    copied them, and why the records there are not proved unless they are those of the source."""

    upstream: int
    upstream_end: int
    downstream: int
    downstream_end: int
    unmapped: NotProved | None = None


def stretches(
    segments: Iterable[Segment],
    source: LogRange,
    copy: LogRange,
    high: int,
    ends: tuple[bool, int | None],
    findings: Findings,
    following: int | None = None,
) -> Iterator[Stretch]:
    """The map as stretches, in order, with what lies before, between and behind its segments.

    Args:
        segments: neighbours.
        copy: its log, as it was before the map was read.
        high: its high watermark after the map was read: what was committed behind it was cut off.
        ends: whether the map begins with the first, and the next upstream offset to copy where it ends with the last.
        findings: gets what later segments took a part of.
        following: where the map goes on behind the last segment, downstream, if it does.
    """
    first, position = ends
    before: Segment | None = None
    for segment in segments:
        start = segment.downstream_start
        gap = gap_behind(before, segment.after, segment.upstream_start)
        if before is not None:
            yield from _of_segment(before, start, findings)
            upstream, at = before.upstream_end, min(before.downstream_end, start)
            if gap.is_own and (at < min(gap.own_end, copy.end) or gap.kind is GapKind.LOST):
                again = gap.kind is GapKind.COPIED_AGAIN
                # The source may have been cut since, which is why they were copied again.
                end = max(upstream, min(gap.upstream_end, source.end)) if again else gap.upstream_end
                own_end = gap.own_end if again else min(gap.own_end, start)
                yield Stretch(upstream, end, at, own_end, NotProved.COPIED_AGAIN if again else None)
                upstream, at = upstream if again else end, own_end
            if start <= copy.end and (segment.upstream_start > upstream or start > at):
                yield Stretch(upstream, segment.upstream_start, at, start, NotProved.NOT_COPIED)
        elif first and gap.kind is GapKind.LOST:
            findings.add(gap.cut_off(start))
        elif first and start > copy.start:
            yield Stretch(source.start, segment.upstream_start, copy.start, start, NotProved.BEFORE_MAP)
        if start >= copy.end and segment.downstream_end <= high:
            return  # committed after the log was looked at
        before = segment
    if before is not None:
        yield from _of_segment(before, before.downstream_end if following is None else following, findings)
        if position is not None and copy.end > before.downstream_end:
            end = max(position, before.upstream_end)
            yield Stretch(before.upstream_end, end, before.downstream_end, copy.end, NotProved.NOT_COPIED)


def shared_stretches(
    segments: Iterable[Segment], copy: LogRange, high: int, findings: Findings, following: int | None = None
) -> Iterator[Stretch]:
    """The map of a copy that other flows write to as well, run by run: what lies between may be theirs. Upstream they
    leave nothing out. The arguments are those of :func:`stretches`."""
    before: Segment | None = None
    for segment in segments:
        if before is not None:
            yield from _runs_of(before, segment.downstream_start, findings)
        before = segment
        if segment.downstream_start >= copy.end and segment.downstream_end <= high:
            return  # committed after the log was looked at
    if before is not None:
        yield from _runs_of(before, before.downstream_end if following is None else following, findings)


def _runs_of(segment: Segment, following: int, findings: Findings) -> Iterator[Stretch]:
    end = _end_of(segment, following, findings)
    if end is None:
        return
    at, again = segment.upstream_start, first_copied_again(segment)
    for run in segment.runs:
        if run.downstream >= again:
            break
        last = run is segment.runs[-1] or run.upstream_end >= segment.upstream_end
        until = segment.upstream_end if last else run.upstream_end
        if run.foreign:
            findings.leave(NotProved.MIXED, run.length)
        else:
            yield Stretch(at, until, min(run.downstream, end), min(run.downstream_end, end))
        at = until


def _of_segment(segment: Segment, following: int, findings: Findings) -> Iterator[Stretch]:
    end = _end_of(segment, following, findings)
    if end is not None:
        yield Stretch(segment.upstream_start, segment.upstream_end, segment.downstream_start, end)


def _end_of(segment: Segment, following: int, findings: Findings) -> int | None:
    """Up to where the copy can be compared with a segment, of which the next one, which begins at ``following``, may
    have taken a part. What was copied again is left out; what is lost is missing before the end."""
    end = own_end(segment, following)
    again = records_from(segment, segment.downstream_start if end is None else first_copied_again(segment))
    if again:
        findings.leave(NotProved.COPIED_AGAIN, again)
    return end


class Side:
    """One log, read forward. ``batches`` come in its order; the view of one ends with the next."""

    def __init__(self, batches: Iterator[ComparedBatch]) -> None:
        self._batches = batches
        self._batch: ComparedBatch | None = None
        self._records: list[LogRecord] | None = None
        self._number = 0
        self._over = False
        self.bytes = 0

    def skip_to(self, offset: int) -> None:
        """Nothing before ``offset`` counts any more."""
        while (batch := self._current()) is not None and batch.next_offset <= offset:
            self._drop()
        if self._batch is not None and self._batch.base_offset < offset:
            records = self._opened()
            while self._number < len(records) and records[self._number].offset < offset:
                self._number += 1

    def whole(self, end: int) -> ComparedBatch | None:
        """The next batch, where none of it was looked at and all of it lies before ``end``."""
        batch = self._current()
        return batch if batch is not None and self._records is None and batch.next_offset <= end else None

    def drop(self) -> None:
        """The batch of :meth:`whole` was compared."""
        self._drop()

    def left(self, end: int) -> list[LogRecord]:
        """The next records of the open batch, or of the following one, that lie before ``end``: not all of a large
        batch at a time. Empty where there are no more."""
        while (batch := self._current()) is not None and batch.base_offset < end:
            records = self._opened()
            if self._number < len(records):
                return [record for record in records[self._number : self._number + _AT_A_TIME] if record.offset < end]
            self._drop()
        return []

    def pass_over(self, count: int) -> None:
        """So many records of :meth:`left` were compared."""
        self._number += count

    def _current(self) -> ComparedBatch | None:
        if self._batch is None and not self._over:
            self._batch = next(self._batches, None)
            self._over = self._batch is None
            if self._batch is not None:
                self.bytes += self._batch.size
        return self._batch

    def _opened(self) -> list[LogRecord]:
        assert self._batch is not None
        if self._records is None:
            self._records, self._number = self._batch.records(), 0
        return self._records

    def _drop(self) -> None:
        self._batch = self._records = None


class SourceComparison:
    """One partition.

    Args:
        starts: where both logs begin now, source and copy; asked again when something is missing, since retention may
            have been there meanwhile.
        high: the copy's high watermark; what the map has behind it was cut off.
        keys: how records are named.
        same_times: whether the copies keep timestamps (their brokers do not set their own).
        findings: gets what is found.
    """

    def __init__(
        self,
        source: Side,
        copy: Side,
        starts: Callable[[], tuple[int, int]],
        high: int,
        keys: NamedKeys,
        *,
        same_times: bool = True,
        findings: Findings | None = None,
    ) -> None:
        self.findings = Findings() if findings is None else findings
        self._source, self._copy = source, copy
        self._starts = starts
        self._high = high
        self._keys = keys
        self._same_times = same_times

    def compare(self, stretch: Stretch) -> None:
        """The next stretch. Raises CorruptBatch where a batch cannot be read."""
        findings, source, copy = self.findings, self._source, self._copy
        copy.skip_to(stretch.downstream)
        if stretch.unmapped is None:
            findings.segments += 1
        elif not copy.left(stretch.downstream_end):
            return
        source.skip_to(stretch.upstream)
        same = 0
        while True:
            one, other = source.whole(stretch.upstream_end), copy.whole(stretch.downstream_end)
            if one is not None and other is not None and one.term is not None and one.term == other.term:
                same += one.held
                source.drop()
                copy.drop()
                continue
            here, there = source.left(stretch.upstream_end), copy.left(stretch.downstream_end)
            if not here or not there:
                self._end(stretch, same, here, there)
                return
            for number, (record, copied) in enumerate(zip(here, there, strict=False)):
                if record.content != copied.content or (self._same_times and record.timestamp != copied.timestamp):
                    source.pass_over(len(here))
                    copy.pass_over(len(there))
                    self._differ(stretch, here[number:], there[number:])
                    return
            count = min(len(here), len(there))
            same += count
            source.pass_over(count)
            copy.pass_over(count)

    # ---- what it means

    def _end(self, stretch: Stretch, same: int, here: list[LogRecord], there: list[LogRecord]) -> None:
        """At least one side has no more records."""
        if not here and not there:
            self._prove(stretch, same)
        elif stretch.unmapped is not None and (same or here or stretch.unmapped is not NotProved.NOT_COPIED):
            # Others have copied a part of it, or are about to; or what they copied has another beginning: before the
            # map begins, it may be what was copied before offsets were moved back to the source's start.
            self._prove(stretch, same)
            if there:
                self.findings.leave(stretch.unmapped, stretch.downstream_end - there[0].offset)
        elif here and not self._gone(stretch):
            cut = stretch.downstream_end > self._high
            kind = DifferenceKind.TRUNCATED if cut else DifferenceKind.LOST
            first = max(stretch.downstream, self._high) if cut else stretch.downstream
            last = max(first, stretch.downstream_end - 1)  # nothing is there where the log has grown again
            difference = Difference(kind, first, last, here[0].offset, stretch.upstream_end - 1)
            self.findings.add(self._keys.named(difference, here[0].content))
        elif there and not self._gone(stretch):
            difference = Difference(DifferenceKind.FOREIGN, there[0].offset, stretch.downstream_end - 1)
            self.findings.add(self._keys.named(difference, there[0].content))

    def _differ(self, stretch: Stretch, here: list[LogRecord], there: list[LogRecord]) -> None:
        """The first records that are not the same; the rest of the stretch is left out."""
        if self._gone(stretch):
            return
        if stretch.unmapped is not None:
            self.findings.leave(stretch.unmapped, stretch.downstream_end - there[0].offset)
            return
        here, there = _more(self._source, here, stretch.upstream_end), _more(self._copy, there, stretch.downstream_end)
        record, copied = here[0], there[0]
        lost = next((at for at, one in enumerate(here) if one.content == copied.content), None)
        more = next((at for at, one in enumerate(there) if one.content == record.content), None)
        place = (copied.offset, copied.offset, record.offset, record.offset)
        if (
            lost
            and more
            and sorted(log_record.content for log_record in here) == sorted(log_record.content for log_record in there)
        ):
            last, until = there[-1].offset, here[-1].offset
            difference = Difference(DifferenceKind.REORDERED, copied.offset, last, record.offset, until)
        elif lost and not more:
            before = max(copied.offset - 1, 0)
            difference = Difference(DifferenceKind.LOST, before, copied.offset, record.offset, here[lost - 1].offset)
        elif more and not lost:
            difference = Difference(DifferenceKind.FOREIGN, copied.offset, there[more - 1].offset)
        else:
            what = "its timestamp" if record.content == copied.content else "its key, value or headers"
            difference = Difference(DifferenceKind.CHANGED, *place, f"{what} differ from the source")
        about = [copied.content] if difference.kind is DifferenceKind.FOREIGN else [record.content, copied.content]
        self.findings.add(self._keys.named(difference, *about))

    def _gone(self, stretch: Stretch) -> bool:
        """Whether retention has been there since the comparison began."""
        source, copy = self._starts()
        reason = NotProved.RETENTION if copy > stretch.downstream else NotProved.SOURCE_RETENTION
        if copy <= stretch.downstream and source <= stretch.upstream:
            return False
        self.findings.leave(reason, stretch.downstream_end - stretch.downstream)
        return True

    def _prove(self, stretch: Stretch, records: int) -> None:
        findings = self.findings
        findings.proved += records
        if findings.proved_from < 0:
            findings.proved_from = stretch.upstream
        if not findings.different:
            findings.proved_to = stretch.upstream_end
            findings.proved_to_downstream = stretch.downstream_end


def _more(side: Side, records: list[LogRecord], end: int) -> list[LogRecord]:
    """The following records, a few thousand at most, to find out what is missing or additional."""
    log_records, size = list(records), sum(len(record.content) for record in records)
    while len(log_records) < _AHEAD and size < _AHEAD_BYTES and (more := side.left(end)):
        log_records += more
        size += sum(len(record.content) for record in more)
        side.pass_over(len(more))
    return log_records


def kept_by_both(found: Iterable[Stretch], source: LogRange, copy: LogRange, findings: Findings) -> Iterator[Stretch]:
    """The stretches of which retention has taken nothing on either side; of segments else the offsets are counted."""
    for stretch in found:
        if stretch.downstream >= copy.start and stretch.upstream >= source.start:
            yield stretch
        elif stretch.unmapped is NotProved.COPIED_AGAIN and stretch.downstream_end > copy.start:
            findings.leave(stretch.unmapped, stretch.downstream_end - max(stretch.downstream, copy.start))
        elif stretch.unmapped is None and stretch.downstream_end > copy.start:
            reason = NotProved.RETENTION if stretch.downstream < copy.start else NotProved.SOURCE_RETENTION
            findings.leave(reason, stretch.downstream_end - max(stretch.downstream, copy.start))
