"""Where a moved group resumes in one partition of the other cluster.

The partition may have three kinds of records: copies of the topic that the group leaves (``along`` the flow), records
of its own that were copied to that topic before (``back``), and records of its own that never got there, because the
cluster died first. Under a policy that gives copies names of their own a partition has the first kind or the other two;
where names stay as they are, all three may lie in one.

The group resumes at the first record that it may not have read, and never before the place that it had reached on
this cluster earlier: what lies before that place it has read there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from srm_common.domain.amount import NONE, Amount
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.offsets.translation import (
    NotReplicatedYet,
    TooOld,
    Translated,
    Translation,
    Unmapped,
    translate,
    translate_back,
)

_INEXACT = "the offset map has no exact offset here"


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """One partition's map ordered by upstream start; ``replicated_to`` is the flow's committed next offset.

    ``starts`` and ``downstream_starts`` are those of the segments, where these are decoded only when they are looked
    at.
    """

    segments: Sequence[Segment] = ()
    replicated_to: int | None = None
    starts: Sequence[int] | None = None
    downstream_starts: Sequence[int] | None = None

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


@dataclass(frozen=True, slots=True)
class Log:
    """``start`` and ``end`` (the last stable offset) of the partition that the group goes to."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """``offset`` is the next to read; ``read_again`` how many records are read a second time from there on; ``reason``
    why that is not 0, or what else is remarkable."""

    offset: int
    read_again: Amount = NONE
    reason: str = ""


def resume_point(
    position: int,
    log: Log,
    *,
    along: OffsetMap | None = None,
    back: OffsetMap | None = None,
    own: int | None = None,
    translation: Translation | None = None,
) -> ResumePoint:
    """The place for a group that would read ``position`` next in the partition that it leaves.

    Args:
        along: the map of the flow that copies from there to here; None where none does.
        back: the map of the flow that copies, or copied, from here to there.
        own: what the group has committed here already.
        translation: of ``position`` by ``along``, if there is a better one than the map's.
    """
    reasons: list[str] = []
    found: list[int] = []
    if back is not None:
        found += _unread_originals(position, log, back, along, reasons)
        found += _unread_copies(position, along)
    elif along is not None:
        translation = translation or along.translate(position)
        found.append(_in_copy(position, log, translation, reasons))
    offset = min(found, default=log.end)
    if own is not None and own > log.end:
        reasons.append(f"its committed offset {own} here is after the end of the log, {log.end}, and does not count")
    elif own is not None and own > offset:
        reasons.append(f"the group is ahead here: it has committed {own}, after its translated offset {offset}")
        offset = own
    kept = min(max(offset, log.start), log.end)
    if kept < offset:
        reasons.append(f"the log ends at {log.end}, before its translated offset {offset}")
    if back is None and isinstance(translation, Translated):
        most = translation.offset if translation.exact else translation.most
        again = (log.end if most is None else most) - kept
    elif back is None and isinstance(translation, Unmapped):
        again = log.end - kept
    else:
        again = _copies_read(position, kept, along) + _originals_read(position, kept, back)
        if again and along is not None and along.segments:
            reasons.append(
                f"records of its own from {kept} on were not copied, and copies after them were already read"
            )
    again = min(max(0, again), log.end - kept) + not_copied(position, along)
    return ResumePoint(kept, Amount.at_most(again), "; ".join(reasons))


def not_copied(position: int, along: OffsetMap | None) -> int:
    """So many offsets before ``position`` are not copied; a group that resumes here reads them again if they come."""
    return 0 if along is None else max(0, position - along.copied_to)


def _in_copy(position: int, log: Log, translation: Translation, reasons: list[str]) -> int:
    """The resume point in a partition that contains only copies."""
    match translation:
        case Translated(offset, exact):
            if not exact:
                reasons.append(translation.why or _INEXACT)
            return offset
        case NotReplicatedYet(behind, offset):
            reasons.append(f"the group is {behind} offsets ahead of what is copied; it reads them again if they arrive")
            return offset
        case TooOld(oldest_known, offset):
            if log.start < offset:
                reasons.append(f"it is before {oldest_known}, where the offset map begins: it reads from the start")
                return log.start
            reasons.append(f"the copy starts at {oldest_known}, after its position {position}")
            return offset
    if log.start < log.end:
        reasons.append("the offset map has nothing for this partition: it reads from the start")
    else:
        reasons.append("nothing of this partition was copied yet")
    return log.start


def _unread_copies(position: int, along: OffsetMap | None) -> list[int]:
    """The first copy that the group has not read, where there is one."""
    if along is None or not along.segments or along.segments[-1].upstream_end <= position:
        return []
    match along.translate(position):
        case Translated(offset) | TooOld(_, offset):
            return [offset]
    return []


def _unread_originals(
    position: int, log: Log, back: OffsetMap, along: OffsetMap | None, reasons: list[str]
) -> list[int]:
    """Where this cluster's own records begin that the group has not read: copied ones, and those that were left
    behind."""
    copies = along.segments if along is not None else ()
    segments = back.segments
    out = []
    index = bisect_right(segments, position, key=_downstream_end)
    if index < len(segments):
        segment = segments[index]
        if position > segment.downstream_start:
            found = translate_back([segment], position)
            assert isinstance(found, Translated)
            if not found.exact:
                reasons.append(found.why or _INEXACT)
            out.append(found.offset)
        elif index:
            before = segments[index - 1].upstream_end
            touches = before == segment.upstream_start
            out.append(segment.runs[0].upstream if touches else _uncovered(copies, before, segment.upstream_start))
        elif position < segment.downstream_start and not copies and log.start < segment.upstream_start:
            reasons.append(f"it is before {segment.downstream_start}, where the offset map begins")
            out.append(log.start)
        else:
            out.append(segment.upstream_start)
    if back.copied_to > log.end:
        reasons.append(f"the log ends at {log.end}, although it was copied up to {back.copied_to}: it lost its end")
    left_behind = _uncovered(copies, max(back.copied_to, log.start), log.end)
    if left_behind < log.end:
        out.append(left_behind)
    return out


def _uncovered(copies: Sequence[Segment], start: int, end: int) -> int:
    """The first offset in [start, end) that no copy takes; ``end`` where copies take all of it.

    A single offset between two copies is a commit marker.
    """
    at = start
    for segment in _from(copies, bisect_right(copies, start, key=_downstream_end)):
        for run in segment.runs:
            if run.foreign or run.downstream - at > (at > start):
                return min(at, end)
            at = max(at, run.downstream_end)
        if at >= end:
            break
    return end if end - at <= (at > start) else at


def _copies_read(position: int, offset: int, along: OffsetMap | None) -> int:
    """Upper limit of the copies from ``offset`` on that were read on the other cluster, before ``position``."""
    if along is None:
        return 0
    total = 0
    segments = along.segments
    for segment in _from(segments, bisect_right(segments, offset, key=_downstream_end)):
        if segment.upstream_start >= position:
            break
        for run in segment.runs:
            read = min(max(0, position - run.upstream), run.length)
            before = min(max(0, offset - run.downstream), run.length)
            total += max(0, (run.length if run.foreign and read else read) - before)
    return total


def _originals_read(position: int, offset: int, back: OffsetMap | None) -> int:
    """Upper limit of the originals from ``offset`` on that have copies before ``position``, which the group has
    read."""
    if back is None:
        return 0
    total = 0
    segments = back.segments
    index = bisect_right(segments, offset, key=_upstream_end)
    # A segment that a later one cut short keeps runs beyond its end.
    while index and segments[index - 1].runs[-1].upstream_end > offset:
        index -= 1
    for segment in _from(segments, index):
        if segment.downstream_start >= position:
            break
        for run in segment.runs:
            read = min(max(0, position - run.downstream), run.length)
            left = max(0, run.upstream_end - offset)
            before = 0 if run.foreign and left else max(0, run.length - left)
            total += max(0, read - before)
    return total


def _from(segments: Sequence[Segment], index: int) -> Iterator[Segment]:
    """One after the other, since they may be decoded lazily."""
    return (segments[number] for number in range(index, len(segments)))


def _upstream_end(segment: Segment) -> int:
    return segment.upstream_end


def _downstream_end(segment: Segment) -> int:
    return segment.downstream_end
