"""The records between two offsets of a log: small bounded reads of many partitions, by raw fetches.

A batch without holes is counted by its header; only others are opened.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.offsets.counting import SeenBatch
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, PartitionError
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link import EARLIEST, ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.client.protocol.fetch_request import FetchFrom, fetch_request
from srm_common.kafka.client.protocol.frames import RawFetch
from srm_common.kafka.log.empty_answers import EmptyAnswers, Silence
from srm_common.kafka.log.log_facts import leader_epoch, log_facts
from srm_common.kafka.log.preferred_replicas import PreferredReplicas
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.kafka.log.transaction_markers import decide_by_markers
from srm_common.wire.batches.batch import CONTROL, SourceBatch, split, verify
from srm_common.wire.batches.records import legacy_records, loose_records
from srm_common.wire.batches.visibility import Visible, visible
from srm_common.wire.protocol import fetch

_ANSWER_BYTES = 8 << 20
_PARTITION_BYTES = 1 << 20
_MAX_WAIT_MS = 200
#: A window with more than this is given up: windows lie within chunks, which are about this large.
_WINDOW_BYTES = 128 << 20
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets ``start`` (inclusive) to ``end`` (exclusive) of a partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class ScanResult:
    """What a window contains now: the offsets of records that a consumer sees, and all batches of data.

    Not ``complete``: the log ends before the window does, or an open transaction hides the rest.
    """

    offsets: list[int] = field(default_factory=list)
    batches: list[SeenBatch] = field(default_factory=list)
    complete: bool = True


@dataclass(slots=True)
class _Reading:
    window: Window
    at: int
    sight: ScanResult = field(default_factory=ScanResult)
    bytes: int = 0
    empty: int = 0
    #: The high watermark of a leader that has nothing after ``at``; -1 for none.
    ends_at: int = -1


class LogWindows(Closing):
    """Reads parts of the logs of one cluster. A context manager.

    Args:
        committed: whether to see what read_committed consumers see, or aborted records, too.
        timeout_seconds: when to give up a request without an answer, and a window that shows nothing new.
        pool: of the cluster's connections.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        committed: bool = True,
        timeout_seconds: float = 30.0,
        pool: LinkPool | None = None,
    ) -> None:
        self._link = ClusterLink(
            cluster.of_client(Client.CONSUMER),
            part="windows",
            request_timeout_ms=int(timeout_seconds * 1000),
            pool=pool,
        )
        self._committed = committed
        self._timeout = timeout_seconds
        self._leases: dict[int, Lease] = {}
        self._replicas = PreferredReplicas(self._link)
        self._silences = EmptyAnswers(self._link, timeout_seconds)

    def close(self) -> None:
        self._link.close()

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """Ids as they are now, in Kafka's spelling; None for a topic that does not exist (any more).

        Raises:
            UnreachableCluster, AccessDenied: as the cluster answers.
        """
        wanted = set(topics)

        async def ask() -> dict[str, str | None]:
            await self._open(set())
            return await topic_ids(self._link, wanted, self._timeout)

        return self._link.run(ask)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs begin; a partition without a response is absent.

        Raises:
            UnreachableCluster, AccessDenied: as the cluster answers.
        """
        found, _ = self._link.start_offsets(partitions, timeout_seconds=self._timeout)
        return found

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where reading has to end; a partition without a response is absent. Raises as :meth:`starts`."""
        found, _ = self._link.end_offsets(partitions, committed=self._committed, timeout_seconds=self._timeout)
        return found

    def read(
        self, windows: Iterable[Window], *, first_only: bool = False
    ) -> tuple[dict[Window, ScanResult], dict[Window, str]]:
        """What each window contains, or one sentence why it could not be read. What the log has lost is absent.

        Args:
            first_only: read no further than the first record that a consumer sees.

        Raises:
            UnreachableCluster, AccessDenied: as the cluster answers.
        """
        readings = [_Reading(window, window.start) for window in dict.fromkeys(windows)]
        faults: dict[Window, str] = {}

        async def work() -> None:
            await self._open({reading.window.topic for reading in readings})
            starts, _ = await self._link.offsets({reading.window.place for reading in readings}, EARLIEST)
            for reading in readings:
                reading.at = max(reading.at, starts.get(reading.window.place, 0))
            await self._read_all(
                [reading for reading in readings if reading.at < reading.window.end], faults, first_only
            )

        if readings:
            self._link.run(work)
        return {reading.window: reading.sight for reading in readings if reading.window not in faults}, faults

    async def _open(self, topics: set[str]) -> None:
        await self._link.open(timeout_seconds=min(self._timeout, 15.0))
        await self._link.track(topics)

    async def _read_all(self, readings: list[_Reading], faults: dict[Window, str], first_only: bool) -> None:
        waiting = readings
        moved, position = time.monotonic(), -1
        while waiting:
            reason = await self._round(waiting, faults)
            waiting = [
                reading
                for reading in waiting
                if reading.at < reading.window.end
                and reading.window not in faults
                and not (first_only and reading.sight.offsets)
            ]
            if reason is None or sum(reading.at for reading in readings) != position:
                moved, position = time.monotonic(), sum(reading.at for reading in readings)
            elif time.monotonic() - moved > self._timeout:
                faults.update({reading.window: reason for reading in waiting})
                return
            if reason is not None:
                await self._link.loop.sleep(_PAUSE_SECONDS)
                await self._link.refresh()

    async def _round(self, waiting: Sequence[_Reading], faults: dict[Window, str]) -> str | None:
        """One fetch from every broker, of one window per partition; returns why to try again, in words."""
        by_node: dict[int, dict[TopicPartition, _Reading]] = defaultdict(dict)
        reason = None
        for reading in waiting:
            node = self._replicas.node(reading.window.place)
            if node is None:
                reason = str(self._link.leaderless(*reading.window.place))
            else:
                by_node[node].setdefault(reading.window.place, reading)
        sent = []
        for node, ones in by_node.items():
            lease = self._leases.setdefault(node, Lease(_ANSWER_BYTES + (1 << 16)))
            try:
                sent.append((node, ones, await self._link.post(node, RawFetch(self._request(ones), lease))))
            except RetriableFault as error:
                reason = self._leave(ones, str(error))
        for node, ones, future in sent:
            try:
                answer = await self._link.answer(future)
            except RetriableFault as error:
                reason = self._leave(ones, str(error))
                continue
            if answer.error_code:
                reason = self._leave(ones, f"cluster {self._link.alias} answered {codes.name(answer.error_code)}")
                continue
            reason = await self._take_in(answer, ones, node, faults) or reason
        return reason

    def _leave(self, ones: Iterable[TopicPartition], reason: str) -> str:
        """A broker failed; if it was a replica, the leader is queried next."""
        for place in ones:
            self._replicas.failed(place)
        return reason

    def _request(self, ones: dict[TopicPartition, _Reading]) -> Any:
        return fetch_request(
            (
                # The broker fills the answer in this order: partitions that got nothing go first.
                FetchFrom(*place, one.at, leader_epoch(self._link, place))
                for place, one in sorted(ones.items(), key=lambda item: -item[1].empty)
            ),
            partition_bytes=_PARTITION_BYTES,
            max_bytes=_ANSWER_BYTES,
            max_wait_ms=_MAX_WAIT_MS,
            committed=self._committed,
            rack=self._replicas.rack(ones),
        )

    async def _take_in(
        self, answer: fetch.FetchAnswer, ones: dict[TopicPartition, _Reading], node: int, faults: dict[Window, str]
    ) -> str | None:
        reason = None
        # Only the first partition with data gets a whole batch, whatever its size (KIP-74).
        no_room = answer.throttle_time_ms > 0
        silences: list[tuple[_Reading, Silence]] = []
        for part in answer.partitions:
            one = ones[TopicPartition(part.topic, part.partition)]
            place = f"{part.topic}-{part.partition} on {self._link.alias}"
            if part.preferred_replica >= 0:
                self._replicas.named(one.window.place, part.preferred_replica)
            elif part.error_code and self._is_replica(one, node):
                reason = f"{place}: {codes.name(part.error_code)}"
            elif part.error_code == codes.OFFSET_OUT_OF_RANGE:
                reason = await self._place_again(one) or reason
            elif part.error_code in codes.DENIED:
                missing = Right("Read", "topic", part.topic).missing(self._link.settings)
                faults[one.window] = f"{place} may not be read; {missing}"
            elif part.error_code:
                reason = f"{place}: {codes.name(part.error_code)}"
                if not codes.retriable(part.error_code) and part.error_code != codes.UNKNOWN_SERVER_ERROR:
                    faults[one.window] = reason
            else:
                seen = visible(split(part.records), part.aborted if self._committed else None)
                try:
                    await decide_by_markers(self._link, one.window.place, seen, self._timeout)
                    silence = self._look(one, part, seen, node, no_room)
                except (PartitionError, AccessDenied) as error:
                    faults[one.window] = f"{place}: {error}"
                else:
                    if silence is not None:
                        silences.append((one, silence))
                if one.bytes > _WINDOW_BYTES:
                    faults[one.window] = (
                        f"more than {_WINDOW_BYTES >> 20} MiB lie between the offsets {one.window.start} and "
                        f"{one.window.end} of {place}"
                    )
                no_room = no_room or len(part.records) > 0
        for one in ones.values():
            if one.ends_at >= 0:
                reason = await self._end(one) or reason
        for one, silence in silences:
            reason = await self._understand(one, silence, faults) or reason
        return reason

    def _is_replica(self, one: _Reading, node: int) -> bool:
        """Whether the response was from a replica, or a former leader; if so, the leader is queried next."""
        return self._replicas.failed(one.window.place) or node != self._link.leader(*one.window.place)

    async def _place_again(self, one: _Reading) -> str | None:
        """The offset is out of range: what retention has removed since the start was listed is skipped, and beyond the
        log's end there is nothing. Any other reason is temporary, and returned."""
        try:
            facts = await log_facts(self._link, one.window.place)
        except (RetriableFault, AccessDenied) as error:
            return str(error)
        if one.at < facts.start:
            one.at = min(facts.start, one.window.end)
        elif one.at > facts.end:
            one.sight.complete = False
            one.at = one.window.end
        else:
            place = f"{one.window.topic}-{one.window.partition} on {self._link.alias}"
            return f"{place}: {codes.name(codes.OFFSET_OUT_OF_RANGE)}"
        return None

    async def _end(self, one: _Reading) -> str | None:
        """Nothing more can be read: an open transaction hides it, or the log ends there. A newly elected leader may
        respond so before it knows what is committed, but it does not when listing offsets (KIP-207)."""
        marked, one.ends_at = one.ends_at, -1
        if marked <= one.at:
            try:
                facts = await log_facts(self._link, one.window.place)
            except (RetriableFault, AccessDenied) as error:
                return str(error)
            if facts.end > one.at:
                return f"{one.window.topic}-{one.window.partition} on {self._link.alias} continues to {facts.end}"
        one.sight.complete = False
        one.at = one.window.end
        return None

    async def _understand(self, one: _Reading, silence: Silence, faults: dict[Window, str]) -> str | None:
        """Interpret a response without records; returns what to wait for."""
        if silence.wants_facts:
            try:
                await self._silences.ask(silence)
            except (RetriableFault, AccessDenied) as error:
                return str(error)
        if silence.proved_to > one.at:
            one.at = silence.proved_to
            self._silences.ended(one.window.place)
            return None
        fault = self._silences.given_up(silence)
        if fault is not None:
            faults[one.window] = fault
            self._silences.ended(one.window.place)
        return self._silences.describe(silence) if silence.pause_seconds else None

    def _look(
        self, one: _Reading, part: fetch.FetchedPartition, seen: Visible, node: int, no_room: bool
    ) -> Silence | None:
        """Take in the batches; returns the silence if there was room and nothing came, although the log goes on."""
        start, end, at = one.window.start, one.window.end, one.at
        one.bytes += len(part.records)
        for batch, data in seen.batches:
            header = batch.header
            if header.next_offset <= at:
                continue
            if header.base_offset >= end and header.magic >= 2:
                one.at = end
                break
            if not header.attributes & CONTROL:
                one.sight.batches.append(
                    SeenBatch(
                        range(header.base_offset, header.next_offset),
                        (header.producer_id, header.producer_epoch),
                        header.base_sequence,
                    )
                )
            if data:
                one.sight.offsets += _offsets(batch, max(start, at), end)
            one.at = header.next_offset
        else:
            if seen.fault is not None:
                raise seen.fault
        stable = part.last_stable_offset if self._committed else part.high_watermark
        if one.at > at:
            one.empty = 0
            self._silences.ended(one.window.place)
            return None
        one.empty += 1
        if one.at >= stable and node == self._link.leader(*one.window.place):
            one.ends_at = part.high_watermark
            return None
        if no_room:
            return None
        goes_on = not len(part.records) and stable >= end
        silence = self._silences.add(one.window.place, at, node, empty_to=end if goes_on else 0)
        if silence.pause_seconds:
            self._replicas.failed(one.window.place)
        return silence


def _offsets(batch: SourceBatch, start: int, end: int) -> Sequence[int]:
    header = batch.header
    if header.magic >= 2 and header.dense:
        return range(max(start, header.base_offset), min(end, header.next_offset))
    verify(batch)
    records = legacy_records(batch) if header.magic < 2 else loose_records(batch)
    return [record.offset for record in records if start <= record.offset < end]
