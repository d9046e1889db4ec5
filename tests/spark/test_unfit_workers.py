"""Workers that cannot run this package as the driver has it: told in one sentence, and not taken for lost ones."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, CopyRange, SlotTask
from srm_common.domain.transforms.statements import PythonTransform, Statement
from srm_common.domain.verification.tasks import VerificationJob, VerificationTask
from srm_common.errors import ConfigError
from srm_common.replication.spark import build
from srm_common.replication.spark.build import this_build
from srm_common.replication.spark.spark_pass import SparkPassRunner
from srm_common.replication.spark.spark_verification import SparkVerification
from srm_common.usecases.verification.shared_verification import verify_task

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.spark

NOWHERE = ClusterSettings("a", "localhost:9", {}, {})
#: Only Spark can evaluate it.
STATEMENT = Statement("transforms.sql", "SELECT upper(CAST(value AS STRING)) AS value FROM records")
TASKS = [SlotTask(slot, None, (CopyRange("t", "a.t", slot, 5, 9),)) for slot in range(2)]


@pytest.fixture
def other_build(monkeypatch: pytest.MonkeyPatch) -> str:
    """What the driver says that it is; its workers are what they are."""
    mine = this_build()
    monkeypatch.setattr(build, "this_build", lambda: "99.0 (sources 0123)")
    return re.escape(f"Spark's workers have srm-kafka {mine}, the driver has 99.0 (sources 0123): install ")


@pytest.mark.parametrize("statements", [(), (STATEMENT,)], ids=["plain", "by Spark SQL"])
def test_workers_of_another_build_copy_nothing(
    spark: SparkContext, other_build: str, statements: tuple[Statement, ...]
) -> None:
    job = CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1, statements=statements)
    assert job.needs_spark_sql == bool(statements)
    with pytest.raises(ConfigError, match=f"^{other_build}"):
        SparkPassRunner(lambda: spark)(job, TASKS)


def test_workers_of_another_build_compare_nothing(spark: SparkContext, other_build: str) -> None:
    verification = SparkVerification(lambda: spark, verify_task, 1)
    job: VerificationJob = None  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=f"^{other_build}"):
        list(verification(job, [VerificationTask(0, ())]))


@pytest.mark.parametrize("statements", [(), (STATEMENT,)], ids=["plain", "by Spark SQL"])
@pytest.mark.parametrize(
    ("attribute", "given", "told"),
    [
        ("pythonExec", "/nonexistent/python3", "they have no Python at /nonexistent/python3; set spark.pyspark.python"),
        ("pythonVer", "3.9", r"their Python is 3\.\d+, the driver's 3\.9; set spark.pyspark.python"),
    ],
    ids=["no Python", "another Python"],
)
def test_workers_without_the_drivers_python(
    spark: SparkContext,
    monkeypatch: pytest.MonkeyPatch,
    attribute: str,
    given: str,
    told: str,
    statements: tuple[Statement, ...],
) -> None:
    monkeypatch.setattr(spark, attribute, given)
    job = CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1, statements=statements)
    with pytest.raises(ConfigError, match=f"^Spark workers cannot run the copy: {told}"):
        SparkPassRunner(lambda: spark)(job, TASKS)


def test_workers_with_another_function_copy_nothing(
    spark: SparkContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where it was deployed on all machines but one."""
    (tmp_path / "masking.py").write_text("def clean(records):\n    return records\n")
    monkeypatch.setitem(
        spark.environment, "PYTHONPATH", os.pathsep.join([str(tmp_path), spark.environment["PYTHONPATH"]])
    )
    own = PythonTransform("masking:clean", 60.0, digest="0123456789ab")
    job = CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1, python_transform=own)
    for result in SparkPassRunner(lambda: spark)(job, TASKS):
        (one,) = result.ranges
        assert (one.position, one.error_kind) == (5, "ConfigError")
        assert one.error is not None
        told = r"the module of 'masking:clean' is another one \(digest [0-9a-f]{12}\) than .* \(0123456789ab\): install"
        assert re.search(told, one.error)


def test_workers_with_a_package_that_does_not_fit(
    spark: SparkContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cramjam.py").write_text("raise ImportError('libc.so.6: version `GLIBC_9.99\\' not found')")
    monkeypatch.setitem(
        spark.environment, "PYTHONPATH", os.pathsep.join([str(tmp_path), spark.environment["PYTHONPATH"]])
    )
    with pytest.raises(
        ConfigError, match=r"cannot run the copy \(ImportError: libc\.so\.6: .* not found\); install the"
    ):
        SparkPassRunner(lambda: spark)(CopyJob("a->b", "a", NOWHERE, NOWHERE, "o", 1, "s", 1), TASKS)
