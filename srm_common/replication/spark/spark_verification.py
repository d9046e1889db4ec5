"""Verification in Spark: each task is a job of its own, of one Spark task, and as many run at a time as there are
slots.

So each result arrives as soon as its job has ended, and a job that Spark gives up, because its workers were lost again
and again, does not affect the others. Workers only read: Spark may repeat a task, and takes the result of one attempt.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from srm_common.domain.verification.tasks import TaskResult, VerificationJob, VerificationTask
from srm_common.errors import LostProcess, SparkFailed
from srm_common.kafka.client.logins.shipped_files import with_files
from srm_common.replication.spark.build import SameBuild, accepted, as_value
from srm_common.replication.spark.free_cores import START_SECONDS, no_cores, waits_for_cores
from srm_common.replication.spark.job_error import job_error
from srm_common.replication.spark.spark_application import JVM_GONE
from srm_common.replication.spark.spark_conf import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

VerifyTask = Callable[[VerificationJob, VerificationTask], TaskResult]
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class VerificationWork(SameBuild):
    """What a Spark task does with its partition of the RDD; travels to workers by reference to this module."""

    refusing = as_value

    job: VerificationJob
    verify: VerifyTask

    def __call__(self, tasks: Iterable[VerificationTask]) -> Iterator[TaskResult]:
        for task in tasks:
            yield self._verified(task)

    def _verified(self, task: VerificationTask) -> TaskResult:
        """An unforeseen fault becomes that of the task's partitions; its trace goes to the worker's standard error."""
        try:
            return self.verify(self.job, task)
        except Exception as error:
            traceback.print_exc()
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(place.filename)}:{place.lineno}"
            return TaskResult.failed(task, f"{type(error).__name__} at {where}: {error}")


class SparkVerification:
    """A runner of verification tasks. Call it with the job and the tasks; gives the results as they come.

    Args:
        start: gives the application's context; called before the first task.
        verify: what a worker does.
        slots: how many tasks run at a time.
        stopping: set when the application is to end: failures after that are expected.

    Raises:
        SparkFailed: the application did not start, has no cores for a single task, or is gone.
        ConfigError: workers cannot run this package, or have another version of it.
        KeyboardInterrupt: ``stopping`` was set.
        Exception: whatever else kept a job from being started.
    """

    def __init__(
        self, start: Callable[[], SparkContext], verify: VerifyTask, slots: int, stopping: threading.Event | None = None
    ) -> None:
        self._start = start
        self._verify = verify
        self._slots = slots
        self._stopping = stopping or threading.Event()
        self._context: SparkContext | None = None

    def __call__(self, job: VerificationJob, tasks: Sequence[VerificationTask]) -> Iterator[TaskResult]:
        if not tasks:
            return
        context = self._context = self._context or self._start()
        if not is_local(str(context.master)):
            flow = replace(job.flow, source=with_files(job.flow.source), target=with_files(job.flow.target))
            job = replace(job, flow=flow)
        work = VerificationWork(job, self._verify)
        waiting: SimpleQueue[VerificationTask] = SimpleQueue()
        for task in tasks:
            waiting.put(task)
        ended: SimpleQueue[TaskResult | Exception] = SimpleQueue()
        for number in range(min(self._slots, len(tasks))):
            arguments = context, work, waiting, ended
            threading.Thread(target=self._slot, args=arguments, name=f"srm-verify-{number}", daemon=True).start()
        try:
            for _ in tasks:
                result = self._next(ended, context, waiting)
                if not isinstance(result, TaskResult):
                    raise result
                yield result
        finally:
            # If the caller stops early, slots find nothing more to do.
            _empty(waiting)

    def _next(
        self,
        ended: SimpleQueue[TaskResult | Exception],
        context: SparkContext,
        waiting: SimpleQueue[VerificationTask],
    ) -> TaskResult | Exception:
        limit = START_SECONDS
        look_at = time.monotonic() + limit
        while True:
            if self._stopping.is_set():
                raise KeyboardInterrupt
            with suppress(Empty):
                return ended.get(timeout=_LOOK_SECONDS)
            if time.monotonic() < look_at:
                continue
            look_at = time.monotonic() + limit
            if _all_wait(context):
                _empty(waiting)
                context.cancelAllJobs()
                return no_cores(str(context.master), "no task of the verification", limit)

    def _slot(
        self,
        context: SparkContext,
        work: VerificationWork,
        waiting: SimpleQueue[VerificationTask],
        ended: SimpleQueue[TaskResult | Exception],
    ) -> None:
        """In a thread of its own: one task after the other."""
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        while not self._stopping.is_set():
            try:
                task = waiting.get_nowait()
            except Empty:
                return
            try:
                (result,) = accepted(context.parallelize([task], 1).mapPartitions(work).collect())
            except (Py4JNetworkError, ConnectionError):
                ended.put(SparkFailed(JVM_GONE))
                return
            except (Py4JError, PySparkException) as error:
                if self._stopping.is_set():
                    return
                fault = job_error(str(error), "comparison", "comparison", str(context.master))
                if not isinstance(fault, LostProcess):
                    ended.put(fault)
                    return
                result = TaskResult.failed(task, str(fault))
            except Exception as error:  # raised where the results are taken
                ended.put(error)
                return
            ended.put(result)


def _all_wait(context: SparkContext) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # If the JVM is gone, the jobs end by that.
    with suppress(Py4JError, PySparkException, OSError):
        return waits_for_cores(context, 1, all)
    return False


def _empty(waiting: SimpleQueue[VerificationTask]) -> None:
    try:
        while True:
            waiting.get_nowait()
    except Empty:
        return
