"""One pass as one Spark job: one task per slot, plain values in and out.

An RDD of slot tasks, one partition each. Nothing of Spark SQL is started, and records never enter the JVM:
the job sends the ranges to Python workers and returns their results (docs/adr/0004 has the cost of alternatives).
Only passes of flows with statements that need Spark SQL are another kind of job
(:mod:`srm_common.replication.spark.sql_pass`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import LostProcess, SparkFailed
from srm_common.kafka.client.logins.shipped_files import with_files
from srm_common.records.loading import CHANGES_RECORDS
from srm_common.replication.slots.slot_watch import quiet_seconds
from srm_common.replication.spark.build import accepted
from srm_common.replication.spark.free_cores import START_SECONDS, no_cores, waits_for_cores
from srm_common.replication.spark.job_error import job_error
from srm_common.replication.spark.slot_work import CopySlot, SlotWork, copy_in_worker
from srm_common.replication.spark.spark_application import JVM_GONE, Ahead, raise_interrupt
from srm_common.replication.spark.spark_conf import is_local
from srm_common.replication.spark.sql_pass import SqlPasses
from srm_common.wire.reencoding.merging import MANY_RECORDS

if TYPE_CHECKING:
    from pyspark import SparkContext

#: In the environment of Python workers that are forked with the loops by which batches are renumbered.
CLOSES_HOLES = "SRM_CLOSES_HOLES"
#: A pass is cancelled when it exceeds its planned time by this many times the longest that a slot may hear nothing.
_QUIET_TIMES = 5


class SparkPassRunner:
    """Runs passes in a Spark application. Call it with a job and the pass's slot tasks.

    ``start`` gives the application's context; it is called before the first pass that has anything to do, so that a
    run without news starts nothing.

    Raises :class:`LostProcess` when so many workers died that Spark gave the job up, :class:`SparkFailed` when Spark
    did not start, has no cores for a single slot, or the whole application is gone, and :class:`.ConfigError` when
    workers cannot run this package or have another version of it, or a statement is refused.
    """

    def __init__(self, start: Callable[[], SparkContext], copy: CopySlot = copy_in_worker) -> None:
        self._start = start
        self._context: SparkContext | None = None
        self._copy = copy
        self._sql: SqlPasses | None = None
        self._sql_ahead: Ahead[SqlPasses] | None = None

    def begin(self, statements: tuple[Statement, ...]) -> None:
        """Start Spark SQL for a flow with ``statements`` and check these, while the caller does something else. The
        first pass waits for it, and raises its errors."""

        def sql() -> SqlPasses:
            context = self._start()
            # For the workers that start with it.
            context.environment[CHANGES_RECORDS] = "1"
            passes = SqlPasses(context)
            passes.check(statements)
            return passes

        self._sql_ahead = Ahead(sql)

    def settle(self) -> None:
        """Wait for what has begun, though no pass has needed it: an application ends in order once it has started."""
        if self._sql_ahead is not None:
            self._sql_ahead.wait()

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        if not tasks:
            return []
        if self._context is None:
            # First of all: it chooses which pyspark is imported.
            self._context = self._start()
            # For all passes: workers of another environment are forked from a daemon of their own.
            if self._sql_ahead is None and _compacted_offsets(tasks) >= MANY_RECORDS:
                self._context.environment[CLOSES_HOLES] = "1"
        context = self._context
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        if not is_local(str(context.master)):
            job = replace(job, source=with_files(job.source), target=with_files(job.target))
        # What has begun may be starting workers with it: it is never taken away for a moment.
        if job.changes_records:
            context.environment[CHANGES_RECORDS] = "1"
        else:
            context.environment.pop(CHANGES_RECORDS, None)
        # Each slot watches itself. This is for one that cannot, such as a suspended process.
        limit = len(tasks) * (job.pass_seconds + _QUIET_TIMES * quiet_seconds(job))
        watch = _PassWatch(context, len(tasks), limit)
        try:
            if job.needs_spark_sql:
                if self._sql is None:
                    self._sql = SqlPasses(context) if self._sql_ahead is None else self._sql_ahead()
                results = self._sql.collect(job, tasks, self._copy)
            else:
                rows = context.parallelize(list(tasks), len(tasks)).mapPartitions(SlotWork(job, self._copy))
                results = accepted(rows.collect())
        except (Py4JNetworkError, ConnectionError) as error:
            raise_interrupt(error)
            raise SparkFailed(JVM_GONE) from error
        except (Py4JError, PySparkException) as error:
            raise_interrupt(error)
            if watch.not_started.is_set():
                what = f"none of the {len(tasks)} slots of a pass"
                raise no_cores(str(context.master), what, watch.start_limit) from error
            if watch.overdue.is_set():
                raise LostProcess(
                    f"a pass of {len(tasks)} slots had not ended {limit:.0f} s after its start and was cancelled; the "
                    "logs of Spark's executors say what the slots were waiting for"
                ) from error
            raise job_error(str(error), "copy", "pass", str(context.master)) from error
        finally:
            watch.ended.set()
        return sorted(results, key=lambda result: result.slot)


class _PassWatch:
    """Cancels a pass of which no slot has started in time, or that has not ended within ``limit`` seconds.

    Set ``ended`` when it has.
    """

    def __init__(self, context: SparkContext, slots: int, limit: float) -> None:
        self._context, self._slots, self._limit = context, slots, limit
        # A single slot that starts tells that there are cores, however many wait for these.
        self.start_limit = min(START_SECONDS, limit)
        self.ended, self.not_started, self.overdue = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=self._watch, name="srm-pass-watch", daemon=True).start()

    def _watch(self) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if self.ended.wait(self.start_limit):
            return
        # If the JVM is gone, the pass ends by that.
        no_answer = Py4JError, PySparkException, OSError
        with contextlib.suppress(*no_answer):
            if waits_for_cores(self._context, self._slots):
                self.not_started.set()
        if not self.not_started.is_set():
            if self.ended.wait(self._limit - self.start_limit):
                return
            self.overdue.set()
        with contextlib.suppress(*no_answer):
            self._context.cancelAllJobs()


def _compacted_offsets(tasks: Sequence[SlotTask]) -> int:
    """How many offsets of compacted topics are to be copied, holes included."""
    ranges = [copy_range for task in tasks for copy_range in task.ranges]
    return sum(copy_range.end - copy_range.start for copy_range in ranges if copy_range.compacted)
