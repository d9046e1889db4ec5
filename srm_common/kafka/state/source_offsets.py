"""The committed source offsets of a flow, from ``mm2-offsets.<source>.internal``."""

from __future__ import annotations

import time

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import FlowName, FlowSettings, names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptBatch, CorruptRecord, StateTopicInvalid
from srm_common.kafka.client.links.link import LATEST, ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.log.committed_log import log_ends, newest_records
from srm_common.kafka.state.state_reader import LogRecord, StateReader, held_by_transaction
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.wire.state.mm2 import (
    SOURCE_CONNECTOR,
    copied_to_headers,
    copied_to_in,
    epoch_headers,
    epoch_in,
    from_zero,
    parse_source_offset_key,
    parse_source_offset_value,
    partition_for,
    source_offset_key,
    source_offset_value,
)
from srm_common.wire.state.plain_records import NewRecord

#: As long as a coordinator may take to move, which ends the transactions of the fenced.
STABLE_WITHIN_SECONDS = 30.0
_PAUSE_SECONDS = 0.05
#: For interactive commands; a run is as patient as with what it copies.
_PATIENCE_SECONDS = 10.0


class SourceOffsets(dict[TopicPartition, int]):
    """(upstream topic, partition) -> next offset to copy. Partitions without a position are absent.

    ``faults`` has the partitions whose record cannot be read: they must not be copied until it is fixed. ``resets``
    are those whose record says "no position": an operator had them restarted from their beginning. ``epochs`` has the
    leader epochs in the source logs of the offsets before the positions, and ``copied_to`` where the copies end, where
    known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[TopicPartition, CorruptRecord] = {}
        self.resets: set[TopicPartition] = set()
        self.epochs: dict[TopicPartition, int] = {}
        self.copied_to: dict[TopicPartition, CopiedTo] = {}


def read_source_offsets(
    flow: FlowSettings,
    state: StateTopics,
    *,
    stable_within_seconds: float | None = STABLE_WITHIN_SECONDS,
    refuse_loss: bool = True,
    connector: str = SOURCE_CONNECTOR,
    patience_seconds: float = _PATIENCE_SECONDS,
    request_timeout_ms: int | None = None,
    pool: LinkPool | None = None,
) -> SourceOffsets:
    """What the flow has committed, MirrorMaker 2's own commits included; nothing where the topic does not exist.

    A tombstone means "no position" (start over), as in MirrorMaker 2. Call it after fencing: before, an open
    transaction of an earlier run may hide what is committed.

    Args:
        stable_within_seconds: how long to wait for the end of open transactions; None reads what is stable now, for
            callers that only look.
        refuse_loss: False for callers that are about to rebuild what was lost.
        connector: whose offsets; a MirrorMaker 2 in a Connect cluster may have any name.
        patience_seconds: how long the target may return nothing, as while leaders move.
        request_timeout_ms: after so long without an answer the connection is closed; by default the flow's.
        pool: of the target's connections.

    Raises:
        StateUnavailable: a partition of the topic cannot be read to its end in time.
        StateTopicInvalid: the topic holds nothing of this flow, although the offset map proves that it has copied.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    if not state.offsets_partitions:
        return SourceOffsets()
    timeout_ms = flow.request_timeout_ms if request_timeout_ms is None else request_timeout_ms
    with ClusterLink(flow.target, part="driver", request_timeout_ms=timeout_ms, pool=pool) as link:
        newest, copied = link.run(
            lambda: _read(link, flow, state, stable_within_seconds, refuse_loss, connector, patience_seconds)
        )
    out = SourceOffsets()
    for key, (partition, offset, value, headers) in newest.items():
        parsed = parse_source_offset_key(key)
        if parsed is None or parsed[:2] != (connector, flow.name.source):
            continue
        upstream = TopicPartition(*parsed[2:])
        try:
            last = parse_source_offset_value(value)
            epoch, begins = epoch_in(headers), from_zero(headers)
            copied_to = None if last is None else copied_to_in(headers, last + 1)
        except (CorruptRecord, CorruptBatch) as error:
            out.faults[upstream] = CorruptRecord(
                f"the source offset of {upstream[0]}-{upstream[1]} cannot be read: at offset {offset} of "
                f"{state.offsets_topic}-{partition} on cluster '{flow.target.alias}', {error}; write a valid value, or "
                f"a tombstone to copy the partition from its start, with the key {_text(key)}"
            )
            continue
        if last is None and begins:
            out[upstream] = 0
        elif last is None:
            out.resets.add(upstream)
        else:
            out[upstream] = last + 1
            if epoch >= 0:
                out.epochs[upstream] = epoch
            if copied_to is not None:
                out.copied_to[upstream] = copied_to
    if copied:
        # Unless the very first commit came between the two reads.
        out = read_source_offsets(
            flow,
            state,
            stable_within_seconds=stable_within_seconds,
            refuse_loss=False,
            connector=connector,
            patience_seconds=patience_seconds,
            request_timeout_ms=request_timeout_ms,
            pool=pool,
        )
        if not (out or out.faults or out.resets):
            raise _lost(flow, state, copied)
    return out


