"""Ends hanging transactions before the next commit of the same producer would make their records visible.

Kafka 4.3 skips the markers of partitions that have no leader at the moment, as right after the start of a
broker that was killed, and reports the transaction complete (KAFKA-20734). Its records then wait in the partition for
the producer's next marker, whichever that is. Here a transaction over such partitions writes the right one: an abort
if the offset map, committed in the same transaction as the records, does not have them, else a commit.

If a slot dies between the beginning and the end of that transaction, it is aborted: by the next fence
(InitProducerId, KIP-98: ``TransactionCoordinator.handleInitProducerId`` aborts what is ongoing) or by its timeout.
So an abort must be right at every moment. If the verdict is "abort", it is. If it is "commit", two transactions are
needed:

1. The first takes the records out of the map, and sets the flow's offset back to where they begin at the source. It
   does not name the partition, so the records stay as they are.
2. The second names the partition, and writes map and offset again as they were.

=========================================  ==============================  =============================================
death                                      state                           the next run
=========================================  ==============================  =============================================
before the first is committed              as it was found                 takes the same verdict
between the two                            records open, in no map         aborts them, copies them again
inside the second, before its commit       the same, when it is aborted    copies them again
after its commit was written               records and map committed       continues
=========================================  ==============================  =============================================

A commit is written with the coordinator's record "PrepareCommit"; from then on every coordinator carries it out. So
map and records agree whether the response is lost or not. Copying the records again keeps their order, because the
verdict is "commit" only where nothing else lies behind them. If retention has deleted them at the source by then, the
next run reports lost data: the offset says where they began.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from srm_common.domain.offsets.segments import Segment
from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, CorruptRecord, PartitionError, StateTopicInvalid, UnreachableCluster
from srm_common.kafka.client.links.link import LATEST, ClusterLink, RetriableFault
from srm_common.kafka.log.committed_log import log_ends, newest_records
from srm_common.kafka.transactions.hanging_transactions import left_open
from srm_common.kafka.transactions.producer import Producer, UncertainCommit
from srm_common.replication.slots.state_batches import produce_state
from srm_common.wire.state.mm2 import (
    FROM_ZERO,
    copied_to_in,
    parse_source_offset_value,
    partition_for,
    source_offset_key,
    source_offset_value,
)
from srm_common.wire.state.plain_records import Entry, read_headers
from srm_common.wire.state.segments import decode_segment, segment_key_prefix, segment_partition

_Entries = dict[TopicPartition, list[Entry]]
#: The least time to wait for a partition of a state topic before it counts as unreadable.
_LEAST_PATIENCE_SECONDS = 1.0


class Copied(Protocol):
    """A partition and its copy."""

    @property
    def upstream(self) -> TopicPartition: ...

    @property
    def downstream(self) -> TopicPartition: ...


class _Record(NamedTuple):
    """A record of a state topic: its value, and its headers from their number on."""

    value: bytes | None
    headers: bytes

    def entry(self, key: bytes) -> Entry:
        """As it is written again. Raises :class:`CorruptBatch` where its headers cannot be read."""
        return key, self.value, tuple(read_headers(self.headers).items())


@dataclass(frozen=True)
class _Progress:
    """What the state topics say of records that wait in a copy: ``without`` them, and ``with_them`` as it is now."""

    without: _Entries
    with_them: _Entries


async def end_open_transactions(
    job: CopyJob, target: ClusterLink, producer: Producer, states: Sequence[Copied], *, deadline: float | None = None
) -> dict[TopicPartition, PartitionError]:
    """End transactions of ``producer`` that are open in the partitions to which ``states`` write, though none should
    be. Returns the downstream partitions where that is not possible, with the reason; they must not be written to.

    Args:
        deadline: when to give up asking, in monotonic seconds; by default the job's patience from now.

    Raises:
        UncertainCommit: how they were ended is not known. ``producer`` must not be used any more: its next commit
            could end them wrongly. What is committed must be read again before anything else is copied.
        Fenced, ClusterError: as :class:`Producer`; the former needs the same.
    """
    homes = {state: homes_of(job, state) for state in states}
    watched = {state.downstream for state in states} | {home for both in homes.values() for home in both}
    found = await left_open(target, watched, producer.producer_id)
    if not found:
        return {}
    faults = {
        state.downstream: _error(job, state, producer, found)
        for state in states
        if any(home in found for home in homes[state])
    }
    held = [state for state in states if state.downstream in found and state.downstream not in faults]
    aborted: list[TopicPartition] = []
    committed: dict[TopicPartition, _Progress] = {}
    records = _StateRecords(target, time.monotonic() + job.retry_timeout_seconds)
    # By their homes, so that each partition of the map is read once.
    for state in sorted(held, key=lambda one: homes[one][1]):
        try:
            verdict = await _verdict(target, job, state, found[state.downstream], records)
        except (PartitionError, CorruptRecord, UnreachableCluster) as error:
            faults[state.downstream] = _error(job, state, producer, found, error)
            continue
        if verdict is None:
            aborted.append(state.downstream)
        else:
            committed[state.downstream] = verdict
    if deadline is None:
        deadline = time.monotonic() + job.retry_timeout_seconds
    try:
        if aborted:
            # Refused or not, whether it helped is seen below.
            await producer.end_empty(aborted, deadline=deadline)
        if committed:
            await _commit(job, target, producer, committed, deadline)
    except (UncertainCommit, RetriableFault, ClusterError, StateTopicInvalid) as error:
        raise UncertainCommit(_doubt(job, [*aborted, *committed], found, error)) from error
    ended = [*aborted, *committed]
    still = await left_open(target, ended, producer.producer_id) if ended else {}
    return faults | {
        state.downstream: _error(job, state, producer, found) for state in states if state.downstream in still
    }


def homes_of(job: CopyJob, state: Copied) -> tuple[TopicPartition, TopicPartition]:
    """The partitions of the state topics that hold the range's source offset and its map."""
    topic, partition = state.upstream
    key = source_offset_key(job.source_alias, topic, partition)
    return (
        TopicPartition(job.offsets_topic, partition_for(key, job.offsets_partitions)),
        TopicPartition(job.segments_topic, segment_partition(topic, partition, job.segments_partitions)),
    )


