"""Where a flow continues after a take-over or hand-back: the stored offset of each partition, compared with the ends of
both logs.

MirrorMaker 2 copies a partition's records in their order, so its copy ends with the source's records up to the position
from which to continue. The stored offset is that position, except where MirrorMaker 2 was killed between a copy and its
next flush, or believed the offset of an aborted transaction. What both logs show counts more than what is stored.

Invariant: a position that is not proved is never ahead of the stored one, so that no record is left out which
MirrorMaker 2 would have copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.actions import ActionResult, failed

#: So many equal records in a row are no coincidence; fewer may be one if the copy holds more.
ENOUGH = 16
_SEGMENT_BYTES = 64 << 10


class Verdict(StrEnum):
    """The result of comparing the two logs."""

    PROVED = "proved"
    """The copy ends with the source's last record before the stored offset."""
    AHEAD = "ahead"
    """The copy has more than what is stored: continue after that, so that nothing is duplicated."""
    BEHIND = "behind"
    """The copy has less than what is stored: go back, so that nothing is missing."""
    BELIEVED = "believed"
    """There is nothing to compare, and nothing contradicts the stored offset."""
    UNPROVED = "unproved"
    """The logs do not agree with the stored offset; see the reason."""


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A visible record: its offset, and a digest of key, value and timestamp."""

    offset: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class CopyEnd:
    """A copy's log, and its last visible records in order."""

    log: LogRange
    records: tuple[SeenRecord, ...]


@dataclass(frozen=True, slots=True)
class HandoverPosition:
    """One partition. ``stored`` and ``position`` are next offsets to copy, None where there is none; ``position`` is
    what to continue from. ``proof`` is a sentence. ``pairs`` are the compared records: (upstream, downstream)
    offsets."""

    topic: str
    partition: int
    stored: int | None
    position: int | None
    verdict: Verdict
    proof: str
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "stored": self.stored,
            "position": self.position,
            "verdict": str(self.verdict),
            "proof": self.proof,
            "compared_records": len(self.pairs),
        }


def judge_position(
    place: TopicPartition,
    stored: int | None,
    source: LogRange | str,
    copy: CopyEnd | str,
    records: Sequence[SeenRecord],
    read: LogRange,
    *,
    compacted: bool = False,
) -> HandoverPosition:
    """Compare one partition's stored offset with both logs.

    Args:
        stored: the next offset to copy by what is stored.
        source, copy: the logs, or why one cannot be looked at.
        records: all visible records of the source in the offsets ``read``, in order. With those right before
            ``stored`` a clean end is proved; with others an unclean one can be.
        compacted: the source's topic is, so that it may have lost records which the copy has.
    """

    def at(position: int | None, verdict: Verdict, proof: str, matched: int = 0, last: int = -1) -> HandoverPosition:
        pairs: tuple[tuple[int, int], ...] = ()
        if matched and isinstance(copy, CopyEnd):
            upstream = records[last + 1 - matched : last + 1]
            downstream = copy.records[len(copy.records) - matched :]
            pairs = tuple((ours.offset, theirs.offset) for ours, theirs in zip(upstream, downstream, strict=True))
        return HandoverPosition(*place, stored, position, verdict, proof, pairs)

    if isinstance(copy, str):
        return at(stored, Verdict.UNPROVED, copy)
    if isinstance(source, str):
        return at(stored, Verdict.UNPROVED, source)
    if stored is not None and stored > source.end:
        beyond = f"the source's log ends at {source.end}, before the stored offset {stored}"
        return at(stored, Verdict.UNPROVED, f"{beyond}: the topic was truncated or created again")
    if not copy.records:
        return at(stored, *_of_empty_copy(stored, copy.log))
    sees_stored = stored is not None and read.start <= stored <= read.end
    before = _before(records, stored) if sees_stored else None
    if before is not None:
        matched = _equal_ends(copy.records, records[: before + 1])
        if matched >= min(ENOUGH, len(copy.records), before + 1):
            ends = f"the copy ends with the source's record {records[before].offset}"
            return at(stored, Verdict.PROVED, f"{ends}, {_counted(matched)} compared", matched, before)
    found = _found(copy.records, records)
    if found is not None:
        last, matched = found
        offset = records[last].offset
        proof = f"the copy ends with the source's record {offset}, {_counted(matched)} compared"
        if stored is None:
            return at(offset + 1, Verdict.AHEAD, f"nothing is stored, but {proof}", matched, last)
        many = "" if sees_stored else "at least "
        if offset >= stored:
            more = sum(stored <= record.offset <= offset for record in records)
            return at(offset + 1, Verdict.AHEAD, f"{proof}: {many}{more} more records than stored", matched, last)
        missing = sum(offset < record.offset < stored for record in records)
        return at(offset + 1, Verdict.BEHIND, f"{proof}: {many}{missing} fewer records than stored", matched, last)
    if compacted and stored is not None and before is not None and _thinned(copy.records, records, before):
        last_left = f"the source's record {records[before].offset} is in the copy, but none after it is"
        return at(stored, Verdict.BELIEVED, f"{last_left} (compacted topic)")
    return at(stored, *_without_match(stored, source, copy))


