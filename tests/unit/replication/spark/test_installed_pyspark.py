from __future__ import annotations

from pathlib import Path

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


def test_a_zip_whose_twin_is_not_on_the_path_stays(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    path = [f"{package}/python/lib/pyspark.zip", "/elsewhere"]
    prefer_installed_pyspark(path)
    assert path == [f"{package}/python/lib/pyspark.zip", "/elsewhere"]
