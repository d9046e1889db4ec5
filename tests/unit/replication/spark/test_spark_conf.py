"""The settings with which our Spark applications start."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import urlparse

import pytest

from srm_common.replication.spark.spark_conf import spark_settings


def test_a_jvm_that_evaluates_statements_compiles_them_well() -> None:
    for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        assert "TieredStopAtLevel=1" in spark_settings("local[2]", 2)[key]
        statements = spark_settings("local[2]", 2, statements=True)[key]
        assert "TieredStopAtLevel" not in statements
        # Not for what is done once: Java's own threshold is 5,000 calls.
        assert "Tier4InvocationThreshold=200000" in statements
        assert "-Xss16m" in statements


def test_executors_choose_their_collector() -> None:
    """JAVA_TOOL_OPTIONS in their image may do so, and a JVM with two does not start."""
    assert "GC" not in spark_settings("spark://master:7077", 2)["spark.executor.extraJavaOptions"]
    assert "-XX:+UseSerialGC" in spark_settings("spark://master:7077", 2)["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077"])
def test_files_that_the_driver_is_told_of_are_there(master: str) -> None:
    flags = spark_settings(master, 2)["spark.driver.extraJavaOptions"]
    (log_settings,) = re.findall(r"-Dlog4j2\.configurationFile=(\S+)", flags)
    assert Path(urlparse(log_settings).path).is_file()


def test_folders_may_have_blanks_in_their_names(tmp_path: Path) -> None:
    """Such as the home of an account that is named after a person."""
    folder = tmp_path / "Jane Doe"
    folder.mkdir()
    archive = folder / "spark.jsa"
    archive.touch()
    settings = spark_settings("local[2]", 2, {"SRM_SPARK_ARCHIVE": str(archive)}, temporary=folder)
    flags = shlex.split(settings["spark.driver.extraJavaOptions"])
    assert f"-XX:SharedArchiveFile={archive}" in flags
    assert f"-Djava.io.tmpdir={folder}" in flags
    assert all(flag.startswith("-") for flag in flags)
