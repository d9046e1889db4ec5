"""What a run records: notes, topics that were left out, sizes of records, ends of copies, and its run record in the
flow's state."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.plans.plan import plan_notes
from srm_common.domain.runs.open_transaction import OpenTransaction, overdue, sentence, still_open
from srm_common.domain.runs.partition_track import PartitionTrack
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState, changed_transforms
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.refresh_memory import RefreshMemory
from srm_common.domain.topics.selection import TopicDecision
from srm_common.errors import ClusterError, CorruptRecord, RunFailed, SrmError
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.driver.passes import Passes
from srm_common.replication.driver.source_view import SourceView
from srm_common.settings_files.user_classes import code_digest
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.runs.copy_ends import CopyEnds

_LOG = logging.getLogger(__name__)
#: How often a long run writes its record between passes.
_RECORD_SECONDS = 10.0
#: A topic's record size is written down again when it is off by more than this factor.
_SIZE_TOLERANCE = 1.25
#: The newest notes a run record keeps.
_NOTES = 50


def last_run(flow: FlowSettings | FlowClusters) -> RunRecord | None:
    """The run record that was written last, None before the first run.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
        CorruptRecord: the record is not ours to read.
    """
    with clusters_of(flow) as clusters:
        found = clusters.state.read(StateKey.RUN)
    return _of_record(clusters.flow, found)


def _of_record(flow: FlowSettings, found: Any) -> RunRecord | None:
    try:
        return None if found is None else RunRecord.from_json(found)
    except CorruptRecord as error:
        topic = names.flow_state_topic(flow.name.source)
        raise CorruptRecord(
            f"{error}; write a tombstone with the key '{StateKey.RUN}' to {topic} on '{flow.target.alias}' to drop it"
        ) from error


class RunJournal:
    """What one run records. ``last`` is the record of the run before, None before the first; ``sizes`` are the mean
    bytes of a record by topic, as far as they are known."""

    def __init__(
        self, flow: FlowSettings, run: RunOptions, store: FlowState, clock: Callable[[], float] = time.time
    ) -> None:
        self._flow = flow
        self._run = run
        #: The digest of the code of the flow's Python function; None without one, or where it is not installed here.
        self.function = code_digest(flow.transforms_python) if flow.transforms_python else None
        self._store = store
        self._clock = clock
        self._started_ms = self._now_ms()
        self._written = time.monotonic()
        self._notes: list[str] = []
        self._lost: dict[str, str] = {}
        self._recalled = False
        self.copies_before: dict[TopicPartition, PartitionRecord] = {}
        self.last: RunRecord | None = None
        self.sizes: dict[str, float] = {}
        self.copy_ends = CopyEnds({}, {})
        self._open_transactions: tuple[OpenTransaction, ...] = ()

    def recall(self, known: Mapping[str, Any], copy_ids: Mapping[str, str]) -> None:
        """What earlier runs left: ``run``, ``sizes``, ``plan``, ``refresh`` of the flow's state.

        Args:
            copy_ids: the recorded topic ids of the copies, where there is no ``run``.

        Raises:
            CorruptRecord: a record of the flow's state cannot be read.
        """
        self.last = _of_record(self._flow, known.get(StateKey.RUN))
        self._recalled = True
        partitions = self.last.partitions if self.last else ()
        self.copies_before = {
            TopicPartition(partition.upstream_topic, partition.partition): partition for partition in partitions
        }
        self.copy_ends = CopyEnds(self.copies_before, self.last.copy_ids if self.last else copy_ids)
        self._open_transactions = self.last.open_transactions if self.last else ()
        notes = plan_notes(known.get(StateKey.PLAN), self.last.started_ms if self.last else 0)
        # A refresh that tried nothing again has nothing new to tell, but what it lacks is still so.
        standing = () if notes else RefreshMemory.from_json(known.get(StateKey.REFRESH)).standing(self._flow).values()
        for note in [*notes, *(f"refresh_topics: {one}" for failure in standing for one in failure.sentences)]:
            self.note(note, logging.INFO)
        self.sizes = dict(known.get(StateKey.SIZES, {}))
        if changed := changed_transforms(self._flow, self.last, self.function):
            self.note(changed.replace("from the next run on", "from now on"))

    def note(self, note: str, level: int = logging.WARNING) -> None:
        """Into the log and the record."""
        _LOG.log(level, "%s: %s", self._flow.name, note)
        self._notes.append(note)

    def lose(self, decision: TopicDecision) -> None:
        """A topic that the flow should copy and cannot; said once a run."""
        if decision.topic not in self._lost and self._run.wants(decision.topic):
            self._lost[decision.topic] = decision.reason
            self.note(f"{decision.topic} is not copied: {decision.reason}", logging.ERROR)

    def find_open_transactions(self, tracks: Iterable[PartitionTrack], source: SourceView) -> None:
        """At the end of a run. A partition whose last stable offset is where the last run left it may be held there."""
        listed = {track.place: track.end for track in tracks}
        ends = {
            place: end
            for place, end in listed.items()
            if end is not None and (before := self.copies_before.get(place)) is not None and before.end == end
        }
        try:
            highs, silent = source.held(ends)
            whose = source.holders({place: ends[place] for place in highs})
        except ClusterError as error:
            # What can be copied is copied; the next run looks again.
            self.note(f"cannot look for open transactions: {error}", logging.INFO)
            return
        held = {place: (ends[place], high) for place, high in highs.items()}
        now_ms = self._now_ms()
        unseen = silent.keys() | {place for place, end in listed.items() if end is None}
        elsewhere = [one for one in self._open_transactions if one.place in unseen or not self._run.wants(one.topic)]
        self._open_transactions = still_open(self._open_transactions, held, whose, now_ms, elsewhere)
        if late := overdue(self._open_transactions, now_ms, self._flow.open_transaction_alarm_seconds):
            self.note(sentence(late, now_ms))

    @property
    def is_due(self) -> bool:
        """Whether the record of an active run is to be written again."""
        return time.monotonic() - self._written > _RECORD_SECONDS

    def write_so_far(self, passes: Passes) -> None:
        """The record of a run that continues."""
        self._write(passes, RunState.RUNNING, None)

    def finish(self, passes: Passes | None) -> RunRecord:
        """The record of a run that has ended."""
        tracks = passes.tracks.values() if passes else ()
        self._note_skipped([track for track in tracks if track.copied.skipped_records])
        failed = self._lost or any(track.error is not None for track in tracks)
        return self._write(passes, RunState.FAILED if failed else RunState.DONE, self._losses())

    def _note_skipped(self, tracks: Sequence[PartitionTrack]) -> None:
        if not tracks:
            return
        skipped, letters = (
            sum(track.copied.skipped_records for track in tracks),
            sum(track.copied.dead_letters for track in tracks),
        )
        where = f"{letters} of them are in {self._flow.dead_letter_topic}" if letters else "they were dropped"
        self.note(
            f"{counted(skipped, 'record')} of {counted(len(tracks), 'partition')} were left out, since a transform "
            f"could not handle them (errors.tolerance = all); {where}"
        )

    def finish_in_spite_of(
        self, error: SrmError | KeyboardInterrupt, passes: Passes | None, impatient: FlowState
    ) -> None:
        """The record of a run that ends with ``error``; a target that cannot take it is the smaller trouble.

        Args:
            impatient: the flow's state for what need not be waited for: a target that is gone was waited for before.
        """
        self._store = impatient
        try:
            if not self._recalled:
                # A record without partitions would make later runs blind to what the target or the source loses.
                self.recall(self._store.read_all(StateKey.RUN, StateKey.SIZES), {})
            self._write(passes, RunState.FAILED, error)
        except SrmError as second:
            error.add_note(f"the run record could not be written either: {second}")

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _losses(self) -> RunFailed | None:
        if not self._lost:
            return None
        topic, reason = next(iter(self._lost.items()))
        more = "" if len(self._lost) == 1 else f"; {len(self._lost) - 1} more likewise"
        return RunFailed(f"{topic} is not copied: {reason}{more}")

    def _record(self, passes: Passes | None, state: RunState, error: SrmError | KeyboardInterrupt | None) -> RunRecord:
        tracks = list(passes.tracks.values()) if passes else []
        copied = {track.place for track in tracks}
        again = self.last is not None and self.last.run_id == self._run.run_id
        copy_ends, undecided = self.copy_ends, passes.points.undecided if passes else {}
        copies = [
            _partition_record(
                track,
                self.copies_before.get(track.place),
                copy_ends.recorded(track, undecided),
                again,
                self._flow.skips_records,
            )
            for track in tracks
        ]
        kept = [
            partition if again and passes is None else partition.carried()
            for partition in (self.last.partitions if self.last else ())
            if (partition.upstream_topic, partition.partition) not in copied
            and (passes is None or not self._run.wants(partition.upstream_topic))
        ]
        return RunRecord(
            flow=str(self._flow.name),
            run_id=self._run.run_id,
            started_ms=self._started_ms,
            finished_ms=None if state is RunState.RUNNING else self._now_ms(),
            passes=passes.count if passes else 0,
            state=state,
            error=_sentence(error),
            error_kind=type(error).__name__ if isinstance(error, SrmError) else None,
            notes=tuple(self._notes[-_NOTES:]),
            transactions=passes.transactions if passes else 0,
            retries=passes.retries if passes else 0,
            transforms=self._flow.transforms_digest,
            function=self.function,
            open_transactions=self._open_transactions,
            copy_ids=copy_ends.topic_ids if passes else self.last.copy_ids if self.last else {},
            partitions=tuple(sorted([*copies, *kept], key=lambda one: (one.upstream_topic, one.partition))),
        )

    def _write(self, passes: Passes | None, state: RunState, error: SrmError | KeyboardInterrupt | None) -> RunRecord:
        record = self._record(passes, state, error)
        self._store.write(StateKey.RUN, record.to_json())
        self._written = time.monotonic()
        self._write_sizes(passes)
        return record

    def _write_sizes(self, passes: Passes | None) -> None:
        observed = passes.record_bytes if passes else {}
        changed = {
            topic: round(size, 1)
            for topic, size in observed.items()
            if not 1 / _SIZE_TOLERANCE < size / self.sizes.get(topic, 1e-9) < _SIZE_TOLERANCE
        }
        if changed:
            self.sizes |= changed
            self._store.write(StateKey.SIZES, self.sizes)


def _partition_record(
    track: PartitionTrack,
    before: PartitionRecord | None,
    copy_end: int | None,
    again: bool,
    skips: bool,
) -> PartitionRecord:
    """A partition's line of the run record; ``before`` is that of the last record, which an earlier attempt of the same
    run has written if it is run ``again``. What that one skipped is committed, and would never be told. ``skips``:
    records may be left out, so that their totals count from 0."""
    copied = track.copied
    dropped, skipped, letters = copied.dropped_records, copied.skipped_records, copied.dead_letters
    if again and before is not None:
        dropped += before.dropped_records or 0
        skipped, letters = skipped + (before.skipped_records or 0), letters + (before.dead_letters or 0)
    records, size = (before.records_total, before.bytes_total) if before is not None else (None, None)
    skips_before = (before.skipped_records_total, before.dead_letters_total) if before is not None else (None, None)
    skips_now = (copied.skipped_records, copied.dead_letters)
    all_skipped, all_letters = (
        (total or 0) + now if skips or total is not None else None
        for total, now in zip(skips_before, skips_now, strict=True)
    )
    return PartitionRecord(
        upstream_topic=track.upstream_topic,
        downstream_topic=track.downstream_topic,
        partition=track.partition,
        records=track.records,
        bytes=copied.bytes,
        # What was not even listed stands where it stood.
        position=before.position if before is not None and track.end is None else track.position,
        end=track.end,
        latency_ms_min=copied.latency_ms_min,
        latency_ms_max=copied.latency_ms_max,
        latency_ms_avg=copied.latency_ms_avg,
        last_record_timestamp_ms=copied.last_timestamp_ms,
        transactions=track.transactions,
        retries=track.retries,
        reencoded_records=copied.reencoded_records,
        lost_records=track.lost_records,
        error=track.error,
        error_kind=track.error_kind,
        records_total=(records or 0) + track.records,
        bytes_total=(size or 0) + copied.bytes,
        copy_end=copy_end,
        latencies=copied.latencies if copied.latency_samples else None,
        skipped_records=skipped or None,
        dead_letters=letters or None,
        skipped_records_total=all_skipped,
        dead_letters_total=all_letters,
        dropped_records=dropped or None,
    )


def _sentence(error: SrmError | KeyboardInterrupt | None) -> str | None:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "the run was stopped before its end"
    return None if error is None else str(error)
