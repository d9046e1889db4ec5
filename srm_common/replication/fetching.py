"""Fetching: one request in flight to each source leader, answers wait as blocks until the chunk takes them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchRequest

from srm_common.domain.runs.copying import CopyJob
from srm_common.errors import (
    AccessDenied,
    ClusterError,
    CorruptBatch,
    DataLost,
    NoSuchPartition,
    PartitionError,
    SrmError,
)
from srm_common.kafka import codes
from srm_common.kafka.buffers import Lease
from srm_common.kafka.frames import RawFetch
from srm_common.kafka.link import ClusterLink, RetriableFault
from srm_common.kafka.signal import Signal
from srm_common.replication.ranges import RangeState
from srm_common.wire import fetch
from srm_common.wire.batch import SourceBatch, split
from srm_common.wire.packed import Packed
from srm_common.wire.visibility import visible

_MAX_WAIT_MS = 500
_LEASES_PER_LEADER = 2
#: Deleted topics come back as "unknown" while metadata spreads; longer than this it is a fact.
_UNKNOWN_TOPIC_SECONDS = 5.0
#: So many answers without anything, though the end was not reached, mean that compaction removed the rest.
_EMPTY_ANSWERS = 3


@dataclass
class Portion:
    """What one answer brought for one range: visible batches, and the offset after all batches."""

    state: RangeState
    batches: Sequence[SourceBatch]
    first_offset: int
    next_offset: int


@dataclass
class Block:
    """One answer. Its lease is held until every batch was acknowledged or the chunk was started over."""

    generation: int
    portions: list[Portion]
    lease: Lease
    pending: int = 0
    taken: bool = field(default=False)
    #: The chunk's place in it: portions that are not at their end, with the batches still to come.
    turns: list[tuple[Portion, Iterator[Packed]]] | None = None

    def settle(self) -> None:
        """One more batch of it needs the buffer no longer."""
        self.pending -= 1
        if self.taken and not self.pending:
            self.lease.release()

    def finish_taking(self) -> None:
        """No more batches will be taken from it."""
        self.taken = True
        if not self.pending:
            self.lease.release()


class Fetching:
    """Keeps the source busy while a chunk is produced.

    Memory: two buffers of ``fetch.bytes`` divided by the number of source leaders, each; one grows beyond that only
    for an answer with a single larger batch.
    """

    def __init__(self, job: CopyJob, source: ClusterLink, states: Sequence[RangeState], signal: Signal) -> None:
        self._job = job
        self._source = source
        self._states = states
        self._signal = signal
        self._leases: dict[int, list[Lease]] = {}
        self._blocks: deque[Block] = deque()
        self._in_flight: set[int] = set()
        self._generation = 0
        self._stale_metadata = self._refreshing = False
        self._crash: Exception | None = None
        leaders = {source.leader(*state.upstream) for state in states} or {None}
        self._bytes_per_fetch = max(job.fetch_bytes // len(leaders), 1 << 20)

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come or to be taken."""
        return bool(self._in_flight or self._blocks)

    def next_block(self) -> Block | None:
        """The oldest answer that is still wanted."""
        return self._blocks.popleft() if self._blocks else None

    def discard(self) -> None:
        """Forget what was fetched: the chunk is started over from earlier offsets."""
        self._generation += 1
        while self._blocks:
            self._blocks.popleft().lease.release()
        for state in self._states:
            state.fetching = False

    async def start(self) -> None:
        """Send a Fetch to every leader that has wanted ranges, no request in flight and a free buffer."""
        if self._crash is not None:
            raise self._crash
        if self._stale_metadata and not self._refreshing:
            self._stale_metadata = False
            self._refreshing = True
            self._source.loop.call_soon(self._refresh)
        wanted: dict[int, list[RangeState]] = {}
        for state in self._states:
            if not state.wants_fetch:
                continue
            leader = self._source.leader(*state.upstream)
            if leader is None:
                self._fault([state], self._source.leaderless(*state.upstream))
            elif leader not in self._in_flight:
                wanted.setdefault(leader, []).append(state)
        for leader, states in wanted.items():
            lease = self._free_lease(leader)
            if lease is not None:
                self._send(leader, states, lease)

    async def _refresh(self) -> None:
        """In the background: a broker that does not answer must not keep an open transaction waiting."""
        try:
            await self._source.refresh()
        finally:
            self._refreshing = False
            self._signal.set()

    def _free_lease(self, leader: int) -> Lease | None:
        leases = self._leases.setdefault(leader, [])
        for lease in leases:
            if not lease.in_use:
                return lease
        if len(leases) < _LEASES_PER_LEADER:
            leases.append(Lease(self._bytes_per_fetch + (1 << 16)))
            return leases[-1]
        return None

    def _send(self, leader: int, states: list[RangeState], lease: Lease) -> None:
        # The broker fills the answer in request order: who went empty-handed asks first.
        states.sort(key=lambda state: -state.empty_answers)
        for state in states:
            state.fetching = True
        lease.hold()
        self._in_flight.add(leader)
        generation = self._generation
        request = self._request(states)

        async def exchange() -> None:
            try:
                await talk()
            except Exception as error:  # the loop would only log it, and the slot would wait for ever
                self._crash = error
                self._signal.set()

        async def talk() -> None:
            try:
                answer = await self._source.send(leader, RawFetch(request, lease))
            except RetriableFault as error:
                self._arrived(generation, leader, states, lease, None, str(error))
            except ClusterError as error:
                for state in states:
                    state.fetching = False
                    state.give_up(error)
                self._arrived(generation, leader, states, lease, None, None)
            else:
                self._arrived(generation, leader, states, lease, answer, None)

        self._source.loop.call_soon(exchange)

    def _request(self, states: list[RangeState]) -> Any:
        kind = FetchRequest.FetchTopic
        topics: dict[str, list[Any]] = {}
        for state in states:
            topics.setdefault(state.upstream[0], []).append(
                kind.FetchPartition(
                    partition=state.upstream[1],
                    current_leader_epoch=-1,
                    fetch_offset=state.fetched,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=self._job.fetch_partition_bytes,
                )
            )
        return FetchRequest(
            version=fetch.VERSION,
            replica_id=-1,
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._bytes_per_fetch,
            isolation_level=int(self._job.read_committed),
            session_id=0,
            session_epoch=-1,
            topics=[kind(topic=topic, partitions=parts) for topic, parts in topics.items()],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _arrived(
        self,
        generation: int,
        leader: int,
        states: list[RangeState],
        lease: Lease,
        answer: fetch.FetchAnswer | None,
        fault: str | None,
    ) -> None:
        self._in_flight.discard(leader)
        if generation != self._generation:
            lease.release()
        else:
            for state in states:
                state.fetching = False
            if fault is not None:
                self._fault(states, fault)
            block = Block(generation, [], lease)
            if answer is not None:
                if answer.error_code:
                    self._fault(states, f"the source answered {codes.name(answer.error_code)}")
                else:
                    self._read(answer, states, block)
            if block.portions:
                self._blocks.append(block)
            else:
                lease.release()
        self._signal.set()

    def _read(self, answer: fetch.FetchAnswer, states: list[RangeState], block: Block) -> None:
        by_name = {state.upstream: state for state in states}
        # Only the first partition with data gets a whole batch whatever its size (KIP-74): to bring nothing behind it
        # may mean no room.
        starved = answer.throttle_time_ms > 0
        for part in answer.partitions:
            no_room, starved = starved, starved or len(part.records) > 0
            state = by_name.get((part.topic, part.partition))
            if state is None:
                continue
            if part.error_code:
                self._refused(state, part)
                continue
            try:
                portion = self._portion(state, part)
            except CorruptBatch as error:
                state.stop_at(state.fetched, CorruptBatch(f"partition {_name(state)}: {error}"))
                continue
            if portion.next_offset > state.fetched:
                state.empty_answers = 0
                state.fetched = portion.next_offset
                block.portions.append(portion)
                continue
            stable = part.last_stable_offset if self._job.read_committed else part.high_watermark
            state.empty_answers += 1
            if not len(part.records) and not no_room and stable >= state.end:
                if state.empty_answers >= _EMPTY_ANSWERS:
                    state.fetched = state.end
                    block.portions.append(Portion(state, (), state.end, state.end))
            elif not no_room and state.empty_answers > _EMPTY_ANSWERS:
                self._fault([state], f"partition {_name(state)} brings nothing at offset {state.fetched}")

    def _portion(self, state: RangeState, part: fetch.FetchedPartition) -> Portion:
        first = next_offset = state.fetched
        wanted: list[SourceBatch] = []
        try:
            for batch, data in visible(split(part.records), part.aborted):
                header = batch.header
                if header.base_offset >= state.end and header.magic >= 2:
                    next_offset = state.end
                    break
                if header.next_offset <= first:
                    continue
                next_offset = min(header.next_offset, state.end)
                if data:
                    wanted.append(batch)
        except CorruptBatch:
            # What comes before it is good; the next answer begins with it.
            if next_offset == first:
                raise
        return Portion(state, wanted, first, next_offset)

    def _refused(self, state: RangeState, part: fetch.FetchedPartition) -> None:
        code = part.error_code
        if code == codes.OFFSET_OUT_OF_RANGE:
            state.stop_at(
                state.fetched,
                DataLost(
                    f"partition {_name(state)}: offset {state.fetched} is not in the source log any more; "
                    "the next run applies on.data.loss"
                ),
            )
        elif code in codes.DENIED:
            state.stop_at(
                state.fetched,
                AccessDenied(
                    f"partition {_name(state)}: reading is not allowed at {self._source.alias}; "
                    f"grant READ on topic {state.upstream[0]}"
                ),
            )
        elif code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._fault(
                [state],
                NoSuchPartition(f"partition {_name(state)} at {self._source.alias} does not exist, or was deleted"),
            )
        elif codes.retriable(code):
            self._fault([state], f"partition {_name(state)} at {self._source.alias}: {codes.name(code)}")
        else:
            state.stop_at(
                state.fetched,
                PartitionError(f"partition {_name(state)}: the source answered {codes.name(code)}"),
            )

    def _fault(self, states: Sequence[RangeState], reason: str | SrmError) -> None:
        self._stale_metadata = True
        error = PartitionError(reason) if isinstance(reason, str) else reason
        for state in states:
            state.fault(error, self._job.retry_timeout_seconds)

    def next_event(self) -> float | None:
        """When a paused range may be tried again, in monotonic seconds."""
        now = time.monotonic()
        times = [state.pause_until for state in self._states if not state.settled and state.pause_until > now]
        return min(times, default=None)


def _name(state: RangeState) -> str:
    return f"{state.upstream[0]}-{state.upstream[1]}"