async def _commit(
    job: CopyJob, target: ClusterLink, producer: Producer, copies: dict[TopicPartition, _Progress], deadline: float
) -> None:
    """Both transactions, for all copies together."""
    without = _together(copy.without for copy in copies.values())
    with_them = _together(copy.with_them for copy in copies.values())

    async def write(entries: _Entries) -> None:
        for home, some in entries.items():
            await produce_state(producer, target, home, some, job.request_timeout_ms)

    await producer.commit_with(without, lambda: write(without), deadline=deadline)
    await producer.commit_with([*copies, *with_them], lambda: write(with_them), deadline=deadline)


def _together(parts: Iterable[_Entries]) -> _Entries:
    entries: _Entries = defaultdict(list)
    for part in parts:
        for home, some in part.items():
            entries[home] += some
    return entries


class _StateRecords:
    """The newest records of state topics: keeps those of the offsets topic, but of the map, which may be large, only
    those of the partition that was read last."""

    def __init__(self, target: ClusterLink, deadline: float) -> None:
        self._target = target
        self._deadline = deadline
        self._kept: dict[TopicPartition, dict[bytes, _Record]] = {}
        self._faults: dict[TopicPartition, PartitionError | UnreachableCluster] = {}

    async def newest(self, home: TopicPartition, *, keep: bool) -> dict[bytes, _Record]:
        """The last record of each key.

        Raises:
            PartitionError, UnreachableCluster: they cannot be read; it is tried once.
            AccessDenied, ClusterError: the target refuses.
        """
        if home in self._faults:
            raise self._faults[home]
        if home not in self._kept:
            try:
                read = await self._read(home)
            except (PartitionError, UnreachableCluster) as error:
                self._faults[home] = error
                raise
            if not keep:
                self._kept = {kept: those for kept, those in self._kept.items() if kept.topic != home.topic}
            self._kept[home] = read
        return self._kept[home]

    async def _read(self, home: TopicPartition) -> dict[bytes, _Record]:
        headers: dict[int, dict[bytes, bytes]] = {}
        patience = max(self._deadline - time.monotonic(), _LEAST_PATIENCE_SECONDS)
        ends = await log_ends(self._target, home.topic, [home.partition], patience_seconds=patience)
        found = await newest_records(self._target, home.topic, ends, patience_seconds=patience, headers=headers)
        of = headers[home.partition]
        return {key: _Record(value, of[key]) for key, (_, value) in found[home.partition].items()}