def segment_of(found: HandoverPosition, mapped: Segment | None) -> Segment | None:
    """The compared records as a piece of the offset map, so that positions among them translate exactly.

    Args:
        mapped: the newest segment of the partition there is; what it covers is left alone.
    """
    pairs = found.pairs
    if mapped is not None:
        pairs = tuple(pair for pair in pairs if pair[0] >= mapped.upstream_end and pair[1] >= mapped.downstream_end)
    if not pairs or found.position is None:
        return None
    runs = [OffsetSpan(upstream, 1, downstream, 1) for upstream, downstream in pairs]
    return build_segment(found.topic, found.partition, pairs[0][0], found.position, runs, _SEGMENT_BYTES)


def accepted(found: HandoverPosition) -> HandoverPosition:
    """An unproved position that the operator takes as it is."""
    return replace(found, verdict=Verdict.BELIEVED, proof=f"accepted unproved: {found.proof}")


def unproved(positions: Iterable[HandoverPosition]) -> list[HandoverPosition]:
    """Those that the logs do not agree with."""
    return [position for position in positions if position.verdict is Verdict.UNPROVED]


def counted_verdicts(positions: Iterable[HandoverPosition]) -> str:
    """How many partitions have which verdict, in words: "3 proved, 1 ahead"."""
    counts = Counter(position.verdict for position in positions)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]) or "no partition"


def _of_empty_copy(stored: int | None, log: LogRange) -> tuple[Verdict, str]:
    if stored is None:
        return Verdict.BELIEVED, "nothing was copied yet"
    if log.end == 0:
        return Verdict.UNPROVED, f"the copy never held a record, although all before {stored} is stored as copied"
    return Verdict.BELIEVED, "the copy's records have expired, nothing is left to compare"


def _without_match(stored: int | None, source: LogRange, copy: CopyEnd) -> tuple[Verdict, str]:
    if stored is None:
        held = f"the copy holds records up to {copy.records[-1].offset}, and no offset is stored"
        return Verdict.UNPROVED, f"{held}: the partition would be copied again, after them"
    if source.start >= stored:
        lost = source.start - stored
        gone = f"; {lost} offsets after it are gone, too, and on.data.loss applies" if lost else ""
        return Verdict.BELIEVED, f"the source no longer has any of the copied records{gone}"
    return Verdict.UNPROVED, (
        f"the copy's last record is not among the source's around {stored}: "
        f"something else writes into the copy, or MirrorMaker 2 changes records"
    )


def _before(records: Sequence[SeenRecord], stored: int | None) -> int | None:
    """Index of the last record before the stored offset."""
    found = None
    for index, record in enumerate(records):
        if stored is None or record.offset >= stored:
            break
        found = index
    return found


