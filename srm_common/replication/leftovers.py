"""Ends what a coordinator has forgotten to end, before the next commit of the same producer would make it visible.

Kafka 4.3 skips the markers of partitions that have no leader at the moment, as right after the start of a
broker that was killed, and reports the transaction complete (KAFKA-20734). Its records then wait in the partition for
the producer's next marker, whichever that is. Here an empty transaction over such partitions brings the right one: a
commit where the offset map, committed in the same transaction, has the records, else an abort.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from srm_common.domain.offsets.segments import Segment
from srm_common.domain.runs.copying import CopyJob
from srm_common.errors import CorruptRecord, PartitionError
from srm_common.kafka.committed_log import committed_records
from srm_common.kafka.leftovers import left_open
from srm_common.kafka.link import LATEST, ClusterLink, Partition
from srm_common.kafka.producer import Producer, UncertainCommit
from srm_common.wire.mm2 import source_offset_key
from srm_common.wire.murmur2 import partition_for
from srm_common.wire.segments import decode_segment, segment_partition


class Copied(Protocol):
    """A partition and its copy."""

    @property
    def upstream(self) -> Partition: ...

    @property
    def downstream(self) -> Partition: ...


async def end_leftovers(
    job: CopyJob, target: ClusterLink, producer: Producer, states: Sequence[Copied], *, deadline: float | None = None
) -> dict[Partition, PartitionError]:
    """End transactions of ``producer`` that are open in the partitions which ``states`` write to, though none should
    be. Where that is not possible the downstream partition is in the answer, with the reason; it must not be written.

    Args:
        deadline: when to give up asking, in monotonic seconds; by default the job's patience from now.

    Raises:
        UncertainCommit: whether they were ended is not known. ``producer`` must not be used any more: its next commit
            could end them wrongly.
        Fenced, ClusterError: as :class:`Producer`.
    """
    homes = {state: homes_of(job, state) for state in states}
    watched = {state.downstream for state in states} | {home for found in homes.values() for home in found}
    found = await left_open(target, watched, producer.producer_id)
    if not found:
        return {}
    unclear = {state for state in states if any(home in found for home in homes[state])}
    verdicts: dict[bool, list[Partition]] = {True: [], False: []}
    for state in states:
        start = found.get(state.downstream)
        if start is None or state in unclear:
            continue
        committed = await _committed(target, job, state, start)
        if committed is None:
            unclear.add(state)
        else:
            verdicts[committed].append(state.downstream)
    if deadline is None:
        deadline = time.monotonic() + job.retry_timeout_seconds
    for committed, partitions in verdicts.items():
        if not partitions:
            continue
        try:
            # Refused or not, whether it helped is seen below.
            await producer.end_empty(partitions, committed=committed, deadline=deadline)
        except UncertainCommit as error:
            raise UncertainCommit(_doubt(job, partitions, found, committed, error)) from error
    ended = verdicts[True] + verdicts[False]
    still = await left_open(target, ended, producer.producer_id) if ended else {}
    return {
        state.downstream: _error(job, state, producer, found)
        for state in states
        if state in unclear or state.downstream in still
    }


def homes_of(job: CopyJob, state: Copied) -> tuple[Partition, Partition]:
    """Where the range's source offset and its map lie."""
    topic, partition = state.upstream
    key = source_offset_key(job.source_alias, topic, partition)
    return (
        (job.offsets_topic, partition_for(key, job.offsets_partitions)),
        (job.segments_topic, segment_partition(topic, partition, job.segments_partitions)),
    )


async def _committed(target: ClusterLink, job: CopyJob, state: Copied, start: int) -> bool | None:
    """Whether the records from ``start`` on are in the committed map; None when only some of them are, or when the
    end of the partition cannot be told."""
    _, home = homes_of(job, state)
    segments: list[Segment] = []
    for record in await committed_records(target, home):
        try:
            segment = None if record.value is None else decode_segment(record.key, record.value)
        except CorruptRecord:
            continue
        if segment is not None and (segment.topic, segment.partition) == state.upstream:
            segments.append(segment)
    if not any(one.downstream_start <= start < one.downstream_end for one in segments):
        return False
    ends, _ = await target.offsets([state.downstream], LATEST, committed=False)
    return True if ends.get(state.downstream) == max(one.downstream_end for one in segments) else None


def _error(job: CopyJob, state: Copied, producer: Producer, found: dict[Partition, int]) -> PartitionError:
    alias = job.target.alias
    places = [place for place in (state.downstream, *homes_of(job, state)) if place in found]
    where = ", ".join(f"{topic}-{partition} from offset {found[topic, partition]} on" for topic, partition in places)
    return PartitionError(
        f"partition {state.downstream[0]}-{state.downstream[1]} at {alias} is not written to: a transaction of "
        f"{producer.transactional_id} was never ended in {where}, though its coordinator says so, and whether its "
        f"records count cannot be told; docs/operations.md says how to find out and end it"
    )


def _doubt(
    job: CopyJob, partitions: Sequence[Partition], found: dict[Partition, int], committed: bool, error: UncertainCommit
) -> str:
    where = ", ".join(
        f"{topic}-{partition} from offset {found[topic, partition]} on" for topic, partition in partitions
    )
    verdict = "committed" if committed else "aborted"
    return f"whether a forgotten transaction in {where} at {job.target.alias} was {verdict} is not known: {error}"
