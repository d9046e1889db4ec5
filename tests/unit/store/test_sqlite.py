"""The metrics store in SQLite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from srm_common.store.metrics_store import MetricsStore
from srm_common.store.schema import bring_up_to_date
from tests.unit.store.samples import SamplesBehaviour
from tests.unit.store.standing import StandingBehaviour
from tests.unit.store.writers import WritersBehaviour


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the tables: the migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "metrics.db"
    store = MetricsStore(f"sqlite:///{path}")
    bring_up_to_date(store.engine)
    store.close()
    return path


@pytest.fixture
def url(empty: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(empty, tmp_path / 'metrics.db')}"


@pytest.fixture
def url_of_nothing(tmp_path: Path) -> str:
    """No file is there yet."""
    return f"sqlite:///{tmp_path / 'metrics.db'}"


class TestStanding(StandingBehaviour):
    @pytest.fixture
    def url(self, url_of_nothing: str) -> str:
        return url_of_nothing


class TestSamples(SamplesBehaviour):
    pass


class TestWriters(WritersBehaviour):
    @pytest.fixture
    def url(self, url_of_nothing: str) -> str:
        """Which of the writers makes the tables is part of the test."""
        return url_of_nothing
