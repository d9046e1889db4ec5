"""Where a moved group resumes in one partition of the other cluster.

The partition may have three kinds of records: copies of the topic that the group leaves (``along`` the flow), records
of its own that were copied to that topic before (``back``), and records of its own that never got there, because the
cluster died first. Under a policy that gives copies names of their own a partition has the first kind or the other two;
where names stay as they are, all three may lie in one.

The group resumes at the first record that it may not have read, and never before the place that it had reached on
this cluster earlier: what lies before that place it has read there. What the offset maps do not tell of
(:class:`~srm_common.domain.offsets.offset_map.Gap`) may be unread, and may be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from srm_common.domain.amount import NONE, Amount
from srm_common.domain.offsets.offset_map import OffsetMap
from srm_common.domain.offsets.translation import (
    NotReplicatedYet,
    TooOld,
    Translated,
    Translation,
    Unmapped,
    translate_back,
)

_INEXACT = "the offset map has no exact offset here"


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
    known: int = 0,
    at_end: bool = False,
) -> ResumePoint:
    """The place for a group that would read ``position`` next in the partition that it leaves.

    Args:
        along: the map of the flow that copies from there to here; None where none does.
        back: the map of the flow that copies, or copied, from here to there.
        own: what the group has committed here already.
        translation: of ``position`` by ``along``, if there is a better one than the map's.
        known: a place in the copy that an earlier translation of this position, or of one before it, gave: no record
            that the group has not read lies before it. 0 where there is none.
        at_end: whether nothing lies at or after ``position`` in the partition that it leaves.
    """
    reasons: list[str] = []
    found: list[int] = []
    if back is not None:
        found += _unread_originals(position, log, back, along, at_end, reasons)
        found += _unread_copies(position, log, back, along, reasons)
    elif along is not None:
        translation = _not_before(known, translation or along.translate(position), log)
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
        again = _copies_read(position, kept, along, back) + _originals_read(position, kept, along, back)
        if back is not None and again and along is not None and along.segments and not reasons:
            reasons.append(
                f"records of its own from {kept} on were not copied, and copies after them were already read"
            )
    again = min(max(0, again), log.end - kept) + not_copied(position, along)
    return ResumePoint(kept, Amount.at_most(again), "; ".join(reasons))


def not_copied(position: int, along: OffsetMap | None) -> int:
    """So many offsets before ``position`` are not copied; a group that resumes here reads them again if they come."""
    return 0 if along is None else max(0, position - along.copied_to)


def _not_before(known: int, translation: Translation, log: Log) -> Translation:
    """The translation, where it is a floor or there is none, with what was known before; never beyond what the map says
    now."""
    if not log.start < known <= log.end:
        return translation
    match translation:
        case Translated(offset, exact=False, most=most) if known > offset:
            return replace(translation, offset=known if most is None else min(known, most))
        case TooOld(oldest_known, offset) if offset > log.start:
            why = f"it is before {oldest_known}, where the offset map begins: it resumes as its last checkpoint says"
            return Translated(min(known, offset), exact=False, most=offset, why=why)
        case Unmapped(reason):
            return Translated(known, exact=False, most=log.end, why=reason)
    return translation


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


def _unread_copies(
    position: int, log: Log, back: OffsetMap, along: OffsetMap | None, reasons: list[str]
) -> Iterator[int]:
    """Where copies begin that the group has not read."""
    if along is None or along.copied_to <= position:
        return
    index = along.begun_at(position)
    if index and position < along.segments[index - 1].upstream_end:
        match along.translate(position):
            case Translated(offset) | TooOld(_, offset):
                yield offset
        return
    gap = along.gap(index)
    if gap.copied and any(back.uncopied(range(max(position, gap.upstream.start), gap.upstream.stop))):
        place = range(max(gap.downstream.start, log.start), min(gap.downstream.stop, log.end))
        here = next(back.unmapped(place), None)
        if here is not None:
            reasons.append(_untold(gap.upstream))
            yield here.start
    if index < len(along.segments):
        yield along.segments[index].downstream_start


def _unread_originals(
    position: int, log: Log, back: OffsetMap, along: OffsetMap | None, at_end: bool, reasons: list[str]
) -> Iterator[int]:
    """Where this cluster's own records begin that the group has not read: copied ones, and those that were left
    behind."""
    copies = along or OffsetMap()
    segments = back.segments
    index = back.begun_at_downstream(position)
    if index and position == segments[index - 1].downstream_start:
        index -= 1
    if index and position < segments[index - 1].downstream_end:
        found = translate_back([segments[index - 1]], position)
        assert isinstance(found, Translated)
        if not found.exact:
            reasons.append(found.why or _INEXACT)
        yield found.offset
    else:
        yield from _behind_a_gap(position, index, log, back, copies, at_end, reasons)
    if back.copied_to > log.end:
        reasons.append(f"the log ends at {log.end}, although it was copied up to {back.copied_to}: it lost its end")
    left_behind = next(copies.uncopied(range(max(back.copied_to, log.start), log.end)), None)
    if left_behind is not None:
        yield left_behind.start


def _behind_a_gap(
    position: int, index: int, log: Log, back: OffsetMap, copies: OffsetMap, at_end: bool, reasons: list[str]
) -> Iterator[int]:
    """The group's next copy belongs to the gap before the segment of ``index``, or to that segment."""
    gap = back.gap(index)
    following = back.segments[index] if index < len(back.segments) else None
    if following is not None and not gap.upstream:
        # A later segment may begin with offsets of which it has no record.
        yield following.runs[0].upstream
        return
    # Before the map and behind it, records that never were in the copy do not count.
    inside = 0 < index < len(back.segments)
    if inside or (gap.copied and position < gap.downstream.stop and not at_end):
        place = range(max(gap.upstream.start, log.start), min(gap.upstream.stop, log.end))
        original = next(copies.uncopied(place), None)
        if original is not None:
            if not inside:
                reasons.append(_untold(gap.upstream))
            yield original.start
    if following is not None:
        yield following.upstream_start


