"""Airflow reads its settings when it is first imported, so they are made here, before any test module is."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests import temporary_files

# Airflow has files open in it until the process ends.
_HOME = Path(tempfile.mkdtemp(prefix="airflow-", dir=temporary_files.of_session()))
for _name in [name for name in os.environ if name.startswith("AIRFLOW") or name == "SRM_CONFIG"]:
    del os.environ[_name]
os.environ.update(
    AIRFLOW_HOME=str(_HOME),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_HOME}/airflow.db",
    AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
)

DAGS_FOLDER = Path(__file__).resolve().parents[2] / "dags"

_HERE = Path(__file__).parent
#: The folder, which one worker has as a whole, and the files that take a worker more than a minute, the longest first:
#: they start early, so that no worker ends long after the others. The others follow by name.
LONGEST_FIRST = (
    "scheduler",
    "test_failover_dags.py",
    "test_verify_dag.py",
    "test_install.py",
    "test_secrets.py",
    "test_demo.py",
    "test_failover_demo.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if gone := [name for name in LONGEST_FIRST if not (_HERE / name).exists()]:
        raise pytest.UsageError(f"{__file__}: LONGEST_FIRST names what is not there: {', '.join(gone)}")
    place = {_HERE / name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path, place.get(item.path.parent, len(place))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, and one worker has all files of the folder ``scheduler``, which share one Airflow."""
    from xdist.scheduler import LoadFileScheduling

    class ByAirflow(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            folder, shared, _ = file.partition("tests/airflow/scheduler/")
            return folder + shared if shared else file

    return ByAirflow(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def dags_folder() -> Path:
    """The repository's own."""
    return DAGS_FOLDER


@pytest.fixture(scope="module")
def airflow_database() -> None:
    """Airflow's database, empty: the files of one process have the same, whatever another one left there."""
    from airflow.utils.db import resetdb

    resetdb()
