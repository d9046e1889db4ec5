from __future__ import annotations

from collections import Counter

from bench.planning import flow_of_everything, planned, views


def test_the_planned_clusters_are_nearly_in_step() -> None:
    flow = flow_of_everything()
    plan = planned(flow, views(flow, topics=900, partitions=3, changed_percent=1.0))
    assert len(plan.accepted) == 900
    assert Counter(action.kind for action in plan.actions) == {
        "create_topic": 3,
        "grow_partitions": 3,
        "alter_configs": 3,
    }
    assert not planned(flow, views(flow, topics=50, partitions=3, changed_percent=0)).actions
