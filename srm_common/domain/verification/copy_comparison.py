"""Compares a copy, batch by batch, with what the flow committed there according to the offset map.

    map    [ segment 10..14 )     [ segment 15..19 )
    copy   [ 10 11 ][ 12 13 14 ] C [ 15 .. 19 ] C          C: markers, which a reader does not see

Every batch that a read_committed consumer sees has to lie in a run of a segment, and the batches in a segment have to
fill its runs and add up to its fingerprint. So whatever was changed, lost, doubled, moved or written by others shows as
a hole, an overlap, a batch outside of all runs, or another sum. Which batches consumers see has to be found out only of
those that lie outside of the map (:meth:`CopyComparison.is_mapped`).

What others have written is a difference where the flow has copied all of the source: between two segments that touch
upstream, or inside of one. Where they leave a gap upstream, MirrorMaker 2 may have copied that part, before a take-over
or in turns with the flow: as many records as fit into the gap are not proved, and no difference. Where a segment says
what the flow had committed before it, nothing is left to that (:mod:`srm_common.domain.verification.map_gaps`).

Neither the log nor the map is held: both come in the order of the downstream offsets, and one segment is open at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from srm_common.domain.offsets.fingerprints import NO_BATCHES, fingerprint_of, offset_factor
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, Segment, upstream_offsets
from srm_common.domain.verification.copy_batch import BatchRow, CopyBatch
from srm_common.domain.verification.cut_segments import first_copied_again, records_from
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.map_gaps import GROWN_AGAIN, GapKind, MapGap, gap_behind
from srm_common.domain.verification.unmapped_batches import CopyTraits, UnmappedBatches

_ABORTED = "their transaction was aborted, though the map was committed with it"


@dataclass(slots=True)
class _Open:
    """The segment in work. ``end``: where the next one begins, if that is before its own end. ``at``: everything before
    this offset of the run was seen."""

    segment: Segment
    start: int
    end: int
    run: int = 0
    at: int = 0
    faulty: bool = False
    thinned: bool = False
    #: How many of the missing records were copied again, and lie behind.
    again: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)
    #: Digest and content by producer: of one only, unless others wrote in between.
    sums: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


class CopyComparison:
    """One partition.

    Args:
        segments: the map, in order, from the first that is to be compared on.
        log: the copy's, as it was before the map was read; batches are shown up to its end. A segment behind it was
            committed later.
        high: the log's high watermark after the map was read: what was committed behind it was cut off.
        findings: gets what is found; of an earlier stretch of the same partition, where there is one.
        following: where the map goes on behind the last segment, downstream, if it does.
    """

    def __init__(
        self,
        segments: Iterable[Segment],
        log: LogRange,
        high: int,
        traits: CopyTraits,
        findings: Findings | None = None,
        following: int | None = None,
    ) -> None:
        self.findings = Findings() if findings is None else findings
        self._log = log
        self._high = high
        self._traits = traits
        self._waiting = _with_next(segments, following)
        self._open: _Open | None = None
        self._before: Segment | None = None
        #: Between that and the one in work; what of the map is lost there, and the records that were seen of it.
        self._gap = MapGap(GapKind.UNKNOWN)
        self._lost: Difference | None = None
        self._of_lost = 0
        self._unmapped = UnmappedBatches(self.findings, traits)
        #: Everything before this offset of the copy was shown.
        self._shown = -1
        self._advance()

    def is_mapped(self, first: int, end: int) -> bool:
        """Whether the log's next batch, at these offsets (the end exclusive), lies where the map says that the flow's
        own were committed. Of others the reader has to find out whether a consumer sees them."""
        now = self._segment_at(first)
        if now is None or end <= now.start:
            return False
        run = self._run_at(now, first)
        return end > run.downstream and not run.foreign

    def aborted(self, first: int, last: int) -> None:
        """What the map calls committed between these offsets, inclusive, is of a transaction that was aborted."""
        now = self._open
        if now is not None and now.start <= last and first < now.end:
            self._differ(now, DifferenceKind.LOST, max(first, now.start), min(last, now.end - 1), _ABORTED)
        else:
            self.findings.add(Difference(DifferenceKind.LOST, first, last, detail=_ABORTED))

    def take(self, batch: CopyBatch) -> None:
        """The log's next batch that a read_committed consumer sees, or that is mapped."""
        self.findings.bytes += batch.size
        now = self._segment_at(batch.base_offset)
        if now is None or batch.next_offset <= now.start:
            self._outside(batch)
        else:
            self._inside(now, batch)
        self._shown = max(self._shown, batch.next_offset)

    def row_end(self, first: int) -> int:
        """Batches from ``first`` on that follow one another without a hole, and end here at the latest, may be taken by
        :meth:`take_row`; 0 where they have to be taken one by one."""
        now = self._segment_at(first)
        if now is None or first != now.at or self._unmapped.waiting or self._lost:
            return 0
        run = self._run_at(now, first)
        return 0 if run.foreign or first < run.downstream else min(run.downstream_end, now.end, self._log.end)

    def take_row(self, row: BatchRow) -> None:
        """The findings of :meth:`take` for each of its batches."""
        now = self._open
        assert now is not None
        self.findings.bytes += row.size
        now.at = row.next_offset
        digest, content = now.sums.get(row.producer, (0, 0))
        now.sums[row.producer] = digest + row.digest, content + row.content
        self._unmapped.remember(row.terms)
        self._shown = max(self._shown, row.next_offset)

    def finish(self) -> Findings:
        """The log is at its end."""
        while self._open is not None:
            self._close(self._open)
        self._tell_lost()
        self._unmapped.end_stray()
        self._unmapped.end_others()
        return self.findings

    # ---- batches

    def _inside(self, now: _Open, batch: CopyBatch) -> None:
        self._unmapped.end_stray()
        if batch.base_offset >= now.start:
            self._tell_lost()
            self._unmapped.end_others()
        first, end = batch.base_offset, batch.next_offset
        run = self._run_at(now, first)
        if batch.term is None:
            self._differ(now, DifferenceKind.CORRUPT, first, end - 1)
            now.at = max(now.at, end)
            return
        if end <= run.downstream and not run.foreign:
            self._foreign(batch)
            return
        if first < now.at:
            if now.segment.fingerprint is not None or first < self._shown:
                self._differ(now, DifferenceKind.DOUBLED, first, end - 1)
                return
            # A take-over compares the last records of a copy, wherever MirrorMaker 2 began its batch.
            if first < now.start:
                self._outside(batch._replace(next_offset=now.start, records=now.start - first))
            first = now.at
        if first > now.at and not run.foreign:
            now.holes.append((now.at, first - 1))
        if end > run.downstream + run.length:
            uncut = now.segment.fingerprint is None or run.foreign or self._goes_on(now, end)
            if not uncut:
                self._differ(now, DifferenceKind.CHANGED, first, end - 1, "batches are cut otherwise")
        now.at = end
        now.thinned = now.thinned or batch.thinned or batch.records != end - batch.base_offset
        digest, content = now.sums.get(batch.producer, (0, 0))
        now.sums[batch.producer] = digest + batch.term * offset_factor(first), content + batch.term
        self._unmapped.remember({batch.term: first})

    def _goes_on(self, now: _Open, end: int) -> bool:
        """Whether a batch that extends beyond its run fills the following ones, as merged batches with holes do."""
        at = now.segment.runs[now.run].downstream_end
        for run in now.segment.runs[now.run + 1 :]:
            if at >= end or run.downstream != at:
                break
            at = run.downstream_end
        return at >= end

    def _end_run(self, now: _Open) -> None:
        runs = now.segment.runs
        run, after = runs[now.run], runs[now.run + 1]
        self._end_at(now, run)
        now.run += 1
        now.at = max(now.at, after.downstream)

    def _end_at(self, now: _Open, run: OffsetSpan) -> None:
        end = min(run.downstream_end, now.end)
        if now.at < end and not run.foreign:
            now.holes.append((now.at, end - 1))

    def _outside(self, batch: CopyBatch) -> None:
        """A batch that lies in no segment."""
        if self._before is None:
            self.findings.leave(NotProved.BEFORE_MAP, batch.records)
            return
        gap = self._gap
        if gap.is_own and batch.next_offset <= gap.own_end:
            if batch.term is None:
                self.findings.add(Difference(DifferenceKind.CORRUPT, batch.base_offset, batch.next_offset - 1))
            elif gap.kind is GapKind.COPIED_AGAIN:
                self.findings.leave(NotProved.COPIED_AGAIN, batch.records)
            self._of_lost += batch.records
            return
        if self._open is None and not self._traits.exactly_once:
            return  # a chunk may be on its way without a transaction
        until = self._traits.position if self._open is None else self._open.segment.upstream_start
        self._unmapped.take(batch, gap.kind, self._before.upstream_end, until)

    def _foreign(self, batch: CopyBatch) -> None:
        """A batch between the runs of a segment: while the chunk was written, so was it."""
        if self._traits.shared:
            self.findings.foreign += batch.records
        else:
            self.findings.add(Difference(DifferenceKind.FOREIGN, batch.base_offset, batch.next_offset - 1))

    # ---- segments

    def _segment_at(self, offset: int) -> _Open | None:
        """The current segment when the log is at ``offset``; it may begin after it."""
        now = self._open
        while now is not None and offset >= now.end:
            self._close(now)
            now = self._open
        return now

    def _run_at(self, now: _Open, offset: int) -> OffsetSpan:
        runs = now.segment.runs
        run = runs[now.run]
        while offset >= run.downstream + run.length and now.run < len(runs) - 1:
            self._end_run(now)
            run = runs[now.run]
        return run

    def _advance(self) -> None:
        found = next(self._waiting, None)
        self._look_at_gap(None if found is None else found[0])
        if found is None:
            self._open = None
            return
        segment, end = found
        if segment.downstream_start >= self._log.end and segment.downstream_end <= self._high:
            self._open = None  # committed after the log was looked at
            return
        self._open = _Open(segment, segment.downstream_start, end, at=segment.runs[0].downstream)

    def _look_at_gap(self, following: Segment | None) -> None:
        """Batches between the preceding segment and the next one."""
        before, traits, log = self._before, self._traits, self._log
        if following is not None:
            gap = gap_behind(before, following.after, following.upstream_start)
        else:
            gap = gap_behind(before, traits.copied_to, traits.position)
        self._gap, self._of_lost = gap, 0
        first, last = max(gap.downstream, log.start), gap.own_end - 1
        start = log.end if following is None else following.downstream_start
        if (cut := gap.cut_at(start, exactly_once=traits.exactly_once)) is not None:
            # If retention has come so far, it may have taken that part, too.
            if log.start < cut or log.start == cut == 0:
                self.findings.add(gap.cut_off(cut))
        # What was committed behind the log's end came after it was looked at.
        elif gap.kind is GapKind.LOST and first <= last and (following is not None or last < log.end):
            self._lost = Difference(DifferenceKind.UNMAPPED, first, last, gap.upstream, gap.upstream_end - 1)

    def _tell_lost(self) -> None:
        """What the map had forgotten is over. Every segment had a record at least."""
        lost, self._lost = self._lost, None
        if lost is None:
            return
        assert self._before is not None
        if self._of_lost or self._traits.compacted or lost.downstream_first > self._before.downstream_end:
            self.findings.add(lost)
        else:
            detail = "nor does the offset map cover them: a record of it is lost, too"
            self.findings.add(replace(lost, kind=DifferenceKind.LOST, detail=detail))

    def _close(self, now: _Open) -> None:
        """All batches of a segment were seen."""
        self._tell_lost()
        self._unmapped.end_stray()
        self._unmapped.end_others()
        segment, findings, log = now.segment, self.findings, self._log
        records = sum(run.length for run in segment.runs if not run.foreign)
        if segment.downstream_end > log.start:
            findings.segments += 1
        if now.start < log.start:
            if segment.downstream_end > log.start:
                findings.leave(NotProved.RETENTION, records)
            if now.end > log.start:
                self._report_cut(now)
        else:
            while now.run < len(segment.runs) - 1:
                self._end_run(now)
            self._end_at(now, segment.runs[-1])
            self._report_holes(now)
            self._report_cut(now)
            self._compare_sums(now, records)
        self._before = segment
        self._unmapped.writers = frozenset(now.sums) if segment.fingerprint is not None else frozenset()
        self._advance()

    def _report_holes(self, now: _Open) -> None:
        if self._traits.compacted:
            now.thinned = now.thinned or bool(now.holes)
            return
        if now.thinned:
            self._differ(now, DifferenceKind.COMPACTED, now.start, now.end - 1)
            return
        for first, last in now.holes:
            self._missing(now, first, last)

    def _report_cut(self, now: _Open) -> None:
        """What lay where the next segment begins. No cleaner moves the end of a log back: it was truncated."""
        if now.end < now.segment.downstream_end:
            self._missing(now, now.end, now.segment.downstream_end - 1, GROWN_AGAIN)

    def _missing(self, now: _Open, first: int, last: int, detail: str = "") -> None:
        again = first_copied_again(now.segment)
        if last >= again:
            now.again += records_from(now.segment, max(first, again)) - records_from(now.segment, last + 1)
            last = again - 1
        if last >= max(first, self._high):
            self._differ(now, DifferenceKind.TRUNCATED, max(first, self._high), last)
            last = self._high - 1
        if first <= last:
            self._differ(now, DifferenceKind.LOST, first, last, detail)

    def _compare_sums(self, now: _Open, records: int) -> None:
        segment, findings = now.segment, self.findings
        mixed = any(run.foreign for run in segment.runs)
        if now.faulty:
            if now.again:
                findings.leave(NotProved.COPIED_AGAIN, now.again)
            return
        if now.again:
            findings.leave(NotProved.COPIED_AGAIN, records)
        elif segment.fingerprint is None:
            findings.leave(NotProved.NO_FINGERPRINT, records)
        elif now.thinned:
            findings.leave(NotProved.COMPACTED, records)
        else:
            # A joined segment holds chunks of several producers; where others wrote in between, one is the flow's.
            apart = [fingerprint_of(*sums) for sums in now.sums.values()]
            fingerprint = NO_BATCHES
            for one in apart:
                fingerprint = fingerprint.plus(one)
            if segment.fingerprint == fingerprint or (mixed and segment.fingerprint in apart):
                self._prove(segment, records)
                findings.fingerprint = findings.fingerprint.plus(segment.fingerprint)
            elif mixed:
                findings.leave(NotProved.MIXED, records)
            elif self._traits.recompressed:
                findings.leave(NotProved.RECOMPRESSED, records)
            else:
                same = fingerprint.content == segment.fingerprint.content
                kind = DifferenceKind.REORDERED if same else DifferenceKind.CHANGED
                self._differ(now, kind, now.start, now.end - 1)
        if len(now.sums) > 1 and mixed and not self._traits.shared:
            findings.add(Difference(DifferenceKind.FOREIGN, now.start, now.end - 1, detail="among the flow's own"))

    def _prove(self, segment: Segment, records: int) -> None:
        findings = self.findings
        findings.proved += records
        if findings.proved_from < 0:
            findings.proved_from = segment.upstream_start
        if not findings.different:
            findings.proved_to = segment.upstream_end
            findings.proved_to_downstream = segment.downstream_end

    def _differ(self, now: _Open, kind: DifferenceKind, first: int, last: int, detail: str = "") -> None:
        now.faulty = True
        self.findings.add(Difference(kind, first, last, *upstream_offsets(now.segment, first, last), detail))


def _with_next(segments: Iterable[Segment], following: int | None) -> Iterator[tuple[Segment, int]]:
    """Each with where its part of the copy ends: a later one may begin inside."""
    before: Segment | None = None
    for segment in segments:
        if before is not None:
            yield before, min(before.downstream_end, segment.downstream_start)
        before = segment
    if before is not None:
        end = before.downstream_end
        yield before, end if following is None else min(end, following)
