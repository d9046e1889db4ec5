"""Spark that gives no cores; no Spark is needed for that."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.domain.verification.tasks import TaskResult, VerificationJob, VerificationTask
from srm_common.errors import LostProcess, SparkFailed
from srm_common.replication.spark import spark_pass, spark_verification
from srm_common.replication.spark.spark_pass import SparkPassRunner
from srm_common.replication.spark.spark_verification import SparkVerification

_CLUSTER = ClusterSettings.plaintext("b", "127.0.0.1:1")
JOB = CopyJob("a->b", "a", _CLUSTER, _CLUSTER, "offsets", 25, "segments", 25)
TASKS = [SlotTask(slot, None, ()) for slot in range(24)]


class Busy:
    """Jobs wait until they are cancelled; of their tasks so many run, stage by stage."""

    environment: ClassVar[dict[str, str]] = {}
    master = "k8s://https://h:6443"

    def __init__(self, tasks: int, *running: int) -> None:
        self._stages = [
            SimpleNamespace(numTasks=tasks, numActiveTasks=one, numCompletedTasks=0, numFailedTasks=0)
            for one in running
        ]
        self.looked, self.cancelled = threading.Event(), threading.Event()

    def parallelize(self, *_: object) -> Busy:
        return self

    def mapPartitions(self, _: object) -> Busy:
        return self

    def collect(self) -> None:
        from pyspark.errors import PySparkException

        assert self.cancelled.wait(300)
        raise PySparkException("cancelled")

    def statusTracker(self) -> Busy:
        self.looked.set()
        return self

    def getActiveStageIds(self) -> range:
        return range(len(self._stages))

    def getStageInfo(self, stage: int) -> SimpleNamespace:
        return self._stages[stage]

    def cancelAllJobs(self) -> None:
        self.cancelled.set()


def run(context: Any) -> None:
    SparkPassRunner(lambda: context)(JOB, TASKS)


def test_the_limit_for_the_first_task_does_not_grow_with_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends, since its next passes would wait as long."""
    monkeypatch.setattr(spark_pass, "START_SECONDS", 0.0)
    told = r"^Spark has started none of the 24 slots of a pass within 0 s: .*; kubectl describe pod of its executors"
    with pytest.raises(SparkFailed, match=told):
        run(Busy(24, 0))
    # One core is enough to begin with, then it is the time of the whole pass that counts.
    monkeypatch.setattr(spark_pass, "_QUIET_TIMES", 0)
    with pytest.raises(LostProcess, match="a pass of 24 slots had not ended 0 s after its start"):
        run(Busy(24, 1))


def never(job: VerificationJob, task: VerificationTask) -> TaskResult:
    raise AssertionError("no worker is there")


def test_a_verification_without_cores_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_verification, "START_SECONDS", 0.0)
    monkeypatch.setattr(spark_verification, "_LOOK_SECONDS", 0.01)
    context: Any = Busy(1, 0, 0)
    job: VerificationJob = None  # type: ignore[assignment]
    verification = SparkVerification(lambda: context, never, 2)
    monkeypatch.setattr(spark_verification, "is_local", lambda _: True)
    with pytest.raises(SparkFailed, match=r"^Spark has started no task of the verification within 0 s: k8s://"):
        list(verification(job, [VerificationTask(number, ()) for number in range(3)]))


def test_a_verification_with_a_single_core_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_verification, "START_SECONDS", 0.0)
    monkeypatch.setattr(spark_verification, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(spark_verification, "is_local", lambda _: True)
    context: Any = Busy(1, 1, 0)
    stopping = threading.Event()
    job: VerificationJob = None  # type: ignore[assignment]

    def stop() -> None:
        assert context.looked.wait(300)
        stopping.set()

    threading.Thread(target=stop).start()
    with pytest.raises(KeyboardInterrupt):
        list(SparkVerification(lambda: context, never, 2, stopping)(job, [VerificationTask(0, ())]))
    assert not context.cancelled.is_set()
    context.cancelled.set()
