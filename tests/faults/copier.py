"""A flow's driver as a process of its own: a run with its slots in worker processes instead of Spark's.

When this process is killed its workers stay: they go on copying, as orphaned executors do, until the broker refuses
them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import pickle
import signal
import time
import traceback
import uuid
from collections.abc import Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.errors import LostProcess, RunFailed, SrmError
from srm_common.replication.driver.passes import PassRunner
from srm_common.replication.spark.slot_work import copy_in_worker
from srm_common.usecases.runs.replicate import replicate

#: What the kernel calls a process that has copied.
WORKER = "srm-worker"
#: Teams that take over from one that lost a worker; later ones are spawned, which takes a second of CPU a worker.
_SPARES = 3
_PR_SET_NAME = 15
#: Signals that set the clock of a process an hour ahead of the machine's and behind it. Nearly: brokers take no record
#: that is more than an hour ahead of their own.
AHEAD, BACK = signal.SIGRTMIN + 1, signal.SIGRTMIN + 2
_JUMP_SECONDS = 3590.0


class Team:
    """A worker process for each slot, with nothing to do until the first pass."""

    def __init__(self, count: int, way: str = "fork") -> None:
        context: Any = multiprocessing.get_context(way)
        self.pipes: list[Connection] = []
        self.workers: list[BaseProcess] = []
        for _ in range(count):
            here, there = context.Pipe()
            worker = context.Process(target=_work, args=(there, here), daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def close(self) -> None:
        """End the workers once they are done."""
        for pipe in self.pipes:
            with contextlib.suppress(BrokenPipeError):
                pipe.send(None)
        for worker in self.workers:
            worker.join()

    def kill(self) -> None:
        """One of them has died: end the others, too."""
        for worker in self.workers:
            worker.terminate()
            worker.join()


class _WorkerDied(Exception):
    """Whatever it was given has no result."""


class WorkerProcesses:
    """A pass runner: one worker process a slot, kept for the run.

    Made before this process has a second thread, since all its workers are forked at once.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._team = Team(count)
        self._spares = [Team(count) for _ in range(_SPARES)]

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        try:
            return self._results(job, tasks)
        except _WorkerDied as error:
            self._team.kill()
            self._team = self._spares.pop() if self._spares else Team(self._count, "spawn")
            raise LostProcess("a worker process died") from error

    def _results(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        busy = dict(zip(self._team.pipes, tasks, strict=False))
        assert len(busy) == len(tasks)
        for pipe, task in busy.items():
            _send(pipe, (job, task))
        results: dict[int, SlotResult] = {}
        while busy:
            ready = connection.wait([*busy, *(worker.sentinel for worker in self._team.workers)])
            for one in ready:
                if not isinstance(one, Connection):
                    raise _WorkerDied
                result = _receive(one)
                if isinstance(result, Exception):
                    raise result
                results[busy.pop(one).slot] = result
        return [results[task.slot] for task in tasks]

    def close(self) -> None:
        """End the workers."""
        for team in (self._team, *self._spares):
            team.close()


def _send(pipe: Connection, work: tuple[CopyJob, SlotTask]) -> None:
    try:
        pipe.send(work)
    except BrokenPipeError as error:
        raise _WorkerDied from error


def _receive(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError) as error:
        raise _WorkerDied from error


def _work(pipe: Connection, other_end: Connection) -> None:
    """What a worker does until its driver is gone."""
    other_end.close()
    name_process = ctypes.CDLL(None).prctl
    while True:
        try:
            work = pipe.recv()
        except EOFError:
            return
        if work is None:
            return
        name_process(_PR_SET_NAME, WORKER.encode())
        try:
            result: object = copy_in_worker(*work)
        except Exception as error:
            result = error
        pipe.send(result)


def main(flow_file: str, max_seconds: str, report_file: str) -> int:
    """A run with worker processes; FLOW_FILE is a pickled :class:`FlowSettings`. The exit code is the commands' one."""
    flow: FlowSettings = pickle.loads(Path(flow_file).read_bytes())
    _let_clock_jump()
    workers = WorkerProcesses(flow.tasks_max)
    try:
        return run(flow, float(max_seconds), Path(report_file), workers)
    finally:
        workers.close()


def _let_clock_jump() -> None:
    """In this process and those that it forks."""
    real, ahead = time.time, [0.0]
    signal.signal(AHEAD, lambda *_: ahead.append(_JUMP_SECONDS))
    signal.signal(BACK, lambda *_: ahead.append(-_JUMP_SECONDS))
    time.time = lambda: real() + ahead[-1]


def run(flow: FlowSettings, max_seconds: float, report_file: Path, runner: PassRunner) -> int:
    """One run; its outcome goes to ``report_file`` as JSON. The exit code."""
    report: dict[str, object] = {}
    try:
        record = replicate(flow, RunOptions(run_id=uuid.uuid4().hex, max_seconds=max_seconds), runner)
        report["record"] = record.to_json()
        return RunFailed.exit_code if any(partition.error for partition in record.partitions) else 0
    except SrmError as error:
        traceback.print_exc()
        report["error"] = f"{type(error).__name__}: {error}"
        return error.exit_code
    finally:
        report_file.write_text(json.dumps(report))
