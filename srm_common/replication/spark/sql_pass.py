"""One pass of a flow with statements as one Spark job: two Python workers a slot, and Spark SQL between them.

A statement is one more transform of a slot, whose columns go through the JVM (docs/adr/0016).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.transforms.statements import Statement, StatementColumns
from srm_common.errors import ConfigError, TransformFailed, installing
from srm_common.replication.spark.build import accepted
from srm_common.replication.spark.job_error import innermost_cause
from srm_common.replication.spark.slot_work import CopySlot, Relay, SqlSlotWork
from srm_common.replication.spark.sql_channel import FILLING, SqlPipe
from srm_common.replication.spark.sql_plan import (
    AVRO,
    COLUMNS,
    PARSED,
    compile_statement,
    result_of_filling,
    with_parsed,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession

#: Rows of a batch that Spark writes to a Python worker; as many are sent as filling for each piece.
_BATCH_ROWS = 1_000
#: A slot waits at least this long: the JVM compiles code for its first piece.
_LEAST_ANSWER_SECONDS = 30.0
#: For a piece of records on a driver that shows what a statement does.
_LONGEST_PREVIEW_SECONDS = 60.0
#: Spark's own default.
_BUFFER_BYTES = 65_536

#: Where PySpark prints each refused query, with the JVM's trace; the error that it raises says the same.
_ERROR_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: Where jars name their extensions of Spark SQL, and that of Spark's own jar.
_EXTENSIONS = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
_LEARNING = re.compile(r"/spark-mllib_[0-9.]+-[^/]*\.jar!")
#: What an installation may say about Spark SQL: how it evaluates, but not what a statement means.
_THEIRS = ("spark.sql.execution.", "spark.sql.codegen.")
_SESSION = {
    # Said although they are Spark's defaults: the others of an installation are unset.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    # Nothing of a statement is evaluated outside of the TryEval around it, or of a task: a StackOverflowError would end
    # the thread that serves the answer, and nobody would hear of it.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushFoldableIntoBranches,"
    "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    "spark.sql.subexpressionElimination.enabled": "false",
    # Otherwise workers of SQL and of other tasks differ in their environments, and need a daemon each. And executors
    # would ask the driver for each class that they load: the session might have classes of its own.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.artifact.isolation.enabled": "false",
    # The pipe counts on them.
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH_ROWS),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # With a limit, Spark 4.2 adds up the size of the batch for each of its rows, which takes as long as all the rest. A
    # batch has rows of one piece only.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


class SqlPasses:
    """Runs passes of a flow with statements in a Spark application.

    Raises :class:`ConfigError` when the driver lacks a package.
    """

    def __init__(self, context: SparkContext) -> None:
        if (context.master or "").startswith("local"):
            threading.Thread(target=_start_workers, args=(context,), name="srm-workers", daemon=True).start()
        try:
            # What mapInArrow requires in the driver.
            for needed in ("pandas", "pyarrow"):
                importlib.import_module(needed)
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise ConfigError(
                f"transforms.sql needs {error.name} where the driver runs: {installing('spark', 'transforms')} there"
            ) from error
        for name in _ERROR_LOGS:
            logging.getLogger(name).disabled = True
        _without_learning(context)
        self._session = _session(SparkSession(context))
        self._buffer_bytes = int(context.getConf().get("spark.buffer.size", str(_BUFFER_BYTES)))
        self._checked: dict[tuple[Statement, ...], tuple[StatementColumns, ...]] = {}

    def local(self, statements: tuple[Statement, ...]) -> LocalStatements:
        """Statements on records that this process has."""
        return LocalStatements(self._session, statements)

    def collect(self, job: CopyJob, tasks: Sequence[SlotTask], copy: CopySlot) -> list[SlotResult]:
        """The results of the slots. The flow's statements are checked before its first pass.

        Raises:
            ConfigError: the first statement that is refused; nothing was copied. Or workers have another version of
                this package.
        """
        pipe = SqlPipe(
            secret=os.urandom(32),
            columns=self.check(job.statements),
            batch_rows=_BATCH_ROWS,
            buffer_bytes=self._buffer_bytes,
            answer_seconds=max(_LEAST_ANSWER_SECONDS, job.retry_timeout_seconds),
        )
        types = {"statement": "int", **COLUMNS, AVRO: "string", "filling": "binary"}
        sent = self._session.range(0, len(tasks), 1, len(tasks)).mapInArrow(
            Relay(pipe), ", ".join(f"{name} {types[name]}" for name in ("statement", *pipe.read, "filling"))
        )
        sent = with_parsed(sent, {name for column in pipe.columns for name in column.parsed})
        work = SqlSlotWork(job, tuple(tasks), copy, pipe)
        results = sent.select(self._evaluated(job, pipe, sent)).mapInArrow(work, "result binary")
        return accepted(pickle.loads(bytes(row[0])) for row in results.collect())

    def check(self, statements: tuple[Statement, ...]) -> tuple[StatementColumns, ...]:
        """What statements read and change, in their order; once they are checked, it is known.

        Raises:
            ConfigError: the first that is refused.
        """
        if statements not in self._checked:
            records = _records(self._session.range(0))
            self._checked[statements] = tuple(
                compile_statement(self._session, records, statement).columns for statement in statements
            )
        return self._checked[statements]

    def _evaluated(self, job: CopyJob, pipe: SqlPipe, sent: DataFrame) -> Column:
        """One column: what becomes of a row by the statement that it is for."""
        from pyspark.sql import functions as F

        records = _records(sent)
        changed = tuple(sorted({name for columns in pipe.columns for name in columns.changes}))
        out: Any = F.when(F.col("statement") == FILLING, result_of_filling(changed))
        for number, statement in enumerate(job.statements):
            column = compile_statement(self._session, records, statement, changed).column
            out = out.when(F.col("statement") == number, column)
        evaluated: Column = out.alias("record")
        return evaluated


def _without_learning(context: SparkContext) -> None:
    """Leave out the functions of Spark's machine learning, which no query can call: their registration takes as long
    as the rest of the session's start. The setting is about all extensions that jars bring along, so it is left alone
    where others have some."""
    jvm: Any = context._jvm
    found = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().getResources(_EXTENSIONS)
    while found.hasMoreElements():
        if _LEARNING.search(found.nextElement().toString()) is None:
            return
    jsc: Any = context._jsc
    jsc.sc().conf().setIfMissing("spark.sql.extensions.test.loadFromCp", "false")


def _session(first: SparkSession) -> SparkSession:
    """A session in which statements mean the same on every machine: with Spark's own defaults, whatever an
    installation has set, such as ``spark.sql.parser.escapedStringLiterals``, by which an expression that masks numbers
    matches none."""
    session = first.newSession()
    for key, _ in first.sparkContext.getConf().getAll():
        if key.startswith("spark.sql.") and not key.startswith(_THEIRS) and session.conf.isModifiable(key):
            session.conf.unset(key)
    for key, value in _SESSION.items():
        session.conf.set(key, value)
    return session


def _start_workers(context: SparkContext) -> None:
    """In a thread of its own, while the session starts and statements are resolved: Spark's first task in Python starts
    the daemon that forks workers, which takes more than a second to import what they need."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # If something is wrong with workers, or with the JVM, the pass that needs them reports it.
    with contextlib.suppress(Py4JError, PySparkException, OSError):
        context.parallelize([0], 1).mapPartitions(list).collect()


