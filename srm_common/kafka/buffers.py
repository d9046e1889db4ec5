"""Receive buffers that are used again: what bounds a task's memory.

A lease holds one buffer while a Fetch answer is received and as long as batches of it wait to be acknowledged.
"""

from __future__ import annotations


class Lease:
    """One buffer. Grown for an answer that does not fit (a single huge record), and shrunk back afterwards."""

    def __init__(self, size: int) -> None:
        self._usual = size
        self._buffer = bytearray(size)
        self._users = 0

    @property
    def in_use(self) -> bool:
        """Whether something still reads the buffer."""
        return self._users > 0

    def hold(self) -> None:
        """One more reader."""
        self._users += 1

    def release(self) -> None:
        """One reader less."""
        if self._users <= 0:
            raise AssertionError("a buffer was released more often than held")
        self._users -= 1

    def room_for(self, size: int) -> memoryview:
        """A view of exactly ``size`` bytes; what the buffer held before is gone."""
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        elif size <= self._usual < len(self._buffer):
            self._buffer = bytearray(self._usual)
        return memoryview(self._buffer)[:size]
