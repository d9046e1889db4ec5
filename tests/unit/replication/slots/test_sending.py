"""Produce requests in flight, and what is known about them when the next one is due."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from srm_common.domain.cluster import MAX_MESSAGE_BYTES, ClusterSettings
from srm_common.domain.runs.copying import CopyJob, CopyRange, ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, Fenced, RecordTooLarge
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.slots.chunk_failed import ChunkFailed
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.sending import Outgoing, Sending
from srm_common.testing import FakeCluster
from srm_common.wire.batches.batch import split
from srm_common.wire.protocol.produce import ProduceAnswer, StoredPartition
from srm_common.wire.reencoding.repack import repack
from tests.kafka.engine import Engine
from tests.kafka.records import mixed_records, produce, read_all
from tests.unit.wire.built_batches import batch_bytes, some

LEADER, PLACE = 1, TopicPartition("a.orders", 0)
_CLUSTER = ClusterSettings.plaintext("b", "127.0.0.1:1")


class Refusing:
    """A link whose only broker refuses every batch."""

    settings = _CLUSTER
    alias = "b"

    def __init__(self, code: int) -> None:
        self._code = code

    def connection(self, node: int) -> Refusing:
        assert node == LEADER
        return self

    def send_request(self, request: Any, reply: Any) -> None:
        reply.success(ProduceAnswer(0, [StoredPartition(*PLACE, self._code, -1, None)]))


class BusyThenDenying(Refusing):
    """The broker's coordinator is busy; then the connection ends, and the login is refused to the next one."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__(codes.CONCURRENT_TRANSACTIONS)
        self.loop = loop
        self._asked = 0

    def connection(self, node: int) -> Any:
        self._asked += 1
        return super().connection(node) if self._asked == 1 else None

    async def ready(self, node: int) -> None:
        raise AccessDenied("cluster b refused the login")


