"""An OAuth 2 token endpoint on loopback."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class TokenEndpoint:
    """Knows one client, "me" with a ``secret``, and gives it the tokens t1, t2, ...

    ``asked`` are the (login, form) pairs that it was asked with. The first answers have the statuses of ``failures``.
    ``lifetime`` is what it says of tokens, in seconds.
    """

    def __init__(self, url: str, token: Callable[[int], str], lifetime: float, secret: str) -> None:
        self.url = url
        self.token = token
        self.lifetime = lifetime
        self.secret = secret
        #: What to do in place of answering, and when that is over.
        self._trouble: tuple[bytes | int | None, threading.Event] | None = None
        self.asked: list[tuple[str, str]] = []
        self.failures: list[int] = []

    @contextmanager
    def in_trouble(self, how: bytes | int | None) -> Iterator[None]:
        """Inside it sends these bytes, has this status, or is silent (None)."""
        over = threading.Event()
        self._trouble = how, over
        try:
            yield
        finally:
            self._trouble = None
            over.set()

    def troubled(self, handler: BaseHTTPRequestHandler) -> bool:
        """Whether a request was dealt with as that says."""
        trouble = self._trouble
        if trouble is None:
            return False
        how, over = trouble
        if how is None:
            over.wait(600)
        elif isinstance(how, int):
            handler.send_response(how)
            handler.end_headers()
        else:
            handler.wfile.write(how)
        handler.close_connection = True
        return True


@contextmanager
def serving(
    tls: ssl.SSLContext | None = None,
    token: Callable[[int], str] = "t{}".format,
    lifetime: float = 3600,
    secret: str = "hush",
) -> Iterator[TokenEndpoint]:
    """A token endpoint at http://127.0.0.1, or at https://localhost."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            endpoint.asked.append((login, form))
            if endpoint.troubled(self):
                return
            status = 200 if login == f"me:{endpoint.secret}" else 401
            self.send_response(endpoint.failures.pop(0) if endpoint.failures else status)
            self.send_header("Content-Type", "application/json")  # librdkafka takes nothing else
            self.end_headers()
            answer = {"access_token": endpoint.token(len(endpoint.asked)), "expires_in": endpoint.lifetime}
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Tests stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    origin = "http://127.0.0.1" if tls is None else "https://localhost"
    endpoint = TokenEndpoint(f"{origin}:{server.server_port}/token", token, lifetime, secret)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join(180)
        server.server_close()
