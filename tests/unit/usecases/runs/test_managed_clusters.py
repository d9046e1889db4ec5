"""Flows into clusters that do not take all settings of topics."""

from __future__ import annotations

import pytest

from srm_common.domain.runs.run_record import RunState
from srm_common.testing.fake_cluster.configs import Policy
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.managed_clusters import cleanup_alone, confluent_cloud, msk_serverless
from tests.unit.usecases.fakes import Sides


@pytest.mark.parametrize("policy", [confluent_cloud, msk_serverless, cleanup_alone])
def test_a_flow_runs_with_what_the_cluster_takes(sides: Sides, policy: Policy) -> None:
    sides.set(sync_group_offsets=True)
    sides.target.limit_settings(policy)
    sides.source.create_topic("orders", 2)
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(9)])
    sides.source.commit("readers", {("orders", 0): 4})
    assert [result.error for result in sides.refresh().results if result.error] == []
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 9)
    assert any("because the cluster refused more: " in note for note in record.notes)
    sync_checkpoints(sides.clusters(), at_once=True)
    assert sides.target.committed("readers") == {("a.orders", 0): 4}
    assert sides.run("again").records == 0
