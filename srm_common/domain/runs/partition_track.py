"""One partition over the passes of a run: its start, its position, what was copied, and whether it is retried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from srm_common import errors
from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.runs.copying import NOTHING_COPIED, CopyStats, RangeResult, SlotResult
from srm_common.domain.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """One upstream topic, all partitions together. Counts are of this run; ``left`` is in offsets.

    While a pass runs, ``done`` follows the target's committed ends; records and bytes come with the pass's
    result.
    """

    topic: str
    done: int
    left: int
    records: int
    bytes: int
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A run at one moment. ``copying``: a pass is active; otherwise the run looks for something new."""

    flow: str
    passes: int
    copying: bool
    elapsed_seconds: float
    topics: tuple[TopicProgress, ...]

    @property
    def done(self) -> int:
        """Offsets copied so far."""
        return sum(topic.done for topic in self.topics)

    @property
    def left(self) -> int:
        """Offsets known at the source and not copied yet."""
        return sum(topic.left for topic in self.topics)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)

    @property
    def bytes(self) -> int:
        return sum(topic.bytes for topic in self.topics)


def by_topic(parts: Iterable[TopicProgress]) -> tuple[TopicProgress, ...]:
    """Add up entries of the same topic; sorted by name."""
    sums: dict[str, TopicProgress] = {}
    for part in parts:
        known = sums.get(part.topic)
        sums[part.topic] = (
            part
            if known is None
            else TopicProgress(
                part.topic,
                known.done + part.done,
                known.left + part.left,
                known.records + part.records,
                known.bytes + part.bytes,
                known.failed + part.failed,
            )
        )
    return tuple(sums[topic] for topic in sorted(sums))


FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 2.0, 60.0


