"""Receive buffers that are reused; they bound a task's memory.

A lease holds one buffer while a Fetch answer is received and as long as batches of it wait to be acknowledged.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection

#: What an answer has beside its record batches.
_FRAME_BYTES = 1 << 16
_LEAST_BYTES = 1 << 20
_LEASES_PER_NODE = 2


def _memory(size: int) -> mmap.mmap:
    """Zeros that take no memory until they are written over: each page is allocated with its first byte."""
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Lease:
    """One buffer, made when it is first needed. Grown for an answer that does not fit (a single huge record), and
    shrunk back afterwards."""

    def __init__(self, size: int) -> None:
        self._usual = size
        self._buffer: mmap.mmap | None = None
        self._users = 0

    @property
    def in_use(self) -> bool:
        """Whether something still reads the buffer."""
        return self._users > 0

    @property
    def has_memory(self) -> bool:
        """Whether it was needed yet."""
        return self._buffer is not None

    def hold(self) -> None:
        """One more reader."""
        self._users += 1

    def release(self) -> None:
        """One reader less."""
        if self._users <= 0:
            raise AssertionError("a buffer was released more often than held")
        self._users -= 1
        if not self._users and self.has_grown:
            self._buffer = None

    @property
    def has_grown(self) -> bool:
        """Whether it holds an answer that did not fit."""
        return self.size > self._usual

    @property
    def size(self) -> int:
        """Bytes that fit without growing."""
        return self._usual if self._buffer is None else max(self._usual, len(self._buffer))

    def grown(self, size: int, begun: memoryview) -> memoryview:
        """A view of ``size`` bytes whose beginning is ``begun``: more room for an answer that does not fit."""
        self._buffer = _memory(size)
        larger = memoryview(self._buffer)[:size]
        larger[: len(begun)] = begun
        return larger

    def room_for(self, size: int) -> memoryview:
        """A view of exactly ``size`` bytes; what the buffer held before is gone."""
        buffer = self._buffer
        if buffer is None or size > len(buffer) or size <= self._usual < len(buffer):
            buffer = self._buffer = _memory(max(size, self._usual))
        return memoryview(buffer)[:size]


class Leases:
    """The leases of one reader: two for each node that it asks, together at most twice ``total_bytes``, or one answer
    of each node if these are larger.

    Nodes come and go as leaders move. Leases of a node that is no longer asked count until they are released. The
    share of a node depends on how many are asked now, and is never below 1 MiB.
    """

    def __init__(self, total_bytes: int) -> None:
        self._total = total_bytes
        self._leases: list[tuple[int, int, Lease]] = []

    def share(self, nodes: Collection[int]) -> int:
        """Bytes of record batches to ask one of these nodes for at a time."""
        return max(self._total // max(len(nodes), 1), _LEAST_BYTES)

    @property
    def held_bytes(self) -> int:
        """The sum of all buffers that are kept, without what answers that did not fit added."""
        return sum(size for _, size, _ in self._leases)

    def free(self, node: int, nodes: Collection[int]) -> Lease | None:
        """A lease for a request to ``node``, one of ``nodes``; None until one is given back."""
        size = self.share(nodes)
        self._leases = [
            (holder, bytes_, lease)
            for holder, bytes_, lease in self._leases
            if lease.in_use or (holder in nodes and bytes_ == size)
        ]
        own = [(bytes_, lease) for holder, bytes_, lease in self._leases if holder == node]
        # What has sent a large answer may send another one.
        large = max((lease.size for _, lease in own if lease.in_use and lease.has_grown), default=0)
        if large and large + sum(lease.size for _, _, lease in self._leases if lease.in_use) > 2 * self._total:
            return None
        for bytes_, lease in own:
            if not lease.in_use and bytes_ == size:
                return lease
        if len(own) >= _LEASES_PER_NODE:
            return None
        # Another node's free lease may be needed by it at any time; with nothing in use there is always room.
        if self._leases and self.held_bytes + size > max(2 * self._total, _LEASES_PER_NODE * size * len(nodes)):
            return None
        lease = Lease(size + _FRAME_BYTES)
        self._leases.append((node, size, lease))
        return lease
