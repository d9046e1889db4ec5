"""The network between processes and brokers: connections with latency, loss of hosts, partitions, resets.

Bytes of a connection arrive in their order, as TCP has it; those of different connections in any order. What a process
has sent before it was closed or killed still arrives, however late: the kernel sends it.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from typing import Any

from srm_common.kafka.client.connections.event_loop import EventLoop, Kernel, Turns
from srm_common.testing.fake_cluster.connection import Connection
from tests.simulation.sockets import SimulatedSelector, SimulatedSocket, Waker
from tests.simulation.world import Process, World

Place = tuple[str, int]

_FIRST_DESCRIPTOR = 1 << 20
#: What the two kernels of a connection hold.
_ROOM_BYTES = 256 << 10
_SYN_AGAIN_SECONDS = 1.0
#: How long a packet takes, in latencies of the network.
_LATENCIES = (0.5, 1, 1, 1, 2, 8)
_CHANCES = len(_LATENCIES)
#: After a partition heals, TCP sends again soon.
_AGAIN_SECONDS = 0.2


class Listener:
    """Where a node takes connections. ``frozen``: its process is stopped, and only its kernel goes on."""

    def __init__(self, accept: Callable[[], Connection]) -> None:
        self.accept = accept
        self.open = False
        self.frozen = False


class _Pipe:
    """One direction of a connection."""

    def __init__(self, wire: Wire, deliver: Callable[[bytes | None], None], name: str) -> None:
        self._wire = wire
        self._deliver = deliver
        self._chance = wire.network.world.chance(f"pipe {wire.number} {name}")
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._last = 0.0
        self._due = False
        self._held = False
        self.size = 0

    def send(self, data: bytes | None) -> None:
        """None is the end."""
        network = self._wire.network
        size = 0 if data is None else len(data)
        latency = network.latency * _LATENCIES[int(self._chance.random() * _CHANCES)]
        arrives = network.world.now + (latency + size / network.bytes_per_second)
        if arrives > self._last:
            self._last = arrives
        self._queue.append((self._last, data))
        self.size += size
        self.go_on()

    def go_on(self, seconds: float = 0.0) -> None:
        """Deliver what is due, now and later."""
        if self._queue and not self._due:
            self._due = True
            world = self._wire.network.world
            world.at(max(self._queue[0][0], world.now + seconds), self._arrive)

    def _arrive(self) -> None:
        self._due = False
        if self._held or self._wire.blocked(answers=self._wire.down is self) or not self._queue:
            return
        _, data = self._queue.popleft()
        size = None if data is None else len(data)
        self.size -= size or 0
        self._wire.network.world.note("bytes", self._wire.number, size)
        self._deliver(data)
        if self._queue:
            self.go_on()

    def hold(self) -> None:
        """What is in it, and what follows, arrives after :meth:`release`."""
        self._held = True

    def release(self) -> None:
        self._held = False
        self.go_on()

    def clear(self) -> None:
        self._queue.clear()
        self.size = 0


class _ServerEnd(asyncio.Transport):
    """What the fake broker writes to."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire
        self._closing = False

    def write(self, data: Any) -> None:
        if not self._closing:
            self._wire.down.send(bytes(data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._wire.down.send(None)
            self._wire.server_left(None)

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._wire.reset()


class Wire:
    """One connection, from the moment that the server's kernel has taken it."""

    def __init__(self, network: Network, number: int, sock: SimulatedSocket, place: Place, listener: Listener) -> None:
        self.network = network
        self.number = number
        self.host, self.place = sock.owner.name, place
        self.listener = listener
        self._socket: SimulatedSocket | None = sock
        self._end = _ServerEnd(self)
        self._server: Connection | None = listener.accept()
        self.up = _Pipe(self, self._to_server, "up")
        self.down = _Pipe(self, self._to_client, "down")
        self._server.connection_made(self._end)

    def blocked(self, *, answers: bool) -> bool:
        """Whether nothing arrives now: no requests, or no answers."""
        return self.network.cut(self.host, self.place, answers=answers) or self.listener.frozen

    def room(self) -> int:
        """Bytes that the client's kernel takes now."""
        return _ROOM_BYTES - self.up.size

    def send(self, data: bytes) -> None:
        self.up.send(data)

    def _to_server(self, data: bytes | None) -> None:
        if self._server is None:
            if data is not None and self._socket is not None:
                self._fail(errno.ECONNRESET)
        elif data is None:
            self._server.eof_received()
        else:
            self._server.data_received(data)
        if self._socket is not None:
            self._socket.notify()

    def _to_client(self, data: bytes | None) -> None:
        sock = self._socket
        if sock is None:
            return
        if data is None:
            sock.ended = True
        else:
            sock.inbox += data
        sock.notify()

    def client_left(self) -> None:
        """The client's end was closed; what it has sent arrives, and then the end."""
        self._socket = None
        self.up.send(None)

    def host_left(self) -> None:
        """The client's host is gone, without a word."""
        self._socket = None
        self.up.clear()

    def server_left(self, error: Exception | None) -> None:
        server, self._server = self._server, None
        if server is not None:
            self.network.world.after(0.0, lambda: server.connection_lost(error))

    def reset(self) -> None:
        """Both ends learn that the connection is gone; what was under way either way is lost."""
        self.network.world.note("reset", self.number)
        self.up.clear()
        self.down.clear()
        if not self._end.is_closing():
            self._end._closing = True
        self.server_left(ConnectionResetError())
        self._fail(errno.ECONNRESET)

    def _fail(self, code: int) -> None:
        sock = self._socket
        if sock is not None:
            sock.error = code
            sock.notify()

    @property
    def over(self) -> bool:
        return self._socket is None and self._server is None


class Network(Kernel):
    """All hosts, and what lies between them. ``latency`` in seconds one way."""

    def __init__(self, world: World, *, latency: float = 0.0005, bytes_per_second: float = 100e6) -> None:
        self.world = world
        self._usual, self.bytes_per_second = latency, bytes_per_second
        #: Latencies that are longer for a while.
        self.slow: list[float] = []
        self.listeners: dict[Place, Listener] = {}
        #: By descriptor.
        self.sockets: dict[int, SimulatedSocket] = {}
        self.wires: dict[int, Wire] = {}
        self._cuts: list[Callable[[str, Place], bool]] = []
        #: Those where only answers do not pass.
        self._one_way: list[Callable[[str, Place], bool]] = []
        self._next_descriptor = _FIRST_DESCRIPTOR
        self._next_wire = 0

    @property
    def latency(self) -> float:
        """Of most packets now, one way, in seconds."""
        return max(self._usual, *self.slow) if self.slow else self._usual

    # ---- Kernel

    def selector(self, loop: EventLoop) -> Turns:
        return SimulatedSelector(loop, self.world, self)

    def socket(self, family: int) -> Any:
        self._next_descriptor += 1
        sock = SimulatedSocket(self, self.world.me(), self._next_descriptor)
        self.sockets[self._next_descriptor] = sock
        return sock

    # ---- for sockets

    def dial(self, sock: SimulatedSocket, place: Place) -> None:
        """Begin to connect: the answer to the first packet comes after one way there and one back."""
        self.world.after(2 * self.latency, lambda: self._answer(sock, place))

    def _answer(self, sock: SimulatedSocket, place: Place) -> None:
        if sock.closed:
            return
        if self.cut(sock.owner.name, place, answers=True):
            self.world.after(_SYN_AGAIN_SECONDS, lambda: self._answer(sock, place))
            return
        listener = self.listeners.get(place)
        if listener is None or not listener.open:
            sock.error = errno.ECONNREFUSED
        else:
            self._next_wire += 1
            sock.wire = self.wires[self._next_wire] = Wire(self, self._next_wire, sock, place, listener)
            sock.connected = True
        self.world.note("connect", sock.owner.name, place, sock.error)
        sock.notify()

    def closed(self, sock: SimulatedSocket) -> None:
        self.sockets.pop(sock._number, None)
        if sock.wire is not None:
            sock.wire.client_left()

    # ---- faults

    def cut(self, host: str, place: Place, *, answers: bool) -> bool:
        """Whether nothing passes from a process's host to a broker, or no ``answers`` the other way."""
        if not (self._cuts or self._one_way):
            return False
        return any(cut(host, place) for cut in self._cuts) or (
            answers and any(one(host, place) for one in self._one_way)
        )

    def partition(self, concerns: Callable[[str, Place], bool], *, one_way: bool = False) -> Callable[[], None]:
        """Let nothing pass between these, or (``one_way``) requests alone; returns what heals it."""
        cuts = self._one_way if one_way else self._cuts
        cuts.append(concerns)
        self.world.note("partition")

        def heal() -> None:
            if concerns in cuts:
                cuts.remove(concerns)
                self.go_on(_AGAIN_SECONDS)

        return heal

    def hold_some(self, wanted: Callable[[Wire], bool]) -> Callable[[], None]:
        """What is under way to brokers on some connections arrives only after the returned function was called, while
        those that are made meanwhile are not concerned: a client that has given one up overtakes itself."""
        held = [wire.up for wire in self._live() if wanted(wire)]
        self.world.note("hold", len(held))
        for pipe in held:
            pipe.hold()

        def release() -> None:
            for pipe in held:
                pipe.release()

        return release

    def go_on(self, seconds: float = 0.0) -> None:
        """What was held back arrives."""
        self.world.note("go on")
        for wire in self._live():
            wire.up.go_on(seconds)
            wire.down.go_on(seconds)

    def reset_some(self, wanted: Callable[[Wire], bool]) -> None:
        for wire in self._live():
            if wanted(wire):
                wire.reset()

    def kill(self, process: Process, *, silently: bool = False) -> None:
        """End a process: its kernel closes its connections, or (``silently``) its machine is gone, too."""
        self.world.note("kill", process.name, silently)
        for sock in [socket for socket in self.sockets.values() if socket.owner is process]:
            if silently and sock.wire is not None:
                sock.wire.host_left()
                sock.wire = None
            sock.close()
        process.kill()

    def hand_over(self, before: Process, after: Process) -> None:
        """What one process has ended with, another goes on with: in the world it is the same one."""
        for sock in self.sockets.values():
            if sock.owner is before:
                sock.owner = after
                if sock.wire is not None:
                    sock.wire.host = after.name

    def _live(self) -> list[Wire]:
        self.wires = {number: wire for number, wire in self.wires.items() if not wire.over or wire.up.size}
        return list(self.wires.values())

    def pair(self) -> tuple[Waker, Waker]:
        """What a loop is woken by from other threads, of which there are none."""
        self._next_descriptor += 2
        return Waker(self._next_descriptor - 1), Waker(self._next_descriptor)
