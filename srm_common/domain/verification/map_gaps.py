"""What a copy contains between two neighbouring segments of the offset map, judged by what the flow had committed
before the second.

    copied        0 .. 29 | 0 .. 9   again from 10 on, as offsets were moved back
    copy          [ 0..9 ] C [ 10..19 ] C [ 20..29 ] C [ 10..19 ] C
    map           [ 0..9 )                             [ 10..19 )   after: upstream 30, downstream 32

The map drops the chunks that were copied again, and keeps only where they end. A record of the map
that was lost leaves a gap at the source, too, although the flow had committed up to its end.

    copied        0 .. 9 | 10 .. 29    then the target's log is cut at 10, and the flow goes on
    copy          [ 0..9 ][ 30..39 ]
    map           [ 0..9 )[ 30..39 )   after: upstream 30, downstream 10

What was cut off leaves a gap at the source, too, with no room for it downstream.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.verification.differences import Difference, DifferenceKind

GROWN_AGAIN = "the log was truncated, and has grown again"


class GapKind(Enum):
    """What is known of a gap in the map."""

    UNKNOWN = auto()
    """Whether the flow has copied something there is not known: MirrorMaker 2 may have."""
    NOTHING = auto()
    """The flow has copied nothing there."""
    COPIED_AGAIN = auto()
    """The flow has copied it, and again behind it."""
    LOST = auto()
    """The flow has copied it, and the map does not say so any more: a record of it was lost, or the log was cut."""


class MapGap(NamedTuple):
    """``upstream`` and ``downstream``: where it begins, -1 upstream where the map does. ``own_end``: up to there,
    downstream, nobody but the flow is known to have written; ``upstream_end``: what it had copied by then. Both
    exclusive."""

    kind: GapKind
    upstream: int = -1
    downstream: int = 0
    own_end: int = -1
    upstream_end: int = -1

    @property
    def is_own(self) -> bool:
        """Whether the flow has copied something into it."""
        return self.kind in (GapKind.COPIED_AGAIN, GapKind.LOST)

    def cut_at(self, following: int, *, exactly_once: bool) -> int | None:
        """Where the log was cut, so that what is lost has no room downstream; None if it has some.

        Args:
            following: where the copy goes on behind the gap.
            exactly_once: chunks are transactions, and the marker of the last one may have been left.
        """
        marker = 1 if exactly_once and self.own_end == following else 0
        cut = self.kind is GapKind.LOST and self.own_end <= self.downstream + marker
        return min(self.downstream, following) if cut else None

    def cut_off(self, at: int) -> Difference:
        """What is lost where :meth:`cut_at` found a cut. Where a copy without any segment left began at the source, and
        so from where it would have to be copied again, nobody knows any more."""
        if self.upstream < 0:
            detail = f"all that was copied before offset {self.upstream_end} of the source; {GROWN_AGAIN}"
            return Difference(DifferenceKind.LOST, at, at, detail=detail)
        return Difference(DifferenceKind.LOST, at, at, self.upstream, self.upstream_end - 1, GROWN_AGAIN)


def gap_behind(before: Segment | None, after: CopiedTo | None, position: int | None) -> MapGap:
    """The gap between a segment and what follows it.

    Args:
        before: None for the beginning of the map, before which anything may lie, unless all of the copy was cut off.
        after: what the flow had committed before it copied what follows, or has now, if nothing does.
        position: the upstream offset at which that begins, or would.
    """
    upstream, downstream = (-1, 0) if before is None else (before.upstream_end, before.downstream_end)
    if after is None or (before is None and after.downstream_end > 0):
        return MapGap(GapKind.UNKNOWN, upstream, downstream)
    moved_back = position is None or after.upstream_end > position
    # Without a gap at the source, what is missing in the map was replaced, and a record of what replaced it is lost.
    again = moved_back or after.upstream_end <= upstream
    if again and after.downstream_end <= downstream:
        return MapGap(GapKind.NOTHING, upstream, downstream, downstream, upstream)
    kind = GapKind.COPIED_AGAIN if again else GapKind.LOST
    return MapGap(kind, upstream, downstream, max(after.downstream_end, downstream), after.upstream_end)
