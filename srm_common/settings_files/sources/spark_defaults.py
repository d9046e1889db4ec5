"""``spark-defaults.conf``: what an operator has set for all Spark applications that are submitted on this machine."""

from __future__ import annotations

from pathlib import Path

from srm_common.settings_files.sources.properties import read_properties


def read_spark_defaults(folder: Path) -> dict[str, str]:
    """Its settings, as ``spark-submit`` reads them from a folder of settings; none without the file.

    Raises:
        ConfigError: it cannot be read.
    """
    file = folder / "spark-defaults.conf"
    if not file.is_file():
        return {}
    return {one.key: one.value.strip() for one in read_properties(file) if one.key.startswith("spark.")}
