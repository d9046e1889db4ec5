from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.kafka.state.state_topics import ensure_topics
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster
from tests.unit.usecases.fakes import Sides


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sides]:
    """Two clusters of one node and a flow between them."""
    for patience in (
        "kafka.state.state_reader._PATIENCE_SECONDS",
        "kafka.groups.group_offsets.RETRY_SECONDS",
        "usecases.offsets.resume_points._LIST_SECONDS",
        "usecases.moving.move_steps._PAUSE_SECONDS",
    ):
        monkeypatch.setattr(f"srm_common.{patience}", 0.5)
    for patient in (TopicRegistry.__init__, ensure_topics, GroupReader.__init__):
        # Half a minute otherwise, whatever the flow says.
        assert patient.__kwdefaults__ is not None
        monkeypatch.setitem(patient.__kwdefaults__, "timeout_seconds", 1.0)
    with FakeCluster(name="source") as source, FakeCluster(name="target") as target:
        yield Sides(source, target)
        assert source.made_on_demand() | target.made_on_demand() == set()
