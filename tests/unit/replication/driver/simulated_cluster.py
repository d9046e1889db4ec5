"""A source and a target in memory that keep Kafka's rules as far as the pass loop depends on them.

Records are numbers. The target accepts a chunk only from the identity of the last fence, and stores its
records and its offset together, as a transaction does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import (
    NOTHING_COPIED,
    CopyJob,
    CopyRange,
    CopyStats,
    ProducerIdentity,
    RangeResult,
    SlotResult,
    SlotTask,
)
from srm_common.domain.runs.data_loss import EpochEnd
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.log_identity import EpochEnds, Listed
from srm_common.replication.driver.starting_points import Committed

_cluster = ClusterSettings.plaintext("c", "localhost:1")
JOB = CopyJob("a->b", "a", _cluster, _cluster, "offsets", 25, "segments", 25)


@dataclass
class Log:
    """``records`` from offset ``start`` on; ``stable`` records of them can be read by read_committed."""

    topic_id: str = "id-1"
    start: int = 0
    records: list[int] = field(default_factory=list)
    unstable: int = 0
    #: Leader epochs and the offsets at which they begin.
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, first in self.epochs if first <= offset), default=-1)

    def elect(self, keep: int | None = None) -> None:
        """A new leader, which has the log up to offset ``keep`` only (default: all of it)."""
        end = self.end if keep is None else keep
        del self.records[end - self.start :]
        leading = self.epochs[-1][0] + 1
        self.epochs = [*((epoch, first) for epoch, first in self.epochs if first < end), (leading, end)]

    def expire(self, records: int) -> None:
        del self.records[:records]
        self.start += records


class SimulatedSource:
    """Answers as :class:`srm_common.replication.driver.source_view.SourceView` does."""

    def __init__(self, logs: dict[TopicPartition, Log]) -> None:
        self.logs = logs
        self.down = False
        self.listings = 0
        self.epoch_questions = 0

    def _listed(self, partitions: Iterable[TopicPartition], value: Callable[[Log], int]) -> Listed:
        self.listings += 1
        found, faults = {}, {}
        for place in partitions:
            if self.down or place not in self.logs:
                faults[place] = f"{place[0]}-{place[1]}: no answer"
            else:
                found[place] = value(self.logs[place])
        return found, faults

    def ends(self, partitions: Iterable[TopicPartition]) -> Listed:
        return self._listed(partitions, lambda log: log.end - log.unstable)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Listed:
        return self._listed(partitions, lambda log: log.end)

    def starts(self, partitions: Iterable[TopicPartition]) -> Listed:
        return self._listed(partitions, lambda log: log.start)

    def at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Listed:
        """A record's value is its time."""

        def first(log: Log) -> int:
            return next((log.start + at for at, one in enumerate(log.records) if one >= timestamp_ms), -1)

        return self._listed(partitions, first)

    def saw(self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str | None]) -> None:
        """Its leaders are always the newest ones."""

    def leader_epoch_of(self, place: TopicPartition, topic_id: str | None) -> int:
        return self.leader_epoch(place)

    def leader_epoch(self, place: TopicPartition) -> int:
        return self.logs[place].epochs[-1][0] if place in self.logs else -1

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> EpochEnds:
        """As ``LeaderEpochFileCache.endOffsetFor``."""
        self.epoch_questions += len(epochs)
        ends: dict[TopicPartition, EpochEnd | None] = {}
        for place, asked in epochs.items():
            log = self.logs[place]
            if asked >= log.epochs[-1][0]:
                ends[place] = EpochEnd(log.epochs[-1][0], log.end)
            else:
                known = max((epoch for epoch, _ in log.epochs if epoch <= asked), default=asked)
                ends[place] = EpochEnd(known, min(first for epoch, first in log.epochs if epoch > asked))
        return ends, {}

    def compacted(self, topics: Iterable[str]) -> dict[str, bool | None]:
        return dict.fromkeys(topics, False)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        return {
            topic: next((log.topic_id for place, log in self.logs.items() if place[0] == topic), None)
            for topic in topics
        }


