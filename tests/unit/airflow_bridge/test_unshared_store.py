"""Which executors run tasks where the API server's metrics store is not.

Airflow is imported by the tests, not by this file: it takes more than a second, and each process of the ring imports
all files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.settings_files.configuration import Configuration, load_configuration

TEXT = "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"
HOME = {"AIRFLOW_HOME": "/opt/airflow"}


def loaded(tmp_path: Path, more: str = "") -> Configuration:
    file = tmp_path / "srm.properties"
    file.write_text(TEXT + more)
    return load_configuration(file)


@pytest.mark.parametrize(
    ("configured", "own", "name"),
    [
        ("LocalExecutor", None, None),
        ("", None, None),
        ("airflow.executors.local_executor.LocalExecutor", None, None),
        ("here:LocalExecutor,CeleryExecutor", None, None),
        ("LocalExecutor;team=CeleryExecutor", None, None),
        ("CeleryExecutor", None, "CeleryExecutor"),
        ("KubernetesExecutor, LocalExecutor", None, "KubernetesExecutor"),
        ("pods:airflow.providers.cncf.KubernetesExecutor", None, "KubernetesExecutor"),
        ("LocalExecutor,CeleryExecutor", "CeleryExecutor", "CeleryExecutor"),
        ("LocalExecutor,far:my.own.EdgeExecutor", "far", "EdgeExecutor"),
        ("CeleryExecutor,near:LocalExecutor", "near", None),
        ("LocalKubernetesExecutor", None, "LocalKubernetesExecutor"),
    ],
)
def test_the_executor_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str, own: str | None, name: str | None
) -> None:
    from srm_common.airflow_bridge.unshared_store import unshared_store

    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", configured)
    notice = unshared_store(loaded(tmp_path), own, HOME)
    if name is None:
        assert notice is None
    else:
        assert notice is not None
        assert notice.startswith(f"{name} may run tasks on several machines")
        assert "here /opt/airflow/srm-metrics.db:" in notice
        assert "set metrics.database.url" in notice


def test_a_pod_says_of_itself_that_it_is_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from srm_common.airflow_bridge.unshared_store import unshared_store

    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    notice = unshared_store(loaded(tmp_path), None, {**HOME, "AIRFLOW_IS_K8S_EXECUTOR_POD": "True"})
    assert (notice or "").startswith("KubernetesExecutor ")


def test_a_store_that_is_named_is_the_operators_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from srm_common.airflow_bridge.unshared_store import unshared_store

    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    named = loaded(tmp_path, "metrics.database.url = sqlite:////opt/airflow/srm-metrics.db\n")
    assert unshared_store(named, None, HOME) is None
    assert unshared_store(loaded(tmp_path), None, {**HOME, "SRM_DATABASE": "sqlite:////x.db"}) is None