def offset_record(
    flow: FlowName,
    state: StateTopics,
    place: TopicPartition,
    position: int | None,
    *,
    epoch: int = -1,
    copied_to: CopiedTo | None = None,
    connector: str = SOURCE_CONNECTOR,
) -> NewRecord:
    """The record by which ``position`` is the next offset of a partition to copy; None means that it has no position.

    Args:
        epoch: the leader epoch of the offset before the position in the log that was copied, -1 where that is not
            known. For a position from elsewhere than today's log (from the offset map, or from MirrorMaker 2), it must
            not be that of today's log, which may have been truncated and have grown again since: that would never be
            noticed.
        copied_to: where the copy ends, None where that is not known.
    """
    key = source_offset_key(flow.source, *place, connector)
    value = source_offset_value(position - 1) if position else None
    headers = (*epoch_headers(epoch), *copied_to_headers(copied_to, position)) if position else ()
    return NewRecord(state.offsets_topic, partition_for(key, state.offsets_partitions), key, value, headers=headers)


def next_offsets(reader: StateReader, flow: FlowName) -> SourceOffsets:
    """The next offsets of ``flow`` and where its copies end, as far as its offsets topic can be read now. Unreadable
    records are ``faults``; those without a position are left out.

    Args:
        reader: of the flow's target.
    """
    out = SourceOffsets()
    for key, record in _newest(reader, flow).items():
        parsed = parse_source_offset_key(key)
        if parsed is None or parsed[:2] != (SOURCE_CONNECTOR, flow.source):
            continue
        upstream = TopicPartition(*parsed[2:])
        try:
            last = parse_source_offset_value(record.value)
            copied_to = None if last is None else copied_to_in(record.headers, last + 1)
        except (CorruptRecord, CorruptBatch) as error:
            out.faults[upstream] = CorruptRecord(str(error))
            continue
        if last is not None:
            out[upstream] = last + 1
            if copied_to is not None:
                out.copied_to[upstream] = copied_to
    return out


def _newest(reader: StateReader, flow: FlowName) -> dict[bytes, LogRecord]:
    topic = names.offsets_topic(flow.source)
    return reader.newest(topic, reader.offsets(topic, range(reader.partitions(topic)), LATEST))


async def _read(
    link: ClusterLink,
    flow: FlowSettings,
    state: StateTopics,
    stable_within_seconds: float | None,
    refuse_loss: bool,
    connector: str,
    patience: float,
) -> tuple[dict[bytes, tuple[int, int, bytes | None, bytes]], int]:
    """Key -> partition, offset, value and headers of its last record; and, where there is no record of the flow, how
    many live segments prove a copy (else 0)."""
    topic, partitions = state.offsets_topic, list(range(state.offsets_partitions))
    await link.open([topic], patience)
    if stable_within_seconds is not None:
        # Positions as a deposed leader has them would be copied from once more.
        await link.agree()
    if stable_within_seconds is None:
        ends = await log_ends(link, topic, partitions, patience_seconds=patience)
    else:
        ends = await _stable_ends(link, topic, partitions, stable_within_seconds, patience)
    found: dict[bytes, tuple[int, int, bytes | None, bytes]] = {}
    headers: dict[int, dict[bytes, bytes]] = {}
    read = await newest_records(link, topic, ends, patience_seconds=patience, headers=headers)
    for partition, newest in read.items():
        for key, (offset, value) in newest.items():
            # A topic that got more partitions has old records of a key elsewhere: the key's new partition is right.
            if key not in found or partition_for(key, state.offsets_partitions) == partition:
                found[key] = (partition, offset, value, headers[partition].get(key, b""))
    if not refuse_loss or any(_is_of(key, connector, flow.name) for key in found):
        return found, 0
    ends = await log_ends(link, state.segments_topic, list(range(state.segments_partitions)), patience_seconds=patience)
    maps = await newest_records(link, state.segments_topic, ends, patience_seconds=patience)
    return found, sum(value is not None for newest in maps.values() for _, value in newest.values())


async def _stable_ends(
    link: ClusterLink, topic: str, partitions: list[int], within_seconds: float, patience: float
) -> dict[int, int]:
    """As :meth:`StateReader.stable_ends`."""
    deadline = time.monotonic() + within_seconds
    while True:
        # In this order, a write in between makes the two differ; they never agree by chance.
        stable = await log_ends(link, topic, partitions, patience_seconds=patience)
        ends = await log_ends(link, topic, partitions, committed=False, patience_seconds=patience)
        held = next((partition for partition in partitions if stable[partition] != ends[partition]), None)
        if held is None:
            return stable
        if time.monotonic() > deadline:
            raise held_by_transaction(link.settings, topic, held, stable[held], ends[held])
        await link.loop.sleep(_PAUSE_SECONDS)


def _is_of(key: bytes, connector: str, flow: FlowName) -> bool:
    parsed = parse_source_offset_key(key)
    return parsed is not None and parsed[:2] == (connector, flow.source)


def _lost(flow: FlowSettings, state: StateTopics, segments: int) -> StateTopicInvalid:
    return StateTopicInvalid(
        f"state topic {state.offsets_topic} on cluster '{flow.target.alias}' holds no offsets of flow "
        f"{flow.name}, although the map in {state.segments_topic} ({segments} segments) proves that it has "
        f"copied data: its records were lost, and continuing would copy everything again; rebuild it with: "
        f"srm-control repair --flow '{flow.name}'"
    )


def _text(key: bytes) -> str:
    return key.decode(errors="backslashreplace")
