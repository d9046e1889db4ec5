"""What goes to workers of a Spark cluster: the contents of files that only the driver's machine has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from srm_common.domain.cluster import ClusterSettings, JavaStore
from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.domain.verification.tasks import TaskResult, VerificationJob, VerificationTask
from srm_common.domain.verification.verification import Against, VerificationScope
from srm_common.replication.spark.slot_work import SlotWork, not_copied
from srm_common.replication.spark.spark_pass import SparkPassRunner
from srm_common.replication.spark.spark_verification import SparkVerification, VerificationWork
from tests.flow_settings import small_flow


class Spark:
    """Takes what it is to send."""

    environment: ClassVar[dict[str, str]] = {}

    def __init__(self, master: str) -> None:
        self.master = master
        self.sent: list[Any] = []

    def parallelize(self, tasks: list[Any], _: int) -> Spark:
        self._tasks = tasks
        return self

    def mapPartitions(self, work: Any) -> Spark:
        self.sent.append(work)
        return self

    def collect(self) -> list[Any]:
        (task,) = self._tasks
        return [not_copied(task) if isinstance(task, SlotTask) else TaskResult(task.number, ())]


@pytest.mark.parametrize(("master", "sent"), [("spark://h:7077", True), ("yarn", True), ("local[2]", False)])
def test_clusters_of_workers_elsewhere_come_with_their_files(tmp_path: Path, master: str, sent: bool) -> None:
    stores = {name: tmp_path / f"{name}.jks" for name in ("source", "target")}
    for name, path in stores.items():
        path.write_bytes(name.encode())
    source, target = (
        replace(ClusterSettings.plaintext(alias, "127.0.0.1:1"), truststore=JavaStore(str(path)))
        for alias, path in zip("ab", stores.values(), strict=True)
    )
    spark: Any = Spark(master)
    job = CopyJob("a->b", "a", source, target, "o", 1, "s", 1)
    SparkPassRunner(lambda: spark)(job, [SlotTask(0, None, ())])
    verification = VerificationJob(small_flow(source, target, "x"), VerificationScope(1.0, None), Against.SOURCE)
    list(SparkVerification(lambda: spark, never, 1)(verification, [VerificationTask(0, ())]))
    copying, comparing = spark.sent
    assert isinstance(copying, SlotWork)
    assert isinstance(comparing, VerificationWork)
    for side in (copying.job, comparing.job.flow):
        assert files_of(side.source) == ({str(stores["source"]): b"source"} if sent else {})
        assert files_of(side.target) == ({str(stores["target"]): b"target"} if sent else {})
        assert "b'source'" not in repr(side)


def files_of(cluster: ClusterSettings) -> Mapping[str, bytes]:
    return cluster.files


def never(job: VerificationJob, task: VerificationTask) -> TaskResult:
    raise AssertionError("no worker is there")
