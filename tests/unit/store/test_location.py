"""Where the store is, and how long it keeps what, by environment and file."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.explanations import is_secret
from srm_common.store.location import open_store, store_location, store_retention
from srm_common.store.tiers import Retention

_FILE = """\
clusters = a, b
a.bootstrap.servers = a:9092
b.bootstrap.servers = b:9092
a->b.enabled = true
"""
HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "srm.properties"


def loaded(path: Path, more: str = "") -> Configuration:
    path.write_text(_FILE + more)
    return load_configuration(path)


def test_the_environment_goes_before_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "p@ss")
    named = loaded(path, "metrics.database.url = postgresql+psycopg2://srm:${env:SECRET}@db/srm\n")
    silent = loaded(path)
    home = {"AIRFLOW_HOME": "/opt/airflow"}
    assert store_location(named, {**home, "SRM_DATABASE": "sqlite:////x.db"}) == "sqlite:////x.db"
    assert store_location(named, home) == "postgresql+psycopg2://srm:p@ss@db/srm"
    assert store_location(silent, home) == "sqlite:////opt/airflow/srm-metrics.db"
    assert store_location(None, home) == "sqlite:////opt/airflow/srm-metrics.db"
    assert store_location(silent, {"XDG_DATA_HOME": "/data"}) == "sqlite:////data/srm/srm-metrics.db"
    assert store_location(silent, {}).endswith("/.local/share/srm/srm-metrics.db")


def test_a_wrong_address_is_told_with_its_place(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"srm\.properties:5: .*metrics\.database\.url.* needs the address"):
        store_location(loaded(path, "metrics.database.url = nonsense\n"), {})
    with pytest.raises(ConfigError, match=r"^SRM_DATABASE: "):
        store_location(None, {"SRM_DATABASE": "nonsense"})


def test_the_address_is_a_secret() -> None:
    assert is_secret("metrics.database.url")


def test_how_long_things_are_kept(path: Path) -> None:
    assert store_retention(loaded(path)) == Retention()
    retention = store_retention(
        loaded(
            path,
            "metrics.retention.raw.hours = 0.5\nmetrics.retention.5m.days = 1\nmetrics.retention.1h.days = 3\n"
            "metrics.retention.6h.days = 4\nmetrics.retention.1d.days = 0\n"
            "metrics.retention.partitions.days = 1\nmetrics.retention.runs.days = 2\n"
            "metrics.retention.flows.days = 3\n",
        )
    )
    assert retention.tiers_ms == (HOUR // 2, DAY, 3 * DAY, 4 * DAY, 0)
    assert retention.partitions_ms == (HOUR // 2, 6 * HOUR, DAY, 0, 0)
    assert (retention.runs_ms, retention.flows_ms) == (2 * DAY, 3 * DAY)
    with pytest.raises(ConfigError, match="must be at least 0"):
        open_store(loaded(path, "metrics.retention.runs.days = -1\n"), {})
