from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from srm_common.usecases.moving.switch_direction import check_turn, recognizes_copies, turn

NOBODY = "127.0.0.1:1"


def pair(policy: ReplicationPolicy) -> tuple[FlowSettings, FlowSettings]:
    """Two flows between clusters that nobody could ask."""
    old, new = (ClusterSettings.plaintext(alias, NOBODY) for alias in ("old", "new"))
    there = FlowSettings(FlowName("old", "new"), old, new, enabled=True, policy=policy)
    return there, replace(there, name=FlowName("new", "old"), source=new, target=old)


@pytest.mark.parametrize(
    ("policy", "known"), [(DefaultReplicationPolicy(), True), (IdentityReplicationPolicy(), False)]
)
def test_names_tell_what_was_copied(policy: ReplicationPolicy, known: bool) -> None:
    assert recognizes_copies(*pair(policy)) is known


def test_where_names_tell_no_cluster_is_asked() -> None:
    there, back = pair(DefaultReplicationPolicy())
    assert "takes over at once" in check_turn(there, back)[0]
    assert "nothing to do" in turn(there, back)[0]
