"""What one input may cost: garbage neither holds a process up, nor takes memory that no buffer would have."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

#: Seconds of CPU, whatever else the machine does. An input takes milliseconds.
MOST_SECONDS = 5.0
#: Beyond what the process has when it begins to read: four fetch buffers of 16 MiB, where an input has a quarter of a
#: mebibyte at most.
MOST_BYTES = 64 << 20
_PAGE = resource.getpagesize()


class TookTooLong(BaseException):
    """No parser may catch it."""


def _too_long(_number: int, _frame: FrameType | None) -> NoReturn:
    raise TookTooLong(f"after {MOST_SECONDS:g} s of CPU")


@contextmanager
def limits(most_bytes: int = MOST_BYTES) -> Iterator[None]:
    """What is done inside has so much time and memory (address space). In the main thread, on Linux.

    Raises:
        TookTooLong: it would go on.
        MemoryError: it wants more.
    """
    with open("/proc/self/statm", "rb") as stream:
        now = int(stream.read().split()[0]) * _PAGE
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (now + most_bytes, most))
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
        signal.signal(signal.SIGPROF, handler)
