"""One run of a flow: take ownership, read the state, copy what is new, record the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.flow.start_position import StartKind, StartRules
from srm_common.domain.runs.copying import CopyJob, CopyRange, ProducerIdentity
from srm_common.domain.runs.partition_track import Progress, by_topic
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import (
    Fenced,
    FlowOwnedElsewhere,
    OwnershipError,
    RunFailed,
    SrmError,
    UnreachableCluster,
)
from srm_common.kafka.state.driver_presence import DriverPresence, drivers
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.replication.driver.hanging_transactions import Copy, end_hanging_transactions
from srm_common.replication.driver.ownership import Ownership, taken_over
from srm_common.replication.driver.pass_watch import PassWatch
from srm_common.replication.driver.passes import Passes, PassRunner
from srm_common.replication.driver.source_view import SourceView
from srm_common.replication.driver.starting_points import Committed, StartingPoints
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.replication.spark.driver_pass import NeedsSpark
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.slot_count import record_slots, take_ownership
from srm_common.usecases.offsets.opposite_ends import opposite_ends
from srm_common.usecases.offsets.steady_checkpoints import SteadyCheckpoints
from srm_common.usecases.runs.copy_job import copy_job
from srm_common.usecases.runs.emit_heartbeat import SteadyHeartbeats
from srm_common.usecases.runs.failed_over import failed_over
from srm_common.usecases.runs.lost_memory import recorded_topics, restored_memory
from srm_common.usecases.runs.lost_progress import LostProgress
from srm_common.usecases.runs.preflight import competing_runs, error_handling, new_owner, refuse_missing_offsets
from srm_common.usecases.runs.run_journal import RunJournal

_LOOK_AGAIN_SECONDS = 1.0

ProgressReport = Callable[[Progress], None]


def replicate(
    flow: FlowSettings | FlowClusters, run: RunOptions, runner: PassRunner, progress: ProgressReport | None = None
) -> RunRecord:
    """Copy what is new at the source, in one pass or for ``run.max.seconds``.

    The run's record is written to the flow's state, also when the run fails and the target can be written to. Lost
    data and other faults of single partitions are in it; ``state`` is then ``failed``.

    Args:
        runner: copies the slots of a pass, in Spark or here.
        progress: called with the run's progress, at least once a pass and about once a second during one; may be called
            from another thread.

    Raises:
        FlowOwnedElsewhere: another run took the flow; nothing was changed since.
        NeedsSpark: as ``runner`` does; the flow is as it was, and no record is written.
        UnreachableCluster, AccessDenied, ConfigError, StateError: the run could do nothing (more).
    """
    with clusters_of(flow) as clusters:
        patient = clusters.with_flow(clusters.flow, patience_seconds=clusters.flow.patience_seconds)
        return _Run(patient, run, runner, progress).go(clusters.state)


class _Run:
    def __init__(
        self, clusters: FlowClusters, run: RunOptions, runner: PassRunner, progress: ProgressReport | None
    ) -> None:
        self._clusters = clusters
        self._flow = flow = clusters.flow
        self._run = run
        self._runner = runner
        self._progress = progress
        self._store = clusters.state
        self._journal = RunJournal(flow, run, self._store, clusters.clock)
        self._started = time.monotonic()
        self._passes: Passes | None = None
        self._owner: Ownership | None = None
        self._copies: list[Copy] = []
        #: Topics with progress that the flow has committed itself.
        self._written: set[str] = set()

    def go(self, impatient: FlowState) -> RunRecord:
        try:
            self._copy()
        except OwnershipError as error:
            # The record belongs to the flow's current owner.
            if (who := new_owner(self._clusters)) is None:
                raise
            raise FlowOwnedElsewhere(who) from error
        except SrmError as error:
            self._journal.finish_in_spite_of(error, self._passes, impatient)
            raise
        except KeyboardInterrupt as interrupt:
            self._journal.finish_in_spite_of(interrupt, self._passes, impatient)
            raise
        return self._journal.finish(self._passes)

    def _copy(self) -> None:
        flow = self._flow
        for note in self._run.notes:
            self._journal.note(note)
        state = self._clusters.state_topics(patience_seconds=flow.patience_seconds)
        for note in state.notes:
            self._journal.note(note, logging.INFO)
        known = self._store.read_all(
            *(StateKey.RUN, StateKey.TOPICS, StateKey.SIZES, StateKey.START, StateKey.PLAN, StateKey.REFRESH),
            StateKey.MOVE,
        )
        self._journal.recall(known, {} if StateKey.RUN in known else recorded_topics(self._clusters).ids)
        last = self._journal.last
        if moved := failed_over(self._clusters, known.get(StateKey.MOVE), None if last is None else last.started_ms):
            self._journal.note(moved)
        topics = self._first_topics()
        if not topics:
            self._journal.note(
                "no topic of the source is both accepted by the flow's filters and present on the target"
            )
        slots = max(1, min(flow.tasks_max, sum(topic.partitions for topic in topics)))
        with ExitStack() as stack:
            source = stack.enter_context(self._clusters.source_view(patience_seconds=flow.patience_seconds))
            job = replace(
                copy_job(flow, state, self._journal.function), error_handling=error_handling(self._clusters, topics)
            )
            presence = stack.enter_context(DriverPresence(self._store, self._run.run_id, self._run.installation))
            stack.enter_context(SteadyHeartbeats(self._clusters))
            owner = self._owner = take_ownership(self._clusters, slots, slots) if flow.exactly_once else None
            checkpoints = stack.enter_context(SteadyCheckpoints(flow, self._journal.note, self._clusters.clock))
            for note in competing_runs(self._clusters, self._run):
                self._journal.note(note)
            if owner is not None:
                stack.push(lambda kind, error, trace: self._disown(owner, kind, job))
                self._copies = [
                    Copy(TopicPartition(topic.upstream, number), TopicPartition(topic.downstream, number))
                    for topic in topics
                    for number in range(topic.partitions)
                ]
                record_slots(self._clusters, owner, slots)
                self._free(owner, job, self._copies)
                self._journal.copy_ends.look(
                    owner, self._copies, {topic.downstream: topic.downstream_topic_id for topic in topics}
                )
            # Read again, since offsets may have been moved by hand until the flow became ours.
            known = self._store.read_all(StateKey.TOPICS, StateKey.START, prefix=StateKey.DRIVER)
            presence.forget_others(drivers(known))
            points = self._points(source, state, known, topics)
            self._passes = passes = Passes(
                job=job,
                runner=self._watched if self._progress else self._runner,
                points=points,
                topics=_then(topics, self._topics),
                remember=self._remember,
                owner=owner,
                slots_max=slots,
                record_bytes=dict(self._journal.sizes),
                max_seconds=flow.run_max_seconds if self._run.max_seconds is None else self._run.max_seconds,
                patience_seconds=flow.retry_timeout_seconds,
                watch=self._between_passes,
            )
            points.memory = restored_memory(
                points.memory, self._written, topics, points.rules, lambda: recorded_topics(self._clusters)
            )
            self._prepare_override(points, topics, known.get(StateKey.START))
            passes.run()
            points.fail_unplaced(passes.tracks.values())
            self._journal.find_open_transactions(passes.tracks.values(), source)
            # Heartbeats alone move no group, and come with each run.
            if any(
                track.records and not names.has_heartbeats(flow, track.upstream_topic)
                for track in passes.tracks.values()
            ):
                checkpoints.copied()

    def _first_topics(self) -> list[CopiedTopic]:
        """What there is to copy at the start, with the patience that slots have: a broker's restart ends no run."""
        deadline = time.monotonic() + self._flow.patience_seconds
        while True:
            try:
                return self._topics()
            except UnreachableCluster:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_AGAIN_SECONDS)

    def _topics(self) -> list[CopiedTopic]:
        topics = replicated_topics(self._clusters, self._journal.lose)
        return [topic for topic in topics if self._run.wants(topic.upstream)]

    def _remember(self, memory: SourceTopics, identity: ProducerIdentity | None) -> ProducerIdentity | None:
        """By a transaction, where there are any: a run that was overtaken must not replace what the next one chose. The
        pins of the run's start position, and that it was applied, are written together."""
        assert self._passes is not None
        values = {StateKey.TOPICS: memory.to_json()}
        if self._passes.points.override.kind is not StartKind.COMMITTED:
            values[StateKey.START] = self._run.applied_start(self._passes.points.overridden)
        if identity is None:
            for key, value in values.items():
                self._store.write(key, value)
            return None
        records = [self._store.record(key, value) for key, value in values.items()]
        try:
            return write_transaction(self._flow, identity, records, self._clusters.target.links)
        except Fenced as error:
            raise taken_over(self._flow) from error

    def _free(self, owner: Ownership, job: CopyJob, copies: Iterable[Copy]) -> None:
        """Free the copies that earlier transactions hold back; no slot is active."""
        freed = end_hanging_transactions(job, owner.all_identities, copies, self._clusters.target.links)
        for fault in freed.faults:
            self._journal.note(fault)
        if freed.found_any:
            owner.refence()

    def _disown(self, owner: Ownership, kind: type[BaseException] | None, job: CopyJob) -> bool:
        passes = self._passes
        untouched = kind is None and passes is not None and passes.count == 0
        if untouched or (kind is not None and issubclass(kind, (OwnershipError, NeedsSpark))):
            owner.abandon(ours=untouched)
            return False
        try:
            if kind is None and passes is not None:
                self._journal.copy_ends.read_again(owner, passes.points.undecided)
            if kind is None and passes is not None and passes.retries:
                # What failed may have left something open, and the next run may come late.
                owner.refence()
                tracks = passes.tracks.values()
                self._free(
                    owner,
                    job,
                    [Copy(track.place, TopicPartition(track.downstream_topic, track.partition)) for track in tracks],
                )
        finally:
            owner.release()
        return False

    def _points(
        self, source: SourceView, state: StateTopics, known: Mapping[str, Any], topics: Sequence[CopiedTopic]
    ) -> StartingPoints:
        flow, last = self._flow, self._journal.last
        memory = SourceTopics.from_json(known.get(StateKey.TOPICS))
        lost: LostProgress | None = None
        # A run with a start of its own needs no offsets.
        if self._owner is not None and self._run.start.kind is StartKind.COMMITTED:
            lost = LostProgress(self._clusters, self._owner, self._copies, self._journal.copies_before, topics)

        def committed() -> Committed:
            offsets = read_source_offsets(
                flow, state, patience_seconds=flow.patience_seconds, pool=self._clusters.target.links
            )
            if not (offsets or offsets.faults or offsets.resets):
                # Not by the record of the last run, which may be that of a refusal.
                stateless = not memory.topics and self._passes is None
                refuse_missing_offsets(self._clusters, topics, stateless=stateless)
            self._written = {place.topic for place in (*offsets.copied_to, *offsets.epochs)}
            found = {} if lost is None else lost.find(offsets, memory.pinned)
            faults = {place: str(fault) for place, fault in (found | offsets.faults).items()}
            return Committed(offsets, faults, offsets.epochs, offsets.copied_to)

        return StartingPoints(
            source=source,
            memory=memory,
            read_committed=committed,
            on_data_loss=flow.on_data_loss,
            on_target_loss=flow.on_target_loss,
            find_cut=self._journal.copy_ends.compare,
            rules=StartRules(flow.start_positions, flow.auto_offset_reset),
            opposite_ends=lambda places: opposite_ends(self._clusters, places),
            note=self._journal.note,
            patience_seconds=flow.retry_timeout_seconds,
            last_ends={
                TopicPartition(partition.upstream_topic, partition.partition): partition.end
                for partition in (last.partitions if last else ())
                if partition.end is not None
            },
        )

    def _prepare_override(self, points: StartingPoints, topics: Iterable[CopiedTopic], applied: Any) -> None:
        """The run's start position, except where an earlier attempt under the same run id has applied it already."""
        if self._run.start.kind is not StartKind.COMMITTED:
            every = {TopicPartition(topic.upstream, number) for topic in topics for number in range(topic.partitions)}
            left = self._run.left_to_start(applied)
            points.overridden = every if left is None else every & left
            points.override = self._run.start

    def _between_passes(self, passes: Passes, ranges: Sequence[CopyRange]) -> None:
        if not ranges:
            if passes.count and self._journal.is_due:
                if self._owner is not None:
                    self._owner.assert_held()
                self._journal.write_so_far(passes)
            self._report({}, copying=False)

    def _watched(self, job: CopyJob, tasks: Sequence[Any]) -> list[Any]:
        """The runner, watched by a :class:`PassWatch`."""
        ranges = [one for task in tasks for one in task.ranges]
        with PassWatch(
            self._flow.target,
            ranges,
            lambda done: self._report(done, copying=True),
            read_committed=self._flow.exactly_once,
        ):
            return self._runner(job, tasks)

    def _report(self, done: Mapping[TopicPartition, int], copying: bool) -> None:
        if self._progress is None or self._passes is None:
            return
        self._progress(
            Progress(
                flow=str(self._flow.name),
                passes=self._passes.count,
                copying=copying,
                elapsed_seconds=time.monotonic() - self._started,
                topics=by_topic(
                    track.progress(done.get(track.place, 0)) for track in list(self._passes.tracks.values())
                ),
            )
        )


def summary(record: RunRecord) -> str:
    """A run in one line."""
    seconds = ((record.finished_ms or record.started_ms) - record.started_ms) / 1000
    return (
        f"{record.flow}: {counted(record.records, 'record')}, {record.bytes / 1e6:.1f} MB in {record.passes} "
        f"pass{'' if record.passes == 1 else 'es'} and {seconds:.1f} s; lag {record.backlog.text('partition')}"
    )


def raise_if_failed(record: RunRecord) -> None:
    """Raises :class:`RunFailed` with the first reason when any partition failed, or a topic was left out."""
    failed = record.failed_partitions
    if record.state is RunState.FAILED and failed:
        raise RunFailed(
            f"{len(failed)} of {len(record.partitions)} partitions of {record.flow} failed: "
            f"{failed[0].trouble}" + ("" if len(failed) == 1 else "; the run record has the others")
        )
    if record.state is RunState.FAILED and record.error is not None:
        raise RunFailed(record.error)


def _then(first: list[CopiedTopic], later: Callable[[], list[CopiedTopic]]) -> Callable[[], list[CopiedTopic]]:
    """The listing at hand for the first call, a new one for each call after."""
    waiting = [first]
    return lambda: waiting.pop() if waiting else later()
