from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from srm_common.kafka.log import cluster_clock
from srm_common.kafka.state import state_reader
from srm_common.replication.driver.source_view import SourceView
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.idle_flow import signs_of_life
from srm_common.usecases.monitoring.lag_watch import lag_now
from srm_common.usecases.moving import left_cluster, move_steps
from tests.unit.usecases.fakes import Rounds, Sides


@pytest.fixture(autouse=True)
def _every_broker_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of a fake cluster know at once of each topic: one that is absent is looked for again without a pause."""
    monkeypatch.setattr(state_reader, "_SETTLING_SECONDS", 0.0)


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
    monkeypatch.setattr(left_cluster, "_PATIENCE", 3.0)
    # A clock that is not known is a figure less.
    monkeypatch.setattr(cluster_clock, "_TIMEOUT_MS", 1000)
    for patient, argument, seconds in (
        (SourceView.__init__, "patience_seconds", 1.0),
        (signs_of_life, "watch_seconds", 1.0),
        # Of clusters that answer, too: of them it may take a while on a slow machine.
        (lag_now, "patience_seconds", 1.5),
    ):
        assert patient.__kwdefaults__ is not None
        monkeypatch.setitem(patient.__kwdefaults__, argument, seconds)


@pytest.fixture
def sync_checkpoints() -> Iterator[Rounds]:
    with closing(Rounds()) as rounds:
        yield rounds
