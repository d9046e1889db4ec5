"""What a local Airflow is given before it starts; real ones are started in tests/airflow."""

from __future__ import annotations

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
