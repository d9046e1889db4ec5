"""One client's connection to a node: cuts what arrives into requests, and answers them one after another.

A request is carried out by a generator, which yields where it has to wait. Most never do, and are answered as they
arrive: a task and a stream for each connection took longer than the answers.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol, cast

_SIZE = struct.Struct(">i")


class Pause(NamedTuple):
    """How long a request waits: for a time, until something changes on the cluster, or whichever comes first."""

    seconds: float | None
    until_change: bool


class Timer(Protocol):
    """Something that is called later, unless it is cancelled before."""

    def cancel(self) -> None: ...


class Connection(asyncio.Protocol):
    """All of it runs in the cluster's thread.

    Args:
        respond: begins to carry out a request; what it returns in the end is whether the connection goes on.
        park: calls :meth:`go_on` after a pause.
        made, lost: called with the connection as it comes and goes.
    """

    def __init__(
        self,
        respond: Callable[[memoryview, Connection], Generator[Pause, None, bool]],
        park: Callable[[Connection, Pause], None],
        made: Callable[[Connection], None],
        lost: Callable[[Connection], None],
    ) -> None:
        self._respond, self._park, self._made, self._lost = respond, park, made, lost
        self._transport: asyncio.Transport | None = None
        self._arrived = bytearray()
        self._work: Generator[Pause, None, bool] | None = None
        #: Whether the client's buffer is full for now; whether the client sends nothing more.
        self._full = self._ended = False
        #: Ends the pause of the request that waits.
        self.timer: Timer | None = None

    @property
    def closing(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close once everything written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once."""
        if self._transport is not None:
            self._transport.abort()

    def go_on(self) -> None:
        """With the request that waited, and with those after it."""
        while True:
            if self._work is None:
                frame = self._frame()
                if frame is None:
                    return
                self._work = self._respond(frame, self)
            try:
                pause = next(self._work)
            except StopIteration as end:
                self._work = None
                if not end.value:
                    self.close()
            else:
                self._park(self, pause)
                return

    def _frame(self) -> memoryview | None:
        """The next request, None while there is none to process."""
        if self._full or self.closing:
            return None
        if len(self._arrived) >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._arrived)
            end = _SIZE.size + size
            if len(self._arrived) >= end:
                frame = memoryview(bytes(self._arrived[_SIZE.size : end]))
                del self._arrived[:end]
                return frame
        if self._ended:
            self.close()
        return None

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._made(self)

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        if self._work is None:
            self.go_on()

    def eof_received(self) -> bool:
        """What had been sent before is carried out, as brokers do."""
        self._ended = True
        if self._work is None:
            self.go_on()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        # A request that waits is carried out all the same.
        self._lost(self)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._work is None:
            self.go_on()
