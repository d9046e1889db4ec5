"""TCP ports of the loopback address that stay reserved."""

from __future__ import annotations

import socket
from collections.abc import Mapping

LOOPBACK = "127.0.0.1"


def without_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    """What lets a process with this environment reach servers of this machine directly: a proxy would look for them on
    its own. Programs look at either name."""
    names = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if names.strip() != "*":
        names = ",".join(filter(None, (names, LOOPBACK, "localhost")))
    return {"no_proxy": names, "NO_PROXY": names}


class ReservedPort:
    """A free port, kept until ``release``, also while the server behind it is down.

    The socket is bound but never listens. With SO_REUSEADDR on both sides Linux lets a server (Java sets it) bind and
    listen on the same port, while it gives the port to no process that asks for any free one and to no outgoing
    connection. Asking for a free port, closing it and hoping is how parallel tests collide.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.number}"

    def release(self) -> None:
        self._socket.close()

    def answers(self) -> bool:
        """True when a server accepts connections on it."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((LOOPBACK, self.number)) == 0
