"""Inside Airflow's processes: what a task costs, from the fork of its process to its end. For :mod:`bench.task_cost`.

``sitecustomize`` of the measured Airflow calls :func:`install`. Each process that is forked from then on counts the CPU
of its imports; one that turns out to run a task appends a line of JSON to the file that ``SRM_BENCH_TASKS`` names when
it ends. A process that is forked begins with zero CPU time, so its figures are its own, children that it waited for
included.
"""

from __future__ import annotations

import atexit
import builtins
import importlib
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "SRM_BENCH_TASKS"
#: The C class of admin clients, which the Python class finds when it is imported.
_ADMIN = "_AdminClientImpl"


def cpu_seconds() -> float:
    """User and system, of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class Probe:
    """One process. Marks are moments: CPU and wall seconds since the fork, and CPU seconds of imports until then."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._import = builtins.__import__
        self._open: list[float] = []
        self._packages: defaultdict[str, float] = defaultdict(float)
        self._marks: dict[str, dict[str, float]] = {}
        self._clients: defaultdict[str, int] = defaultdict(int)
        self._about: dict[str, Any] = {}
        builtins.__import__ = self._imported
        sys.addaudithook(self._audit)

    def mark(self, name: str) -> None:
        self._marks[name] = {
            "cpu": cpu_seconds(),
            "wall": time.monotonic() - self._began,
            "imports": sum(self._packages.values()),
        }

    def is_task(self, dag_id: str) -> None:
        """From now on it is known what this process is for; its end is reported."""
        self._about["dag_id"] = dag_id
        atexit.register(self._report)

    def begin(self, context: Mapping[str, Any]) -> None:
        self._about |= {"task_id": context["ti"].task_id, "run_id": context["run_id"]}
        self.mark("begun")

    def end(self, context: Mapping[str, Any], result: Any = None) -> None:
        self.mark("done")

    def has_made(self, client: str) -> None:
        self._clients[client] += 1

    # ---- inside

    def _imported(self, name: str, *arguments: Any, **options: Any) -> Any:
        if name in sys.modules and not self._open:
            module = self._import(name, *arguments, **options)
        else:
            # Time of imports inside is counted there: so each package has its own.
            self._open.append(0.0)
            started = time.process_time()
            try:
                module = self._import(name, *arguments, **options)
            finally:
                took = time.process_time() - started
                inner = self._open.pop()
                self._packages[name.partition(".")[0]] += took - inner
                if self._open:
                    self._open[-1] += took
        return module

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            self._clients["socket"] += 1

    def _report(self) -> None:
        self.mark("end")
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        line = {
            **self._about,
            "marks": self._marks,
            "packages": dict(self._packages),
            "clients": dict(self._clients),
            "peak_bytes": peak * 1024,
        }
        with Path(os.environ[VARIABLE]).open("a") as file:
            file.write(json.dumps(line) + "\n")


_probe: Probe | None = None


def install() -> None:
    """Every child that this process forks has a probe of its own. Kafka clients are imported here, to be counted."""
    package, cimpl = (importlib.import_module(name) for name in ("confluent_kafka", "confluent_kafka.cimpl"))
    for name in ("Producer", "Consumer"):
        setattr(package, name, _counting(name, getattr(package, name)))
    setattr(cimpl, _ADMIN, _counting("AdminClient", getattr(cimpl, _ADMIN)))
    os.register_at_fork(after_in_child=_renew)


def _counting(name: str, kind: type) -> type:
    def init(one: Any, *arguments: Any, **options: Any) -> None:
        if _probe is not None:
            _probe.has_made(name)
        kind.__init__(one, *arguments, **options)  # type: ignore[misc]

    return type(kind.__name__, (kind,), {"__init__": init})


def _renew() -> None:
    global _probe
    if _probe is not None:
        builtins.__import__ = _probe._import
    _probe = Probe()


def probe() -> Probe | None:
    """None in a process that was not forked."""
    return _probe
