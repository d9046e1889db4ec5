"""What flows in tests have in common: replicas as their clusters say, and nothing in the background unless asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings


def small_flow(source: ClusterSettings, target: ClusterSettings, /, *topics: str, **settings: Any) -> FlowSettings:
    """An enabled flow between two clusters, named by their aliases, that copies ``topics``."""
    flow = FlowSettings(
        FlowName(source.alias, target.alias),
        source,
        target,
        enabled=True,
        topics=topics,
        replication_factor=-1,
        internal_replication_factor=-1,
        status_replication_factor=-1,
        config_replication_factor=-1,
        heartbeats_replication_factor=-1,
        checkpoints_replication_factor=-1,
        offset_syncs_replication_factor=-1,
        heartbeats_replication=False,
        # Most tests look at the rounds of the task.
        emit_checkpoints_in_runs_interval_seconds=0.0,
    )
    return replace(flow, **settings)