async def _verdict(
    target: ClusterLink, job: CopyJob, state: Copied, start: int, records: _StateRecords
) -> _Progress | None:
    """Whether the records from ``start`` on are to be aborted (None) or committed, and how.

    Raises:
        CorruptRecord: that cannot be decided.
        PartitionError, UnreachableCluster, AccessDenied, ClusterError: it cannot be read.
    """
    offsets, maps = homes_of(job, state)
    key = source_offset_key(job.source_alias, *state.upstream)
    ends, unlisted = await target.offsets([state.downstream], LATEST, committed=False)
    if state.downstream in unlisted:
        raise PartitionError(unlisted[state.downstream])
    end = ends[state.downstream]
    segments = await _segments(records, state, maps, start)
    progress = (await records.newest(offsets, keep=True)).get(key, _Record(None, b""))
    if not any(one.downstream_start <= start for one in segments.values()):
        copied_to = copied_to_in(progress.headers, 0)
        mapped = max((one.downstream_end for one in segments.values()), default=start)
        if copied_to is not None and mapped < copied_to.downstream_end <= end:
            raise CorruptRecord(
                f"the source offset's record says that it was copied up to offset {copied_to.downstream_end}, which "
                f"the offset map does not have"
            )
        return None
    if not _hold_all(segments.values(), start, end):
        raise CorruptRecord("the offset map does not have all records there")
    return _progress(job, state, segments, progress)


async def _segments(records: _StateRecords, state: Copied, home: TopicPartition, start: int) -> dict[Entry, Segment]:
    """The committed segments that end behind the record at ``start``, by the records that hold them.

    Raises:
        CorruptRecord: none has that record, but a record of the map cannot be read, and what that one has must not be
            aborted.
    """
    segments: dict[Entry, Segment] = {}
    unreadable: CorruptRecord | None = None
    # Whatever its first byte is, the version.
    prefix = segment_key_prefix(*state.upstream)[1:]
    for key, record in (await records.newest(home, keep=False)).items():
        if record.value is None or not key.startswith(prefix, 1):
            continue
        try:
            segment = decode_segment(key, record.value)
        except CorruptRecord as error:
            unreadable = error
            continue
        if (segment.topic, segment.partition) == state.upstream and segment.downstream_end > start:
            segments[record.entry(key)] = segment
    if unreadable is not None and not any(one.downstream_start <= start for one in segments.values()):
        raise unreadable
    return segments


def _hold_all(segments: Iterable[Segment], start: int, end: int) -> bool:
    """Whether ``segments`` cover everything in the copy from ``start`` to ``end``. A marker would be a gap."""
    at = start
    for segment in sorted(segments, key=lambda one: one.downstream_start):
        if segment.downstream_start != at:
            return False
        at = segment.downstream_end
    return at == end


def _progress(job: CopyJob, state: Copied, segments: dict[Entry, Segment], record: _Record) -> _Progress:
    """Raises :class:`CorruptRecord` where the source offset in ``record`` cannot be read."""
    offsets, maps = homes_of(job, state)
    key = source_offset_key(job.source_alias, *state.upstream)
    now = record.entry(key)
    last = parse_source_offset_value(record.value)
    begin = min(segment.upstream_start for segment in segments.values())
    back: Entry = now
    if last is not None and last >= begin:
        back = (key, source_offset_value(begin - 1)) if begin else (key, None, FROM_ZERO)
    return _Progress(
        without={offsets: [back], maps: [(key, None) for key, *_ in segments]},
        with_them={offsets: [now], maps: list(segments)},
    )


def _error(
    job: CopyJob,
    state: Copied,
    producer: Producer,
    found: dict[TopicPartition, int],
    reason: Exception | None = None,
) -> PartitionError:
    alias = job.target.alias
    places = [place for place in (state.downstream, *homes_of(job, state)) if place in found]
    where = ", ".join(
        f"{topic}-{partition} from offset {found[TopicPartition(topic, partition)]} on" for topic, partition in places
    )
    why = "" if reason is None else f" ({reason})"
    return PartitionError(
        f"partition {state.downstream[0]}-{state.downstream[1]} at {alias} is not written to: a transaction of "
        f"{producer.transactional_id} was never ended in {where}, although its coordinator says it was, and it "
        f"is unknown whether it was committed{why}; docs/operations.md says how to find out and end it"
    )


def _doubt(
    job: CopyJob, partitions: Sequence[TopicPartition], found: dict[TopicPartition, int], error: Exception
) -> str:
    where = ", ".join(f"{place} from offset {found[place]} on" for place in partitions)
    return f"cannot tell how the hanging transaction in {where} at {job.target.alias} was ended: {error}"
