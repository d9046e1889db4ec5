"""The service's web server, by what clients write on its sockets: slow, long, wrong and many requests at once."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request

from srm_common.rest.faults import handle_faults
from srm_common.rest.guards import BodyLimit
from srm_common.rest.serving.service import server_config
from srm_common.rest.serving.timed_requests import TimedRequests
from srm_common.testing.airflow_client import wait_until

Address = tuple[str, int]


class _Connection:
    """Of a client that writes what it likes."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def drip(self, data: bytes) -> None:
        """A byte at a time, more often than the limit, until the other side has closed the connection."""
        for number in range(len(data)):
            try:
                self._socket.sendall(data[number : number + 1])
            except OSError:
                return
            time.sleep(TimedRequests.headers_seconds / 20)
        pytest.fail("it was let to send it all")

    def read(self) -> bytes:
        """All until the other side closes."""
        found = b""
        try:
            while piece := self._socket.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
        return found

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    app = FastAPI()
    handle_faults(app)
    app.add_middleware(BodyLimit)

    @app.get("/slow")
    async def slow() -> str:
        await asyncio.sleep(2 * TimedRequests.headers_seconds)
        return "in the end"

    @app.post("/refused")
    async def refused() -> str:
        return "not read"

    @app.post("/length")
    async def length(body: dict[str, Any]) -> int:
        return len(body["text"])

    @app.get("/{name:path}")
    async def echo(request: Request, name: str) -> str:
        return name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TimedRequests, "headers_seconds", 0.5)
        patch.setattr(TimedRequests, "body_seconds", 1.0)
        server = uvicorn.Server(server_config(app))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = Thread(target=server.run, args=([listener],), daemon=True)
            thread.start()
            wait_until(lambda: server.started, 180, "the service listens")
            yield listener.getsockname()
            server.should_exit = True
            thread.join(180)
        assert not server.server_state.connections


GET = b"GET /%s HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
POST = b"POST /%s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


@pytest.mark.parametrize("before", [b"", GET % b"first"], ids=["the first request", "a later one"])
@pytest.mark.parametrize("begun", [b"GET / HTTP/1.1\r\nx-slow: ", b"G"])
def test_headers_that_come_a_byte_at_a_time_are_cut_off(address: Address, before: bytes, begun: bytes) -> None:
    with _Connection(address) as client:
        client.write(before + begun)
        client.drip(b"y" * 200)
        answer = client.read()
    assert statuses(answer) in ([200, 408] if before else [408], [])
    # The reset that follows a write to a closed connection may take the response away.
    assert not answer or answer.endswith(b"too long to arrive\n")


def test_who_only_waits_reads_the_408(address: Address) -> None:
    with _Connection(address) as client:
        client.write(b"GET / HTTP/1.1\r\nhost: ")
        assert statuses(client.read()) == [408]


def test_a_connection_without_a_request_is_closed(address: Address) -> None:
    with _Connection(address) as client:
        assert statuses(client.read()) == [408]


def test_a_body_that_nobody_waits_for_has_a_limit_too(address: Address) -> None:
    """The response is there, and the rest of the body comes in a chunk after the other."""
    with _Connection(address) as client:
        client.write(POST % (b"refused", 10_000_000))
        client.drip(b"x" * 200)
        assert statuses(client.read()) in ([200], [])


def test_a_response_may_take_its_time(address: Address) -> None:
    with _Connection(address) as client:
        client.write(LAST % b"slow")
        answer = client.read()
    assert statuses(answer) == [200]
    assert answer.endswith(b'"in the end"')


def test_a_request_in_parts_is_complete(address: Address) -> None:
    with _Connection(address) as client:
        whole = (POST % (b"length", 17)) + b'{"text": "12345"}' + LAST % b"last"
        for at in range(0, len(whole), 60):
            client.write(whole[at : at + 60])
            time.sleep(0.02)
        answer = client.read()
    assert statuses(answer) == [200, 200]
    assert b"\r\n\r\n5" in answer


def test_requests_that_are_sent_at_once_are_answered_in_their_order(address: Address) -> None:
    with _Connection(address) as client:
        names = [b"slow", *(b"n%d" % number for number in range(50))]
        client.write(b"".join(GET % name for name in names) + LAST % b"last")
        answer = client.read()
    assert statuses(answer) == [200] * 52
    assert re.findall(rb'"(n\d+|last|in the end)"', answer) == [b"in the end", *names[1:], b"last"]


def test_a_refused_request_s_body_is_no_request(address: Address) -> None:
    hidden = GET % b"hidden"
    with _Connection(address) as client:
        client.write((POST % (b"refused", len(hidden))) + hidden + LAST % b"seen")
        answer = client.read()
    assert statuses(answer) == [200, 200]
    assert b"hidden" not in answer


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 2_000_000, id="a header of 2 MB"),
        pytest.param(b"GET /" + b"y" * 2_000_000, id="a path of 2 MB"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: y\r\n" * 300_000, id="300,000 headers"),
    ],
)
def test_headers_without_an_end_are_refused_long_before_the_limit(address: Address, head: bytes) -> None:
    with _Connection(address) as client, pytest.raises(ConnectionError):
        client.write(head * 20)


@pytest.mark.parametrize(
    "head",
    [
        b"POST /length HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /length HTTP/1.1\r\nhost: a\r\ncontent-length: -5\r\n\r\n",
        b"POST /length HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
        b"POST /length HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx : y\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: a\rset-cookie: b\r\n\r\n",
        b"GET /a\rb HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(address: Address, head: bytes) -> None:
    with _Connection(address) as client:
        client.write(head)
        answer = client.read()
    assert statuses(answer) == [400]
    assert b"set-cookie" not in answer.lower()


def test_a_websocket_is_an_ordinary_request(address: Address) -> None:
    with _Connection(address) as client:
        client.write(LAST.replace(b"close", b"close, upgrade\r\nupgrade: websocket") % b"socket")
        answer = client.read()
    assert statuses(answer) == [200]
    assert b"101" not in answer.splitlines()[0]
