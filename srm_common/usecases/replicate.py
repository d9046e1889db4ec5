"""One run of a flow: own it, find out where it stands, copy what is new, write down what happened."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from srm_common.domain.copying import CopyJob, CopyRange
from srm_common.domain.flow import FlowSettings
from srm_common.domain.partition_track import PartitionTrack
from srm_common.domain.plan_record import plan_notes
from srm_common.domain.progress import Progress, by_topic
from srm_common.domain.run_options import RunOptions
from srm_common.domain.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.selection import TopicDecision
from srm_common.domain.source_topics import SourceTopics
from srm_common.domain.start_position import StartKind, StartPosition
from srm_common.domain.start_rules import StartRules
from srm_common.errors import FlowOwnedElsewhere, OwnershipError, RunFailed, SrmError
from srm_common.kafka.driver_presence import PREFIX, DriverPresence, drivers
from srm_common.kafka.flow_state import FlowState
from srm_common.kafka.source_offsets import read_source_offsets
from srm_common.kafka.state_topics import StateTopics, ensure_state_topics
from srm_common.replication.held_partitions import Copy, free_held_partitions
from srm_common.replication.ownership import Ownership
from srm_common.replication.pass_watch import PassWatch
from srm_common.replication.passes import Mapped, Passes, PassRunner
from srm_common.replication.source_view import SourceView
from srm_common.replication.starting_points import Partition, StartingPoints
from srm_common.usecases.emit_heartbeat import SteadyHeartbeats
from srm_common.usecases.lost_progress import refuse_lost_progress
from srm_common.usecases.opposite_ends import opposite_ends
from srm_common.usecases.others_at_work import new_owner, others_at_work
from srm_common.usecases.topic_mappings import replicated_topics

_LOG = logging.getLogger(__name__)
#: How often a long run writes its record between passes.
_RECORD_SECONDS = 10.0
#: A topic's record size is written down again when it is off by more than this factor.
_SIZE_TOLERANCE = 1.25
#: The newest notes a run record keeps.
_NOTES = 50

ProgressReport = Callable[[Progress], None]


def replicate(
    flow: FlowSettings, run: RunOptions, runner: PassRunner, progress: ProgressReport | None = None
) -> RunRecord:
    """Copy what is new at the source, in one pass or for ``run.max.seconds``.

    The run's record is written to the flow's state, also when the run fails and the target can be written to. Lost
    data and other faults of single partitions are in it; ``state`` is then ``failed``.

    Args:
        runner: copies the slots of a pass, in Spark or here.
        progress: told how far the run is, at least once a pass and about once a second during one; may be called
            from another thread.

    Raises:
        FlowOwnedElsewhere: another run took the flow; nothing was changed since.
        UnreachableCluster, AccessDenied, ConfigError, StateError: the run could do nothing (more).
    """
    return _Run(flow, run, runner, progress).go()


class _Run:
    def __init__(
        self, flow: FlowSettings, run: RunOptions, runner: PassRunner, progress: ProgressReport | None
    ) -> None:
        self._flow = flow
        self._run = run
        self._runner = runner
        self._progress = progress
        self._store = FlowState(flow)
        self._started_ms = _now_ms()
        self._started = self._recorded = time.monotonic()
        self._passes: Passes | None = None
        self._last: RunRecord | None = None
        self._sizes: dict[str, float] = {}
        self._notes: list[str] = []
        self._lost: dict[str, str] = {}

    def go(self) -> RunRecord:
        with self._store:
            try:
                self._copy()
            except OwnershipError as error:
                # The record belongs to whoever owns the flow now.
                who = new_owner(self._flow, self._store)
                if who is None:
                    raise
                raise FlowOwnedElsewhere(who) from error
            except SrmError as error:
                self._write_in_spite_of(error)
                raise
            except KeyboardInterrupt as interrupt:
                self._write_in_spite_of(interrupt)
                raise
            return self._write(self._outcome(), self._losses())

    def _copy(self) -> None:
        flow = self._flow
        for note in self._run.notes:
            self._note(note)
        state = ensure_state_topics(flow)
        for note in state.notes:
            self._note(note, logging.INFO)
        known = self._store.read_all("run", "slots", "topics", "sizes", "start", "plan")
        self._last = RunRecord.from_json(known["run"]) if "run" in known else None
        for note in plan_notes(known.get("plan"), self._last.started_ms if self._last else 0):
            self._note(note, logging.INFO)
        self._sizes = dict(known.get("sizes", {}))
        topics = self._topics()
        if not topics:
            self._note("no topic of the source is both accepted by the flow's filters and present on the target")
        slots = max(1, min(flow.tasks_max, sum(topic.partitions for topic in topics)))
        with ExitStack() as stack:
            source = stack.enter_context(SourceView(flow))
            job = copy_job(flow, state)
            presence = stack.enter_context(DriverPresence(self._store, self._run.run_id, self._run.installation))
            stack.enter_context(SteadyHeartbeats(flow))
            owner = self._own(slots, known.get("slots") or {})
            for note in others_at_work(flow, self._run, self._store):
                self._note(note)
            if owner is not None:
                stack.push(lambda kind, error, trace: self._disown(owner, kind, job))
                self._free(
                    owner,
                    job,
                    [
                        Copy((topic.upstream, number), (topic.downstream, number))
                        for topic in topics
                        for number in range(topic.partitions)
                    ],
                )
            # Anew, since offsets may have been moved by hand until the flow became ours.
            known = self._store.read_all("topics", "start", prefix=PREFIX)
            presence.forget_others(drivers(known))
            points = self._points(source, state, known, topics)
            self._passes = passes = Passes(
                job=job,
                runner=self._watched if self._progress else self._runner,
                points=points,
                topics=_then(topics, self._topics),
                remember=lambda memory: self._store.write("topics", memory.to_json()),
                owner=owner,
                slots_max=slots,
                record_bytes=dict(self._sizes),
                max_seconds=flow.run_max_seconds if self._run.max_seconds is None else self._run.max_seconds,
                patience_seconds=flow.retry_timeout_seconds,
                watch=self._between_passes,
            )
            self._prepare_override(points, topics, known.get("start"))
            passes.run()

    def _note(self, note: str, level: int = logging.WARNING) -> None:
        _LOG.log(level, "%s: %s", self._flow.name, note)
        self._notes.append(note)

    def _topics(self) -> list[Mapped]:
        return [
            Mapped(topic.upstream, topic.downstream, topic.partitions, topic.max_message_bytes)
            for topic in replicated_topics(self._flow, self._lose)
            if self._run.wants(topic.upstream)
        ]

    def _lose(self, decision: TopicDecision) -> None:
        if decision.topic not in self._lost and self._run.wants(decision.topic):
            self._lost[decision.topic] = decision.reason
            self._note(f"{decision.topic} is not copied: {decision.reason}", logging.ERROR)

    def _own(self, slots: int, recorded: Mapping[str, Any]) -> Ownership | None:
        if not self._flow.exactly_once:
            return None
        highest = int(recorded.get("highest", 0))
        if slots > highest:
            # Before the ids are used, so that a later run fences them even if this one ends here.
            self._store.write("slots", {"highest": slots})
        return Ownership.take(self._flow, slots, max(slots, highest))

    def _free(self, owner: Ownership, job: CopyJob, copies: Iterable[Copy]) -> None:
        """Free the copies that earlier transactions hold back; no slot is at work."""
        freed = free_held_partitions(job, owner.all_identities, copies)
        for fault in freed.faults:
            self._note(fault)
        if freed.looked_into:
            owner.refence()

    def _disown(self, owner: Ownership, kind: type[BaseException] | None, job: CopyJob) -> bool:
        passes = self._passes
        untouched = kind is None and passes is not None and passes.count == 0
        if untouched or (kind is not None and issubclass(kind, OwnershipError)):
            owner.abandon()
            return False
        try:
            if kind is None and passes is not None and passes.retries:
                # What failed may have left something open, and the next run may come late.
                owner.refence()
                tracks = passes.tracks.values()
                self._free(owner, job, [Copy(one.place, (one.downstream_topic, one.partition)) for one in tracks])
        finally:
            owner.release()
        return False

    def _points(
        self, source: SourceView, state: StateTopics, known: Mapping[str, Any], topics: Sequence[Mapped]
    ) -> StartingPoints:
        flow = self._flow

        def committed() -> tuple[Mapping[Partition, int], Mapping[Partition, str]]:
            offsets = read_source_offsets(flow, state)
            if not (offsets or offsets.faults or offsets.resets):
                refuse_lost_progress(flow, topics)
            return offsets, {place: str(fault) for place, fault in offsets.faults.items()}

        return StartingPoints(
            source=source,
            memory=SourceTopics.from_json(known.get("topics")),
            read_committed=committed,
            on_data_loss=flow.on_data_loss,
            rules=StartRules(flow.start_positions, flow.auto_offset_reset),
            opposite_ends=lambda places: opposite_ends(flow, places),
            note=self._note,
            last_ends={
                (one.upstream_topic, one.partition): one.end
                for one in (self._last.partitions if self._last else ())
                if one.end is not None
            },
        )

    def _prepare_override(self, points: StartingPoints, topics: Iterable[Mapped], applied: Any) -> None:
        """The run's start position, unless an earlier attempt under the same run id has applied it already."""
        start = self._run.start
        if start.kind is StartKind.COMMITTED or applied == {"run_id": self._run.run_id, "start": str(start)}:
            return
        points.override = start
        points.overridden = {(topic.upstream, number) for topic in topics for number in range(topic.partitions)}

    def _between_passes(self, passes: Passes, ranges: Sequence[CopyRange]) -> None:
        points = passes.points
        if points.override.kind is not StartKind.COMMITTED:
            # Its pins are stored by now; what could not be listed yet goes by the flow's own rule.
            self._store.write("start", {"run_id": self._run.run_id, "start": str(points.override)})
            points.override = StartPosition()
            points.overridden = set()
        now = time.monotonic()
        if not ranges and passes.count and now - self._recorded > _RECORD_SECONDS:
            self._write(RunState.RUNNING)
        if not ranges:
            self._report({}, copying=False)

    def _watched(self, job: CopyJob, tasks: Sequence[Any]) -> list[Any]:
        """The runner, with somebody watching."""
        ranges = [one for task in tasks for one in task.ranges]
        with PassWatch(
            self._flow.target,
            ranges,
            lambda done: self._report(done, copying=True),
            read_committed=self._flow.exactly_once,
        ):
            return self._runner(job, tasks)

    def _report(self, done: Mapping[Partition, int], copying: bool) -> None:
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

    def _outcome(self) -> RunState:
        tracks = self._passes.tracks.values() if self._passes else ()
        failed = self._lost or any(track.error is not None for track in tracks)
        return RunState.FAILED if failed else RunState.DONE

    def _losses(self) -> RunFailed | None:
        if not self._lost:
            return None
        topic, reason = next(iter(self._lost.items()))
        more = "" if len(self._lost) == 1 else f"; {len(self._lost) - 1} more likewise"
        return RunFailed(f"{topic} is not copied: {reason}{more}")

    def _record(self, state: RunState, error: SrmError | KeyboardInterrupt | None) -> RunRecord:
        passes = self._passes
        tracks = list(passes.tracks.values()) if passes else []
        copied = {track.place for track in tracks}
        kept = [
            one.carried()
            for one in (self._last.partitions if self._last else ())
            if (one.upstream_topic, one.partition) not in copied
            and (passes is None or not self._run.wants(one.upstream_topic))
        ]
        return RunRecord(
            flow=str(self._flow.name),
            run_id=self._run.run_id,
            started_ms=self._started_ms,
            finished_ms=None if state is RunState.RUNNING else _now_ms(),
            passes=passes.count if passes else 0,
            state=state,
            error=_sentence(error),
            error_kind=type(error).__name__ if isinstance(error, SrmError) else None,
            notes=tuple(self._notes[-_NOTES:]),
            transactions=passes.transactions if passes else 0,
            retries=passes.retries if passes else 0,
            partitions=tuple(
                sorted([*map(partition_record, tracks), *kept], key=lambda one: (one.upstream_topic, one.partition))
            ),
        )

    def _write(self, state: RunState, error: SrmError | KeyboardInterrupt | None = None) -> RunRecord:
        record = self._record(state, error)
        self._store.write("run", record.to_json())
        self._recorded = time.monotonic()
        self._write_sizes()
        return record

    def _write_sizes(self) -> None:
        observed = self._passes.record_bytes if self._passes else {}
        changed = {
            topic: round(size, 1)
            for topic, size in observed.items()
            if not 1 / _SIZE_TOLERANCE < size / self._sizes.get(topic, 1e-9) < _SIZE_TOLERANCE
        }
        if changed:
            self._sizes |= changed
            self._store.write("sizes", self._sizes)

    def _write_in_spite_of(self, error: SrmError | KeyboardInterrupt) -> None:
        """Write the record of a run that ends with ``error``; a target that cannot take it is the smaller trouble."""
        try:
            self._write(RunState.FAILED, error)
        except SrmError as second:
            error.add_note(f"the run record could not be written either: {second}")