class BusyThenThrottling(BusyThenDenying):
    """The broker's coordinator is busy, and then the broker wants no requests for a while."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__(loop)
        self.sent = 0
        self.throttled = False

    def send_request(self, request: Any, reply: Any) -> None:
        self.sent += 1
        super().send_request(request, reply)

    def disconnect(self, node: int) -> None:
        """Nothing is closed."""

    async def ready(self, node: int) -> Any:
        self.throttled = True
        while self.throttled:
            await self.loop.sleep(0.001)
        return self


class Silent(Refusing):
    """A link whose only broker does not answer; ``asked`` has the replies that are awaited."""

    def __init__(self) -> None:
        super().__init__(codes.NONE)
        self.asked: list[Any] = []
        self.disconnected: list[int] = []

    def send_request(self, request: Any, reply: Any) -> None:
        self.asked.append(reply)

    def disconnect(self, node: int) -> None:
        self.disconnected.append(node)


@pytest.mark.parametrize(
    ("code", "error"), [(codes.PRODUCER_FENCED, Fenced), (codes.UNKNOWN_TOPIC_OR_PARTITION, ChunkFailed)]
)
def test_a_failure_that_was_heard_of_before_is_not_waited_for(code: int, error: type[Exception]) -> None:
    """The slot may have been woken by the refusal while it waited for something else."""
    loop = EventLoop()
    signal = Signal(loop)
    sending = _sending(Refusing(code), signal)

    async def work() -> None:
        task = loop.current_task()
        loop.call_later(10.0, lambda: loop.throw(task, AssertionError("it waits for what has failed")))
        await sending.room(LEADER, [PLACE], 100)
        await sending.post(LEADER, [Outgoing(PLACE, (), None, b"head", b"body")], 100, None)
        await signal.wait()
        # Its partition counts as one that the transaction has yet to open.
        assert sending.idle
        await sending.room(LEADER, [PLACE], 100)

    try:
        with pytest.raises(error):
            loop.run(work)
    finally:
        loop.close()


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("fetch_seconds", [0.0, 0.02])
def test_a_batch_that_is_refused_as_too_early_is_not_overtaken(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, exactly_once: bool, fetch_seconds: float
) -> None:
    """Only while a transaction has yet to open its partition does a batch wait alone, so that it can be sent again.

    Answers to Fetch that come at once have other batches ready that could follow it; where they take their time, one is
    on its way when the chunk is started over.
    """
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(400), batch_num_messages=10)
    if fetch_seconds:
        source_kafka.delay(fetch_seconds, "Fetch")
    for left_alone in range(3):
        passed = itertools.count()

        def some(topic: str, left_alone: int = left_alone, passed: Iterator[int] = passed) -> bool:
            return topic == engine.copy_of(name) and next(passed) == left_alone

        refused = target_kafka.refuse("Produce", codes.CONCURRENT_TRANSACTIONS, when=some)
        outcome = engine.copy(name, starts={(name, 0): 0}, fetch_partition_bytes=2000, exactly_once=exactly_once)
        refused.end()
        assert not outcome.errors
        if exactly_once and not left_alone:
            assert outcome.slots[0].retries == 0
        copied = [placed.seen for placed in read_all(target_kafka, engine.copy_of(name))[0]]
        expected = [placed.seen for placed in read_all(source_kafka, name)[0]]
        assert copied[-len(expected) :] == expected


def test_a_batch_that_cannot_be_sent_again_fails_the_chunk() -> None:
    loop = EventLoop()
    sending = _sending(BusyThenDenying(loop), Signal(loop))

    async def work() -> None:
        task = loop.current_task()
        loop.call_later(10.0, lambda: loop.throw(task, AssertionError("it waits for what was not sent")))
        await sending.post(LEADER, [Outgoing(PLACE, (), None, b"head", b"body")], 100, None)
        await sending.finish()

    try:
        with pytest.raises(AccessDenied, match="refused the login"):
            loop.run(work)
        assert sending.idle
    finally:
        loop.close()


@pytest.mark.parametrize("given_up", [True, False])
def test_a_batch_of_a_failed_chunk_is_not_sent_when_throttling_ends(given_up: bool) -> None:
    """Its records are sent once more by the chunk that starts over; without transactions they would be there twice."""
    loop = EventLoop()
    link = BusyThenThrottling(loop)
    sending = _sending(link, Signal(loop))

    async def work() -> None:
        task = loop.current_task()
        loop.call_later(10.0, lambda: loop.throw(task, AssertionError("it is not sent again")))
        await sending.post(LEADER, [Outgoing(PLACE, (), None, b"head", b"body")], 100, None)
        while not link.throttled:
            await loop.sleep(0.001)
        sending.refuse(codes.UNKNOWN_TOPIC_OR_PARTITION, None, PLACE, ())
        if given_up:
            sending.abandon()
        link.throttled = False
        while not given_up and not sending.idle:
            await loop.sleep(0.001)
        await loop.sleep(0.05)

    try:
        loop.run(work)
        assert sending.idle
        assert link.sent == 1
    finally:
        loop.close()


@pytest.mark.parametrize("code", [codes.NONE, codes.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_chunk_hears_nothing_of_requests_that_the_one_before_has_given_up(code: int) -> None:
    """Their connections are closed: what is sent next goes by another one, and does not wait behind them."""
    loop = EventLoop()
    link = Silent()
    sending = _sending(link, Signal(loop))
    state = RangeState(CopyRange("orders", PLACE[0], PLACE[1], 0, 10))
    packed = next(repack(list(split(memoryview(batch_bytes(some([0]))))), 0, 10, 1 << 20))

    async def work() -> None:
        await sending.post(LEADER, [Outgoing(PLACE, (state,), packed, b"head", b"body")], 100, None)
        sending.abandon()
        assert link.disconnected == [LEADER]
        state.open_share()
        link.asked[0].success(ProduceAnswer(0, [StoredPartition(*PLACE, code, 17, None)]))
        sending.check()
        assert sending.idle
        assert state.chunk_share.runs == []

    try:
        loop.run(work)
    finally:
        loop.close()


_CLOSED, _RESET = (
    Errors.KafkaConnectionError("socket disconnected"),
    Errors.KafkaConnectionError(ConnectionResetError()),
)
_OVERDUE = Errors.RequestTimedOutError("neither took nor sent a byte")


@pytest.mark.parametrize(
    ("faults", "size", "stops"),
    [
        ([_CLOSED, _RESET, _CLOSED], 2_000_000, True),
        ([_CLOSED, _CLOSED], 2_000_000, False),
        ([_OVERDUE] * 4, 2_000_000, False),
        # A leader that fails in another way in between may have closed the connections for the same reason.
        ([_CLOSED, _OVERDUE, _CLOSED, _OVERDUE, _CLOSED], 2_000_000, False),
        ([_CLOSED, _OVERDUE, _CLOSED, _CLOSED, _CLOSED], 2_000_000, True),
        ([_CLOSED] * 4, MAX_MESSAGE_BYTES, False),
    ],
)
def test_a_batch_that_closes_each_connection_is_too_large(faults: list[Exception], size: int, stops: bool) -> None:
    """Brokers and proxies do not say that a request is too large."""
    loop, link = EventLoop(), Silent()
    sending = _sending(link, Signal(loop))
    state = RangeState(CopyRange("orders", PLACE[0], PLACE[1], 0, 10))
    packed = next(repack(list(split(memoryview(batch_bytes(some([3]))))), 0, 10, 1 << 20))
    batch = Outgoing(PLACE, (state,), packed, b"head", b"body")

    async def work() -> None:
        for fault in faults:
            sending.start()
            await sending.post(LEADER, [batch], size, None)
            link.asked.pop().failure(fault)
            with pytest.raises(ChunkFailed) as failed:
                sending.check()
            # As the slot does.
            for one in failed.value.states:
                one.fault(failed.value.error, 60.0)

    try:
        loop.run(work)
    finally:
        loop.close()
    assert isinstance(state.error, RecordTooLarge) is stops
    if stops:
        assert "2000000 bytes" in str(state.error)
        assert "socket.request.max.bytes" in str(state.error)
        assert state.end == packed.runs[0][0]


def test_a_batch_that_was_not_sent_alone_is_not_why_a_connection_was_closed() -> None:
    loop, link = EventLoop(), Silent()
    sending = _sending(link, Signal(loop))
    state = RangeState(CopyRange("orders", PLACE[0], PLACE[1], 0, 10))
    packed = next(repack(list(split(memoryview(batch_bytes(some([3]))))), 0, 10, 1 << 20))

    async def work() -> None:
        for _ in range(4):
            sending.start()
            for place in (PLACE, TopicPartition("a.orders", 1)):
                await sending.post(LEADER, [Outgoing(place, (state,), packed, b"head", b"body")], 2_000_000, None)
            for _ in range(2):
                link.asked.pop().failure(_CLOSED)

    try:
        loop.run(work)
    finally:
        loop.close()
    assert state.error is None


def _sending(link: Any, signal: Signal) -> Sending:
    producer = Producer(
        link, ProducerIdentity("x", 1, 0), transactions_v2=True, transaction_timeout_ms=60_000, retry_seconds=60.0
    )
    job = CopyJob("a->b", "a", _CLUSTER, _CLUSTER, "offsets", 25, "segments", 25)
    return Sending(job, link, producer, signal)