class LocalStatements:
    """Evaluates the statements of a flow on records that the driver holds: for previews, not for copying, since each
    call is a Spark job of its own."""

    def __init__(self, session: SparkSession, statements: tuple[Statement, ...]) -> None:
        self._session = session
        self._statements = statements
        self._columns: dict[int, StatementColumns] = {}

    def columns(self, statement: int) -> StatementColumns:
        """What a statement reads and changes, by its number.

        Raises:
            ConfigError: it is refused.
        """
        if statement not in self._columns:
            records = _records(self._session.range(0))
            self._columns[statement] = compile_statement(self._session, records, self._statements[statement]).columns
        return self._columns[statement]

    def evaluate(self, statement: int, columns: Mapping[str, pa.Array], rows: int, what: str) -> pa.StructArray:
        """As :class:`srm_common.records.sql_statement.Evaluate`.

        Raises:
            TransformFailed: Spark fails for all of them.
        """
        import pyarrow as pa
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F

        sent = self._session.createDataFrame(pa.table({"row": pa.array(range(rows), pa.int64()), **columns}))
        sent = with_parsed(sent, self.columns(statement).parsed)
        records = _records(sent)
        # A regular expression may backtrack without end. The task goes on, but nobody waits for it.
        late = threading.Event()

        def end() -> None:
            # The job may have failed before the call returns.
            late.set()
            self._session.sparkContext.cancelAllJobs()

        overdue = threading.Timer(_LONGEST_PREVIEW_SECONDS, end)
        overdue.daemon = True
        overdue.start()
        try:
            column = compile_statement(self._session, records, self._statements[statement]).column
            # Arrow does not take Spark's word for it that a field of a struct that may be null never is.
            found = (
                records.select(column.alias("record")).select(F.isnull("record").alias("failed"), "record.*").toArrow()
            )
        except (Py4JError, PySparkException) as error:
            why = f"Spark SQL did not answer within {_LONGEST_PREVIEW_SECONDS:g} s" if late.is_set() else None
            raise TransformFailed(f"{what} cannot be evaluated: {why or innermost_cause(error)}") from error
        finally:
            overdue.cancel()
        batch = found.combine_chunks().to_batches()[0]
        return pa.StructArray.from_arrays(batch.columns[1:], names=batch.schema.names[1:], mask=batch.column("failed"))


def _records(rows: DataFrame) -> DataFrame:
    """The relation that statements query; columns that ``rows`` lack are null, since no statement reads them."""
    from pyspark.sql import functions as F

    kinds = {**COLUMNS, **dict.fromkeys(PARSED, "variant")}
    there = kinds.keys() & set(rows.columns)
    return rows.select(
        *(F.col(name) if name in there else F.lit(None).cast(kind).alias(name) for name, kind in kinds.items())
    )
