"""Segments of which a later one took a part.

    map     [ 10 .. 19 )        downstream 70 .. 79
                [ 14 .. )       downstream 76: the log was cut at 76, and what follows was copied from 14 on

On the target, the later one begins inside: the log was cut there, and has grown again. At the source, it may begin
inside as well: 14 to 19 were copied again, and 10 to 13 are still there. Had it begun at 18, 16 and 17 would be lost:
they are where nothing was copied again.
"""

from __future__ import annotations

from srm_common.domain.offsets.segments import OffsetSpan, Segment


def first_copied_again(segment: Segment) -> int:
    """The downstream offset from which on a segment's records were, or may have been, copied again; its end if none
    were. The map cuts ``upstream_end`` to where they were copied from."""
    for run in segment.runs:
        over = run.upstream_end - segment.upstream_end
        if over > 0:
            # Each record is at least as far from the end of its span at the source, where there may be holes, as on the
            # target: of those before this one, none was copied again.
            return run.downstream if run.foreign else max(run.downstream, run.downstream_end - over)
    return segment.downstream_end


def own_end(segment: Segment, following: int) -> int | None:
    """Up to which downstream offset the copy has what the segment says of the upstream offsets that are still its own.

    Args:
        following: where the next segment begins downstream.

    Returns:
        None where that cannot be said: some records within a span with holes were copied again.
    """
    inexact = any(not run.dense and run.upstream < segment.upstream_end < run.upstream_end for run in segment.runs)
    return None if inexact else min(following, first_copied_again(segment))


def records_from(segment: Segment, offset: int) -> int:
    """How many records of the flow a segment has at ``offset``, downstream, and behind."""
    return sum(_from(run, offset) for run in segment.runs if not run.foreign)


def _from(run: OffsetSpan, offset: int) -> int:
    return max(0, run.downstream_end - max(run.downstream, offset))
