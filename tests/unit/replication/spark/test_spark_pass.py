"""A pass whose Spark does not answer as it should; no Spark is needed for that."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.errors import LostProcess
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
