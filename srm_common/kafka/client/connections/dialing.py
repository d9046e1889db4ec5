"""From a server's name to a connected socket: all its addresses in parallel, recently silent ones last.

A machine that is gone does not respond at all, and one that hangs accepts connections and stays silent: an attempt to
reach either lasts until its time limit. As in RFC 8305 (Happy Eyeballs), the next address is tried a quarter of a
second after the one before, and the first that is ready is used. An address is ready when it has answered the first
request, since the kernel accepts connections for a process that is stopped, too.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Generic, Protocol, TypeVar

from srm_common.kafka.client.connections.connection_faults import fault_text
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.connections.threads import in_thread
from srm_common.kafka.client.library import Errors, collect_hosts

Place = tuple[str, int]

#: "Connection Attempt Delay" of RFC 8305, section 5.
NEXT_ATTEMPT_SECONDS = 0.25
#: The pause between attempts grows to this, so that a slow server is tried a few times, not a hundred.
LONGEST_PAUSE_SECONDS = 1.0
_REMEMBERED_SECONDS = 300.0
_MOST_REMEMBERED = 10_000
#: How long a connection is idle before the kernel asks whether the other side is still there, how soon it asks again,
#: and how often. Between them, NAT, firewalls and load balancers forget an idle connection after a while (four minutes
#: at Azure, 350 s at AWS, one minute at the strictest) and tell neither: the next request would get no answer. The
#: kernel's own time is two hours.
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 30, 15, 8
if sys.platform == "darwin":
    _IDLE_OPTION = socket.TCP_KEEPALIVE
else:
    _IDLE_OPTION = socket.TCP_KEEPIDLE
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, _IDLE_OPTION, _IDLE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES),
)


class SilentPlaces:
    """Hosts and ports that recently accepted no connection or did not respond. Shared by all links of a process.

    They are tried last, but never left out.
    """

    def __init__(self) -> None:
        self._until: dict[Place, float] = {}

    def note(self, place: Place) -> None:
        """It was silent just now."""
        if len(self._until) >= _MOST_REMEMBERED:
            self._until.clear()
        self._until[place] = time.monotonic() + _REMEMBERED_SECONDS

    def forget(self, place: Place) -> None:
        """It answers."""
        self._until.pop(place, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._until.clear()

    def __contains__(self, place: Place) -> bool:
        return self._until.get(place, 0.0) > time.monotonic()


SILENT = SilentPlaces()


@dataclass(frozen=True)
class Address:
    """One address of a name, as ``getaddrinfo`` returns it."""

    family: int
    sockaddr: tuple[Any, ...]

    @property
    def place(self) -> Place:
        """IP address and port."""
        return str(self.sockaddr[0]), int(self.sockaddr[1])

    def __str__(self) -> str:
        return place_text(self.place)


def place_text(place: Place) -> str:
    """``host:port``, with brackets around an IPv6 address."""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve(loop: EventLoop, host: str, port: int, timeout_at: float) -> list[Address]:
    """All addresses of a name, in turns between families (RFC 8305, section 4), without blocking the loop.

    Raises:
        KafkaConnectionError: the name has none, or the name server did not respond before ``timeout_at``.
    """
    try:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            found = await in_thread(loop, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), timeout_at)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Errors.KafkaConnectionError(f"the name {host} cannot be resolved: {reason}") from error
    except Errors.KafkaTimeoutError as error:
        raise Errors.KafkaConnectionError(f"the name {host} cannot be resolved: no response in time") from error
    by_family: dict[int, list[Address]] = {}
    for family, _kind, _protocol, _name, sockaddr in found:
        addresses = by_family.setdefault(family, [])
        address = Address(family, sockaddr)
        if address not in addresses:
            addresses.append(address)
    return [one for turn in zip_longest(*by_family.values()) for one in turn if one is not None]


def canonical_servers(servers: str | Sequence[str]) -> list[str]:
    """``bootstrap.servers`` with the name that each address of each entry has, so that a ticket or a certificate can be
    for a single broker behind a name for all of them (``resolve_canonical_bootstrap_servers_only``; Java's
    ``ClientUtils`` asks for the names of addresses, too, where the library takes the canonical name of the entry). An
    address without a name, and an entry without an address, stays as it is. Asks name servers, and waits for them."""
    found: dict[str, None] = {}
    for host, port, _ in collect_hosts(servers):
        try:
            addresses = [one[4] for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
            names = [socket.getnameinfo(address, socket.NI_NUMERICSERV)[0] for address in addresses]
        except (OSError, UnicodeError):
            names = [host]
        found |= dict.fromkeys(place_text((name, port)) for name in names)
    return [*found]


def silent_last(addresses: Iterable[Address]) -> list[Address]:
    """The same addresses, recently silent ones last."""
    return sorted(addresses, key=lambda address: address.place in SILENT)


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class _Dialing(Generic[T]):
    """The attempts to reach one of several addresses."""

    def __init__(
        self,
        loop: EventLoop,
        options: Sequence[tuple[int, int, int]],
        timeout_at: float,
        greet: Callable[[socket.socket], Awaitable[T]],
    ) -> None:
        self._loop = loop
        self._options = options
        self._timeout_at = timeout_at
        self._greet = greet
        self._signal = Signal(loop)
        self._won: tuple[T, Address] | None = None
        #: address -> (task, when it began)
        self._open: dict[Address, tuple[Any, float]] = {}
        #: Those that accepted the connection.
        self._taken: set[Address] = set()
        self._faults: list[Exception] = []

    async def first(self, addresses: Iterable[Address]) -> tuple[T, Address]:
        waiting = deque(silent_last(addresses))
        next_at, pause = 0.0, NEXT_ATTEMPT_SECONDS
        try:
            while self._won is None:
                now = time.monotonic()
                if now >= self._timeout_at or not (waiting or self._open):
                    raise self._failure()
                if waiting and (now >= next_at or not self._open):
                    address = waiting.popleft()
                    next_at, pause = now + pause, min(2 * pause, LONGEST_PAUSE_SECONDS)
                    self._open[address] = self._loop.call_soon(self._attempt(address)), now
                    continue
                until = min(next_at, self._timeout_at) if waiting else self._timeout_at
                await self._signal.wait(until - now)
            won, self._won = self._won, None
            return won
        finally:
            for address, (task, began) in list(self._open.items()):
                if time.monotonic() - began >= NEXT_ATTEMPT_SECONDS:
                    SILENT.note(address.place)
                self._loop.cancel(task)
            if self._won is not None:
                self._won[0].close()

    def _failure(self) -> Exception:
        texts = [*map(fault_text, self._faults), *(f"{address} does not accept connections" for address in self._open)]
        if self._taken & self._open.keys() or any(
            isinstance(fault, Errors.KafkaTimeoutError) for fault in self._faults
        ):
            late: Exception = Errors.KafkaTimeoutError("; ".join(texts))
            return late
        if len(self._faults) == 1 and not self._open:
            return self._faults[0]
        found: Exception = Errors.KafkaConnectionError("; ".join(texts))
        return found

    async def _attempt(self, address: Address) -> None:
        try:
            sock = await self._connected(address)
            self._taken.add(address)
            greeted = await self._greet(sock)
            if self._won is None:
                self._won = greeted, address
            else:
                greeted.close()
        except OSError as error:
            self._faults.append(Errors.KafkaConnectionError(f"{address}: {error.strerror or error}"))
            SILENT.note(address.place)
        except Exception as error:
            self._faults.append(error)
            if isinstance(error, Errors.KafkaTimeoutError):
                SILENT.note(address.place)
        finally:
            self._open.pop(address, None)
            self._signal.set()

    async def _connected(self, address: Address) -> socket.socket:
        with ExitStack() as undo:
            sock = undo.enter_context(self._loop.kernel.socket(address.family))
            undo.callback(self._loop.forget, sock)
            sock.setblocking(False)
            for option in (*_KEEPALIVE, *self._options):
                sock.setsockopt(*option)
            code = sock.connect_ex(address.sockaddr)
            if code == errno.EINPROGRESS:
                await self._loop.wait_write(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            self._loop.forget(sock)
            undo.pop_all()
        return sock


async def dial(
    loop: EventLoop,
    addresses: Iterable[Address],
    options: Sequence[tuple[int, int, int]],
    timeout_at: float,
    greet: Callable[[socket.socket], Awaitable[T]],
) -> tuple[T, Address]:
    """What ``greet`` makes of the first connected socket for which it succeeds, and the address that it leads to.

    Args:
        options: for ``setsockopt``.
        timeout_at: monotonic seconds.
        greet: does the TLS handshake, where there is TLS, and waits for the first answer; closes the socket when it
            fails or is cancelled.

    Raises:
        KafkaTimeoutError: an address accepted the connection, but ``greet`` did not end in time.
        KafkaConnectionError: no address accepted the connection.
        Exception: what ``greet`` raised, where there is only one address.
    """
    return await _Dialing(loop, options, timeout_at, greet).first(addresses)
