"""One pass as one Spark job: one task per slot, plain values in and out.

An RDD of slot tasks, one partition each. Nothing of Spark SQL is started, and records never enter the JVM:
the job sends the ranges to Python workers and returns their results (docs/adr/0004 has the cost of alternatives).
Only passes of flows with statements that need Spark SQL are another kind of job
(:mod:`srm_common.replication.spark.sql_pass`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import srm_common
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.errors import LostProcess, SparkFailed
from srm_common.kafka.client.logins.shipped_files import with_files
from srm_common.records.loading import CHANGES_RECORDS
from srm_common.replication.slots.slot_watch import quiet_seconds
from srm_common.replication.spark.build import accepted
from srm_common.replication.spark.free_cores import START_SECONDS, no_cores, waits_for_cores
from srm_common.replication.spark.installed_pyspark import prefer_installed_pyspark
from srm_common.replication.spark.job_error import innermost_cause, job_error
from srm_common.replication.spark.slot_work import CopySlot, SlotWork, copy_in_worker
from srm_common.replication.spark.spark_conf import (
    REQUIRED,
    account_environment,
    is_local,
    java_command,
    launch_settings,
    patient_master,
)
from srm_common.replication.spark.sql_pass import SqlPasses
from srm_common.settings_files.sources.secret_variables import none_inherited
from srm_common.wire.reencoding.merging import MANY_RECORDS

if TYPE_CHECKING:
    from pyspark import SparkContext

#: What spark-submit calls an application that was given no name.
_DEFAULT_NAMES = (None, "pyspark-shell", "replicate.py", "verify.py")

#: In the environment of Python workers that are forked with the loops by which batches are renumbered.
CLOSES_HOLES = "SRM_CLOSES_HOLES"
JVM_GONE = "the Spark application's JVM is gone; start the run again"
#: A pass is cancelled when it exceeds its planned time by this many times the longest that a slot may hear nothing.
_QUIET_TIMES = 5


def spark_context(settings: Callable[[str], Mapping[str, str]], master: str | None = None) -> SparkContext:
    """The Spark application of this process, started when there is none.

    ``settings`` gives, for a master, what to fill in where the operator said nothing. ``master`` None: the one that
    ``spark-submit`` was given. Workers on this machine run this process's Python, unless ``PYSPARK_PYTHON`` says
    otherwise. A JVM that is started here, and its children, do not inherit the environment's secrets.

    Raises :class:`SparkFailed` when it did not start, and :class:`.ConfigError` when ``spark-defaults.conf`` cannot be
    read.
    """
    prefer_installed_pyspark()
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    _do_without_numpy()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit. Only with the JVM at hand does a SparkConf hold what the operator gave.
        SparkContext._ensure_initialized()
    else:
        if is_local(master or "local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        needed = launch_settings(settings(master or "local"), os.environ)
        launch = SparkConf(loadDefaults=False, _jvm=None).setAll(list(needed.items()))
        os.environ.update(account_environment())
        try:
            # Standard output is for results, and what a JVM prints is not one.
            with none_inherited():
                gateway = SparkContext._gateway or launch_gateway(launch, {"stdout": 2})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            raise _not_started(error) from error
        SparkContext._ensure_initialized(gateway=gateway)
    conf = SparkConf()
    chosen = patient_master(master or conf.get("spark.master") or "local[2]")
    conf.setMaster(chosen)
    for key, value in settings(chosen).items():
        conf.setIfMissing(key, value)
    conf.setAll(list(REQUIRED.items()))
    if conf.get("spark.app.name") in _DEFAULT_NAMES:
        conf.setAppName(settings(chosen).get("spark.app.name", "srm"))
    if is_local(chosen):
        # Workers find this package where the driver found it, however that was.
        home = str(Path(srm_common.__file__).parents[1])
        given = conf.get("spark.executorEnv.PYTHONPATH")
        conf.set("spark.executorEnv.PYTHONPATH", home if not given else os.pathsep.join([given, home]))
    try:
        return SparkContext.getOrCreate(conf)
    except (Py4JError, PySparkException) as error:
        _raise_interrupt(error)
        raise SparkFailed(f"Spark did not start with the master '{chosen}': {innermost_cause(error)}") from error


def _not_started(error: Exception) -> SparkFailed:
    """No JVM to talk to."""
    if isinstance(error, OSError):
        spark_home = os.environ.get("SPARK_HOME", "not set")
        return SparkFailed(f"Spark could not be started: {error}; SPARK_HOME is {spark_home}")
    if not java_command(os.environ):
        # Spark's scripts take it without looking, and have no other.
        if home := os.environ.get("JAVA_HOME"):
            return SparkFailed(f"JAVA_HOME is {home}, where there is no bin/java; correct or unset it")
        return SparkFailed("there is no Java to start Spark with: install Java 17 or later, or set JAVA_HOME")
    return SparkFailed("Spark's JVM has ended before it began to work; what it printed before this says why")


def _do_without_numpy() -> None:
    """Numbers and text are all that goes to the JVM. The converters for numpy arrays would, at the first call, import
    pandas only to find out whether numpy is there: 0.6 CPU-seconds."""
    from py4j import protocol

    protocol.INPUT_CONVERTER[:] = [
        converter for converter in protocol.INPUT_CONVERTER if not type(converter).__name__.startswith("Numpy")
    ]


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

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        if not tasks:
            return []
        if self._context is None:
            # First of all: it chooses which pyspark is imported.
            self._context = self._start()
            # For all passes: workers of another environment are forked from a daemon of their own.
            if _compacted_offsets(tasks) >= MANY_RECORDS:
                self._context.environment[CLOSES_HOLES] = "1"
        context = self._context
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        if not is_local(str(context.master)):
            job = replace(job, source=with_files(job.source), target=with_files(job.target))
        context.environment.pop(CHANGES_RECORDS, None)
        if job.changes_records:
            context.environment[CHANGES_RECORDS] = "1"
        # Each slot watches itself. This is for one that cannot, such as a suspended process.
        limit = len(tasks) * (job.pass_seconds + _QUIET_TIMES * quiet_seconds(job))
        watch = _PassWatch(context, len(tasks), limit)
        try:
            if job.needs_spark_sql:
                self._sql = self._sql or SqlPasses(context)
                results = self._sql.collect(job, tasks, self._copy)
            else:
                rows = context.parallelize(list(tasks), len(tasks)).mapPartitions(SlotWork(job, self._copy))
                results = accepted(rows.collect())
        except (Py4JNetworkError, ConnectionError) as error:
            _raise_interrupt(error)
            raise SparkFailed(JVM_GONE) from error
        except (Py4JError, PySparkException) as error:
            _raise_interrupt(error)
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


def _raise_interrupt(error: BaseException) -> None:
    """Raise a KeyboardInterrupt that PySpark has lost, as it does when its own clean-up fails as well."""
    found = error.__context__
    while found is not None:
        if isinstance(found, KeyboardInterrupt):
            raise found
        found = found.__context__
