"""Ends hanging transactions before the next commit of the same producer would make their records visible.

Kafka 4.3 skips the markers of partitions that have no leader at the moment, as right after the start of a
broker that was killed, and reports the transaction complete (KAFKA-20734). Its records then wait in the partition for
the producer's next marker, whichever that is. Here a transaction over such partitions brings the right one: an abort
where the offset map, committed in the same transaction as the records, does not have them, else a commit.

If a slot dies between the beginning and the end of that transaction, it is aborted: by the next fence
(InitProducerId, KIP-98: ``TransactionCoordinator.handleInitProducerId`` aborts what is ongoing) or by its timeout.
So all must be arranged in a way that an abort is right at every moment. Where the verdict is "abort", it is. Where it
is "commit", two transactions are needed:

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

A commit is written with the coordinator's record "PrepareCommit"; from then on every coordinator carries it out. No
answer needs to be known for that: lost or not, map and records agree. Copied again is in order, because the verdict is
"commit" only where nothing else lies behind the records. Should retention have taken them at the source, the
next run calls that lost data: the offset says where they began.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from srm_common.domain.offsets.segments import Segment
from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, CorruptBatch, CorruptRecord, PartitionError
from srm_common.kafka.client.links.link import LATEST, ClusterLink, RetriableFault
from srm_common.kafka.log.committed_log import log_ends, newest_records
from srm_common.kafka.transactions.hanging_transactions import left_open
from srm_common.kafka.transactions.producer import Producer, UncertainCommit
from srm_common.replication.slots.state_batches import produce_state
from srm_common.wire.state.mm2 import (
    FROM_ZERO,
    parse_source_offset_value,
    partition_for,
    source_offset_key,
    source_offset_value,
)
from srm_common.wire.state.plain_records import Entry, read_headers
from srm_common.wire.state.segments import decode_segment, segment_partition

_Entries = dict[TopicPartition, list[Entry]]


class Copied(Protocol):
    """A partition and its copy."""

    @property
    def upstream(self) -> TopicPartition: ...

    @property
    def downstream(self) -> TopicPartition: ...


@dataclass(frozen=True)
class _Progress:
    """What the state topics say of records that wait in a copy: ``without`` them, and ``with_them`` as it is now."""

    without: _Entries
    with_them: _Entries


async def end_open_transactions(
    job: CopyJob, target: ClusterLink, producer: Producer, states: Sequence[Copied], *, deadline: float | None = None
) -> dict[TopicPartition, PartitionError]:
    """End transactions of ``producer`` that are open in the partitions which ``states`` write to, though none should
    be. Where that is not possible the downstream partition is in the answer, with the reason; it must not be written.

    Args:
        deadline: when to give up asking, in monotonic seconds; by default the job's patience from now.

    Raises:
        UncertainCommit: how they were ended is not known. ``producer`` must not be used any more: its next commit
            could end them wrongly. What is committed must be read again before anything else is copied.
        Fenced, ClusterError: as :class:`Producer`; the former needs the same.
    """
    homes = {state: homes_of(job, state) for state in states}
    watched = {state.downstream for state in states} | {home for found in homes.values() for home in found}
    found = await left_open(target, watched, producer.producer_id)
    if not found:
        return {}
    unclear = {state for state in states if any(home in found for home in homes[state])}
    aborted: list[TopicPartition] = []
    committed: dict[TopicPartition, _Progress] = {}
    for state in states:
        start = found.get(state.downstream)
        if start is None or state in unclear:
            continue
        segments = await _segments(target, job, state, start)
        if not segments:
            aborted.append(state.downstream)
            continue
        progress = None
        if await _hold_all_behind(target, state, start, segments.values()):
            progress = await _progress(target, job, state, segments)
        if progress is None:
            unclear.add(state)
        else:
            committed[state.downstream] = progress
    if deadline is None:
        deadline = time.monotonic() + job.retry_timeout_seconds
    try:
        if aborted:
            # Refused or not, whether it helped is seen below.
            await producer.end_empty(aborted, deadline=deadline)
        if committed:
            await _commit(job, target, producer, committed, deadline)
    except (UncertainCommit, RetriableFault, ClusterError) as error:
        raise UncertainCommit(_doubt(job, [*aborted, *committed], found, error)) from error
    ended = [*aborted, *committed]
    still = await left_open(target, ended, producer.producer_id) if ended else {}
    return {
        state.downstream: _error(job, state, producer, found)
        for state in states
        if state in unclear or state.downstream in still
    }


def homes_of(job: CopyJob, state: Copied) -> tuple[TopicPartition, TopicPartition]:
    """Where the range's source offset and its map lie."""
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