def _equal_ends(copy: Sequence[SeenRecord], source: Sequence[SeenRecord]) -> int:
    """How many records at the ends of both are equal."""
    count = 0
    for ours, theirs in zip(reversed(source), reversed(copy), strict=False):
        if ours.digest != theirs.digest:
            break
        count += 1
    return count


def _found(copy: Sequence[SeenRecord], source: Sequence[SeenRecord]) -> tuple[int, int] | None:
    """Where the copy's end is at the source: index of its last record there, and how many records are equal up to
    it."""
    matches = list(_matches(copy, source))
    if not matches:
        return None
    most = max(count for _, count in matches)
    best = [match for match in matches if match[1] == most]
    # Equal records may repeat; then the offset is ambiguous.
    return best[0] if len(best) == 1 and most >= min(ENOUGH, len(copy)) else None


def _matches(copy: Sequence[SeenRecord], source: Sequence[SeenRecord]) -> Iterator[tuple[int, int]]:
    for index, record in enumerate(source):
        if record.digest == copy[-1].digest:
            yield index, _equal_ends(copy, source[: index + 1])


def _thinned(copy: Sequence[SeenRecord], source: Sequence[SeenRecord], before: int) -> bool:
    """Whether compaction explains the difference: the last record before the stored offset is in the copy, no later one
    is."""
    last = source[before].digest
    places = [index for index, record in enumerate(copy) if record.digest == last]
    if not places:
        return False
    behind = {record.digest for record in copy[places[-1] + 1 :]}
    return not any(record.digest in behind for record in source[before + 1 :])


def _counted(records: int) -> str:
    return f"{records} record" + ("" if records == 1 else "s")


# What taking a flow over from MirrorMaker 2 would do, or did.


@dataclass(frozen=True)
class Takeover:
    """``signs``: that something still writes. ``left_out``: topics that MirrorMaker 2 copied and the flow does not,
    with the reason. ``faults``: stored offsets that cannot be read. ``held``: copies behind an open transaction.
    ``plan`` adopts the topics; ``results`` are what became of it. ``written``: the flow is ours, and every position is
    committed."""

    flow: str
    positions: tuple[HandoverPosition, ...]
    plan: Plan
    signs: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    results: tuple[ActionResult, ...] = ()
    written: bool = False

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why it was not, or would not be, carried out: one sentence each."""
        return (
            *self.signs,
            *self.faults,
            *self.held,
            *(f"{position.topic}-{position.partition}: {position.proof}" for position in unproved(self.positions)),
            *map(str, failed(self.results)),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "written": self.written,
            "obstacles": list(self.obstacles),
            "positions": [position.to_json() for position in self.positions],
            "left_out": [{"topic": topic, "reason": reason} for topic, reason in self.left_out],
            "plan": self.plan.to_json(),
            "results": [result.to_json() for result in self.results],
        }


# What handing a flow back to MirrorMaker 2 would do, or did.


@dataclass(frozen=True)
class Handback:
    """``signs``: that something is active. ``faults``: stored offsets that cannot be read. ``held``: copies behind an
    open transaction. ``rewritten``: so many keys whose last record was that of an aborted transaction. ``offsets``: so
    many offsets that were not committed, or not under MirrorMaker 2's names. ``checkpoints``: what the last round of
    offset syncs and checkpoints did."""

    flow: str
    positions: tuple[HandoverPosition, ...]
    signs: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    rewritten: int = 0
    offsets: int = 0
    checkpoints: str = ""
    written: bool = False

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why it was not, or would not be, carried out: one sentence each."""
        doubts = (f"{position.topic}-{position.partition}: {position.proof}" for position in unproved(self.positions))
        return (*self.signs, *self.faults, *self.held, *doubts)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "written": self.written,
            "obstacles": list(self.obstacles),
            "positions": [position.to_json() for position in self.positions],
            "rewritten": self.rewritten,
            "offsets": self.offsets,
            "checkpoints": self.checkpoints,
        }
