"""A node answers the requests of a connection one after another, and carries out what was asked before a hang-up."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from srm_common.errors import LocalKafkaError
from srm_common.kafka.client.library import messages
from srm_common.testing import FakeCluster


@pytest.fixture
def kafka() -> Iterator[FakeCluster]:
    with FakeCluster() as kafka:
        yield kafka


@pytest.fixture
def client(kafka: FakeCluster) -> Iterator[socket.socket]:
    host, port = kafka.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        yield client


def frame(api: str, version: int, number: int, **fields: object) -> bytes:
    """A request with a correlation id."""
    request = messages()[api][0](version=version, **fields)
    request.with_header(correlation_id=number, client_id="test")
    return bytes(request.encode(header=True, framed=True))


def create(topic: str, number: int) -> bytes:
    kind = messages()["CreateTopics"][0].CreatableTopic
    return frame("CreateTopics", 7, number, topics=[kind(name=topic, num_partitions=1, replication_factor=1)])


def answered(client: socket.socket) -> int:
    """The correlation id of the next answer."""

    def exactly(count: int) -> bytes:
        out = b""
        while len(out) < count:
            piece = client.recv(count - len(out))
            assert piece, "the node ended the connection"
            out += piece
        return out

    (size,) = struct.unpack(">i", exactly(4))
    (number,) = struct.unpack(">i", exactly(size)[:4])
    return int(number)


def test_requests_that_arrive_together_or_in_pieces_are_answered_in_their_order(
    kafka: FakeCluster, client: socket.socket
) -> None:
    kafka.delay(0.05, "CreateTopics", times=1)
    sent = create("a", 1) + frame("ApiVersions", 0, 2) + create("b", 3)
    for piece in (sent[:3], sent[3:40], sent[40:]):
        client.sendall(piece)
    assert [answered(client) for _ in range(3)] == [1, 2, 3]
    assert [call.api for call in kafka.requests] == ["CreateTopics", "ApiVersions", "CreateTopics"]


def test_what_was_asked_before_a_hang_up_is_carried_out(kafka: FakeCluster, client: socket.socket) -> None:
    kafka.delay(0.05, "CreateTopics", times=1)
    client.sendall(create("a", 1) + create("b", 2))
    client.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + 60
    while kafka.topics().keys() != {"a", "b"}:
        assert time.monotonic() < deadline, kafka.topics()
        time.sleep(0.005)


def test_a_silent_node_answers_when_the_fault_ends(kafka: FakeCluster, client: socket.socket) -> None:
    silence = kafka.silence("ApiVersions")
    client.sendall(frame("ApiVersions", 0, 1) + create("a", 2))
    with socket.create_connection(client.getpeername(), timeout=60) as other:
        other.sendall(create("b", 3))
        assert answered(other) == 3
    assert kafka.topics().keys() == {"b"}
    silence.end()
    assert [answered(client) for _ in range(2)] == [1, 2]


def test_a_request_header_with_tagged_fields_is_named() -> None:
    kafka = FakeCluster().start()
    host, port = kafka.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        sent = bytearray(create("a", 1))
        sent[4 + 8 + 2 + len("test")] = 1
        client.sendall(sent)
        assert client.recv(1) == b""
    with pytest.raises(LocalKafkaError, match="no tagged fields of request headers, as CreateTopics has"):
        kafka.close()
