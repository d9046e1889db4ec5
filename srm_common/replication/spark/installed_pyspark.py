"""Spark puts archives at the front of Python's path: its Python library and py4j as zip files, which Python recompiles
in each process (0.6 instead of 0.1 CPU-seconds), and one of its jars, which contains no Python. Each worker reads the
directories of all of them when Spark says where its files are: 0.35 CPU-seconds, most of it for the jar's 13,000 names.
Where the same libraries are installed unpacked, as by pip, those are used instead."""

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
    """Remove Spark's archives from ``path`` (``sys.path`` by default) if it also leads to what they contain.

    What replaces PySpark's zip is the package around it (``pyspark/python/lib/pyspark.zip``), and what replaces py4j's
    has the same version, so the code is the same. Without effect once pyspark is imported.
    """
    entries = sys.path if path is None else path
    places = {os.path.realpath(entry) for entry in entries if entry}
    needless = {entry for entry in entries if _is_needless(entry, places)}
    entries[:] = [entry for entry in entries if entry not in needless]
    if path is None:
        for entry in needless:
            # Otherwise Python reads the archive's directory again whenever its caches are invalidated.
            sys.path_importer_cache.pop(entry, None)


def _is_needless(entry: str, places: set[str]) -> bool:
    if entry.endswith(_PYSPARK):
        package = Path(entry).parents[2]
        # Spark's scripts resolve links to its folder; Python does not resolve links to its own.
        return (package / "__init__.py").is_file() and os.path.realpath(package.parent) in places
    if py4j := _PY4J.fullmatch(entry):
        return any(Path(place, f"{py4j[1]}.dist-info").is_dir() for place in places)
    return _JAR.fullmatch(entry) is not None