def summary(record: RunRecord) -> str:
    """A run in one line."""
    seconds = ((record.finished_ms or record.started_ms) - record.started_ms) / 1000
    return (
        f"{record.flow}: {record.records} records, {record.bytes / 1e6:.1f} MB in {record.passes} "
        f"pass{'' if record.passes == 1 else 'es'} and {seconds:.1f} s; lag {record.lag}"
    )


def raise_if_failed(record: RunRecord) -> None:
    """Raises :class:`RunFailed` with the first reason when any partition failed, or a topic was left out."""
    failed = record.failed_partitions
    if record.state is RunState.FAILED and failed:
        raise RunFailed(
            f"{len(failed)} of {len(record.partitions)} partitions of {record.flow} failed: "
            f"{failed[0].upstream_topic}-{failed[0].partition}: {failed[0].error}"
            + ("" if len(failed) == 1 else "; the run record has the others")
        )
    if record.state is RunState.FAILED and record.error is not None:
        raise RunFailed(record.error)


def copy_job(flow: FlowSettings, state: StateTopics) -> CopyJob:
    """What all slots of the flow are told."""
    return CopyJob(
        flow=str(flow.name),
        source_alias=flow.name.source,
        source=flow.source,
        target=flow.target,
        offsets_topic=state.offsets_topic,
        offsets_partitions=state.offsets_partitions,
        segments_topic=state.segments_topic,
        segments_partitions=state.segments_partitions,
        exactly_once=flow.exactly_once,
        read_committed=flow.read_committed,
        chunk_bytes=flow.chunk_bytes,
        chunk_seconds=flow.chunk_seconds,
        fetch_bytes=flow.fetch_bytes,
        fetch_partition_bytes=flow.fetch_partition_bytes,
        transaction_timeout_ms=flow.transaction_timeout_ms,
        request_timeout_ms=flow.request_timeout_ms,
        retry_timeout_seconds=flow.retry_timeout_seconds,
    )


