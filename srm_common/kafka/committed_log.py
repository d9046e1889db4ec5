"""The committed records of one partition, read over a link: for slots, which have no other Kafka client."""

from __future__ import annotations

import time

from kafka.protocol.consumer import FetchRequest

from srm_common.errors import ClusterError, UnreachableCluster
from srm_common.kafka import codes
from srm_common.kafka.buffers import Lease
from srm_common.kafka.frames import RawFetch
from srm_common.kafka.link import EARLIEST, LATEST, ClusterLink, Partition, RetriableFault
from srm_common.wire import fetch
from srm_common.wire.batch import split
from srm_common.wire.plain_records import PlainRecord, read_plain_records
from srm_common.wire.visibility import visible

_FETCH_BYTES = 1 << 20
_MAX_WAIT_MS = 500
_PAUSE_SECONDS = 0.1


async def committed_records(
    link: ClusterLink, place: Partition, *, patience_seconds: float = 30.0
) -> list[PlainRecord]:
    """All records of a partition up to its last stable offset, in order; those of aborted transactions left out.

    Args:
        patience_seconds: so long may the partition bring nothing, as while its leader moves.

    Raises:
        UnreachableCluster: it brought nothing for that long.
        ClusterError: the broker refuses, and would again.
        CorruptBatch: a batch fails its checksum.
    """
    at, end = await _bound(link, place, EARLIEST, patience_seconds), await _bound(link, place, LATEST, patience_seconds)
    found: list[PlainRecord] = []
    lease = Lease(_FETCH_BYTES + (1 << 16))
    deadline = time.monotonic() + patience_seconds
    while at < end:
        try:
            # The last stable offset lies at a batch's end, so whole batches are all before it.
            following = await _stretch(link, place, at, lease, found)
            fault = "nothing came"
        except RetriableFault as error:
            following, fault = at, str(error)
        if following > at:
            at, deadline = following, time.monotonic() + patience_seconds
            continue
        if time.monotonic() > deadline:
            raise UnreachableCluster(
                f"partition {place[0]}-{place[1]} of {link.alias} cannot be read from offset {at} on: {fault}"
            )
        await link.loop.sleep(_PAUSE_SECONDS)
        await link.refresh()
    return found


async def _bound(link: ClusterLink, place: Partition, at: int, patience_seconds: float) -> int:
    offsets, faults = await link.offsets([place], at, timeout_seconds=patience_seconds)
    if place not in offsets:
        raise UnreachableCluster(faults[place])
    return offsets[place]


async def _stretch(link: ClusterLink, place: Partition, at: int, lease: Lease, found: list[PlainRecord]) -> int:
    """Add what one answer brings to ``found``; returns the offset after it. Raises :class:`RetriableFault`."""
    leader = link.leader(*place)
    if leader is None:
        raise RetriableFault(f"partition {place[0]}-{place[1]} has no leader")
    answer: fetch.FetchAnswer = await link.send(leader, RawFetch(_request(place, at), lease))
    parts = [part for part in answer.partitions if (part.topic, part.partition) == place]
    code = answer.error_code or next((part.error_code for part in parts), codes.NONE)
    if code:
        text = f"partition {place[0]}-{place[1]} of {link.alias}: {codes.name(code)}"
        raise RetriableFault(text) if codes.retriable(code) else ClusterError(text)
    for part in parts:
        for batch, data in visible(split(part.records), part.aborted):
            if data:
                found += [record for record in read_plain_records(batch) if record.offset >= at]
            at = max(at, batch.header.next_offset)
    return at


def _request(place: Partition, at: int) -> FetchRequest:
    kind = FetchRequest.FetchTopic
    part = kind.FetchPartition(
        partition=place[1],
        current_leader_epoch=-1,
        fetch_offset=at,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    return FetchRequest(
        version=fetch.VERSION,
        replica_id=-1,
        max_wait_ms=_MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=place[0], partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
    )
