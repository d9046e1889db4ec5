"""The committed records of a topic, read over a link in log order: the only way to read long state topics.

A read continues to the ends that were listed before: a response without records proves nothing (the broker may be slow,
throttled or just elected). A position advances only past batches that were received. Where compaction has removed what
came before the end, the next batch of the log is beyond it; a read_committed answer never contains that batch while it
belongs to an open transaction, so it is then requested read_uncommitted.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, ClusterError, CorruptBatch, PartitionError, UnreachableCluster
from srm_common.kafka.client.links.link import EARLIEST, LATEST, ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.client.protocol.fetch_request import FetchFrom, fetch_request
from srm_common.kafka.client.protocol.frames import RawFetch
from srm_common.kafka.log.transaction_markers import Marker, decide_by_markers
from srm_common.wire.batches.batch import CONTROL, SourceBatch, split
from srm_common.wire.batches.visibility import visible
from srm_common.wire.protocol import fetch
from srm_common.wire.state.plain_records import Newest, newest_of_each_key

Take = Callable[[int, SourceBatch, int], None]
"""Called with each batch of records: partition, batch, which is valid only during the call, and the first offset that
counts. Records of the first batch may lie before that, deleted or not asked for: brokers send whole batches."""

#: The most bytes of all answers under way together, and the least of each.
_FETCH_BYTES, _LEAST_FETCH_BYTES = 4 << 20, 64 << 10
_MAX_WAIT_MS = 500
#: A busy broker may take as long for any answer.
_LEAST_REQUEST_SECONDS = 1.0
_PAUSE_SECONDS = 0.1


async def newest_records(
    link: ClusterLink,
    topic: str,
    ends: Mapping[int, int],
    *,
    patience_seconds: float = 30.0,
    headers: dict[int, dict[bytes, bytes]] | None = None,
) -> dict[int, Newest]:
    """By partition: the last record of each key up to ``ends``, with its offset.

    No more than that is held in memory, however long the log. Tombstones are included; records without a key, and those
    before the log's start, are not.

    Args:
        headers: gets the headers of the same records, by partition and key.

    Raises: as :func:`read_committed`.
    """
    found: dict[int, Newest] = {partition: {} for partition in ends}
    headers_of: dict[int, dict[bytes, bytes]] = {} if headers is None else headers
    if headers is not None:
        headers.update({partition: {} for partition in ends})

    def take(partition: int, batch: SourceBatch, first: int) -> None:
        newest_from(first, batch, found[partition], headers_of.get(partition))

    await read_committed(link, topic, ends, take, patience_seconds=patience_seconds)
    return found


def newest_from(first: int, batch: SourceBatch, found: Newest, headers: dict[bytes, bytes] | None = None) -> None:
    """:func:`newest_of_each_key` without records before ``first``."""
    newest_of_each_key(batch, found, headers)
    if batch.header.base_offset < first:
        for key in [key for key, (offset, _) in found.items() if offset < first]:
            del found[key]
            if headers is not None:
                headers.pop(key, None)


async def log_ends(
    link: ClusterLink, topic: str, partitions: list[int], *, committed: bool = True, patience_seconds: float = 30.0
) -> dict[int, int]:
    """The last stable offsets of partitions, or their high watermarks.

    Raises:
        UnreachableCluster, AccessDenied, NoSuchPartition: one of them cannot be listed in time.
    """
    return await log_offsets(link, topic, partitions, LATEST, committed=committed, patience_seconds=patience_seconds)


async def log_offsets(
    link: ClusterLink, topic: str, partitions: list[int], at: int, *, committed: bool, patience_seconds: float
) -> dict[int, int]:
    """Offsets of partitions, as :meth:`ClusterLink.listed` takes ``at``; raises as :func:`log_ends`."""
    await link.track([topic])
    if topic in link.manager.cluster.unauthorized_topics:
        raise link.leaderless(topic, 0)
    places = [TopicPartition(topic, partition) for partition in partitions]
    found, faults = await link.offsets(
        places,
        at,
        committed=committed,
        timeout_seconds=patience_seconds,
        request_ms=_request_ms(link, patience_seconds),
    )
    for place in places:
        if place not in found:
            if link.leader(*place) is None:
                raise link.leaderless(*place)
            raise UnreachableCluster(faults[place])
    return {partition: offset for (_, partition), offset in found.items()}


async def read_committed(
    link: ClusterLink,
    topic: str,
    ends: Mapping[int, int],
    take: Take,
    *,
    patience_seconds: float = 30.0,
    starts: Mapping[int, int] | None = None,
    committed: bool = True,
    fetch_bytes: int = _FETCH_BYTES,
) -> None:
    """Show ``take`` every batch with committed records from the start of each partition to its end, in log order.

    Args:
        ends: partition -> end, as :func:`log_ends` lists them; it lies at a batch's end.
        starts: partition -> the end of an earlier read, to continue from there; else the start of the log.
        committed: False also shows batches of aborted and of open transactions.
        patience_seconds: how long all partitions may return nothing, as while their leaders move.
        fetch_bytes: the most bytes of all answers under way together.

    Raises:
        UnreachableCluster: they returned nothing for that long.
        AccessDenied, ClusterError: the broker refuses, and would again.
        CorruptBatch: a batch cannot be read.
    """
    first = await log_offsets(link, topic, list(ends), EARLIEST, committed=True, patience_seconds=patience_seconds)
    if starts is not None:
        first = {partition: max(offset, starts.get(partition, 0)) for partition, offset in first.items()}
    await _Reading(link, topic, first, ends, take, patience_seconds, committed, fetch_bytes).go()


async def read_between(
    link: ClusterLink,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    take: Take,
    *,
    patience_seconds: float = 30.0,
    committed: bool = True,
) -> None:
    """As :func:`read_committed`, from ``starts``, which the caller has listed; ``link`` knows the leaders."""
    await _Reading(link, topic, starts, ends, take, patience_seconds, committed, _FETCH_BYTES).go()


async def read_answers(
    link: ClusterLink,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    absorb: Callable[[int, memoryview], Awaitable[int]],
    *,
    patience_seconds: float,
    fetch_bytes: int,
) -> None:
    """As :func:`read_committed`, but uncommitted and by whole responses, to search for markers: ``absorb`` gets a
    partition and its batches, markers included, and returns the offset after them."""
    first = await log_offsets(link, topic, list(ends), EARLIEST, committed=True, patience_seconds=patience_seconds)
    first = {partition: max(offset, starts[partition]) for partition, offset in first.items()}

    def none(partition: int, batch: SourceBatch, first: int) -> None:
        raise AssertionError("batches are absorbed, not taken")

    await _Reading(link, topic, first, ends, none, patience_seconds, False, fetch_bytes, absorb).go()


def _request_ms(link: ClusterLink, patience_seconds: float) -> float | None:
    """How long a broker may be silent: as long as its reader is patient; None where the link's own limit is shorter."""
    limit = max(patience_seconds, _LEAST_REQUEST_SECONDS) * 1000
    return limit if limit < link.manager.config["request_timeout_ms"] else None