def partition_record(track: PartitionTrack) -> PartitionRecord:
    """A partition's line of the run record."""
    samples = track.latency_samples
    return PartitionRecord(
        upstream_topic=track.upstream_topic,
        downstream_topic=track.downstream_topic,
        partition=track.partition,
        records=track.records,
        bytes=track.bytes,
        position=track.position,
        end=track.end,
        latency_ms_min=track.latency_ms_min,
        latency_ms_max=track.latency_ms_max,
        latency_ms_avg=track.latency_ms_sum / samples if samples else None,
        last_record_timestamp_ms=track.last_timestamp_ms,
        transactions=track.transactions,
        retries=track.retries,
        reencoded_records=track.reencoded_records,
        lost_records=track.lost_records,
        error=track.error,
        error_kind=track.error_kind,
    )


def _sentence(error: SrmError | KeyboardInterrupt | None) -> str | None:
    if isinstance(error, KeyboardInterrupt):
        return "the run was stopped before its end"
    return None if error is None else str(error)


def _then(first: list[Mapped], later: Callable[[], list[Mapped]]) -> Callable[[], list[Mapped]]:
    """The listing at hand for the first call, a new one for each call after."""
    waiting = [first]
    return lambda: waiting.pop() if waiting else later()


def _now_ms() -> int:
    return int(time.time() * 1000)
