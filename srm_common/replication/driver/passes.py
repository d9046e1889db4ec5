"""The passes of a run: list end offsets, assign ranges to slots, copy, merge the results, repeat.

Invariant: between two passes no slot is active; a slot whose outcome is uncertain is fenced, and the
committed offsets are read again, before anything else is copied; and no Spark stage is started for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from srm_common.domain.offsets.segments import generation_of
from srm_common.domain.runs.copying import (
    CopyJob,
    CopyRange,
    ProducerIdentity,
    SlotResult,
    SlotTask,
    cut_slots,
    estimated_bytes,
)
from srm_common.domain.runs.partition_track import PartitionTrack
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import LostProcess, StateUnavailable, UnreachableCluster
from srm_common.kafka.client.logins.current_login import with_current_login
from srm_common.replication.driver.starting_points import StartingPoints
from srm_common.replication.driver.tracked_partitions import MAPPING_SECONDS, TrackedPartitions

PassRunner = Callable[[CopyJob, Sequence[SlotTask]], list[SlotResult]]
"""Copies the slots of one pass and returns when all are done. Raises :class:`LostProcess` when workers
died."""

#: How long an idle run pauses before it lists the ends again: at least so long, and so many times as long as the
#: listing kept the processor busy. Those of 100,000 partitions take a second or two, and megabytes.
IDLE_SECONDS, _LONGEST_IDLE_SECONDS, _IDLE_TIMES = 0.5, 10.0, 10
#: The longest pass. Between passes the run's record is written, slots are rebalanced, and new end offsets are listed.
PASS_SECONDS = 60.0
#: The shortest pass of a run that tails, when a partition waits for the next one.
_SHORT_PASS_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
#: Passes in a row that end uncertain and move nothing, before their partitions are given up.
_FRUITLESS_PASSES = 5


class Owner(Protocol):
    """:class:`srm_common.replication.driver.ownership.Ownership` as the passes see it."""

    @property
    def identities(self) -> tuple[ProducerIdentity, ...]: ...

    def refence(self) -> None: ...


class PassOutcome(Enum):
    """The outcome of one pass."""

    COPIED = auto()
    IDLE = auto()
    UNCERTAIN = auto()


@dataclass
class Passes:
    """All passes of one run.

    Args:
        job: what all slots have in common.
        runner: runs slots.
        points: where partitions start.
        topics: lists what is to be copied now.
        remember: stores what :class:`StartingPoints` must not forget, with the identity of the first slot, which
            nothing else uses meanwhile; returns the identity that the slot continues with, None if it needs a new one.
        owner: None for an at-least-once flow.
        slots_max: the most slots of a pass.
        record_bytes: observed record size by upstream topic.
        max_seconds: how long to continue; 0: until each partition has reached its end as it was first listed. Those
            that have are copied on meanwhile.
        patience_seconds: how long a partition, or the whole source, may stay unlisted.
        watch: called before and after each pass, with the active ranges.
    """

    job: CopyJob
    runner: PassRunner
    points: StartingPoints
    topics: Callable[[], Iterable[CopiedTopic]]
    remember: Callable[[SourceTopics, ProducerIdentity | None], ProducerIdentity | None]
    owner: Owner | None
    slots_max: int
    record_bytes: dict[str, float]
    max_seconds: float = 0.0
    patience_seconds: float = 60.0
    watch: Callable[[Passes, Sequence[CopyRange]], None] = lambda passes, ranges: None
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    cpu_clock: Callable[[], float] = time.thread_time

    def __post_init__(self) -> None:
        self.partitions = TrackedPartitions(
            self.topics, self.points, self.job.flow, self._tails, self.patience_seconds, self.clock
        )
        self.tracks: Mapping[TopicPartition, PartitionTrack] = self.partitions.tracks
        self.count = 0
        self.transactions = 0
        self.retries = 0
        self._identities: list[ProducerIdentity | None] = [*(self.owner.identities if self.owner else ())]
        self._uncertain: str | None = None
        self._fruitless = 0
        self._remembered = self.points.to_remember
        self._started = 0.0
        self._listing_seconds = 0.0

    def run(self) -> None:
        """Pass after pass until nothing is left to do, or the time is up.

        Raises:
            FlowOwnedElsewhere: another run took the flow.
            UnreachableCluster, AccessDenied, StateError: the run cannot continue.
        """
        self._started = self.clock()
        while True:
            happened = self._pass()
            if self.max_seconds <= 0:
                if self.partitions.all_settled:
                    break
            elif self._seconds_left() <= 0:
                break
            self._pause(happened)
        if self._uncertain is not None:
            self._refence()
        if not self._tails:
            self.partitions.excuse_beyond_goals()

    def _seconds_left(self) -> float:
        """For a run that tails. Whether it is over and how long it pauses are decided by the same difference: rounded
        separately, a run could have time left, but no time to wait."""
        return self._started + self.max_seconds - self.clock()

    def _pause(self, happened: PassOutcome) -> None:
        if happened is PassOutcome.COPIED:
            return
        pause = min(max(IDLE_SECONDS, _IDLE_TIMES * self._listing_seconds), _LONGEST_IDLE_SECONDS)
        if happened is PassOutcome.UNCERTAIN:
            pause = min(_FIRST_PAUSE_SECONDS * 2**self._fruitless, _LONGEST_PAUSE_SECONDS)
        if self.max_seconds > 0:
            pause = min(pause, max(0.0, self._seconds_left()))
        self.sleep(pause)

    def _pass(self) -> PassOutcome:
        if self._uncertain is not None:
            self._refence()
        self.partitions.find()
        ready = self._ready()
        if not ready:
            self.watch(self, ())
            return PassOutcome.IDLE
        recent = {track.place: track.recent_bytes for track in ready} if self._tails else None
        slots = cut_slots(map(self._range, ready), self.slots_max, self.record_bytes, recent_bytes=recent)
        tasks = tuple(
            SlotTask(number, identity, ranges, self._expected_bytes(ranges))
            for number, (identity, ranges) in enumerate(zip(self._identities_for(len(slots)), slots, strict=True))
        )
        self.watch(self, [copy_range for ranges in slots for copy_range in ranges])
        self.count += 1
        try:
            results = self.runner(self._job_of_pass(), tasks)
        except LostProcess as error:
            return self._mark_uncertain(str(error), ready, moved=False)
        happened = self._merge(tasks, results, ready)
        self.watch(self, ())
        return happened

    @property
    def _tails(self) -> bool:
        return self.max_seconds > 0

    def _job_of_pass(self) -> CopyJob:
        """The job, with the time limit of the next pass: a run with a time limit ends soon after it, whatever is left
        to copy, and regularly looks for new topics. The limit is shorter while a partition waits for the pass after."""
        job = replace(self.job, source=with_current_login(self.job.source), target=with_current_login(self.job.target))
        if not self._tails:
            return replace(job, pass_seconds=PASS_SECONDS)
        now = self.clock()
        left = min(PASS_SECONDS, MAPPING_SECONDS, max(1.0, self._started + self.max_seconds - now))
        if waiting := self.partitions.seconds_until_due(now):
            left = min(left, max(_SHORT_PASS_SECONDS, min(waiting)))
        return replace(job, pass_seconds=left, tail_until=self.wall_clock() + left)

    def _ready(self) -> list[PartitionTrack]:
        """The partitions of the next pass: those with records to copy, and in a run that tails all others as well; none
        if there is nothing to copy."""
        at_end: list[PartitionTrack] = []
        news: list[PartitionTrack] = []
        began = self.cpu_clock()
        listed = self.partitions.list_ends()
        self._listing_seconds = self.cpu_clock() - began
        for track in listed:
            (at_end if self.points.at_its_end(track) else news).append(track)
        ready = self.points.place(news, self.clock(), self.tracks.values()) if news else []
        behind = [track for track in ready if track.lag > 0]
        if behind and self._tails:
            behind = ready + (self.points.place(at_end, self.clock(), self.tracks.values()) if at_end else [])
        self._store()
        return behind

    def _identities_for(self, slots: int) -> list[ProducerIdentity | None]:
        """A usable identity for each slot: the one that it had after the last pass, or a new one."""
        if self.owner is None:
            return [None] * slots
        if None in self._identities[:slots]:
            self.owner.refence()
            self._identities = [*self.owner.identities]
        return self._identities[:slots]

    def _merge(
        self, tasks: Sequence[SlotTask], results: Iterable[SlotResult], ready: list[PartitionTrack]
    ) -> PassOutcome:
        now = self.clock()
        owed = self._owed()
        moved = []
        doubts = []
        answered = set()
        for result in results:
            answered.add(result.slot)
            self.transactions += result.transactions
            self.retries += result.retries
            if result.slot < len(self._identities):
                self._identities[result.slot] = result.identity
            for range_result in result.ranges:
                track = self.tracks[TopicPartition(range_result.upstream_topic, range_result.partition)]
                if track.absorb(range_result, result, now):
                    moved.append(track)
                if track.record_bytes is not None:
                    self.record_bytes[track.upstream_topic] = track.record_bytes
            if result.fenced is not None:
                doubts.append(result.fenced)
            elif result.needs_new_epoch:
                doubts.append("; ".join(result.notes) or f"slot {result.slot} lost its worker")
        doubts += [f"slot {task.slot} did not report" for task in tasks if task.slot not in answered]
        if not self.points.memory.pinned.isdisjoint(track.place for track in moved):
            self.points.forget_spent_pins(moved)
            self._store()
        if doubts:
            return self._mark_uncertain(doubts[0], ready, moved=any(track.place in owed for track in moved))
        self._fruitless = 0
        return PassOutcome.COPIED

    def _owed(self) -> set[TopicPartition]:
        """Partitions whose progress counts. In a run that does not tail, those at their goal are copied on as long as
        others are not: what their producers write must not keep alive a run that gets nowhere."""
        return {place for place, track in self.tracks.items() if self._tails or not track.reached_goal()}

    def _mark_uncertain(self, why: str, ready: list[PartitionTrack], moved: bool) -> PassOutcome:
        self.retries += 1
        self._uncertain = why
        self.points.note(f"fencing all slots and reading the committed offsets again: {why}")
        self._fruitless = 0 if moved else self._fruitless + 1
        if self._fruitless >= _FRUITLESS_PASSES:
            now = self.clock()
            for track in ready:
                if track.error is None and not track.reached_goal():
                    track.fail(f"given up after {self._fruitless} passes without progress: {why}", "LostProcess", now)
            self._fruitless = 0
        return PassOutcome.UNCERTAIN

    def _refence(self) -> None:
        """Fence whatever may still be writing, then read the committed offsets."""
        owed = self._owed()
        if self.owner is not None:
            self.owner.refence()
            self._identities = [*self.owner.identities]
        further = self.points.read_again(self.tracks.values())
        if any(track.place in owed for track in further):
            self._fruitless = 0
        self._store()
        self._uncertain = None

    def _expected_bytes(self, ranges: Iterable[CopyRange]) -> int | None:
        if any(copy_range.upstream_topic not in self.record_bytes for copy_range in ranges):
            return None
        return sum(estimated_bytes(copy_range, self.record_bytes) for copy_range in ranges)

    def _range(self, track: PartitionTrack) -> CopyRange:
        if track.position is None or track.end is None:
            raise ValueError(f"{track.upstream_topic}-{track.partition} was not placed")
        topic_id = self.points.memory.topic_id(track.upstream_topic)
        copied_to = self.points.copied_to(track)
        return CopyRange(
            upstream_topic=track.upstream_topic,
            downstream_topic=track.downstream_topic,
            partition=track.partition,
            start=track.position,
            end=track.end,
            max_message_bytes=track.max_message_bytes,
            generation=generation_of(topic_id),
            leader_epoch=track.leader_epoch,
            unmapped=track.unmapped,
            heartbeats=track.heartbeats,
            copied_to=copied_to,
            compacted=track.compacted,
            leading_epoch=self.points.source.leader_epoch_of(track.place, topic_id),
            copy_generation=generation_of(track.copy_id or None),
            copy_end=copied_to.downstream_end if copied_to is not None and track.records else 0,
        )

    def _store(self) -> None:
        """Store where topics start before anything is copied from there, retrying for as long as slots do."""
        deadline = self.clock() + self.patience_seconds
        while self.points.to_remember != self._remembered:
            (identity,) = self._identities_for(1)
            self._identities[:1] = [None]
            try:
                self._identities[:1] = [self.remember(self.points.memory, identity)]
            except (StateUnavailable, UnreachableCluster):
                if self.owner is None or self.clock() >= deadline:
                    raise
                self.sleep(_FIRST_PAUSE_SECONDS)
                continue
            self._remembered = self.points.to_remember
