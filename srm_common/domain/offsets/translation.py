"""From a position at the source to one in the copy: consumer group offsets, translated by the offset map.

Invariant: **a translated offset never skips an unread record**. A group that
resumes from it at the target reads every record that it had not read at the source. An exact translation also repeats
none; a floor may repeat some.

All functions take values and return values; segments come in the order of their upstream starts
(:class:`srm_common.wire.state.segment_map.SegmentMap` makes that order from the order of commits).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from srm_common.domain.offsets.segments import OffsetSpan, Segment


class Evidence(StrEnum):
    """What a translation is based on."""

    MAP = "map"
    SOURCE = "source"
    """Records were counted in the source's log."""
    TARGET = "target"
    """Records were looked for in the target's log, the source's too if need be."""
    SYNCS = "syncs"
    """The offset syncs of MirrorMaker 2, which copied that part."""


@dataclass(frozen=True, slots=True)
class Translated:
    """``offset`` is the downstream offset to continue from.

    ``exact``: no record is read twice. Otherwise it is a floor, ``most`` is the highest offset that the exact
    answer may be, and ``why`` says what is not known. ``within`` is the run in which counting can narrow it
    down; None where the position lies between two segments.
    """

    offset: int
    exact: bool
    within: OffsetSpan | None = None
    most: int | None = None
    by: Evidence = Evidence.MAP
    why: str = ""


@dataclass(frozen=True, slots=True)
class NotReplicatedYet:
    """The position is ``behind`` upstream offsets ahead of the copy.

    ``offset`` is the end of the copy; a group that resumes from it reads those records again, once they are
    copied.
    """

    behind: int
    offset: int


