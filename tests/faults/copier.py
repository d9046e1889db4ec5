"""A flow's driver as a process of its own: a run with its slots in worker processes instead of Spark's.

    python -m tests.faults.copier FLOW_FILE MAX_SECONDS REPORT_FILE

FLOW_FILE is a pickled :class:`FlowSettings`. Ends with the exit code of the commands. When this process is killed
its workers stay: they go on copying, as orphaned executors do, until the broker refuses them.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
import traceback
import uuid
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.errors import LostProcess, RunFailed, SrmError
from srm_common.replication.driver.passes import PassRunner
from srm_common.replication.slots.slot import copy_slot
from srm_common.usecases.runs.replicate import replicate


class WorkerProcesses:
    """A pass runner: one worker process a slot, kept for the run."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._count, mp_context=multiprocessing.get_context("spawn"))

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        try:
            futures = [self._pool.submit(copy_slot, job, task) for task in tasks]
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            self._pool = self._new_pool()
            raise LostProcess("a worker process died") from error

    def close(self) -> None:
        """End the workers once they are done."""
        self._pool.shutdown(cancel_futures=True)


def main(flow_file: str, max_seconds: str, report_file: str) -> int:
    """A run with worker processes."""
    flow: FlowSettings = pickle.loads(Path(flow_file).read_bytes())
    workers = WorkerProcesses(flow.tasks_max)
    try:
        return run(flow, float(max_seconds), Path(report_file), workers)
    finally:
        workers.close()


def run(flow: FlowSettings, max_seconds: float, report_file: Path, runner: PassRunner) -> int:
    """One run; its outcome goes to ``report_file`` as JSON. The exit code."""
    report: dict[str, object] = {}
    try:
        record = replicate(flow, RunOptions(run_id=uuid.uuid4().hex, max_seconds=max_seconds), runner)
        report["record"] = record.to_json()
        return RunFailed.exit_code if any(one.error for one in record.partitions) else 0
    except SrmError as error:
        traceback.print_exc()
        report["error"] = f"{type(error).__name__}: {error}"
        return error.exit_code
    finally:
        report_file.write_text(json.dumps(report))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
