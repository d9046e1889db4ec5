"""Clients that do not read what they have asked for, or a little at a time, with and without TLS."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse

from srm_common.rest.serving import timed_requests
from srm_common.rest.serving.timed_requests import TimedRequests
from srm_common.testing.airflow_client import wait_until
from tests.unit.rest.serving.test_service import made_certificate
from tests.unit.rest.serving.web_server import Address, connected, serving

#: More than the systems of both sides hold.
LONG = 24_000_000
GET = b"GET /%s HTTP/1.1\r\nhost: localhost\r\n\r\n"
LAST = b"GET /%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True)
class Service:
    server: uvicorn.Server
    address: Address
    trusting: ssl.SSLContext | None

    def connected(self, receive_buffer: int = 1 << 14) -> socket.socket:
        made = connected(self.address, receive_buffer=receive_buffer)
        return made if self.trusting is None else self.trusting.wrap_socket(made, server_hostname="127.0.0.1")

    def ends(self) -> None:
        """Waits until the server holds no connection and no request."""
        state = self.server.server_state
        wait_until(lambda: not state.connections and not state.tasks, 120, "the connection is ended")


@pytest.fixture(scope="module", params=["plain", "TLS"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    app = FastAPI()

    @app.get("/long")
    async def long() -> Response:
        return Response(b"x" * LONG)

    @app.get("/pieces")
    async def pieces() -> StreamingResponse:
        async def made() -> AsyncIterator[bytes]:
            for _ in range(LONG // 100_000):
                yield b"x" * 100_000

        return StreamingResponse(made())

    certificate: Path | None = None
    if request.param == "TLS":
        certificate = made_certificate(tmp_path_factory.mktemp("tls"))
    trusting = None if certificate is None else ssl.create_default_context(cafile=certificate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TimedRequests, "response_seconds", 1.0)
        with serving(app, certificate) as (server, address):
            yield Service(server, address, trusting)
        assert not server.server_state.connections


@pytest.mark.parametrize("path", [b"long", b"pieces"])
@pytest.mark.parametrize("sent", [GET, LAST, GET * 20], ids=["kept open", "the last one", "many at once"])
def test_who_reads_nothing_is_cut_off(
    service: Service, path: bytes, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with service.connected() as client, caplog.at_level(logging.WARNING):
        client.sendall(sent.replace(b"%s", path))
        wait_until(lambda: service.server.server_state.connections, 120, "the request is there")
        service.ends()
    said = [record.getMessage() for record in caplog.records if record.name == timed_requests.__name__]
    assert said == ["127.0.0.1 has not read a response within 1 s: its connection is ended"]


def test_who_says_good_bye_and_reads_nothing_is_cut_off(service: Service) -> None:
    """The end of the stream, or of TLS, has come; what is still to be written is kept by the transport below."""
    with service.connected() as client:
        client.sendall(LAST % b"long")
        wait_until(lambda: service.server.server_state.connections, 120, "the request is there")
        if isinstance(client, ssl.SSLSocket):
            client.settimeout(0.2)
            with pytest.raises((TimeoutError, ssl.SSLError)):  # it is sent, and not answered
                client.unwrap()
        else:
            client.shutdown(socket.SHUT_WR)
        service.ends()


def test_who_reads_a_little_at_a_time_is_cut_off(service: Service) -> None:
    state, read = service.server.server_state, 0
    with service.connected() as client:
        client.sendall(LAST % b"long")
        wait_until(lambda: state.connections, 120, "the request is there")
        while state.connections and read < LONG:
            read += len(client.recv(1 << 12))
            time.sleep(0.02)
    assert 0 < read < LONG
    service.ends()


@pytest.mark.parametrize("path", [b"long", b"pieces"])
def test_who_begins_late_reads_it_all(service: Service, path: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedRequests, "response_seconds", 600.0)
    with service.connected(receive_buffer=1 << 20) as client:
        client.sendall(LAST % path)
        time.sleep(0.5)
        read = 0
        while piece := client.recv(1 << 20):
            read += piece.count(b"x")
    assert read >= LONG
    service.ends()
