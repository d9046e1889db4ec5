"""A TCP proxy in front of one broker with the delay and the bandwidth of a long line.

The broker must advertise the proxy's address, else clients leave it after bootstrapping (see
:mod:`tests.faults.lossy_proxy`). Connections of clients whose id does not start with ``client_id`` pass at once.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

_PIECE = 16 << 10
#: As many pieces of a connection as are on their way each way: a window of 256 KiB.
_PIECES = 16
#: length, api key, version, correlation id, length of the client id
_HEADER = struct.Struct(">ihhih")


class SlowNetwork:
    """Half of ``round_trip_seconds`` each way; ``bytes_a_second`` each way, for all connections together."""

    def __init__(self, round_trip_seconds: float, bytes_a_second: float, client_id: str = "srm") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._client_id = client_id.encode()
        self._there = _Line(round_trip_seconds / 2, bytes_a_second)
        self._back = _Line(round_trip_seconds / 2, bytes_a_second)
        self._upstream = ("", 0)
        self._closed = False

    @property
    def carried(self) -> tuple[int, int]:
        """Bytes of slow connections so far: to the broker, and from it."""
        return self._there.carried, self._back.carried

    def before(self, address: str) -> Self:
        """Forward to ``host:port``."""
        host, _, port = address.rpartition(":")
        self._upstream = (host, int(port))
        return self

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="slow-network", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), name="slow-network-pair", daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        broker = None
        try:
            first = _first_request(client)
            broker = socket.create_connection(self._upstream, timeout=60)
            broker.settimeout(None)
            for sock in (client, broker):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            slow = first[_HEADER.size :].startswith(self._client_id)
            back = threading.Thread(
                target=_carry, args=(broker, client, b"", self._back if slow else None), daemon=True
            )
            back.start()
            _carry(client, broker, first, self._there if slow else None)
            back.join()
        except OSError:
            pass  # one of the two went away, and with it goes the other one
        finally:
            client.close()
            if broker is not None:
                broker.close()


class _Line:
    """One direction of the network."""

    def __init__(self, delay_seconds: float, bytes_a_second: float) -> None:
        self._delay, self._rate = delay_seconds, bytes_a_second
        self._free = 0.0
        self._lock = threading.Lock()
        self.carried = 0

    def arrival(self, size: int) -> float:
        """When so many bytes that are sent now are there: behind all that is on its way, and then the delay."""
        with self._lock:
            self.carried += size
            self._free = max(self._free, time.monotonic()) + size / self._rate
            return self._free + self._delay


def _carry(source: socket.socket, target: socket.socket, first: bytes, line: _Line | None) -> None:
    """Until either side goes away; then both are told."""
    pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(_PIECES)
    deliverer = threading.Thread(target=_deliver, args=(pieces, target), daemon=True)
    deliverer.start()
    with contextlib.suppress(OSError):
        piece = first or source.recv(_PIECE)
        while piece:
            pieces.put((0.0 if line is None else line.arrival(len(piece)), piece))
            piece = source.recv(_PIECE)
    pieces.put((0.0, b""))
    deliverer.join()
    for sock in (source, target):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _deliver(pieces: queue.Queue[tuple[float, bytes]], target: socket.socket) -> None:
    gone = False
    while True:
        due, piece = pieces.get()
        if not piece:
            return
        if gone:
            continue
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            target.sendall(piece)
        except OSError:
            gone = True  # what is still on its way is lost
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)


def _first_request(client: socket.socket) -> bytes:
    """What comes first, with the client's id."""
    head = b""
    while len(head) < _HEADER.size or len(head) < _HEADER.size + max(_HEADER.unpack_from(head)[4], 0):
        part = client.recv(_PIECE)
        if not part:
            raise ConnectionResetError("no request")
        head += part
    return head
