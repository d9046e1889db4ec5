"""Spark puts archives before everything else: its Python library and py4j as zip files, which Python recompiles in each
process (0.6 instead of 0.1 CPU-seconds), and one of its jars, in which there is no Python. Each worker reads the lists
of all of them when Spark says where its files are: 0.35 CPU-seconds, most of it for the jar's 13,000 names. Where the
same libraries lie unpacked, as pip installs them, these are used."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_PYSPARK = "/python/lib/pyspark.zip"
_PY4J = re.compile(r".*/python/lib/(py4j-[0-9.]+)-src\.zip")
#: Before Spark 2, one jar held all of Spark, its Python library too; ``PythonUtils.sparkPythonPath`` still names it.
_JAR = re.compile(r".*/jars/spark-core_[0-9.]+-[^/]*\.jar")


def prefer_installed_pyspark(path: list[str] | None = None) -> None:
    """Take Spark's archives off ``path`` (``sys.path`` by default) when it leads to what is in them as well.

    PySpark's twin is the package that contains the zip (``pyspark/python/lib/pyspark.zip``), and py4j's has the zip's
    version, so they are never others. Without effect once pyspark is imported.
    """
    entries = sys.path if path is None else path
    places = {os.path.realpath(entry) for entry in entries if entry}
    needless = {entry for entry in entries if _is_needless(entry, places)}
    entries[:] = [entry for entry in entries if entry not in needless]
    if path is None:
        for entry in needless:
            # What Python has read of it already is what it would read again.
            sys.path_importer_cache.pop(entry, None)


def _is_needless(entry: str, places: set[str]) -> bool:
    if entry.endswith(_PYSPARK):
        package = Path(entry).parents[2]
        # Spark's scripts follow links to its folder, and Python does not those to its own.
        return (package / "__init__.py").is_file() and os.path.realpath(package.parent) in places
    if py4j := _PY4J.fullmatch(entry):
        return any(Path(place, f"{py4j[1]}.dist-info").is_dir() for place in places)
    return _JAR.fullmatch(entry) is not None
