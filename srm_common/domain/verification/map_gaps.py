"""What a copy contains between two neighbouring segments of the offset map, judged by what the flow had committed
before the second.

    copied        0 .. 29 | 0 .. 9   again from 10 on, as offsets were moved back
    copy          [ 0..9 ] C [ 10..19 ] C [ 20..29 ] C [ 10..19 ] C
    map           [ 0..9 )                             [ 10..19 )   after: upstream 30, downstream 32

The map drops the chunks that were copied again, and keeps only where they end. A record of the map
that was lost leaves a gap at the source, too, although the flow had committed up to its end.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.segments import Segment


class GapKind(Enum):
    """What is known of a gap in the map."""

    UNKNOWN = auto()
    """Whether the flow has copied something there is not known: MirrorMaker 2 may have."""
    NOTHING = auto()
    """The flow has copied nothing there."""
    COPIED_AGAIN = auto()
    """The flow has copied it, and again behind it."""
    LOST = auto()
    """The flow has copied it, and the map does not say so any more."""


class MapGap(NamedTuple):
    """``own_end``: up to there, downstream, nobody but the flow is known to have written; ``upstream_end``: what it had
    copied by then. Both exclusive."""

    kind: GapKind
    own_end: int = -1
    upstream_end: int = -1

    @property
    def is_own(self) -> bool:
        """Whether the flow has copied something into it."""
        return self.kind in (GapKind.COPIED_AGAIN, GapKind.LOST)


def gap_behind(before: Segment, after: CopiedTo | None, position: int | None) -> MapGap:
    """The gap between a segment and what follows it.

    Args:
        after: what the flow had committed before it copied what follows, or has now, if nothing does.
        position: the upstream offset at which that begins, or would.
    """
    if after is None:
        return MapGap(GapKind.UNKNOWN)
    if after.downstream_end <= before.downstream_end:
        return MapGap(GapKind.NOTHING, before.downstream_end, before.upstream_end)
    moved_back = position is None or after.upstream_end > position
    # Without a gap at the source, what is missing in the map was replaced, and a record of what replaced it is lost.
    again = moved_back or after.upstream_end <= before.upstream_end
    return MapGap(GapKind.COPIED_AGAIN if again else GapKind.LOST, after.downstream_end, after.upstream_end)
