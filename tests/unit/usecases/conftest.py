from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from srm_common.replication.driver.source_view import SourceView
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.idle_flow import signs_of_life
from srm_common.usecases.moving import move_steps
from tests.unit.usecases.fakes import Rounds, Sides


@pytest.fixture(autouse=True)
def _no_other_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause between two checks whether producers still write is short: the test is the only one that could."""
    monkeypatch.setattr(move_steps, "_PAUSE_SECONDS", 0.05)


@pytest.fixture
def sides(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Iterator[Sides]:
    """Two clusters of one node and a flow between them, whose own patience is short."""
    with closing(Sides(source_kafka, target_kafka)) as sides:
        yield sides


@pytest.fixture
def steady_sides(sides: Sides) -> Sides:
    """The same, for tests in which no cluster goes away: what is asked may take as long as the machine needs."""
    sides.set(admin_timeout_ms=60_000, retry_timeout_seconds=60.0)
    return sides


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of a cluster that is gone fails after a second; half a minute otherwise, whatever the flow says."""
    for patience in (
        "domain.flow.settings._LEAST_PATIENCE_SECONDS",
        "usecases.groups.explain_offsets._SOURCE_SECONDS",
    ):
        monkeypatch.setattr(f"srm_common.{patience}", 0.5)
    for patient, argument in ((SourceView.__init__, "patience_seconds"), (signs_of_life, "watch_seconds")):
        assert patient.__kwdefaults__ is not None
        monkeypatch.setitem(patient.__kwdefaults__, argument, 1.0)


@pytest.fixture
def sync_checkpoints() -> Iterator[Rounds]:
    with closing(Rounds()) as rounds:
        yield rounds
