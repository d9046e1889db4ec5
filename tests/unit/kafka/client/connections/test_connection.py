"""How long a request may take: for as long as bytes move either way, and no longer than its limit without."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kafka.errors as Errors
import pytest
from kafka.protocol.metadata import MetadataRequest

from srm_common.kafka.client.connections.connection import FrameConnection
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.threads import in_thread
from srm_common.kafka.client.connections.transport import FrameTransport
from srm_common.kafka.client.protocol.frames import RawProduce
from tests.kafka.records import eventually

LIMIT_MS = 3_000
#: Of a Metadata request below: length, api, version, number, client id "srm", no topics.
_REQUEST_BYTES = 4 + 2 + 2 + 4 + 2 + 3 + 4
#: All pieces together take longer than the limit, each by itself far less.
PIECES, PAUSE_SECONDS = 20, 0.2
PIECE_BYTES = 256 << 10


class Pair:
    """A connection that is ready unless it is ``new``, and the socket at its other end."""

    def __init__(self, loop: EventLoop, *, new: bool = False) -> None:
        self.loop = loop
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            ours = socket.create_connection(listener.getsockname())
            self.peer, _ = listener.accept()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        ours.setblocking(False)
        self.connection = FrameConnection(loop, request_timeout_ms=LIMIT_MS, client_id="srm")
        self.connection.starts("broker:9092")
        self.connection.connection_made(FrameTransport(loop, ours))
        if not new:
            self.connection._init_complete()

    def take(self, size: int) -> None:
        while size > 0:
            taken = len(self.peer.recv(min(size, 1 << 16)))
            if not taken:
                raise EOFError("the connection was closed")
            size -= taken


@contextmanager
def closing(pair: Pair) -> Iterator[Pair]:
    yield pair
    pair.connection.close()
    pair.peer.close()
    pair.loop.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with closing(Pair(EventLoop())) as pair:
        yield pair


@pytest.fixture
def new_pair() -> Iterator[Pair]:
    with closing(Pair(EventLoop(), new=True)) as pair:
        yield pair


def produce(size: int) -> RawProduce:
    return RawProduce(9, None, 1000, {"t": [(0, [memoryview(bytes(size))])]})


def metadata_answer(number: int, brokers: int) -> bytes:
    """Of version 0, without topics."""
    each = b"".join(struct.pack(">ih", node, 100) + b"h" * 100 + struct.pack(">i", 9092) for node in range(brokers))
    body = struct.pack(">ii", number, brokers) + each + struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


def metadata() -> Any:
    return MetadataRequest(version=0, topics=[])


def failure(pair: Pair, request: Any) -> tuple[float, BaseException]:
    """When a request fails that has no answer, and how."""

    async def work() -> tuple[float, BaseException]:
        try:
            await pair.connection.send_request(request)
        except Errors.KafkaError as error:
            return time.monotonic(), error
        raise AssertionError("it was answered")

    return pair.loop.run(work)  # type: ignore[no-any-return]


def _unsent_bytes(pair: Pair) -> int:
    """What was asked for and the kernel has not taken yet."""
    return sum(map(len, pair.connection.transport._write_buffer))


def test_requests_on_a_slow_link_are_not_overdue_while_their_bytes_move(pair: Pair) -> None:
    last_piece = 0.0

    def slow_peer() -> None:
        nonlocal last_piece
        for _ in range(PIECES):
            time.sleep(PAUSE_SECONDS)
            pair.take(PIECE_BYTES)
            last_piece = time.monotonic()

    async def work() -> tuple[float, BaseException]:
        # Two requests at once: the second waits for all of the first, and its own bytes are few.
        first = pair.connection.send_request(produce((PIECES + 4) * PIECE_BYTES))
        second = pair.connection.send_request(metadata())
        assert _unsent_bytes(pair) > 20 * PIECE_BYTES
        await in_thread(pair.loop, slow_peer)
        assert not first.is_done
        assert not second.is_done
        assert 0 < _unsent_bytes(pair) < 4 * PIECE_BYTES
        try:
            await first
        except Errors.RequestTimedOutError as error:
            return time.monotonic(), error
        raise AssertionError("it was answered")

    failed, error = pair.loop.run(work)
    # From then on nothing moves, which ends the connection.
    assert failed - last_piece >= LIMIT_MS / 1000
    assert "broker:9092 neither took nor sent a byte for 3 s" in str(error)
    assert pair.connection.closed


def test_an_answer_that_arrives_slowly_is_waited_for(pair: Pair) -> None:
    answer = metadata_answer(1, 20_000)

    def slow_peer() -> None:
        for number in range(PIECES):
            time.sleep(PAUSE_SECONDS)
            begin, end = (len(answer) * at // PIECES for at in (number, number + 1))
            pair.peer.sendall(answer[begin:end])

    async def work() -> Any:
        future = pair.connection.send_request(metadata())
        await in_thread(pair.loop, slow_peer)
        return await future

    assert len(pair.loop.run(work).brokers) == 20_000


def test_what_was_sent_is_heard_before_it_is_looked_at(pair: Pair) -> None:
    """The loop is woken for large pieces only, or not at all as here."""
    before = pair.connection.transport.heard_bytes()
    pair.peer.sendall(bytes(100))
    eventually(lambda: pair.connection.transport.heard_bytes() >= before + 100, 60.0, "the bytes have not arrived")
    assert pair.connection.transport.heard_bytes() == before + 100


def test_a_request_without_an_answer_ends_the_connection(pair: Pair) -> None:
    began = time.monotonic()
    failed, error = failure(pair, metadata())
    assert failed - began >= LIMIT_MS / 1000
    assert isinstance(error, Errors.RequestTimedOutError)


def test_a_shorter_limit_counts_for_its_request(pair: Pair) -> None:
    """Also when a request with more patience waits before it."""

    async def work() -> bool:
        first = pair.connection.send_request(metadata(), request_timeout_ms=600_000)
        with pytest.raises(Errors.RequestTimedOutError, match=r"0\.2 s"):
            await pair.connection.send_request(metadata(), request_timeout_ms=200)
        return bool(first.failed())

    assert pair.loop.run(work)


def test_small_requests_of_one_turn_are_sent_together(pair: Pair) -> None:
    async def work() -> None:
        transport = pair.connection.transport
        for _ in range(3):
            pair.connection.send_request(metadata())
        assert transport.taken_bytes == 0
        await pair.loop.sleep(0.01)
        assert transport.taken_bytes == 3 * _REQUEST_BYTES
        assert not transport._write_buffer

    pair.loop.run(work)
    assert len(pair.peer.recv(1 << 16)) == 3 * _REQUEST_BYTES


def produce_answer(number: int) -> bytes:
    """Of one partition of the topic "t", stored."""
    stored = struct.pack(">ihqqq", 0, 0, 5, -1, 0) + b"\1\0\0"
    body = struct.pack(">i", number) + b"\0" + b"\2" + b"\2t" + b"\2" + stored + b"\0" + struct.pack(">i", 0) + b"\0"
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("requests", "together"),
    [("p", 0), ("pp", 0), ("ppp", 1), ("ppppp", 3), ("ppppm", 3), ("mppppp", 0), ("ppmppp", 0)],
)
def test_answers_are_collected_while_requests_wait_at_the_broker(pair: Pair, requests: str, together: int) -> None:
    async def work() -> None:
        for kind in requests:
            pair.connection.send_request(produce(10) if kind == "p" else metadata())
        await pair.loop.sleep(0)

    pair.loop.run(work)
    assert pair.connection.bytes_worth_waking() == max(together * len(produce_answer(1)), 1)


@pytest.mark.parametrize("answered", [1, 2, 4, 5])
def test_answers_that_are_collected_all_arrive(pair: Pair, answered: int) -> None:
    """However many there are: none waits for those that are still to come."""

    async def work() -> None:
        futures = [pair.connection.send_request(produce(10)) for _ in range(5)]
        for number in range(1, 1 + answered):
            pair.peer.sendall(produce_answer(number))
        for future in futures[:answered]:
            assert (await future).partitions[0].base_offset == 5

    pair.loop.run(work)


@pytest.mark.parametrize("cut", [1, 26, 51, 157, 182, 207])
def test_answers_that_are_collected_may_come_in_pieces(pair: Pair, cut: int) -> None:
    async def work() -> None:
        futures = [pair.connection.send_request(produce(10)) for _ in range(5)]
        answers = b"".join(produce_answer(number) for number in range(1, 6))
        pair.peer.sendall(answers[:cut])
        await pair.loop.sleep(0.05)
        pair.peer.sendall(answers[cut:])
        for future in futures:
            assert (await future).partitions[0].base_offset == 5

    pair.loop.run(work)


def test_the_end_of_a_connection_is_seen_though_answers_are_collected(pair: Pair) -> None:
    async def work() -> None:
        futures = [pair.connection.send_request(produce(10)) for _ in range(5)]
        await pair.loop.sleep(0)
        pair.peer.close()
        with pytest.raises(Errors.KafkaConnectionError):
            await futures[0]

    pair.loop.run(work)


def test_large_requests_do_not_wait_for_the_end_of_the_turn(pair: Pair) -> None:
    async def work() -> int:
        pair.connection.send_request(metadata())
        pair.connection.send_request(produce(1 << 20))
        return int(pair.connection.transport.taken_bytes)

    assert pair.loop.run(work) > _REQUEST_BYTES


def test_what_was_put_off_is_sent_before_the_end(pair: Pair) -> None:
    async def work() -> None:
        pair.connection.send_request(metadata())
        pair.connection.close()

    pair.loop.run(work)
    assert len(pair.peer.recv(1 << 16)) == _REQUEST_BYTES


def test_all_requests_that_waited_for_a_connection_are_sent(new_pair: Pair) -> None:
    """Also when they are more than may be in flight at a time, in the order in which they were made."""
    connection = new_pair.connection
    most = connection.config["max_in_flight_requests_per_connection"]
    requests = 4 * most
    in_flight: list[int] = []

    def peer() -> None:
        for number in range(1, requests + 1):
            new_pair.take(_REQUEST_BYTES)
            in_flight.append(len(connection.in_flight_requests))
            new_pair.peer.sendall(metadata_answer(number, number))

    async def work() -> list[Any]:
        futures = [connection.send_request(metadata()) for _ in range(requests)]
        connection._init_complete()
        await in_thread(new_pair.loop, peer)
        return [await future for future in futures]

    answers = new_pair.loop.run(work)
    assert [len(answer.brokers) for answer in answers] == list(range(1, requests + 1))
    assert max(in_flight) <= most