async def _segments(target: ClusterLink, job: CopyJob, state: Copied, start: int) -> dict[Entry, Segment]:
    """The committed map from the record at ``start`` on, by the records that say so; empty where it lacks that one."""
    _, (topic, home) = homes_of(job, state)
    segments: dict[Entry, Segment] = {}
    ends = await log_ends(target, topic, [home])
    for key, (_, value) in (await newest_records(target, topic, ends))[home].items():
        try:
            segment = None if value is None else decode_segment(key, value)
        except CorruptRecord:
            continue
        if segment is None or (segment.topic, segment.partition) != state.upstream:
            continue
        if segment.downstream_end > start:
            segments[key, value] = segment
    return segments if any(one.downstream_start <= start for one in segments.values()) else {}


async def _hold_all_behind(target: ClusterLink, state: Copied, start: int, segments: Iterable[Segment]) -> bool:
    """Whether ``segments`` cover everything in the copy from ``start`` on. A marker would be a gap."""
    at = start
    for segment in sorted(segments, key=lambda one: one.downstream_start):
        if segment.downstream_start != at:
            return False
        at = segment.downstream_end
    ends, _ = await target.offsets([state.downstream], LATEST, committed=False)
    return ends.get(state.downstream) == at


async def _progress(
    target: ClusterLink, job: CopyJob, state: Copied, segments: dict[Entry, Segment]
) -> _Progress | None:
    """None where the source offset cannot be read."""
    offsets, maps = homes_of(job, state)
    key = source_offset_key(job.source_alias, *state.upstream)
    headers: dict[int, dict[bytes, bytes]] = {}
    ends = await log_ends(target, offsets[0], [offsets[1]])
    newest = await newest_records(target, offsets[0], ends, headers=headers)
    _, value = newest[offsets[1]].get(key, (0, None))
    try:
        last = parse_source_offset_value(value)
        kept = tuple(read_headers(headers[offsets[1]].get(key, b"")).items())
    except (CorruptRecord, CorruptBatch):
        return None
    now: Entry = (key, value, kept)
    begin = min(segment.upstream_start for segment in segments.values())
    back = now
    if last is not None and last >= begin:
        back = (key, source_offset_value(begin - 1)) if begin else (key, None, FROM_ZERO)
    return _Progress(
        without={offsets: [back], maps: [(key, None) for key, *_ in segments]},
        with_them={offsets: [now], maps: list(segments)},
    )


def _error(job: CopyJob, state: Copied, producer: Producer, found: dict[TopicPartition, int]) -> PartitionError:
    alias = job.target.alias
    places = [place for place in (state.downstream, *homes_of(job, state)) if place in found]
    where = ", ".join(
        f"{topic}-{partition} from offset {found[TopicPartition(topic, partition)]} on" for topic, partition in places
    )
    return PartitionError(
        f"partition {state.downstream[0]}-{state.downstream[1]} at {alias} is not written to: a transaction of "
        f"{producer.transactional_id} was never ended in {where}, although its coordinator says so, and it is "
        f"unknown whether its records count; docs/operations.md says how to find out and end it"
    )


def _doubt(
    job: CopyJob, partitions: Sequence[TopicPartition], found: dict[TopicPartition, int], error: Exception
) -> str:
    where = ", ".join(f"{place} from offset {found[place]} on" for place in partitions)
    return f"cannot tell how the hanging transaction in {where} at {job.target.alias} was ended: {error}"