class SimulatedTarget:
    """Stores chunks; fences."""

    def __init__(self, source: SimulatedSource, slots: int = 3, chunk: int = 4) -> None:
        self.source = source
        self.slots = slots
        self.chunk = chunk
        self.records: dict[TopicPartition, list[int]] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.fences = 0
        self._epochs = count(1)
        self._valid: dict[int, ProducerIdentity] = {}
        self.refence()
        self.fences = 0

    @property
    def identities(self) -> tuple[ProducerIdentity, ...]:
        return tuple(self._valid[slot] for slot in range(self.slots))

    def refence(self) -> None:
        self.fences += 1
        self._valid = {n: ProducerIdentity(f"slot-{n}", n, next(self._epochs)) for n in range(self.slots)}

    def commit(self, slot: int, identity: ProducerIdentity | None, one: CopyRange, start: int, end: int) -> bool:
        """One chunk of one range; False when the identity is not the newest."""
        if identity != self._valid[slot]:
            return False
        place = TopicPartition(one.upstream_topic, one.partition)
        log = self.source.logs[place]
        assert log.start <= start <= end <= log.end
        self.records.setdefault(place, []).extend(log.records[start - log.start : end - log.start])
        self.offsets[place] = end
        self.epochs[place] = log.epoch_at(end - 1)
        return True

    def bumped(self, slot: int) -> ProducerIdentity:
        """As transaction.version 2 does at each commit."""
        self._valid[slot] = replace(self._valid[slot], epoch=next(self._epochs))
        return self._valid[slot]

    def read_offsets(self) -> Committed:
        return Committed(dict(self.offsets), {}, dict(self.epochs))


@dataclass
class SimulatedSlots:
    """A pass runner.

    ``fate(slot)`` says what happens to a slot: ``""`` all is well; ``part``: it stops after a chunk with an uncertain
    outcome; ``fenced``; ``error``: its ranges fail after a chunk; ``late``: it stops after a chunk, since the pass took
    long enough; ``lost``: it commits a chunk and its process dies; ``mute``: the same, but Spark starts it again.
    ``v1``: identities are spent by a pass.
    """

    target: SimulatedTarget
    fate: Callable[[int], str] = lambda slot: ""
    v1: bool = False
    passes: list[tuple[SlotTask, ...]] = field(default_factory=list)

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        from srm_common.errors import LostProcess

        self.passes.append(tuple(tasks))
        fates = {task.slot: self.fate(task.slot) for task in tasks}
        results = [self._slot(task, fates[task.slot]) for task in tasks]
        if "lost" in fates.values():
            raise LostProcess("a worker died")
        return results

    def _epoch(self, one: CopyRange, position: int) -> int:
        if position == one.start:
            return one.leader_epoch
        return self.target.source.logs[TopicPartition(one.upstream_topic, one.partition)].epoch_at(position - 1)

    def _slot(self, task: SlotTask, fate: str) -> SlotResult:
        moved = {copy_range: copy_range.start for copy_range in task.ranges}
        whole = fate == ""
        refused = False
        for copy_range in task.ranges:
            while moved[copy_range] < copy_range.end and not refused:
                end = min(copy_range.end, moved[copy_range] + self.target.chunk)
                refused = not self.target.commit(task.slot, task.identity, copy_range, moved[copy_range], end)
                moved[copy_range] = moved[copy_range] if refused else end
                if not whole:
                    break
        identity = task.identity
        if any(moved[copy_range] > copy_range.start for copy_range in task.ranges):
            identity = None if self.v1 else self.target.bumped(task.slot)
        hides = fate in ("part", "mute")
        return SlotResult(
            slot=task.slot,
            ranges=tuple(
                RangeResult(
                    copy_range.upstream_topic,
                    copy_range.downstream_topic,
                    copy_range.partition,
                    copy_range.start,
                    copy_range.start if hides else moved[copy_range],
                    copy_range.end,
                    NOTHING_COPIED
                    if hides
                    else CopyStats(
                        records=moved[copy_range] - copy_range.start, bytes=10 * (moved[copy_range] - copy_range.start)
                    ),
                    leader_epoch=copy_range.leader_epoch if hides else self._epoch(copy_range, moved[copy_range]),
                    error="it went wrong" if fate == "error" and moved[copy_range] < copy_range.end else None,
                    error_kind="PartitionError" if fate == "error" and moved[copy_range] < copy_range.end else None,
                )
                for copy_range in task.ranges
            ),
            identity=None if fate in ("part", "mute", "fenced") else identity,
            needs_new_epoch=hides,
            fenced="a newer owner" if refused or fate == "fenced" else None,
        )
