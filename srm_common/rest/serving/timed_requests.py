"""HTTP/1.1 with a time limit for each request to arrive.

uvicorn has none: every byte puts off its limit for idle connections, so that whoever sends one a second holds a
connection, and what was read from it, for as long as they like. uvicorn's other implementations do not limit the length
of headers either; h11 refuses those that are not complete after 16 KB."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from srm_common.rest.guards import MOST_SECONDS

_TOO_SLOW = b"the request took too long to arrive\n"
_RESPONSE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_TOO_SLOW), _TOO_SLOW)
)


class TimedRequests(H11Protocol):
    """One connection. What takes too long is answered with 408 if nothing else was, and the connection is closed."""

    #: Until the headers are complete, from the first byte on, or from the beginning of the connection.
    headers_seconds: ClassVar[float] = 10.0
    #: Until the body is complete, which nobody may read any more: who still reads it has said so before
    #: (:class:`srm_common.rest.guards.BodyLimit`).
    body_seconds: ClassVar[float] = MOST_SECONDS + 5.0

    _limit: asyncio.TimerHandle | None = None
    #: What the limit is for: whether the body arrives, and the request before it or with it.
    _limited: tuple[bool, object] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_limit((False, None))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_limit(None)
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Limits what is incomplete; whoever has sent a whole request waits for the response without a limit."""
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
