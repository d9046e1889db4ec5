"""Responses of untrusted HTTP servers: limited in time and size, and JSON that Python can hold.

A socket's own time limit is for each piece that it receives, so that a server that sends byte by byte never meets it.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import json
import socket
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Self

_PIECE = 1 << 16


class AnswerTooLarge(http.client.HTTPException):
    """An answer is larger than it may be."""


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    seconds: float,
    most_bytes: int,
) -> tuple[int, bytes]:
    """Status and body of the answer to one request, on a connection that may serve further ones.

    Raises:
        TimeoutError: it is not there within ``seconds``, which count from the beginning of the connection.
        AnswerTooLarge: it is larger than ``most_bytes``.
        OSError, http.client.HTTPException: there is none, or a part of one.
    """
    with _Limit(seconds) as limit:
        if connection.sock is None:
            connection.connect()
        limit.applies_to(connection)
        connection.request(method, target, body=body, headers=dict(headers))
        response = connection.getresponse()
        found = _body(response, most_bytes)
        response.close()  # or the connection takes no further request
    return response.status, found


def fetch(
    request: urllib.request.Request, *, seconds: float, most_bytes: int, context: ssl.SSLContext | None = None
) -> bytes:
    """The body of an answer, by way of the proxies of :func:`proxies_of`.

    No redirection is followed: a login is for the host that it was given for, and a POST would become a GET.

    Raises:
        urllib.error.HTTPError: an error status, or a redirection; what can be read of it is the body of the answer, if
            that is not too large.
        TimeoutError, AnswerTooLarge, OSError, http.client.HTTPException: as :func:`ask`.
    """
    with _Limit(seconds) as limit:
        opener = urllib.request.build_opener(
            _Http(limit), _Https(limit, context), _NoRedirections(), proxies_of(request.full_url)
        )
        try:
            with opener.open(request, timeout=seconds) as response:
                return _body(response, most_bytes)
        except urllib.error.HTTPError as error:
            with error:
                body = _body(error, most_bytes)
            raise urllib.error.HTTPError(error.url, error.code, error.msg, error.hdrs, io.BytesIO(body)) from None


def proxies_of(url: str) -> urllib.request.ProxyHandler:
    """Those that the environment names for an address; none for one of this machine, which a proxy would take for
    its own, also where ``NO_PROXY`` does not name it."""
    host = urllib.parse.urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return urllib.request.ProxyHandler({})
    return urllib.request.ProxyHandler()


def json_of(answer: bytes) -> Any:
    """The decoded text. Raises ValueError, also where it is nested deeper than Python can hold."""
    try:
        return json.loads(answer)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _body(response: Any, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise AnswerTooLarge(f"its answer is larger than {most_bytes >> 20} MB")
    if getattr(response, "length", None):
        raise http.client.HTTPException("its answer was cut off")
    return b"".join(pieces)


class _Limit:
    """Ends the connections that it applies to when its time is over, whatever they wait for. A context manager, at
    whose end it raises TimeoutError then, whatever came of it otherwise."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._over = False
        self._timer = threading.Timer(max(seconds, 0.0), self._end)
        self._timer.daemon = True

    def applies_to(self, connection: http.client.HTTPConnection) -> None:
        """From now on. The connection may forget its socket, and its answer still comes by it."""
        with self._lock:
            if connection.sock is not None:
                self._sockets.append(connection.sock)
        if self._over:
            raise self._late()

    def _end(self) -> None:
        with self._lock:
            self._over = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _late(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self._seconds:g} s")

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._timer.cancel()
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        failed = error is None or isinstance(error, OSError | ValueError | http.client.HTTPException)
        if (failed and self._over) or isinstance(reason, TimeoutError):
            raise self._late() from error


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_answer: Any) -> None:
        """None: the answer is an error like others."""


class _Http(urllib.request.HTTPHandler):
    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self._limit = limit

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connections(http.client.HTTPConnection, self._limit), request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, limit: _Limit, context: ssl.SSLContext | None) -> None:
        super().__init__(context=context)
        self._limit, self._tls = limit, context

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connections(http.client.HTTPSConnection, self._limit), request, context=self._tls)


def _connections(kind: type[http.client.HTTPConnection], limit: _Limit) -> Any:
    """A kind of connection that the limit applies to as soon as there is one."""

    class Limited(kind):  # type: ignore[valid-type, misc]
        def connect(self) -> None:
            super().connect()
            limit.applies_to(self)

    return Limited
