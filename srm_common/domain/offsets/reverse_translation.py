"""The offset map read the other way round: from a position on a copy to the topic that it was copied from.

The rule is that of :mod:`srm_common.domain.offsets.translation`: **a translated offset never skips an unread
record**. Whoever goes on from it at the original topic reads every record whose copy he had not read.
Names play no part, so it is the same under every policy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from srm_common.domain.offsets.segments import Run, Segment
from srm_common.domain.offsets.translation import TooOld, Translated, Translation, Unmapped


def translate_back(
    segments: Sequence[Segment],
    position: int,
    *,
    starts: Sequence[int] | None = None,
) -> Translation:
    """The upstream offset for ``position``, the next downstream offset that a group would read.

    The answers are those of ``translate`` with both sides exchanged: ``offset`` is an upstream offset,
    ``oldest_known`` a downstream one. A position at or behind the end of the map is at the end of what it covers; there
    is no "not replicated yet". The flow's committed offset may be further, but not every record before it needs to have
    been read: MirrorMaker 2 may have copied some, which it leaves no map of.

    Args:
        segments: the map of one partition, as ``current_map`` orders it.
        starts: their downstream starts, for callers that translate many positions.
    """
    if not segments:
        return Unmapped("nothing was copied into this partition, as far as the offset map tells")
    if starts is None:
        starts = [segment.downstream_start for segment in segments]
    index = bisect_right(starts, position) - 1
    if index < 0:
        first = segments[0]
        return TooOld(first.downstream_start, first.upstream_start)
    segment = segments[index]
    if position < segment.downstream_end:
        return _within(segment, position)
    # What lies in the copy between two chunks is no copy: a marker, or records of others.
    if index + 1 < len(segments) and segments[index + 1].upstream_start == segment.upstream_end:
        return Translated(segments[index + 1].runs[0].upstream, exact=True)
    return Translated(segment.upstream_end, exact=True)


def _within(segment: Segment, position: int) -> Translated:
    # The first run begins where the segment does, so there is one at or before the position.
    index = bisect_right(segment.runs, position, key=_downstream) - 1
    run = segment.runs[index]
    if position >= run.downstream_end:
        return Translated(min(segment.runs[index + 1].upstream, segment.upstream_end), exact=True)
    if run.upstream >= segment.upstream_end:
        # A later segment copied it again, and counts from there on.
        return Translated(segment.upstream_end, exact=True)
    ahead = position - run.downstream
    if run.dense or not ahead:
        return Translated(run.upstream + ahead, exact=True)
    if run.foreign:
        return Translated(run.upstream, exact=False)
    # The records before the position take at least as many upstream offsets, and so do those after it.
    earliest = run.upstream + ahead
    latest = run.upstream_end - (run.length - ahead)
    if earliest == latest:
        return Translated(earliest, exact=True)
    return Translated(earliest, exact=False, within=run)


def _downstream(run: Run) -> int:
    return run.downstream
