"""CPU time and memory of a process and all its descendants, out of /proc.

CPU: every live process of the tree counts its own time and that of its children it has already waited for (utime,
stime, cutime, cstime), so time of processes that came and went between two looks is not lost. Below
``bench/launch.py`` no process can leave the tree. Resolution: one clock tick (10 ms) a process.

One kind of process would still be lost: a child whose parent ignores SIGCHLD is reaped by the kernel, and its time is
attributed to no process. PySpark's daemon does that to its workers. Such children are looked at four times a second and
what they had used when last seen stays in the sum.

Memory: PSS (pages shared by several processes are divided among them); looked at about once a second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Self

import psutil

_TICKS = os.sysconf("SC_CLK_TCK")
_GONE = (FileNotFoundError, ProcessLookupError)


def parse_stat(text: str) -> float:
    """CPU seconds out of /proc/<pid>/stat: own time and that of children waited for."""
    fields = text.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


def parse_memory(text: str) -> int:
    """Bytes out of /proc/<pid>/smaps_rollup."""
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def ignores_children(text: str) -> bool:
    """Out of /proc/<pid>/status: whether the process leaves its children to the kernel."""
    for line in text.splitlines():
        if line.startswith("SigIgn:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGCHLD - 1) & 1)
    return False


class ProcessTree:
    """Watches one tree from a thread of its own while used as a context manager.

    ``without_root`` leaves the root's own time and memory out: it is the launcher.
    """

    def __init__(
        self,
        pid: int,
        *,
        without_root: bool = False,
        memory_interval_seconds: float = 1.0,
        cpu_interval_seconds: float = 0.25,
    ) -> None:
        self._pid = pid
        self._without_root = without_root
        self._memory_interval_seconds = memory_interval_seconds
        self._cpu_interval_seconds = cpu_interval_seconds
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="process-tree", daemon=True)
        self._uncharged: dict[int, float] = {}
        self._highest = 0.0
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def cpu_seconds(self) -> float:
        """Of the whole tree up to now. Never falls: a look while a process ends could miss it for a moment."""
        alive = self._alive()
        total = 0.0
        with self._lock:
            for pid in alive:
                with contextlib.suppress(*_GONE):
                    seconds = parse_stat(Path(f"/proc/{pid}/stat").read_text())
                    if pid == self._pid and self._without_root:
                        seconds -= self._own_seconds()
                    if pid in self._uncharged:
                        self._uncharged[pid] = seconds
                    total += seconds
            gone = set(self._uncharged).difference(alive)
            self._highest = max(self._highest, total + sum(self._uncharged[pid] for pid in gone))
            return self._highest

    def uncharged_seconds(self, reaped: Collection[int] = ()) -> float:
        """Of processes whose time no RUSAGE_CHILDREN ever got; complete once the tree has ended.

        ``reaped`` are those whose time was charged after all, to the launcher, since their parent ended before them.
        """
        with self._lock:
            return sum(seconds for pid, seconds in self._uncharged.items() if pid not in reaped)

    def memory_bytes(self) -> int:
        """Of the whole tree at this moment."""
        total = 0
        for pid in self._alive():
            if pid == self._pid and self._without_root:
                continue
            with contextlib.suppress(*_GONE):
                total += parse_memory(Path(f"/proc/{pid}/smaps_rollup").read_text())
        return total

    def _own_seconds(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _alive(self) -> list[int]:
        """All processes of the tree; remembers those whose time is charged to no process."""
        try:
            root = psutil.Process(self._pid)
            children = root.children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess, *_GONE):
                if child.pid not in self._uncharged and ignores_children(
                    Path(f"/proc/{child.ppid()}/status").read_text()
                ):
                    with self._lock:
                        self._uncharged.setdefault(child.pid, 0.0)
        return [self._pid, *(child.pid for child in children)]

    def _look_at_uncharged(self) -> None:
        with self._lock:
            for pid in self._uncharged:
                with contextlib.suppress(*_GONE):
                    seconds = parse_stat(Path(f"/proc/{pid}/stat").read_text())
                    self._uncharged[pid] = max(self._uncharged[pid], seconds)

    def _watch(self) -> None:
        next_memory = time.monotonic()
        while not self._done.is_set():
            if time.monotonic() >= next_memory:
                started = time.monotonic()
                self.peak_bytes = max(self.peak_bytes, self.memory_bytes())
                # On a busy machine looking itself takes a while: never spend more than a tenth of the time on it.
                spent = time.monotonic() - started
                next_memory = started + max(self._memory_interval_seconds, 10 * spent)
            self._look_at_uncharged()
            self._done.wait(self._cpu_interval_seconds)
