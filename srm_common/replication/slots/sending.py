"""Produce requests in flight to the target's leaders: how many, how many bytes, and which are retried.

Invariant: the requests of a partition arrive in the order of their sequences. A batch that the broker rejects with
CONCURRENT_TRANSACTIONS is sent again as it is, and until a partition's first batch of a transaction is stored, its
second one waits (``TransactionManager`` of Kafka's producer).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.flow.principals import Right
from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.state_topics import batch_too_large, time_refused
from srm_common.errors import (
    AccessDenied,
    ClusterError,
    CorruptBatch,
    Fenced,
    NoSuchPartition,
    PartitionError,
    RecordTooLarge,
    SrmError,
)
from srm_common.kafka.client.connections.connection_faults import was_closed_by_peer
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.slots.blocks import Block
from srm_common.replication.slots.chunk_failed import ChunkFailed
from srm_common.replication.slots.leader_route import LeaderRoute
from srm_common.replication.slots.ranges import RangeState, SentBatch
from srm_common.wire.batches.batch import Packed
from srm_common.wire.protocol.produce import ProduceAnswer
from srm_common.wire.varints import Buffer

#: The broker remembers five batches of a producer and partition (KIP-98), and the library refuses a sixth request.
_IN_FLIGHT = 5
#: Pauses before a batch is sent again while the coordinator completes the transaction before.
_FIRST_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 0.003, 0.1


class Outgoing(NamedTuple):
    """One stamped batch. ``packed`` is None for records of the flow's state, which several ranges may share."""

    partition: TopicPartition
    states: Sequence[RangeState]
    packed: Packed | None
    header: Buffer
    body: Buffer


@dataclass(slots=True)
class _Request:
    """A request in flight. It is completed as a future of the library is, at a fraction of the cost."""

    sending: Sending
    leader: int
    batches: Sequence[Outgoing]
    size: int
    block: Block | None
    epoch: int
    sent_at: float
    #: Since when the coordinator has been busy with the previous transaction, and the next pause.
    busy_since: float = 0.0
    pause: float = _FIRST_AGAIN_SECONDS
    is_done: bool = False

    @property
    def states(self) -> list[RangeState]:
        """The ranges of its batches."""
        return [state for batch in self.batches for state in batch.states]

    def success(self, answer: ProduceAnswer) -> None:
        """The broker answered."""
        self.is_done = True
        self.sending.answered(self, answer)

    def failure(self, error: BaseException) -> None:
        """No answer will come."""
        self.is_done = True
        self.sending.unanswered(self, error)


