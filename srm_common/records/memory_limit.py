"""A memory limit for user code in the slot's process: code that exceeds it fails, instead of the slot being killed.

Linux only. It limits address space (``RLIMIT_AS``), which is larger than the memory in use, and applies to the whole
process while such code runs.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

_MIB = 1 << 20
#: Allowed even if less is free: Python and Arrow reserve address space that they do not use.
_LEAST_BYTES = 512 * _MIB
_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
#: Without a limit, version 1 of cgroups shows a number near the largest possible one.
_NO_LIMIT = 1 << 60


class _Shared:
    """How many threads are inside, and the limit before the first of them came."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.before = -1
        self.allowed = 0


_SHARED = _Shared()


@contextlib.contextmanager
def limited_memory() -> Iterator[int]:
    """Inside, this process may take half of the free memory; beyond that, allocations raise MemoryError, as a rule in
    the code that takes most. Yields the number of bytes, or 0 where there is no limit."""
    if sys.platform != "linux":
        yield 0
        return
    with _SHARED.lock:
        if not _SHARED.inside:
            _limit()
        _SHARED.inside += 1
        allowed = _SHARED.allowed
    try:
        yield allowed
    finally:
        with _SHARED.lock:
            _SHARED.inside -= 1
            if not _SHARED.inside:
                _set(_SHARED.before)


def _limit() -> None:
    import resource

    free = free_bytes(_PROC, _CGROUP)
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    _SHARED.before, _SHARED.allowed = before, 0
    if free is None:
        return
    allowed = max(free // 2, _LEAST_BYTES)
    pages = int((_PROC / "self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + allowed
    ceilings = [one for one in (before, hard) if one != resource.RLIM_INFINITY]
    if not ceilings or limit < min(ceilings):
        _SHARED.allowed = allowed
        _set(limit)


def _set(limit: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def free_bytes(proc: Path, cgroup: Path) -> int | None:
    """How much memory this process can take before the machine or its container runs out of it. None if the system does
    not say.

    Args:
        proc: where the kernel's files are.
        cgroup: where those of control groups are, of either version.
    """
    found = _fields(proc / "meminfo").get("MemAvailable:")
    if found is None:
        return None
    free = found * 1024
    own = (_text(proc / "self/cgroup") or "").rpartition("::/")[2].strip()
    for folder in dict.fromkeys((cgroup / own, cgroup)):
        limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
        if limit is not None and used is not None:
            free = min(free, limit - used + _fields(folder / "memory.stat").get("inactive_file", 0))
    older = cgroup / "memory"
    limit, used = _number(older / "memory.limit_in_bytes"), _number(older / "memory.usage_in_bytes")
    if limit is not None and used is not None and limit < _NO_LIMIT:
        free = min(free, limit - used + _fields(older / "memory.stat").get("total_inactive_file", 0))
    return max(free, 0)


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:  # no such version of cgroups, or a container that does not show them
        return None


def _number(path: Path) -> int | None:
    text = (_text(path) or "").strip()
    return int(text) if text.isdecimal() else None


def _fields(path: Path) -> dict[str, int]:
    rows = (line.split() for line in (_text(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
