"""A service's certificate, read again when its files have changed: whoever renews it need not restart the service."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from srm_common.rest.serving.file_stamp import Stamp, stamp

_LOG = logging.getLogger(__name__)


class WatchedCertificate:
    """``current`` is the TLS context of the certificate as it is in its files now; open connections keep the one that
    they began with. ``load`` makes a context, or raises OSError (``ssl.SSLError`` is one).

    Files that cannot be used, such as a certificate whose key is not written yet, change nothing, and are tried again
    when they have changed again. The log says so.
    """

    def __init__(self, files: tuple[Path, ...], load: Callable[[], ssl.SSLContext]) -> None:
        self._files = files
        self._load = load
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._context = load()

    def current(self) -> ssl.SSLContext:
        with self._lock:
            # The stamps first: what is written while the files are read is read the next time.
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._context = self._load()
                    _LOG.warning("the certificate %s is read again", self._files[0])
                except OSError as error:
                    _LOG.error(
                        "the certificate %s cannot be used: %s; the one from before goes on to count",
                        *(self._files[0], error.strerror or error),
                    )
            return self._context

    def listening(self) -> ssl.SSLContext:
        """For the server's socket: each handshake goes on with what is current."""
        first = self.current()

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
            connection.context = self.current()

        first.sni_callback = choose
        return first

    def _look(self) -> tuple[Stamp | None, ...]:
        return tuple(stamp(file) for file in self._files)
