"""What spark-submit is given for the driver's JVM leaves what the operator has set."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.replication.spark.spark_conf import LAUNCH_SETTINGS, beside, launch_settings, spark_settings

OPTIONS = "spark.driver.extraJavaOptions"
OURS = spark_settings("local[2]", 2, {"SRM_SPARK_ARCHIVE": "none"})
SERIAL = "-XX:+UseSerialGC"


def launched(folder: Path, defaults: str | None, **environment: str) -> dict[str, str]:
    if defaults is not None:
        (folder / "spark-defaults.conf").write_text(defaults)
    return launch_settings(OURS, {"SPARK_CONF_DIR": str(folder), **environment})


@pytest.mark.parametrize("defaults", [None, "", "spark.master spark://h:7077\n", "driver.memory 1g\n"])
def test_ours_where_the_operator_said_nothing(tmp_path: Path, defaults: str | None) -> None:
    assert launched(tmp_path, defaults) == {key: OURS[key] for key in LAUNCH_SETTINGS}


def test_keys_of_the_operator_are_left_out(tmp_path: Path) -> None:
    given = launched(tmp_path, "# ours is too small\nspark.driver.memory   3g\nspark.ui.showConsoleProgress=true\n")
    assert given == {OPTIONS: OURS[OPTIONS]}


def test_java_options_of_the_operator_follow_ours(tmp_path: Path) -> None:
    theirs = '-Djava.io.tmpdir="/a b" -XX:TieredStopAtLevel=4'
    flags = shlex.split(launched(tmp_path, f"{OPTIONS} {theirs}\n")[OPTIONS])
    assert flags == [*shlex.split(OURS[OPTIONS]), "-Djava.io.tmpdir=/a b", "-XX:TieredStopAtLevel=4"]
    assert SERIAL in flags


@pytest.mark.parametrize("collector", ["-XX:+UseG1GC", "-XX:+UseZGC", "-XX:+UseParallelGC", SERIAL])
def test_a_collector_of_the_operator_replaces_ours(tmp_path: Path, collector: str) -> None:
    flags = launched(tmp_path, f"{OPTIONS} -Dx=y {collector}\n")[OPTIONS].split()
    assert [flag for flag in flags if flag.startswith("-XX:+Use")] == [collector]
    assert "-XX:TieredStopAtLevel=1" in flags


def test_a_collector_may_be_among_other_options_of_the_same_jvm(tmp_path: Path) -> None:
    default = launched(tmp_path, "spark.driver.defaultJavaOptions -XX:+UseG1GC\n")[OPTIONS]
    # These reach the JVM by themselves.
    assert "GC" not in default
    for variable in ("JAVA_TOOL_OPTIONS", "SPARK_SUBMIT_OPTS"):
        assert "GC" not in launched(tmp_path, "", **{variable: "-ea -XX:+UseG1GC"})[OPTIONS]
    assert SERIAL in launched(tmp_path, "", JAVA_TOOL_OPTIONS="-XX:+UseGCOverheadLimit")[OPTIONS]
    assert beside(SERIAL + " -Dx=y", "-XX:+UseG1GC") == "-Dx=y"


def test_memory_may_be_in_the_environment(tmp_path: Path) -> None:
    assert "spark.driver.memory" not in launched(tmp_path, "", SPARK_DRIVER_MEMORY="2g")


def test_the_file_is_found_in_sparks_home(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.memory 2g\n")
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    home = {"SPARK_HOME": str(tmp_path)}
    assert "spark.driver.memory" not in launch_settings(OURS, home)
    assert "spark.driver.memory" in launch_settings(OURS, {**home, "SPARK_CONF_DIR": str(elsewhere)})
    # That of the installed PySpark has none.
    assert "spark.driver.memory" in launch_settings(OURS, {})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"spark-defaults\.conf:1: "):
        launched(tmp_path, "spark.driver.memory \\u12\n")
