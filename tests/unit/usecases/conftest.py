from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.testing import FakeCluster
from srm_common.usecases.moving import move_steps
from tests.unit.usecases.fakes import Sides


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    """Two clusters of one node and a flow between them."""
    # Between two looks whether producers still write; here the test is the only one.
    monkeypatch.setattr(move_steps, "_PAUSE_SECONDS", 0.05)
    with FakeCluster(name="source") as source, FakeCluster(name="target") as target:
        yield Sides(source, target)
        assert source.made_on_demand() | target.made_on_demand() == set()
