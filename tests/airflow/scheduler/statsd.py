"""A StatsD server that keeps what it is sent."""

from __future__ import annotations

import contextlib
import socket
import threading

from srm_common.testing.ports import LOOPBACK


class Statsd:
    """A UDP socket that keeps every line that comes in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((LOOPBACK, 0))
        # Nothing is dropped while this process is busy.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.port: int = self._socket.getsockname()[1]
        self.lines: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.lines += self._socket.recv(65536).decode().splitlines()

    def close(self) -> None:
        self._socket.close()

    def values(self, metric: str, **tags: str) -> list[float]:
        """Of lines like ``airflow.srm.records_lag,flow=a/b,partition=0,topic=orders:0|g``."""
        found = []
        for line in self.lines:
            series, _, rest = line.rpartition(":")
            name, *pairs = series.split(",")
            if name == f"airflow.{metric}" and tags.items() <= dict(pair.split("=", 1) for pair in pairs).items():
                found.append(float(rest.partition("|")[0]))
        return found
