"""What a local Airflow is given before it starts; real ones are started in tests/airflow."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from importlib.metadata import version
from pathlib import Path

import pytest

from srm_common.testing.local_airflow import LocalAirflow


def test_its_processes_reach_each_other_without_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers ask the API server over HTTP, as the environment's proxies say."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", ".corp")
    airflow = LocalAirflow(dags_folder=tmp_path, directory=tmp_path)
    airflow.close()
    assert airflow.environment["no_proxy"] == airflow.environment["NO_PROXY"] == ".corp,127.0.0.1,localhost"


def made(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands by which an Airflow in this folder made its database."""
    monkeypatch.setenv("SRM_CACHE", str(cache))
    airflow = LocalAirflow(dags_folder=folder, directory=folder)
    commands: list[tuple[str, ...]] = []

    def command(*arguments: str) -> str:
        commands.append(arguments)
        with contextlib.closing(sqlite3.connect(folder / "airflow.db")) as database:
            database.execute("CREATE TABLE dag (id)")
        return ""

    monkeypatch.setattr(airflow, "command", command)
    airflow.prepare()
    airflow.close()
    with contextlib.closing(sqlite3.connect(folder / "airflow.db")) as database:
        assert database.execute("SELECT * FROM dag").fetchall() == []
    return commands


def test_its_empty_database_is_kept_for_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(tmp_path / "first", tmp_path / "cache", monkeypatch) == [("db", "migrate")]
    assert made(tmp_path / "second", tmp_path / "cache", monkeypatch) == []


def test_a_cache_that_takes_nothing_does_not_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert made(tmp_path / "first", tmp_path / "file/cache", monkeypatch) == [("db", "migrate")]
    # What SQLite cannot open, as in a folder that may only be read.
    cache = tmp_path / "cache"
    (cache / f"airflow-{version('apache-airflow-core')}.db.{os.getpid()}").mkdir(parents=True)
    assert made(tmp_path / "second", cache, monkeypatch) == [("db", "migrate")]
