"""The floor no copier on sockets can go below: receive, checksum and send the same bytes through loopback.

Two helper processes stand for the brokers: one hands the source's segment files to the kernel with ``sendfile``, as
a broker does, the other throws away what it gets. Only the process between them is measured: ``recv_into`` a large
reused buffer, CRC-32C over it, ``send`` of the same buffer. No protocol, no batches, no waiting for acknowledgements.
"""

from __future__ import annotations

import multiprocessing
import resource
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import crc32c

_PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Floor:
    """CPU time of the process in the middle, user and system, and the time on the clock."""

    bytes: int
    cpu_seconds: float
    wall_seconds: float

    def cpu_seconds_per_gb(self, uncompressed_bytes: int) -> float:
        """Per GB (10**9) of uncompressed records whose batches have ``self.bytes`` on the wire."""
        return self.cpu_seconds / (uncompressed_bytes / 1e9)

    def to_json(self, uncompressed_bytes: int) -> dict[str, float]:
        return {
            "cpu_seconds_per_gb": round(self.cpu_seconds_per_gb(uncompressed_bytes), 4),
            "mb_per_second": round(uncompressed_bytes / 1e6 / self.wall_seconds, 1),
        }


def measure(files: Sequence[Path], rounds: int = 3) -> Floor:
    """Moves the files' bytes that many times and returns what the cheapest cost: a floor has no noise in it."""
    return min((_measure_once(files) for _ in range(rounds)), key=lambda found: found.cpu_seconds)


def _measure_once(files: Sequence[Path]) -> Floor:
    total_bytes = sum(file.stat().st_size for file in files)
    context = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as source, socket.create_server(("127.0.0.1", 0)) as target:
        source_port, target_port = source.getsockname()[1], target.getsockname()[1]
        ours, theirs = context.Pipe()
        middle = context.Process(target=_copy, args=(source_port, target_port, theirs), daemon=True)
        sender = context.Process(target=_send, args=(source, files), daemon=True)
        drain = context.Process(target=_drain, args=(target,), daemon=True)
        for process in (sender, drain, middle):
            process.start()
        theirs.close()
        moved, cpu_seconds, wall_seconds = ours.recv()
        for process in (sender, drain, middle):
            process.join(60)
    if moved != total_bytes:
        raise RuntimeError(f"the floor moved {moved} bytes, not {total_bytes}")
    return Floor(moved, cpu_seconds, wall_seconds)


def _send(server: socket.socket, files: Sequence[Path]) -> None:
    connection, _ = server.accept()
    with connection:
        for file in files:
            with file.open("rb") as data:
                connection.sendfile(data)


def _drain(server: socket.socket) -> None:
    connection, _ = server.accept()
    buffer = bytearray(_PIECE_BYTES)
    with connection:
        while connection.recv_into(buffer):
            pass


def _copy(source_port: int, target_port: int, report: Connection) -> None:
    buffer = bytearray(_PIECE_BYTES)
    view = memoryview(buffer)
    moved = 0
    with (
        socket.create_connection(("127.0.0.1", source_port)) as source,
        socket.create_connection(("127.0.0.1", target_port)) as target,
    ):
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        while size := source.recv_into(view, 0, socket.MSG_WAITALL):
            crc32c.crc32c(view[:size])
            target.sendall(view[:size])
            moved += size
        after, ended = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report.send((moved, used, ended - started))
    report.close()
