"""How many connections ``srm-control serve`` holds: in total, and from one address.

Connections are counted where they are accepted, since asyncio's servers learn of one only after its TLS handshake.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

_LOG = logging.getLogger(__name__)

#: In total, if the process may open at least twice as many files; otherwise half of those: clusters, the history and
#: Airflow need some, too.
MOST = 500
#: From one address. A browser has six; a proxy has one for each request that it passes on, which 40 threads answer.
MOST_OF_ONE = 100
#: The log has a sentence about refused connections at most this often.
_TOLD_SECONDS = 60.0


def network_of(address: str) -> str:
    """What counts as one address: for IPv6 its network of 64 bits, all of which one host may have (RFC 4291)."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address  # a name, as of Unix sockets
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


def most_connections() -> int:
    """The limit of this process in total."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else max(1, min(MOST, files // 2))


class LimitedSocket(socket.socket):
    """A listening socket that closes what it accepts beyond its limits. For asyncio's own loop: it accepts by
    :meth:`accept`, and closes each connection's socket."""

    def __init__(
        self,
        family: int = socket.AF_INET,
        kind: int = socket.SOCK_STREAM,
        protocol: int = 0,
        *,
        most: int | None = None,
        most_of_one: int = MOST_OF_ONE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` gives seconds that never go back."""
        super().__init__(family, kind, protocol)
        self._most = most_connections() if most is None else most
        self._most_of_one = most_of_one
        self._clock = clock
        self._accepted: list[tuple[str, weakref.ref[socket.socket]]] = []
        self._refused = 0
        self._told_at: float | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ConnectionAbortedError instead of returning a connection beyond the limits, which is closed."""
        connection, address = super().accept()
        host = str(address[0])
        network = network_of(host)
        # A connection that was dropped without being closed is closed, too.
        self._accepted = [one for one in self._accepted if (held := one[1]()) is not None and held.fileno() >= 0]
        of_one = sum(other == network for other, _ in self._accepted)
        if len(self._accepted) < self._most and of_one < self._most_of_one:
            self._accepted.append((network, weakref.ref(connection)))
            return connection, address
        connection.close()
        if of_one >= self._most_of_one:
            self._tell(host, f"it has {of_one} open, the most that one address may have")
        else:
            self._tell(host, f"{len(self._accepted)} are open, the most that there may be")
        raise ConnectionAbortedError("there are too many connections")

    def _tell(self, host: str, why: str) -> None:
        self._refused += 1
        now = self._clock()
        if self._told_at is not None and now - self._told_at < _TOLD_SECONDS:
            return
        others = f", and {self._refused - 1} others before it" if self._refused > 1 else ""
        _LOG.warning("refused a connection from %s%s: %s", host, others, why)
        self._refused, self._told_at = 0, now


class ServiceLoop(asyncio.SelectorEventLoop):
    """The loop of the service: its servers give a TLS handshake as long as the headers of a request.

    uvicorn leaves asyncio's minute. uvloop, which it prefers where that is installed, accepts connections in C, past
    :class:`LimitedSocket`.
    """

    #: From the beginning of a connection.
    handshake_seconds: ClassVar[float] = 10.0

    async def create_server(self, *arguments: Any, ssl: Any = None, **options: Any) -> asyncio.Server:
        """As asyncio's."""
        if ssl is not None:
            options.setdefault("ssl_handshake_timeout", self.handshake_seconds)
        return await super().create_server(*arguments, ssl=ssl, **options)
