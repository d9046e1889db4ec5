"""A pass whose Spark does not answer as it should; no Spark is needed for that."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.domain.transforms.statements import Statement, StatementColumns
from srm_common.errors import ConfigError, LostProcess, TransformFailed
from srm_common.records.loading import CHANGES_RECORDS
from srm_common.replication.spark import sql_pass
from srm_common.replication.spark.spark_pass import SparkPassRunner

_CLUSTER = ClusterSettings.plaintext("b", "127.0.0.1:1")
JOB = CopyJob("a->b", "a", _CLUSTER, _CLUSTER, "offsets", 25, "segments", 25)
TASKS = [SlotTask(0, None, ())]


def test_a_pass_is_cancelled_though_spark_does_not_say_what_became_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkException

    monkeypatch.setattr("srm_common.replication.spark.spark_pass._QUIET_TIMES", 0)
    cancelled = threading.Event()

    class Mute:
        environment: ClassVar[dict[str, str]] = {}
        master = "local[2]"

        def parallelize(self, *_: object) -> None:
            assert cancelled.wait(300)
            raise PySparkException("cancelled")

        def statusTracker(self) -> None:
            raise PySparkException("no stage is known")

        def cancelAllJobs(self) -> None:
            cancelled.set()

    context: Any = Mute()
    with pytest.raises(LostProcess, match="a pass of 1 slots had not ended"):
        SparkPassRunner(lambda: context)(JOB, TASKS)


def test_an_interrupt_that_pyspark_loses_ends_the_run() -> None:
    from py4j.protocol import Py4JError

    class Losing:
        """What a call does when the JVM ends with it: its clean-up fails, too."""

        environment: ClassVar[dict[str, str]] = {}
        master = "local[2]"

        def parallelize(self, *_: object) -> None:
            try:
                raise KeyboardInterrupt("told to stop")
            finally:
                raise Py4JError("the JVM is being shut down")

        def cancelAllJobs(self) -> None:
            pass

    context: Any = Losing()
    with pytest.raises(KeyboardInterrupt, match="told to stop"):
        SparkPassRunner(lambda: context)(JOB, TASKS)


def test_a_preview_that_takes_too_long_is_told_so_even_if_its_job_fails_before_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark.errors import PySparkException

    cancelling, told = threading.Event(), threading.Event()

    class Cancelled:
        """The job's failure arrives while the call that cancels it has yet to return."""

        def cancelAllJobs(self) -> None:
            cancelling.set()
            told.wait(60)

    class Session:
        sparkContext = Cancelled()

        def createDataFrame(self, *_: object) -> None:
            pass

    def waiting(*_: object) -> None:
        assert cancelling.wait(60)
        raise PySparkException("cancelled as part of cancellation of all jobs")

    monkeypatch.setattr(sql_pass, "_LONGEST_PREVIEW_SECONDS", 0.01)
    for name in ("with_parsed", "_records"):
        monkeypatch.setattr(sql_pass, name, lambda *_: None)
    monkeypatch.setattr(sql_pass, "compile_statement", waiting)
    session: Any = Session()
    preview = sql_pass.LocalStatements(session, (Statement("transforms.sql", "SELECT value FROM records"),))
    monkeypatch.setattr(preview, "columns", lambda _: StatementColumns((), ()))
    with pytest.raises(TransformFailed, match=r"cannot be evaluated: Spark SQL did not answer within 0\.01 s"):
        preview.evaluate(0, {}, 1, "transforms.sql")
    told.set()


def test_what_has_begun_is_waited_for_and_its_error_is_that_of_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[tuple[str, tuple[Statement, ...]]] = []

    class Refusing:
        def __init__(self, context: Any) -> None:
            self.context = context

        def check(self, statements: tuple[Statement, ...]) -> None:
            checked.append((dict(self.context.environment)[CHANGES_RECORDS], statements))
            raise ConfigError("transforms.sql cannot be carried out: it joins")

    class Context:
        environment: ClassVar[dict[str, str]] = {}
        master = "local[2]"

    monkeypatch.setattr("srm_common.replication.spark.spark_pass.SqlPasses", Refusing)
    context: Any = Context()
    statement = Statement("transforms.sql", "SELECT key FROM records WHERE length(value) > 1")
    runner = SparkPassRunner(lambda: context)
    runner.begin((statement,))
    runner.settle()
    assert checked == [("1", (statement,))]
    for _ in range(2):
        with pytest.raises(ConfigError, match="it joins"):
            runner(replace(JOB, statements=(statement,)), TASKS)
    assert len(checked) == 1
