"""A client's end of a connection, as the operating system shows it to a program, and what a loop waits by."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from srm_common.kafka.client.connections.event_loop import EventLoop, Turns
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.network import Network, Wire

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: A loop that has taken so many turns without waiting lets some time pass, as its work would.
_TURNS_OF_A_MOMENT, _MOMENT_SECONDS = 200, 0.001


class SimulatedSocket:
    """What the client uses of :class:`socket.socket`, never blocking."""

    def __init__(self, network: Network, owner: Process, number: int) -> None:
        self._network = network
        self.owner = owner
        self._number = number
        self._place: tuple[str, int] = ("", 0)
        self.wire: Wire | None = None
        self.inbox = bytearray()
        self.connected = self.ended = self.closed = False
        self.error = 0
        self._least = 1

    # ---- what the network says

    def notify(self) -> None:
        """Something changed: the owner goes on, if it waits for that."""
        key = self.owner.interest.get(self._number)
        if key is not None and self.events() & key.events:
            self.owner.wake()

    def events(self) -> int:
        """What the kernel would report."""
        if self.error:
            return _READ | _WRITE
        found = _READ if self.ended or len(self.inbox) >= self._least else 0
        if self.connected and self.wire is not None and self.wire.room() > 0:
            found |= _WRITE
        return found

    # ---- what programs call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return -1 if self.closed else self._number

    def setblocking(self, blocking: bool) -> None:
        assert not blocking

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._check()
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT):
            self._least = max(value, 1)

    def getsockopt(self, level: int, option: int) -> int:
        if (level, option) != (socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(errno.ENOPROTOOPT, "not simulated")
        code, self.error = self.error, 0
        return code

    def getpeername(self) -> tuple[str, int]:
        return self._place

    def connect_ex(self, place: tuple[str, int]) -> int:
        self._place = place
        self._network.dial(self, place)
        return errno.EINPROGRESS

    def recv_into(self, room: memoryview) -> int:
        self._check()
        if not self.inbox:
            self._raise()
            if self.ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "nothing there")
        size = min(len(room), len(self.inbox))
        room[:size] = self.inbox[:size]
        del self.inbox[:size]
        return size

    def sendmsg(self, buffers: Sequence[Any]) -> int:
        self._check()
        self._raise()
        wire = self.wire
        if wire is None or (self.ended and not self.connected):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        room = wire.room()
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "no room")
        data = b"".join(buffers)[:room]
        wire.send(data)
        return len(data)

    def shutdown(self, how: int) -> None:
        """Closing does it."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._network.closed(self)

    def _check(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _raise(self) -> None:
        if self.error:
            raise ConnectionResetError(self.error, os.strerror(self.error))


class Waker:
    """An end of a pair of sockets without a writer."""

    def __init__(self, number: int) -> None:
        self._number = number

    def fileno(self) -> int:
        return self._number

    def setblocking(self, blocking: bool) -> None:
        assert not blocking

    def send(self, data: bytes) -> int:
        return len(data)

    def close(self) -> None:
        """There is nothing to close."""


class _Selector(selectors.SelectSelector):
    """Reports what the simulated sockets say, and lets time pass while they say nothing."""

    world: World
    network: Network
    _fd_to_key: dict[int, selectors.SelectorKey]
    _turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        world = self.world
        process = world.me()
        until = None if timeout is None else world.now + timeout
        while True:
            found = self._reported()
            if found or (until is not None and world.now >= until):
                break
            self._turns = 0
            process.interest = self._fd_to_key
            process.wait(until)
            process.interest = {}
        self._turns += 1
        if self._turns > _TURNS_OF_A_MOMENT:
            self._turns = 0
            world.sleep(_MOMENT_SECONDS)
        return found

    def _reported(self) -> list[tuple[selectors.SelectorKey, int]]:
        sockets = self.network.sockets
        found = []
        for descriptor, key in self._fd_to_key.items():
            one = sockets.get(descriptor)
            # Nearly all wait for an answer that has not come.
            if one is None or (key.events == _READ and not (one.inbox or one.ended or one.error)):
                continue
            events = one.events() & key.events
            if events:
                found.append((key, events))
        return found


class SimulatedSelector(Turns, _Selector):
    """Of one loop."""

    def __init__(self, loop: EventLoop, world: World, network: Network) -> None:
        super().__init__(loop)
        self.world, self.network = world, network