class _Reading:
    """One read of one topic. ``at`` has the partitions that are not at their end."""

    def __init__(
        self,
        link: ClusterLink,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        take: Take,
        patience_seconds: float,
        committed: bool,
        fetch_bytes: int,
        whole: Callable[[int, memoryview], Awaitable[int]] | None = None,
        leases: dict[int, Lease] | None = None,
    ) -> None:
        self._fetch_bytes = fetch_bytes
        self._whole = whole
        self._markers: dict[int, dict[int, Marker]] = defaultdict(dict)
        self._link = link
        self._topic = topic
        self._ends = ends
        self._take = take
        self._patience = patience_seconds
        self._committed = committed
        #: The starts as listed, or where the logs have started since.
        self._first = dict(starts)
        self._at = {partition: starts[partition] for partition in ends if starts[partition] < ends[partition]}
        self._leases: dict[int, Lease] = {} if leases is None else leases
        self._fault = ""

    @property
    def over(self) -> bool:
        """Whether all partitions were read to their ends."""
        return not self._at

    async def go(self) -> None:
        """Read all of it."""
        while self._at:
            await self.advance()

    async def advance(self) -> None:
        """Fetch until something arrives."""
        deadline = time.monotonic() + self._patience
        quiet = False
        while True:
            before = dict(self._at)
            self._fault = "nothing came"
            await self._round(committed=self._committed and not quiet)
            moved = [partition for partition, at in before.items() if self._at.get(partition) != at]
            if moved:
                # Partitions for which there was no room go first next time.
                self._at |= {one: self._at.pop(one) for one in moved if one in self._at}
                return
            if time.monotonic() > deadline:
                partition, at = next(iter(self._at.items()))
                raise UnreachableCluster(
                    f"partition {self._topic}-{partition} of {self._link.alias} cannot be read from offset {at} to "
                    f"{self._ends[partition]}: {self._fault}"
                )
            quiet = not quiet
            await self._link.loop.sleep(_PAUSE_SECONDS)
            await self._link.refresh()

    async def _round(self, *, committed: bool) -> None:
        """One answer from each leader."""
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in self._at:
            leader = self._link.leader(self._topic, partition)
            if leader is None:
                self._fault = f"partition {self._topic}-{partition} has no leader"
            else:
                by_leader[leader].append(partition)
        size = max(_LEAST_FETCH_BYTES, self._fetch_bytes // max(1, len(by_leader)))
        futures = []
        for leader, partitions in by_leader.items():
            lease = self._leases.setdefault(leader, Lease(size + (1 << 16)))
            request = fetch_request(
                (FetchFrom(self._topic, partition, self._at[partition]) for partition in partitions),
                partition_bytes=size,
                max_bytes=size,
                max_wait_ms=_MAX_WAIT_MS,
                committed=committed,
            )
            try:
                limit_ms = _request_ms(self._link, self._patience)
                futures.append(await self._link.post(leader, RawFetch(request, lease), limit_ms))
            except RetriableFault as error:
                self._fault = str(error)
        for future in futures:
            try:
                answer: fetch.FetchAnswer = await self._link.answer(future)
            except RetriableFault as error:
                self._fault = str(error)
                continue
            self._judge("", answer.error_code)
            for part in answer.partitions:
                if part.error_code == codes.OFFSET_OUT_OF_RANGE:
                    await self._start_moved(part.partition)
                elif self._judge(f"-{part.partition}", part.error_code):
                    await self._absorb(part, committed)

    def _judge(self, which: str, code: int) -> bool:
        if code == codes.NONE:
            return True
        text = f"{self._topic}{which} of {self._link.alias}: {codes.name(code)}"
        if code in codes.DENIED:
            raise AccessDenied(f"{text}; {Right('Read', 'topic', self._topic).missing(self._link.settings)}")
        if not codes.retriable(code):
            raise ClusterError(text)
        self._fault = text
        return False

    async def _absorb(self, part: fetch.FetchedPartition, committed: bool) -> None:
        at, end = self._at.get(part.partition), self._ends[part.partition]
        if at is None:
            return
        try:
            if self._whole is not None:
                at = max(at, await self._whole(part.partition, part.records))
            elif not self._committed:
                for batch in split(part.records):
                    if not batch.header.attributes & CONTROL:
                        self._take(part.partition, batch, self._first[part.partition])
                    at = max(at, batch.header.next_offset)
            elif committed:
                seen = visible(split(part.records), part.aborted)
                place = TopicPartition(part.topic, part.partition)
                await decide_by_markers(self._link, place, seen, self._patience, self._markers[part.partition])
                for batch, data in seen.batches:
                    if data:
                        self._take(part.partition, batch, self._first[part.partition])
                    at = max(at, batch.header.next_offset)
                if seen.fault is not None:
                    raise seen.fault
            else:
                following = next(
                    (
                        source_batch.header
                        for source_batch in split(part.records)
                        if source_batch.header.next_offset > at
                    ),
                    None,
                )
                if following is not None and following.base_offset >= end:
                    at = end
        except CorruptBatch as error:
            raise CorruptBatch(f"{part.topic}-{part.partition} of {self._link.alias}: {error}") from error
        except PartitionError as error:
            raise UnreachableCluster(str(error)) from error
        self._at[part.partition] = at
        if at >= end:
            del self._at[part.partition]

    async def _start_moved(self, partition: int) -> None:
        """Records were deleted since the start was listed."""
        starts = await log_offsets(
            self._link, self._topic, [partition], EARLIEST, committed=True, patience_seconds=self._patience
        )
        self._fault = f"{self._topic}-{partition} starts at offset {starts[partition]} now"
        self._first[partition] = self._at[partition] = max(self._at[partition], starts[partition])
        if self._at[partition] >= self._ends[partition]:
            del self._at[partition]


class PartitionReading:
    """One partition, an answer at a time; arguments as :func:`read_committed` has them. ``leases`` are the receive
    buffers of one link by node, shared with the next reading: Python may keep those of an ended generator for long."""

    def __init__(
        self,
        link: ClusterLink,
        place: TopicPartition,
        start: int,
        end: int,
        patience_seconds: float,
        committed: bool,
        fetch_bytes: int,
        leases: dict[int, Lease],
    ) -> None:
        self._link = link
        self._topic = place.topic
        self._found: list[SourceBatch] = []
        starts, ends = {place.partition: start}, {place.partition: end}
        self._reading = _Reading(
            link, place.topic, starts, ends, self._take, patience_seconds, committed, fetch_bytes, leases=leases
        )

    def next_answer(self) -> list[SourceBatch] | None:
        """Its batches, which are valid until the next call; None at the end. Raises as :func:`read_committed`."""
        if self._reading.over:
            return None
        self._found.clear()
        self._link.run(self._advance)
        return self._found

    async def _advance(self) -> None:
        await self._link.track([self._topic])
        await self._reading.advance()

    def _take(self, partition: int, batch: SourceBatch, first: int) -> None:
        self._found.append(batch)
