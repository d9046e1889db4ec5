"""A Spark that does not start, or ends, is told in one sentence: what is wrong, and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import srm_common

pytestmark = pytest.mark.spark

#: What Spark's scripts need besides Java.
_TOOLS = ("bash", "sh", "env", "cat", "dirname", "ls", "ps", "uname", "sed", "basename", "tr")
_START = """
import sys
from srm_common.errors import SrmError
from srm_common.replication.spark.spark_conf import spark_settings
from srm_common.replication.spark.spark_application import spark_context

try:
    context = spark_context(lambda master: spark_settings(master, 1), sys.argv[1])
    {then}
except SrmError as error:
    print(type(error).__name__, error, sep=": ")
"""
_COUNTS = "print(context.parallelize([1, 2], 1).map(lambda one: one + 1).collect())"
_CHOICES = """
    java = context._jvm.java.lang
    collector = java.management.ManagementFactory.getGarbageCollectorMXBeans()[0].getName()
    ours = java.System.getProperty("log4j2.configurationFile").endswith("/spark-log4j2.properties")
    told = [context.getConf().get(f"spark.{key}") for key in ("driver.memory", "speculation", "task.maxFailures")]
    print(*told, java.System.getProperty("srm.test"), collector[:2], ours)
"""
_LOST = """
    from srm_common.domain.cluster import ClusterSettings
    from srm_common.domain.runs.copying import CopyJob, SlotTask
    from srm_common.replication.spark.spark_pass import SparkPassRunner

    nowhere = ClusterSettings("a", "localhost:9", {}, {})
    context._jsc.sc().stop()
    SparkPassRunner(lambda: context)(CopyJob("a->b", "a", nowhere, nowhere, "o", 1, "s", 1), [SlotTask(0, None, ())])
"""


def start(master: str, environment: Mapping[str, str], then: str = "print('started')") -> str:
    """The last line of a process that starts Spark."""
    home = str(Path(srm_common.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _START.format(then=then.strip()), master],
        env={"HOME": os.environ.get("HOME", "/"), "PYTHONPATH": home, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def without_java(tmp_path: Path) -> Mapping[str, str]:
    for name in _TOOLS:
        found = shutil.which(name)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    return {"PATH": str(tmp_path)}


def test_no_java(without_java: Mapping[str, str]) -> None:
    told = start("local[1]", without_java)
    assert told == "SparkFailed: there is no Java to start Spark with: install Java 17 or later, or set JAVA_HOME"


def test_java_home_of_a_java_that_was_removed(tmp_path: Path) -> None:
    told = start("local[1]", {**os.environ, "JAVA_HOME": str(tmp_path)})
    assert told == f"SparkFailed: JAVA_HOME is {tmp_path}, where there is no bin/java; correct or unset it"


def test_no_spark() -> None:
    told = start("local[1]", {"PATH": os.environ["PATH"], "SPARK_HOME": "/nonexistent"})
    assert told.startswith("SparkFailed: Spark could not be started")
    assert told.endswith("SPARK_HOME is /nonexistent")


def test_no_master() -> None:
    told = start("foo://bar", dict(os.environ))
    assert told.startswith("SparkFailed: Spark did not start with the master 'foo://bar': ")
    assert "Could not parse Master URL" in told


def test_defaults_of_the_operator_count_for_the_drivers_jvm(tmp_path: Path) -> None:
    """Beside ours, which are not lost, and without two collectors, with which no JVM starts. By speculation Spark
    would kill slots at their work."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.driver.memory 600m\nspark.driver.extraJavaOptions -Dsrm.test=theirs -XX:+UseParallelGC\n"
        "spark.speculation true\nspark.task.maxFailures 7\n"
    )
    told = start("local[1]", {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}, _CHOICES)
    assert told == "600m false 7 theirs PS True"


def test_an_application_that_was_ended() -> None:
    told = start("local[1]", dict(os.environ), _LOST)
    assert told == "SparkFailed: Spark has ended the application; what it logged says why. Start the run again"


def test_an_account_without_a_name() -> None:
    """As containers have it. Java asks the system by itself; a user namespace is where it finds nobody."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--user", "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody have a user namespace")
    home = str(Path(srm_common.__file__).parents[1])
    done = subprocess.run(
        [unshare, "--user", "--map-user=54321", sys.executable, "-c", _START.format(then=_COUNTS), "local[1]"],
        env={"PYTHONPATH": home, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1:] == ["[2, 3]"], done.stderr