def _untold(upstream: range) -> str:
    return f"the offset map does not say what was copied of offsets {upstream.start} to {upstream.stop}"


def _copies_read(position: int, offset: int, along: OffsetMap | None, back: OffsetMap | None) -> int:
    """Upper limit of the copies from ``offset`` on that were read on the other cluster, before ``position``."""
    if along is None:
        return 0
    back = back or OffsetMap()
    total = 0
    segments = along.segments
    first = max(0, along.begun_at_downstream(offset) - 1)
    for index in range(first, len(segments) + 1):
        gap = along.gap(index)
        if gap.upstream.start >= position:
            break
        # A writer that copies at least once may have copied a record several times.
        if gap.copied and any(back.uncopied(range(gap.upstream.start, min(gap.upstream.stop, position)))):
            total += max(0, gap.downstream.stop - max(gap.downstream.start, offset))
        if index == len(segments) or segments[index].upstream_start >= position:
            break
        for run in segments[index].runs:
            read = min(max(0, position - run.upstream), run.length)
            before = min(max(0, offset - run.downstream), run.length)
            total += max(0, (run.length if run.foreign and read else read) - before)
    return total


def _originals_read(position: int, offset: int, along: OffsetMap | None, back: OffsetMap | None) -> int:
    """Upper limit of the originals from ``offset`` on that have copies before ``position``, which the group has
    read."""
    if back is None:
        return 0
    copies = along or OffsetMap()
    total = 0
    segments = back.segments
    index = max(0, back.begun_at(offset) - 1)
    # A segment that a later one cut short keeps runs beyond its end.
    while index and segments[index - 1].runs[-1].upstream_end > offset:
        index -= 1
    for number in range(index, len(segments) + 1):
        gap = back.gap(number)
        if gap.downstream.start >= position:
            break
        if gap.copied:
            originals = _length(copies.uncopied(range(max(gap.upstream.start, offset), gap.upstream.stop)))
            read = range(gap.downstream.start, min(gap.downstream.stop, position))
            total += min(originals, _length(copies.unmapped(read)))
        if number == len(segments) or segments[number].downstream_start >= position:
            break
        for run in segments[number].runs:
            read_of_run = min(max(0, position - run.downstream), run.length)
            left = max(0, run.upstream_end - offset)
            before = 0 if run.foreign and left else max(0, run.length - left)
            total += max(0, read_of_run - before)
    return total


def _length(stretches: Iterable[range]) -> int:
    return sum(map(len, stretches))
