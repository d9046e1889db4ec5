"""Room for answers follows what has arrived, not what the other side says will come."""

from __future__ import annotations

import os
import socket
import struct
import threading
from typing import Any

import kafka.errors as Errors
import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.transport import FrameTransport
from srm_common.kafka.client.library import messages
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.client.protocol.frames import FrameProtocol, RawFetch, RawProduce
from srm_common.wire.protocol import fetch

LARGEST = (1 << 31) - 1


def fetching(lease: Lease) -> RawFetch:
    request = FetchRequest(
        version=fetch.VERSION_BY_NAME, replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=1, isolation_level=0,
        session_id=0, session_epoch=-1, topics=[], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return RawFetch(request, lease)


def asking() -> Any:
    return ApiVersionsRequest(version=3, client_software_name="srm", client_software_version="1")


def test_a_large_answer_gets_room_for_its_beginning() -> None:
    parser = FrameProtocol(client_id="srm")
    lease = Lease(1 << 21)
    parser.send_request(asking())
    parser.send_request(fetching(lease))
    assert len(parser.buffer_for(50 << 20, 0)) == 1 << 20
    assert len(parser.buffer_for(LARGEST, 1)) == 1 << 21
    assert len(parser.buffer_for(1000, 0)) == len(parser.buffer_for(1000, 1)) == 1000


def test_only_a_fetch_may_be_answered_with_more_than_any_request_may_have() -> None:
    parser = FrameProtocol(client_id="srm")
    parser.send_request(asking())
    for size in ((100 << 20) + 1, -1, LARGEST):
        with pytest.raises(Errors.InvalidReceiveError, match=f"a frame of {size} bytes where at most 104857600"):
            parser.buffer_for(size, 0)


def stored(*partitions: tuple[str, int]) -> bytes:
    """A frame with a response to Produce, version 9, in which each partition has a topic of its own."""
    topics = b"".join(
        bytes([len(topic) + 1])
        + topic.encode()
        + b"\x02"
        + struct.pack(">ihqqqBBB", number, 0, 7, -1, 0, 1, 0, 0)
        + b"\0"
        for topic, number in partitions
    )
    return bytes(5) + bytes([len(partitions) + 1]) + topics + bytes(5)


def test_a_response_to_produce_names_the_partitions_of_its_request() -> None:
    """What it leaves out may not be stored."""
    request = RawProduce(9, None, 1000, {"a": [(1, []), (0, [])], "b": [(0, [])]})
    for told, right in (
        ((("b", 0), ("a", 0), ("a", 1)), True),
        ((("a", 0), ("b", 0)), False),
        ((("a", 0), ("a", 0), ("b", 0)), False),
        ((("a", 0), ("a", 1), ("b", 1)), False),
        ((), False),
    ):
        parser = FrameProtocol(client_id="srm")
        parser._next_correlation_id = lambda: 0
        parser.send_request(request)
        if right:
            _, answer = parser.receive(stored(*told))
            assert [(part.topic, part.partition, part.base_offset) for part in answer.partitions] == [
                (*place, 7) for place in told
            ]
            continue
        with pytest.raises(Errors.KafkaProtocolError, match="are not those of its request"):
            parser.receive(stored(*told))


class Received:
    """Stands in a transport where a connection does."""

    def __init__(self, loop: EventLoop) -> None:
        self.parser = FrameProtocol(client_id="srm")
        self.frames: list[bytes] = []
        self.rooms: list[int] = []
        self.error: BaseException | None = None
        self._larger = self.parser.larger
        self.parser.larger = self.noted  # type: ignore[method-assign]

    def noted(self, begun: memoryview, size: int) -> memoryview:
        room = self._larger(begun, size)
        self.rooms.append(len(room))
        return room

    def data_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.parser._decoders.popleft()

    def connection_lost(self, error: BaseException | None) -> None:
        self.error = error


@pytest.mark.parametrize("leased", [False, True])
def test_an_answer_larger_than_expected_arrives_whole(leased: bool) -> None:
    """A single batch may be larger than max_bytes (KIP-74); what comes behind it is read as before."""
    large, small = os.urandom(9_000_000), b"next"
    loop, (left, right) = EventLoop(), socket.socketpair()
    with left, right:
        left.setblocking(False)
        transport = FrameTransport(loop, left)
        received = Received(loop)
        transport.set_protocol(received)
        received.parser.send_request(fetching(Lease(1 << 20)) if leased else asking())
        received.parser.send_request(asking())

        def serve() -> None:
            for frame in (large, small):
                right.sendall(struct.pack(">i", len(frame)) + frame)
            right.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve)
        thread.start()

        async def read() -> None:
            transport.resume_reading()
            while received.error is None:
                await loop.sleep(0.01)

        loop.run(read)
        thread.join(300)
        loop.close()
    assert received.frames == [large, small]
    assert received.rooms == [2 << 20, 4 << 20, 8 << 20, len(large)]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0",
        # A key of 2^69 bytes, for which Python has no index.
        b"\0\0\0\1" + b"\0" + b"\0\0\0\0" + b"\2" + b"\xff" * 9 + b"\x7f" + bytes(20),
    ],
    ids=["nothing", "half a number", "too large for an index"],
)
@pytest.mark.parametrize("kind", [ApiVersionsRequest, FindCoordinatorRequest])
def test_what_cannot_be_decoded_is_an_error_of_the_protocol(kind: Any, frame: bytes) -> None:
    """Connections are closed by those; another one would end the thread that serves all of them."""
    parser = FrameProtocol(client_id="srm")
    parser._decoders.append((1, None, _library_decoder_of(kind), 0))
    with pytest.raises(Errors.KafkaProtocolError, match="Unable to decode response"):
        parser.receive(frame)


def _library_decoder_of(kind: Any) -> Any:
    _, answer = messages()[kind.__name__.removesuffix("Request")]
    return lambda frame: answer[4].decode(frame, header=True)
