"""HTTP/1.1 with a time limit for each request to arrive, and for each response to be read.

uvicorn has none: every byte postpones its limit for idle connections, so that a client that sends one byte a second
holds a connection, and what was read from it, for as long as it likes; and what a client does not read is kept for it,
even when the connection was closed on this side. uvicorn's other implementations do not limit the length of headers
either; h11 refuses those that are not complete after 16 KB."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from srm_common.rest.guards import MOST_SECONDS

_LOG = logging.getLogger(__name__)

_TOO_SLOW = b"the request took too long to arrive\n"
_RESPONSE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_TOO_SLOW), _TOO_SLOW)
)


class TimedRequests(H11Protocol):
    """One connection. What takes too long is answered with 408 if nothing else was, and the connection is closed."""

    #: Until the headers are complete, from the first byte on, or from the beginning of the connection.
    headers_seconds: ClassVar[float] = 10.0
    #: Until the body is complete, for bodies that have no reader left; a reader has its own limit, which is shorter
    #: (:class:`srm_common.rest.guards.BodyLimit`).
    body_seconds: ClassVar[float] = MOST_SECONDS + 5.0
    #: Until the client has read what was written, or a connection that was closed here has ended. It is checked once
    #: within this time, so that up to twice as much may pass. As for a request: 10 MB over a line of 1.4 Mbit/s.
    response_seconds: ClassVar[float] = MOST_SECONDS

    _limit: asyncio.TimerHandle | None = None
    #: What the limit is for: whether the body arrives, and the request before it or with it.
    _limited: tuple[bool, object] | None = None

    _look: asyncio.TimerHandle | None = None
    #: Whether the connection was waiting for its client at the last check, and has been ever since.
    _waiting = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Any byte that waits is one that the client does not take. A transport with TLS compares differently: with 0 it
        # would always be full.
        transport.set_write_buffer_limits(high=1 if self.scheme == "https" else 0, low=0)
        self._set_limit((False, None))
        self._look = self.loop.call_later(self.response_seconds, self._look_again)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def resume_writing(self) -> None:
        self._waiting = False
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_limit(None)
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Limits what is incomplete; a client that has sent a whole request waits for the response without a limit."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            awaited = (True, self.cycle)
        elif state is h11.IDLE and (self.conn.trailing_data[0] or self.cycle is None):
            awaited = (False, self.cycle)
        else:
            awaited = None
        if awaited != self._limited:
            self._set_limit(awaited)

    def _set_limit(self, awaited: tuple[bool, object] | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limited = awaited
        seconds = self.body_seconds if awaited is not None and awaited[0] else self.headers_seconds
        self._limit = None if awaited is None else self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        if self.transport.is_closing():
            return
        assert self._limited is not None
        body, _ = self._limited
        if not body:
            self.transport.write(_RESPONSE)
        self.transport.close()

    def _look_again(self) -> None:
        """Ends a connection that has been waiting for its client since the previous check."""
        waits = self.flow.write_paused or self.transport.is_closing()
        if waits and self._waiting:
            # A transport that is closing keeps what the client does not read until it is read.
            _LOG.warning(
                "%s has not read a response within %g s: its connection is ended",
                self.client[0] if self.client else "a client",
                self.response_seconds,
            )
            self.transport.abort()
            return
        self._waiting = waits
        self._look = self.loop.call_later(self.response_seconds, self._look_again)
