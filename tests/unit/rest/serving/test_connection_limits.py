"""How many connections the service holds, with real sockets from several addresses of this machine."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi import FastAPI

from srm_common.rest.serving import connection_limits
from srm_common.rest.serving.connection_limits import LimitedSocket, ServiceLoop, most_connections, network_of
from srm_common.rest.serving.service import Listener
from srm_common.rest.serving.timed_requests import TimedRequests
from srm_common.testing.airflow_client import wait_until
from tests.unit.rest.serving.test_service import made_certificate
from tests.unit.rest.serving.web_server import Address, connected, serving

LAST = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def test_the_service_listens_with_limits() -> None:
    with Listener(port=0).open() as listening:
        assert isinstance(listening, LimitedSocket)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_host_of_ipv6_has_many_addresses(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(("files", "most"), [(1024, 500), (100_000, 500), (256, 128), (-1, 500), (1, 1)])
def test_half_of_the_files_are_left_for_others(files: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    assert most_connections() == most


def answer(address: Address, source: str, trusting: ssl.SSLContext | None = None) -> bytes:
    """Empty where the connection is closed instead."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(connected(address, source))
            if trusting is not None:
                made = stack.enter_context(trusting.wrap_socket(made, server_hostname="127.0.0.1"))
            made.sendall(LAST)
            return made.recv(12)
        except (ConnectionError, ssl.SSLError):
            return b""


def closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_an_address_that_opens_many_and_says_nothing_keeps_no_other_out(
    tls: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = made_certificate(tmp_path) if tls else None
    trusting = ssl.create_default_context(cafile=certificate) if tls else None
    # Those that are let in stay for the test.
    monkeypatch.setattr(TimedRequests, "headers_seconds", 600.0)
    monkeypatch.setattr(ServiceLoop, "handshake_seconds", 600.0)
    listening = LimitedSocket(most=30, most_of_one=20)
    app = FastAPI(openapi_url=None)  # each request is answered with 404
    with ExitStack() as stack, serving(app, certificate, listening) as (_, address), caplog.at_level(logging.WARNING):
        silent = [stack.enter_context(connected(address, "127.0.0.1")) for _ in range(100)]
        wait_until(lambda: sum(map(closed, silent)) == 80, 120, "all but 20 are closed")
        assert answer(address, "127.0.0.1", trusting) == b""
        assert answer(address, "127.0.0.2", trusting) == b"HTTP/1.1 404"

        # Several addresses together have a limit, too.
        others = [
            stack.enter_context(connected(address, source)) for source in ("127.0.0.3", "127.0.0.4") for _ in range(10)
        ]
        wait_until(lambda: sum(map(closed, others)) == 10, 120, "30 are open in all")
        assert answer(address, "127.0.0.5", trusting) == b""

        # Who goes makes room.
        for connection in others:
            connection.close()
        wait_until(lambda: answer(address, "127.0.0.5", trusting) == b"HTTP/1.1 404", 120, "there is room again")
    said = [record.getMessage() for record in caplog.records if record.name == connection_limits.__name__]
    assert said == ["refused a connection from 127.0.0.1: it has 20 open, the most that one address may have"]


def test_a_handshake_that_does_not_begin_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = made_certificate(tmp_path)
    monkeypatch.setattr(ServiceLoop, "handshake_seconds", 0.5)
    with serving(FastAPI(openapi_url=None), certificate) as (_, address), connected(address) as silent:
        assert silent.recv(1) == b""  # within its limit of two minutes
        assert answer(address, "127.0.0.1", ssl.create_default_context(cafile=certificate)) == b"HTTP/1.1 404"


@pytest.fixture
def limited() -> Iterator[Callable[[LimitedSocket], socket.socket | None]]:
    """Connects to a listening socket and accepts; None where that is refused."""
    with ExitStack() as stack:

        def accepted(listening: LimitedSocket) -> socket.socket | None:
            stack.enter_context(connected(listening.getsockname(), "127.0.0.1"))
            try:
                return stack.enter_context(listening.accept()[0])
            except ConnectionAbortedError:
                return None

        yield accepted


def test_the_log_has_a_sentence_a_minute(
    limited: Callable[[LimitedSocket], socket.socket | None], caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    with LimitedSocket(most=2, clock=lambda: now[0]) as listening, caplog.at_level(logging.WARNING):
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        first, second = limited(listening), limited(listening)
        assert first is not None
        assert second is not None
        for _ in range(5):
            assert limited(listening) is None
        now[0] += 60
        assert limited(listening) is None
        assert [record.getMessage() for record in caplog.records] == [
            "refused a connection from 127.0.0.1: 2 are open, the most that there may be",
            "refused a connection from 127.0.0.1, and 4 others before it: 2 are open, the most that there may be",
        ]
        first.close()
        assert limited(listening) is not None
        del second  # the fixture still holds it
        assert limited(listening) is None
