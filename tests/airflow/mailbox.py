"""A mail server that keeps what it is sent."""

from __future__ import annotations

import json
import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType

from srm_common.testing.ports import LOOPBACK


class Mailbox:
    """As a context: it listens on a free port. ``mails`` in their order; ``connection`` for ``AIRFLOW_CONN_...``."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        mails = self.mails

        class Session(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 mailbox\r\n")
                for line in self.rfile:
                    verb = line[:4].upper().strip()
                    self.wfile.write(b"354 go on\r\n" if verb == b"DATA" else b"250 ok\r\n")
                    if verb == b"DATA":
                        lines = iter(self.rfile.readline, b".\r\n")
                        message = message_from_bytes(b"".join(lines), policy=policy.default)
                        assert isinstance(message, EmailMessage)
                        mails.append(message)
                        self.wfile.write(b"250 kept\r\n")
                    if verb == b"QUIT":
                        return

        self._server = socketserver.ThreadingTCPServer((LOOPBACK, 0), Session)
        self._server.daemon_threads = True

    @property
    def connection(self) -> str:
        plain = {"disable_ssl": True, "disable_tls": True, "from_email": "srm@example.com"}
        host, port = self._server.server_address[:2]
        return json.dumps({"conn_type": "smtp", "host": str(host), "port": port, "extra": plain})

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]

    def __enter__(self) -> Mailbox:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
