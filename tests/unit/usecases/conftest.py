from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.testing import FakeCluster
from srm_common.usecases.moving import move_steps
from tests.unit.usecases.fakes import Sides


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause between two checks whether producers still write is short: the test is the only one that could."""
    monkeypatch.setattr(move_steps, "_PAUSE_SECONDS", 0.05)


@pytest.fixture
def sides(impatience: None) -> Iterator[Sides]:
    """Two clusters of one node and a flow between them."""
    with FakeCluster(name="source") as source, FakeCluster(name="target") as target:
        yield Sides(source, target)
        assert source.made_on_demand() | target.made_on_demand() == set()
