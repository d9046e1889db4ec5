"""The service's web server with an app of a test's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import uvicorn
from fastapi import FastAPI

from srm_common.rest.serving.connection_limits import LimitedSocket
from srm_common.rest.serving.service import Listener, server_config
from srm_common.rest.serving.watched_files import WatchedCertificate
from srm_common.testing.airflow_client import wait_until

Address = tuple[str, int]


@contextmanager
def serving(
    app: FastAPI, certificate: Path | None = None, listening: LimitedSocket | None = None
) -> Iterator[tuple[uvicorn.Server, Address]]:
    """``certificate``: with key.pem, whose password is "hush", beside it."""
    watched = None
    if certificate is not None:
        listener = Listener(certificate=certificate, key=certificate.with_name("key.pem"), key_password="hush")
        watched = WatchedCertificate((certificate,), lambda: listener.tls(certificate))
    server = uvicorn.Server(server_config(app, watched))
    with LimitedSocket() if listening is None else listening as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        thread = Thread(target=server.run, args=([opened],), daemon=True)
        thread.start()
        wait_until(lambda: server.started, 180, "the service listens")
        try:
            yield server, opened.getsockname()
        finally:
            server.should_exit = True
            thread.join(180)


def connected(address: Address, source: str = "127.0.0.1", receive_buffer: int | None = None) -> socket.socket:
    """From another address of this machine; ``receive_buffer`` in bytes is all that the system takes in advance."""
    made = socket.socket()
    made.settimeout(120)
    if receive_buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.bind((source, 0))
    made.connect(address)
    return made