@dataclass
class PartitionTrack:
    """``position`` is the next upstream offset to copy, None until it is known; ``goal`` the end that a run of one pass
    has to reach; ``end`` the end as last seen; ``leader_epoch`` that of the offset before ``position`` in the source
    log, -1 when it is not known; ``nothing`` the last offsets, first (inclusive) and end, that were read and held
    nothing to copy, since the newest segment of the offset map; ``copied_to`` what the flow has committed, None where
    only the target knows, if any; ``copied`` what all passes brought, ``recent_bytes`` what the last one did;
    ``unmeasured_records`` came with a pass whose result did not arrive. ``heartbeats``, ``compacted``: see
    :class:`~srm_common.domain.runs.copying.CopyRange`. ``topic_id``, ``copy_id``: of the source topic and of the
    copy, as last listed. Times are seconds of a monotonic clock."""

    upstream_topic: str
    downstream_topic: str
    partition: int
    max_message_bytes: int = MAX_MESSAGE_BYTES
    position: int | None = None
    leader_epoch: int = -1
    nothing: tuple[int, int] = (0, 0)
    copied_to: CopiedTo | None = None
    goal: int | None = None
    end: int | None = None
    copied: CopyStats = NOTHING_COPIED
    unmeasured_records: int = 0
    recent_bytes: int = 0
    offsets_done: int = 0
    lost_records: int = 0
    transactions: int = 0
    retries: int = 0
    error: str | None = None
    error_kind: str | None = None
    final: bool = False
    rest_until: float = 0.0
    rest_seconds: float = 0.0
    unlisted_since: float | None = None
    heartbeats: bool = False
    compacted: bool = False
    topic_id: str = ""
    copy_id: str = ""

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.upstream_topic, self.partition)

    @property
    def lag(self) -> int:
        """Offsets between the position and the end; 0 while either is unknown."""
        return 0 if self.end is None or self.position is None else max(0, self.end - self.position)

    @property
    def records(self) -> int:
        """Copied in this run."""
        return self.copied.records + self.unmeasured_records

    @property
    def record_bytes(self) -> float | None:
        """Mean size of the records copied in this run, None when there were none."""
        return self.copied.bytes / self.copied.records if self.copied.records else None

    @property
    def unmapped(self) -> int:
        """So many offsets before the position are known to hold nothing to copy that the offset map would tell of; 0
        when the position was moved since."""
        start, end = self.nothing
        return end - start if end == self.position else 0

    def reached_goal(self) -> bool:
        return self.goal is not None and self.position is not None and self.position >= self.goal

    def listed(self, end: int) -> None:
        """The source says where the log ends. A log that was truncated, as by an unclean election, never reaches its
        former end by itself; a leader that only lags behind does not return one (KIP-207)."""
        self.end = end
        self.unlisted_since = None
        self.goal = end if self.goal is None else min(self.goal, end)

    def fail(self, error: str, kind: str, now: float) -> None:
        """Note an error. One that only the operator can fix is final for this run; after others the partition rests,
        then continues."""
        self.error, self.error_kind = error, kind
        self.final = self.final or is_final(kind)
        self.rest_seconds = min(max(2 * self.rest_seconds, FIRST_REST_SECONDS), LONGEST_REST_SECONDS)
        self.rest_until = now + self.rest_seconds

    def absorb(self, result: RangeResult, slot: SlotResult, now: float) -> bool:
        """Take in what a pass did to this partition; True when it moved on."""
        moved = result.position > result.start
        self.position, self.leader_epoch = result.position, result.leader_epoch
        self.nothing = result.position - result.unmapped, result.position
        self.copied_to = result.copied_to
        self.end = result.end if self.end is None else max(self.end, result.end)
        self.copied += result.copied
        self.recent_bytes = result.copied.bytes
        self.offsets_done += result.position - result.start
        self.transactions += slot.transactions
        self.retries += slot.retries
        if result.error is not None:
            self.fail(result.error, result.error_kind or "SrmError", now)
        elif result.position >= result.end:
            self.error = self.error_kind = None
            self.rest_seconds = self.rest_until = 0.0
        return moved

    def reposition(self, position: int | None, leader_epoch: int = -1) -> bool:
        """The committed offset was read again after an uncertain answer; True when more was committed than
        thought.

        A range that is known to have gone further than its result said counts as moved, its records as copied
        once: their number is the distance, the only figure there is.
        """
        before, self.position, self.leader_epoch = self.position, position, leader_epoch
        self.copied_to = None
        if position is None or before is None or position <= before:
            return False
        self.offsets_done += position - before
        self.unmeasured_records += position - before
        return True

    def progress(self, now_done: int = 0) -> TopicProgress:
        """For a watcher; ``now_done``: offsets of the active pass that the target has already."""
        return TopicProgress(
            topic=self.upstream_topic,
            done=self.offsets_done + now_done,
            left=max(0, self.lag - now_done),
            records=self.records,
            bytes=self.copied.bytes,
            failed=int(self.error is not None),
        )


_FINAL = (
    errors.DataLost
    | errors.RecordTooLarge
    | errors.CorruptBatch
    | errors.TransformFailed
    | errors.CorruptRecord
    | errors.AccessDenied
    | errors.ConfigError
)


def is_final(kind: str) -> bool:
    """Whether an error of this class (a name in :mod:`srm_common.errors`) stays until an operator acts on it."""
    found = getattr(errors, kind, None)
    return isinstance(found, type) and issubclass(found, _FINAL)


def explicit_offset(track: PartitionTrack, where: StartPosition, start: int, why: str) -> int | str:
    offset, end = where.offset(track.partition) or 0, listed_end(track)
    if start <= offset <= end:
        return offset
    return (
        f"{track.upstream_topic}-{track.partition} cannot start at offset {offset} ({why}): its log has the offsets "
        f"{start} to {end}; change start.positions"
    )


def offset_behind_copied(copied: int | str, track: PartitionTrack, starts: Mapping[TopicPartition, int]) -> int | str:
    """Where the records begin that the opposite flow did not bring, as far as they are still there."""
    if isinstance(copied, int) and copied > listed_end(track):
        return (
            f"{track.upstream_topic}-{track.partition} cannot start where the opposite flow ended, at {copied}: its "
            f"log ends at {listed_end(track)}, so it was truncated or created again; change start.positions"
        )
    return copied if isinstance(copied, str) else max(copied, starts[track.place])


def listed_end(track: PartitionTrack) -> int:
    if track.end is None:
        raise ValueError(f"{track.upstream_topic}-{track.partition} has no listed end")
    return track.end
