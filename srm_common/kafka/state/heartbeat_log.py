"""Heartbeats in their topics, and when a copied one arrived."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.flow import names
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.errors import CorruptRecord
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.wire.state.mm2 import decode_heartbeat
from srm_common.wire.state.segments import decode_segment, place_of_key, segment_partition

#: How far from the end the newest heartbeats are looked for: markers follow them, some for chunks without heartbeats.
#: A second look goes further.
_TAIL, _LONG_TAIL = 200, 10_000
#: By how much the clocks of those who write heartbeats, copy them, and ask for them may differ.
_SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class LoggedHeartbeat:
    """A heartbeat at ``offset`` of its topic's only partition in use."""

    offset: int
    beat: Heartbeat


def newest_heartbeat(reader: StateReader, topic: str, now_ms: int) -> LoggedHeartbeat | None:
    """The heartbeat with the latest time in ``topic``; other records are skipped. One from a clock that is ahead of
    ``now_ms`` counts only if there is no other: it would hide for as long that others stay away.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    with reader.session() as session:
        ends = session.offsets(topic, [0], LATEST)
        heartbeats = _heartbeats(session.read(topic, {0: ends[0] - _TAIL}, ends))
        if not heartbeats:
            # Aborted transactions may have filled the end of the log. Data by that name is not read as a whole.
            heartbeats = _heartbeats(session.read(topic, {0: ends[0] - _LONG_TAIL}, ends))
    right = [one for one in heartbeats if one.beat.timestamp_ms <= now_ms + _SKEW_MS]
    return max(right or heartbeats, key=lambda one: (one.beat.timestamp_ms, one.offset), default=None)


def find_heartbeat(reader: StateReader, topic: str, beat: Heartbeat) -> LoggedHeartbeat | None:
    """``beat`` in ``topic``, None when compaction has removed it. Raises as :func:`newest_heartbeat`."""
    start = _since(reader, topic, 0, beat.timestamp_ms)
    if start is None:
        return None
    heartbeats = _heartbeats(reader.read(topic, {0: start}, reader.offsets(topic, [0], LATEST)))
    return next((heartbeat for heartbeat in heartbeats if heartbeat.beat == beat), None)


def arrival_ms(
    reader: StateReader, source_alias: str, upstream_topic: str, downstream_offset: int, not_before_ms: int
) -> int | None:
    """When the chunk with ``downstream_offset`` of partition 0 of the copy of ``upstream_topic`` was committed, in
    epoch milliseconds by the clock of the host that copied it.

    None where the offset map does not say, as for records that MirrorMaker 2 copied, and for a chunk whose segment was
    joined with others since. Reads the part of the map that was written since.

    Args:
        reader: of the cluster with the copy.
        source_alias: of the flow that made it.
        not_before_ms: the time of the record; it may be ahead of the map's clock by a minute.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    topic = names.segments_topic(source_alias)
    partitions = reader.partitions(topic)
    if not partitions:
        return None
    home = segment_partition(upstream_topic, 0, partitions)
    start = _since(reader, topic, home, not_before_ms - _SKEW_MS)
    if start is None:
        return None
    for record in reader.read(topic, {home: start}, reader.offsets(topic, [home], LATEST)):
        if record.key is None or record.value is None or place_of_key(record.key) is not None:
            continue  # a joined segment's record has the time of the joining
        try:
            segment = decode_segment(record.key, record.value)
        except CorruptRecord:  # translations by the map report it
            continue
        if (
            segment.topic == upstream_topic
            and not segment.partition
            and segment.downstream_start <= downstream_offset < segment.downstream_end
        ):
            return record.timestamp_ms
    return None


def _since(reader: StateReader, topic: str, partition: int, timestamp_ms: int) -> int | None:
    """The first offset whose record is not older, None when there is none."""
    spec = max(0, timestamp_ms)
    offset = reader.offsets(topic, [partition], spec)[partition]
    return None if offset < 0 else offset


def _heartbeats(records: list[LogRecord]) -> list[LoggedHeartbeat]:
    found = []
    for record in records:
        try:
            found.append(LoggedHeartbeat(record.offset, decode_heartbeat(record.key, record.value)))
        except CorruptRecord:  # any client may write to the topic, and the caller wants the readable ones
            continue
    return found
