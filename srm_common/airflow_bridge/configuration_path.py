"""Which properties file, or files, Airflow's processes read."""

from __future__ import annotations

import os
from pathlib import Path

from srm_common.errors import ConfigError

VARIABLE = "SRM_CONFIG"
DEFAULT_NAME = "srm.properties"


def configuration_path(config: str | Path | None = None) -> Path:
    """``config``, else ``SRM_CONFIG``, else ``srm.properties`` in Airflow's home. Absolute.

    The first two may be a folder of ``*.properties``, or several files separated as in PATH. Raises
    :class:`ConfigError` when there is no such file; the sentence names every place that was looked in.
    """
    if config is not None:
        return _existing(Path(config), "the DAG file names it")
    if named := os.environ.get(VARIABLE):
        return _existing(Path(named), f"{VARIABLE} names it")
    try:
        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    except RuntimeError:
        raise ConfigError(
            f"{VARIABLE} is not set, nor is AIRFLOW_HOME, and this account has no home folder; set {VARIABLE} to the "
            "file that describes clusters and flows"
        ) from None
    return _existing(home / DEFAULT_NAME, f"{VARIABLE} is not set, so it was looked for in Airflow's home")


def _existing(path: Path, why: str) -> Path:
    if path.exists():
        return path.absolute()
    parts = [Path(part).absolute() for part in str(path).split(os.pathsep) if part.strip()]
    for part in parts:
        if not part.exists():
            raise ConfigError(
                f"there is no such file ({why}); set {VARIABLE} to the file that describes clusters and flows",
                file=str(part),
            )
    return Path(os.pathsep.join(str(part) for part in parts))
