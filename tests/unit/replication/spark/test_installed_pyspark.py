from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

from srm_common.replication.spark.installed_pyspark import prefer_installed_pyspark


def test_the_unpacked_twin_is_preferred_and_nothing_else_changes(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    twin = f"{package}/python/lib/pyspark.zip"
    other = "/opt/spark/python/lib/pyspark.zip"
    # spark-submit names it twice.
    path = ["/job", twin, f"{package}/python/lib/py4j-0.10-src.zip", twin, other, str(package.parent)]
    prefer_installed_pyspark(path)
    assert path == ["/job", f"{package}/python/lib/py4j-0.10-src.zip", other, str(package.parent)]


def test_a_twin_behind_a_link_is_one(tmp_path: Path) -> None:
    package = tmp_path / "version-1" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "current").symlink_to("version-1")
    path = [f"{package}/python/lib/pyspark.zip", f"{tmp_path}/current"]
    prefer_installed_pyspark(path)
    assert path == [f"{tmp_path}/current"]


def test_py4j_is_taken_as_installed_in_the_same_version_only(tmp_path: Path) -> None:
    (tmp_path / "py4j-0.10.9.9.dist-info").mkdir()
    same, other = (f"/spark/python/lib/py4j-{version}-src.zip" for version in ("0.10.9.9", "0.10.9.7"))
    path = [same, other, str(tmp_path)]
    prefer_installed_pyspark(path)
    assert path == [other, str(tmp_path)]


def test_what_was_read_of_an_archive_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "jars" / "spark-core_2.13-4.2.0.jar"
    jar.parent.mkdir()
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("in_a_jar.py", "")
    monkeypatch.syspath_prepend(jar)
    assert importlib.util.find_spec("in_a_jar") is not None
    assert str(jar) in sys.path_importer_cache
    prefer_installed_pyspark()
    assert str(jar) not in sys.path
    # Python reads everything in here again, whenever someone invalidates its caches.
    assert str(jar) not in sys.path_importer_cache


def test_a_zip_whose_twin_is_not_on_the_path_stays(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    path = [f"{package}/python/lib/pyspark.zip", "/elsewhere"]
    prefer_installed_pyspark(path)
    assert path == [f"{package}/python/lib/pyspark.zip", "/elsewhere"]