class Sending:
    """The requests of one chunk after another; what was measured about links is kept."""

    def __init__(self, job: CopyJob, target: ClusterLink, producer: Producer, signal: Signal) -> None:
        self._job = job
        self._target = target
        self._producer = producer
        self._signal = signal
        self._routes: dict[int, LeaderRoute] = defaultdict(LeaderRoute)
        self._under_way = 0
        self._epoch = 0
        self._failure: ChunkFailed | SrmError | Exception | None = None
        self._lost = False
        #: Partitions whose first batch of the transaction is under way, and those where it is stored.
        self._opening: set[TopicPartition] = set()
        self._opened: set[TopicPartition] = set()

    @property
    def idle(self) -> bool:
        """Whether every request was answered."""
        return not self._under_way

    def __str__(self) -> str:
        brokers = [str(leader) for leader, route in self._routes.items() if route.requests]
        return f"{self._under_way} Produce to broker {', '.join(brokers)} of {self._target.alias}" if brokers else ""

    def check(self) -> None:
        """Raises ChunkFailed or Fenced when a request has failed."""
        if self._failure is not None:
            raise self._failure

    def window(self, leader: int) -> float:
        """The most bytes of one request to a leader; a single batch may be larger."""
        return self._routes[leader].window

    def has_room(self, leader: int, size: int) -> bool:
        """Whether a request of ``size`` bytes may follow at once, whatever its partitions are."""
        route = self._routes[leader]
        requests = route.requests
        fits = not requests or (requests < _IN_FLIGHT and route.bytes + size <= route.window)
        return fits and not self._opening and self._failure is None

    async def room(self, leader: int, partitions: Sequence[TopicPartition], size: int) -> None:
        """Wait until a request of ``size`` bytes may follow those that are under way to ``leader``.

        Raises:
            ChunkFailed, Fenced: a request has failed meanwhile.
        """
        route = self._routes[leader]
        while (
            route.requests >= _IN_FLIGHT
            or (route.requests and route.bytes + size > route.window)
            or (self._opening and not self._opening.isdisjoint(partitions))
        ):
            # A request that has failed already does not set the signal again.
            self.check()
            await self._signal.wait()
        self.check()

    async def post(self, leader: int, batches: Sequence[Outgoing], size: int, block: Block | None) -> None:
        """Send a request with batches of ``size`` bytes; its answer is noted when it comes.

        Raises:
            ChunkFailed: there is no connection to the leader.
        """
        if self._producer.joins_by_produce:
            opened = self._opened
            for batch in batches:
                if batch.partition not in opened:
                    self._opening.add(batch.partition)
        request = _Request(self, leader, batches, size, block, self._epoch, time.monotonic())
        self._routes[leader].sent(size, request.sent_at)
        self._under_way += 1
        if block is not None:
            block.pending += 1
        await self._transmit(request)

    async def _transmit(self, request: _Request) -> None:
        topics: dict[str, list[tuple[int, Sequence[Buffer]]]] = {}
        for (topic, partition), _states, _packed, header, body in request.batches:
            topics.setdefault(topic, []).append((partition, (header, body)))
        frame = RawProduce(
            self._producer.produce_version, self._producer.transactional_id, self._job.request_timeout_ms, topics
        )
        request.is_done = False
        connection = self._target.connection(request.leader)
        if connection is None:
            try:
                connection = await self._target.ready(request.leader)
            except (RetriableFault, SrmError) as error:
                self._settle(request)
                if isinstance(error, SrmError):
                    raise
                raise ChunkFailed(str(error), request.states) from error
        if request.epoch != self._epoch or self._failure is not None:
            # The chunk is started over, and its records are sent once more.
            self._settle(request)
            return
        connection.send_request(frame, reply=request)

    def _settle(self, request: _Request) -> bool:
        """The request is done. False if it belongs to a chunk that was abandoned in the meantime."""
        if request.block is not None:
            request.block.settle()
        if request.epoch != self._epoch:
            return False
        route = self._routes[request.leader]
        route.requests -= 1
        route.bytes -= request.size
        self._under_way -= 1
        self._signal.set()
        return True

    def answered(self, request: _Request, answer: ProduceAnswer) -> None:
        """An answer came."""
        try:
            again = self._read(request, answer)
        except Exception as error:  # the library would only log it, and the chunk would be committed
            self._failure = error
            again = []
        if again:
            request.batches = again
            pause, request.pause = request.pause, min(request.pause * 2, _LONGEST_AGAIN_SECONDS)
            self._target.loop.call_later(pause, lambda: self._repeat(request))
        else:
            self._settle(request)

    def _read(self, request: _Request, answer: ProduceAnswer) -> list[Outgoing]:
        """Process an answer; returns the batches that are to be sent again."""
        if request.epoch != self._epoch:
            return []
        now = time.monotonic()
        route = self._routes[request.leader]
        route.answered(request.size, request.sent_at, now, answer.throttle_time_ms / 1000)
        again = []
        batches = {batch.partition: batch for batch in request.batches}
        for part in answer.partitions:
            topic, partition, error_code, base_offset, _ = part
            batch = batches[TopicPartition(topic, partition)]
            if not error_code:
                if self._opening:
                    self._opening.discard(batch.partition)
                    self._opened.add(batch.partition)
                packed = batch.packed
                if packed is not None and self._failure is None:
                    # After a failure a later batch may be stored without the one before it.
                    share = batch.states[0].chunk_share
                    if base_offset >= share.downstream_end:
                        share.acknowledge(packed, base_offset)
                    else:
                        self._not_behind(batch.states[0], base_offset)
            elif (
                error_code == codes.CONCURRENT_TRANSACTIONS
                and batch.partition in self._opening  # or a later batch is stored already
                and self._patient(request, now)
            ):
                again.append(batch)
            else:
                offset = batch.packed.runs[0][0] if batch.packed is not None else None
                self.refuse(error_code, part.error_message, batch.partition, batch.states, offset)
        return again if self._failure is None else []

    def _not_behind(self, state: RangeState, base_offset: int) -> None:
        error = state.stored_before_its_end(base_offset, self._target.alias)
        self._fail(ChunkFailed(error, () if state.error is error else (state,)))

    def _patient(self, request: _Request, now: float) -> bool:
        request.busy_since = request.busy_since or now
        return now - request.busy_since < self._job.retry_timeout_seconds

    async def _repeat(self, request: _Request) -> None:
        request.sent_at = time.monotonic()
        try:
            await self._transmit(request)
        except (ChunkFailed, SrmError) as failure:  # the loop would only log it, and the chunk would wait for an answer
            if request.epoch == self._epoch:
                self._fail(failure)
                self._signal.set()

    def unanswered(self, request: _Request, error: BaseException) -> None:
        """An answer will not come."""
        alone = self._failure is None and self._routes[request.leader].requests == 1
        if self._settle(request):
            self._lost = True
            self._routes[request.leader].timed_out()
            reason = f"a leader at {self._target.alias} did not respond: {error}"
            too_large = alone and was_closed_by_peer(error) and self._was_cut_off(request)
            self._fail(ChunkFailed(reason, () if too_large else request.states))

    def _was_cut_off(self, request: _Request) -> bool:
        """A leader has closed the connection during its only request, as brokers and proxies do when it is larger than
        they take. Whether that was so often that the range stops before it."""
        batch, *others = request.batches
        if others or batch.packed is None or request.size <= MAX_MESSAGE_BYTES:
            return False
        sent = SentBatch(batch.partition, batch.packed.runs[0][0])
        return batch.states[0].was_cut_off(sent, request.size, request.leader, self._target.alias)

    def refuse(
        self,
        code: int,
        message: str | None,
        partition: TopicPartition,
        states: Sequence[RangeState],
        offset: int | None = None,
    ) -> None:
        """The target refused a partition of the chunk: a batch that begins with upstream ``offset``, or its part in the
        transaction. Later batches may have been stored, so the chunk is always started over."""
        place = f"partition {partition[0]}-{partition[1]} at {self._target.alias}"
        text = f"{place}: {codes.name(code)}" + (f", {message}" if message else "")
        if code in codes.FENCED:
            self._fail(Fenced(f"the producer {self._producer.transactional_id} was fenced: {text}"))
            return
        if code in codes.REDO_CHUNK:
            self._fail(ChunkFailed(text))
            return
        if code == codes.CORRUPT_MESSAGE:
            self._refuse_corrupt(text, SentBatch(partition, offset), states)
            return
        if not codes.retriable(code):
            error: SrmError
            of_state = partition[0] in (self._job.offsets_topic, self._job.segments_topic)
            if code in codes.DENIED:
                missing = Right("Write", "topic", partition[0]).missing(self._target.settings)
                error = AccessDenied(f"{place}: writing is not allowed; {missing}")
            elif of_state and code == codes.MESSAGE_TOO_LARGE:
                error = RecordTooLarge(batch_too_large(partition[0], self._target.alias))
            elif of_state and code == codes.INVALID_TIMESTAMP:
                error = ClusterError(time_refused(partition[0], self._target.alias))
            elif code == codes.MESSAGE_TOO_LARGE:
                error = RecordTooLarge(
                    f"{text}; the topic's max.message.bytes was lowered during the run, or may not be read"
                )
            else:
                error = PartitionError(text)
            for state in states:
                state.stop_at(_begin(state) if offset is None else offset, error)
        gone = code == codes.UNKNOWN_TOPIC_OR_PARTITION
        reason = NoSuchPartition(f"{place} does not exist, or was deleted") if gone else text
        self._fail(ChunkFailed(reason, states if codes.retriable(code) else ()))

    def _refuse_corrupt(self, text: str, batch: SentBatch, states: Sequence[RangeState]) -> None:
        """The target refused a batch that was verified, or written, a moment ago. A range whose batch
        it has refused in an earlier chunk, too, stops before that batch."""
        again = [state for state in states if state.refused_as_corrupt(batch)]
        for state in again:
            if batch.offset is None:
                what = f"the chunk from offset {_begin(state)} on was written twice"
            else:
                what = f"the batch at offset {batch.offset} was read and verified twice"
            error = CorruptBatch(
                f"partition {state.upstream[0]}-{state.upstream[1]}: {what}, and {self._target.alias} refused it both "
                f"times: {text}; check the memory of the worker and the network"
            )
            state.stop_at(_begin(state) if batch.offset is None else batch.offset, error)
        self._fail(ChunkFailed(text, [state for state in states if state not in again]))

    def _fail(self, failure: ChunkFailed | SrmError) -> None:
        """Keep the failure that says most: fencing first of all; failed ranges together; otherwise the first one."""
        known = self._failure
        if known is None or isinstance(failure, Fenced):
            self._failure = failure
        elif isinstance(known, ChunkFailed) and isinstance(failure, ChunkFailed) and known.states and failure.states:
            self._failure = ChunkFailed(known.error, tuple(dict.fromkeys((*known.states, *failure.states))))

    async def finish(self) -> None:
        """Wait for all answers.

        Raises:
            ChunkFailed, Fenced: a request has failed.
        """
        while self._under_way:
            self.check()
            await self._signal.wait()
        self.check()

    async def drain(self, seconds: float) -> bool:
        """Wait for the answers of a failed chunk; True when each request of it was answered: none can still arrive
        at the broker."""
        deadline = time.monotonic() + seconds
        while self._under_way and not self._lost and time.monotonic() < deadline:
            await self._signal.wait(deadline - time.monotonic())
        return not self._under_way and not self._lost

    def abandon(self) -> None:
        """Abandon requests in flight; connections with unanswered requests are closed, so that no late bytes follow."""
        now = time.monotonic()
        for leader, route in self._routes.items():
            if route.requests:
                self._target.disconnect(leader)
            route.abandon(now)
        self._under_way = 0
        self._epoch += 1
        self.start()

    def start(self) -> None:
        """A transaction begins in which no partition takes part yet."""
        self._failure = None
        self._lost = False
        self._opening.clear()
        self._opened.clear()


def _begin(state: RangeState) -> int:
    """Where the chunk in work begins in a range."""
    return state.committed if state.share is None else state.share.upstream_start
