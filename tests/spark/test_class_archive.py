"""The JVM's class archive: made by a real application, used by the next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from srm_common.replication.spark.class_archive import make_class_archive
from srm_common.replication.spark.spark_conf import class_archive, spark_settings

pytestmark = pytest.mark.spark


def test_one_application_leaves_what_the_next_one_uses(tmp_path: Path) -> None:
    environment = {"SRM_CACHE": str(tmp_path)}
    assert "SharedArchiveFile" not in spark_settings("local[2]", 2, environment)["spark.driver.extraJavaOptions"]
    made = make_class_archive(class_archive(environment))
    assert made.parent == tmp_path
    assert made.stat().st_size > 10 << 20
    assert [path.name for path in tmp_path.iterdir()] == [made.name]
    # Of flows with statements, too.
    assert b"org/apache/spark/sql/catalyst/expressions/TryEval" in made.read_bytes()
    assert (
        f'-XX:SharedArchiveFile="{made}"' in spark_settings("local[2]", 2, environment)["spark.driver.extraJavaOptions"]
    )


def test_an_archive_elsewhere_has_to_be_named(tmp_path: Path) -> None:
    named = tmp_path / "some.jsa"
    named.touch()
    environment = {"SRM_SPARK_ARCHIVE": str(named), "SRM_CACHE": "/nowhere"}
    assert str(named) in spark_settings("local[2]", 2, environment)["spark.driver.extraJavaOptions"]


def test_each_spark_and_each_java_has_an_archive_of_its_own(tmp_path: Path) -> None:
    """One that another environment made would be ignored by the JVM, and the one that fits never be made."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    cache = {"SRM_CACHE": str(tmp_path)}
    places = {
        class_archive({**cache, **more})
        for more in ({}, {"SPARK_HOME": "/opt/spark"}, {"JAVA_HOME": str(tmp_path)}, {"JAVA_HOME": "/nowhere"})
    }
    assert len(places) == 4
    before = class_archive({**cache, "JAVA_HOME": str(tmp_path)})
    os.utime(java, (1, 1))
    assert class_archive({**cache, "JAVA_HOME": str(tmp_path)}) != before, "another Java at the same place"
