from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.offsets.checkpoints import CheckpointMemory, Part, checkpoint_period_seconds

FLOW = FlowSettings(
    FlowName("A", "B"), ClusterSettings.plaintext("A", "a:9092"), ClusterSettings.plaintext("B", "b:9092")
)
SWITCHES = (
    "refresh_topics",
    "sync_topic_configs",
    "sync_topic_acls",
    "emit_heartbeats",
    "emit_checkpoints",
    "sync_group_offsets",
)


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_negative_interval_turns_its_switch_off(switch: str) -> None:
    for seconds, on in ((-1, False), (0, True), (600, True)):
        flow = replace(FLOW, **{switch: True, f"{switch}_interval_seconds": seconds})  # type: ignore[arg-type]
        assert getattr(flow, switch) is on


def test_with_a_negative_interval_no_checkpoints_are_written_and_no_offsets_committed() -> None:
    synced = replace(FLOW, sync_group_offsets=True)
    assert CheckpointMemory().due(synced, 0) == {*Part}
    assert CheckpointMemory().due(replace(synced, sync_group_offsets_interval_seconds=-1), 0) == {*Part} - {Part.GROUPS}
    off = replace(synced, emit_checkpoints_interval_seconds=-1)
    assert CheckpointMemory().due(off, 0, at_once=True) == {Part.PRUNING}
    assert checkpoint_period_seconds(off) is None