@dataclass(frozen=True, slots=True)
class TooOld:
    """The position lies before the oldest part of the map that is still known.

    ``oldest_known`` is the upstream offset where that begins, ``offset`` its place downstream.
    """

    oldest_known: int
    offset: int


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Nothing is known of the partition; ``reason`` is a sentence for a person.

    ``copied_to``: the upstream offset up to which it was copied nevertheless, 0 where nothing is known of that either.
    """

    reason: str
    copied_to: int = 0


Translation = Translated | NotReplicatedYet | TooOld | Unmapped

#: ``most`` of a position behind the map, where only the end of the target's log is a limit.
UNBOUNDED = (1 << 63) - 1


def translate(
    segments: Sequence[Segment],
    position: int,
    *,
    starts: Sequence[int] | None = None,
    downstream_starts: Sequence[int] | None = None,
    replicated_to: int | None = None,
) -> Translation:
    """The downstream offset for ``position``, the next upstream offset that a group would read.

    Args:
        segments: the map of one partition, ordered by ``upstream_start``.
        starts, downstream_starts: those of the segments, for callers that translate many positions or decode
            segments lazily; only the segment of the position is looked at then.
        replicated_to: the flow's committed next offset, where known; it may be ahead of the last segment when what
            followed had nothing to copy (markers, aborted records), or was copied by MirrorMaker 2.
    """
    if not segments and replicated_to:
        return Unmapped(
            f"it was copied up to upstream offset {replicated_to}, but the offset map has nothing of it", replicated_to
        )
    if not segments:
        return Unmapped("nothing of this partition was copied yet")
    if starts is None:
        starts = [segment.upstream_start for segment in segments]
    index = bisect_right(starts, position) - 1
    if index < 0:
        first = segments[0]
        return TooOld(first.upstream_start, first.downstream_start)
    segment = segments[index]
    cap: int | None = None
    if index + 1 < len(segments):
        cap = segments[index + 1].downstream_start if downstream_starts is None else downstream_starts[index + 1]
    if position <= segment.upstream_end:
        if index and position <= segment.runs[0].upstream:
            before = segments[index - 1]
            touches = before.upstream_end == segment.upstream_start
            if touches and 0 <= segment.downstream_start - before.downstream_end <= 1:
                # The end of the chunk before, so that the answer stays the same when the next chunk is committed:
                # only a commit marker fits into one offset.
                return Translated(before.downstream_end, exact=True)
        return _capped(_within(segment, position), cap)
    if cap is None:
        end = segment.upstream_end if replicated_to is None else max(replicated_to, segment.upstream_end)
        if position > end:
            return NotReplicatedYet(position - end, segment.downstream_end)
        return Translated(
            segment.downstream_end,
            exact=False,
            most=UNBOUNDED,
            why=f"the map ends at upstream offset {segment.upstream_end}, and does not say what was copied up to {end}",
        )
    # Between two segments: lost at the source, dropped, or copied by a writer without an offset map.
    if cap - segment.downstream_end <= 1:
        return _capped(Translated(segment.downstream_end, exact=True), cap)
    return Translated(
        segment.downstream_end,
        exact=False,
        most=cap,
        why=f"the map does not say what was copied from upstream offset {segment.upstream_end} to {starts[index + 1]}",
    )


def _within(segment: Segment, position: int) -> Translated:
    index = bisect_right(segment.runs, position, key=_upstream) - 1
    if index < 0:
        return Translated(segment.downstream_start, exact=True)
    run = segment.runs[index]
    if position >= run.upstream_end:
        return Translated(run.downstream_end, exact=True)
    ahead = position - run.upstream
    if not ahead and index and run.downstream - segment.runs[index - 1].downstream_end <= 1:
        # As between two chunks: the end of what lies before, when no more than a marker is in between.
        return Translated(segment.runs[index - 1].downstream_end, exact=True)
    if run.dense or not ahead:
        return Translated(run.downstream + ahead, exact=True)
    if run.foreign:
        return Translated(
            run.downstream,
            exact=False,
            within=run,
            most=run.downstream_end,
            why=f"others wrote among the records of upstream offsets {run.upstream} to {run.upstream_end}",
        )
    # Of the run's records at most so many can lie at or after the position, so the others lie before it.
    fewest = max(0, run.length - (run.upstream_end - position))
    most = min(ahead, run.length)
    if fewest == most:
        return Translated(run.downstream + fewest, exact=True)
    return Translated(
        run.downstream + fewest,
        exact=False,
        within=run,
        most=run.downstream + most,
        why=f"the map does not say where the {run.length} records of upstream offsets {run.upstream} to "
        f"{run.upstream_end} lie",
    )


def _capped(translated: Translated, cap: int | None) -> Translated:
    """Never beyond the next chunk: its records are at or after any position before its start.

    That matters only where the target's log was cut within the segment, so that whatever the position's own records
    were, they are gone.
    """
    if cap is None:
        return translated
    if translated.offset >= cap:
        return Translated(cap, exact=True)
    if translated.most is not None and translated.most > cap:
        return replace(translated, most=cap)
    return translated


def _upstream(run: OffsetSpan) -> int:
    return run.upstream


# The offset map read the other way round: from a position on a copy to the topic that it was copied from.
#
# The rule is that of :mod:`srm_common.domain.offsets.translation`: **a translated offset never skips an unread
# record**. A group that resumes from it at the original topic reads every record whose copy it had not read.
# Names play no part, so it is the same under every policy.


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
        segments: the map of one partition, ordered by upstream start.
        starts: their downstream starts, for callers that translate many positions.
    """
    if not segments:
        return Unmapped("nothing was copied into this partition, according to the offset map")
    if starts is None:
        starts = [segment.downstream_start for segment in segments]
    index = bisect_right(starts, position) - 1
    if index < 0:
        first = segments[0]
        return TooOld(first.downstream_start, first.upstream_start)
    segment = segments[index]
    if position < segment.downstream_end:
        return _back_within(segment, position)
    # What lies in the copy between two chunks is no copy: a marker, or records of others.
    if index + 1 < len(segments) and segments[index + 1].upstream_start == segment.upstream_end:
        return Translated(segments[index + 1].runs[0].upstream, exact=True)
    return Translated(segment.upstream_end, exact=True)


def _back_within(segment: Segment, position: int) -> Translated:
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


def _downstream(run: OffsetSpan) -> int:
    return run.downstream
