"""The metrics store in SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.store.samples import SamplesBehaviour
from tests.unit.store.standing import StandingBehaviour
from tests.unit.store.writers import WritersBehaviour


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'metrics.db'}"


class TestStanding(StandingBehaviour):
    pass


class TestSamples(SamplesBehaviour):
    pass


class TestWriters(WritersBehaviour):
    pass
