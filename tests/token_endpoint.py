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
    """Knows one client, "me" with the secret "hush", and gives it the tokens t1, t2, ...

    ``asked`` are the (login, form) pairs that it was asked with. The first answers have the statuses of ``failures``.
    """

    def __init__(self, url: str, token: Callable[[int], str]) -> None:
        self.url = url
        self.token = token
        self.asked: list[tuple[str, str]] = []
        self.failures: list[int] = []


@contextmanager
def serving(tls: ssl.SSLContext | None = None, token: Callable[[int], str] = "t{}".format) -> Iterator[TokenEndpoint]:
    """A token endpoint at http://127.0.0.1, or at https://localhost."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            endpoint.asked.append((login, form))
            status = 200 if login == "me:hush" else 401
            self.send_response(endpoint.failures.pop(0) if endpoint.failures else status)
            self.end_headers()
            answer = {"access_token": endpoint.token(len(endpoint.asked)), "expires_in": 3600}
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Tests stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    origin = "http://127.0.0.1" if tls is None else "https://localhost"
    endpoint = TokenEndpoint(f"{origin}:{server.server_port}/token", token)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join(180)
        server.server_close()
