"""Where the Python workers of passes with statements come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark import SparkContext

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.transforms.statements import Statement
from srm_common.records.loading import CHANGES_RECORDS
from srm_common.replication.slots.range_transforms import SqlAccess
from srm_common.replication.spark.slot_work import not_copied
from srm_common.replication.spark.spark_pass import SparkPassRunner

pytestmark = pytest.mark.spark

NOWHERE = ClusterSettings.plaintext("a", "127.0.0.1:1")
STATEMENT = Statement("transforms.sql", "SELECT key FROM records WHERE length(value) > 1")
JOB = CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1, statements=(STATEMENT,))
TASKS = [SlotTask(0, None, ())]


@pytest.fixture
def environment(spark: SparkContext) -> Iterator[None]:
    """Of workers that no other test has started, nor their parent."""
    spark.environment |= {CHANGES_RECORDS: "1", "SRM_TEST": os.urandom(8).hex()}
    yield
    del spark.environment["SRM_TEST"]


def parent(job: CopyJob, task: SlotTask, sql: SqlAccess) -> SlotResult:
    return not_copied(task, str(os.getppid()))


@pytest.mark.usefixtures("environment")
def test_all_workers_of_an_application_have_one_parent(spark: SparkContext) -> None:
    """Whatever session they work for: another parent takes seconds to import the same."""
    (started,) = spark.parallelize([0], 1).mapPartitions(lambda _: [str(os.getppid())]).collect()
    for _ in range(2):
        runner = SparkPassRunner(lambda: spark, parent)
        assert runner(JOB, TASKS)[0].notes == (started,)
        assert runner(replace(JOB, flow="c->d"), TASKS)[0].notes == (started,)


@pytest.mark.usefixtures("environment")
def test_what_has_begun_ahead_is_what_the_first_pass_uses(spark: SparkContext) -> None:
    runner = SparkPassRunner(lambda: spark, parent)
    runner.begin(JOB.statements)
    runner.settle()
    (started,) = spark.parallelize([0], 1).mapPartitions(lambda _: [str(os.getppid())]).collect()
    assert runner(JOB, TASKS)[0].notes == (started,)
