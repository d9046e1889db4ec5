"""One partition's offset map, and where it reaches: what it says of both logs, and the gaps of which it says nothing.

A gap lies before the first segment, between two, or after the last one up to what the flow has committed. Where there
are no segments, all of it is one gap. Something may have been copied in a gap without leaving a segment: by MirrorMaker
2, or by segments that were lost. Segments and source offsets of this project carry where the copy ended before
(:class:`CopiedTo`); where that is the end of the segment before the gap, nothing was copied in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.offsets.translation import UNBOUNDED, Translation, translate


class Gap(NamedTuple):
    """``upstream`` and ``downstream`` are the stretches of both logs between two segments; the one after the last
    segment has no end downstream. ``copied``: whether the records of the one may lie in the other."""

    upstream: range
    downstream: range
    copied: bool


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """One partition's map ordered by upstream start; ``replicated_to`` is the flow's committed next offset.

    ``starts`` and ``downstream_starts`` are those of the segments, where these are decoded only when they are looked
    at. ``ended``: where the copy ended when ``replicated_to`` was committed; None where that is not known, as after
    MirrorMaker 2.
    """

    segments: Sequence[Segment] = ()
    replicated_to: int | None = None
    starts: Sequence[int] | None = None
    downstream_starts: Sequence[int] | None = None
    ended: CopiedTo | None = None

    def translate(self, position: int) -> Translation:
        return translate(
            self.segments,
            position,
            starts=self.starts,
            downstream_starts=self.downstream_starts,
            replicated_to=self.replicated_to,
        )

    @property
    def copied_to(self) -> int:
        """The upstream offset after everything that is copied, 0 if nothing is."""
        mapped = self.segments[-1].upstream_end if self.segments else 0
        return max(mapped, self.replicated_to or 0)

    @property
    def reach(self) -> int:
        """The upstream offset up to which the map tells of everything that was copied behind its first segment."""
        if not self.segments:
            return 0
        last = self.segments[-1]
        nothing_since = self.ended == CopiedTo(last.upstream_end, last.downstream_end)
        return self.copied_to if nothing_since else last.upstream_end

    def begun_at(self, upstream: int) -> int:
        """How many segments begin at or before an upstream offset."""
        if self.starts is not None:
            return bisect_right(self.starts, upstream)
        return bisect_right(self.segments, upstream, key=_upstream_start)

    def begun_at_downstream(self, downstream: int) -> int:
        """How many segments begin at or before a downstream offset."""
        if self.downstream_starts is not None:
            return bisect_right(self.downstream_starts, downstream)
        return bisect_right(self.segments, downstream, key=_downstream_start)

    def gap(self, index: int) -> Gap:
        """What lies before the segment of this index; after the last one for the number of segments."""
        before = self.segments[index - 1] if index else None
        at = CopiedTo(0, 0) if before is None else CopiedTo(before.upstream_end, before.downstream_end)
        if index == len(self.segments):
            copied = self.copied_to > self.reach
            return Gap(range(at.upstream_end, self.copied_to), range(at.downstream_end, UNBOUNDED), copied)
        following = self.segments[index]
        upstream = range(at.upstream_end, following.upstream_start)
        downstream = range(at.downstream_end, following.downstream_start)
        copied = bool(upstream) and bool(downstream) and (before is None or following.after != at)
        return Gap(upstream, downstream, copied)

    def unmapped(self, upstream: range) -> Iterator[range]:
        """The parts of an upstream stretch that no segment tells of."""
        at = upstream.start
        for index in range(max(0, self.begun_at(at) - 1), len(self.segments)):
            segment = self.segments[index]
            if at >= upstream.stop or segment.upstream_start >= upstream.stop:
                break
            if segment.upstream_start > at:
                yield range(at, segment.upstream_start)
            at = max(at, segment.upstream_end)
        if at < upstream.stop:
            yield range(at, upstream.stop)

    def uncopied(self, downstream: range) -> Iterator[range]:
        """The parts of a downstream stretch that no copy takes.

        A single offset behind a copy is a commit marker, and in none of them.
        """
        at = downstream.start
        end = downstream.stop
        for index in range(max(0, self.begun_at_downstream(at) - 1), len(self.segments)):
            if at >= end:
                return
            for run in self.segments[index].runs:
                if run.downstream_end <= at:
                    continue
                if min(run.downstream, end) - at > (at > downstream.start):
                    yield range(at, min(run.downstream, end))
                if run.foreign and run.downstream < end:
                    yield range(max(at, run.downstream), min(run.downstream_end, end))
                at = run.downstream_end
        if end - at > (at > downstream.start):
            yield range(at, end)


def _upstream_start(segment: Segment) -> int:
    return segment.upstream_start


def _downstream_start(segment: Segment) -> int:
    return segment.downstream_start
