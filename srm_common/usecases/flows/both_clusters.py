"""The admin sides of a flow's two clusters, and the one metadata request to each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from srm_common.domain.flow import FlowSettings
from srm_common.kafka.admin.cluster_admin import ClusterAdmin, ClusterTopics


def admins(flow: FlowSettings) -> tuple[ClusterAdmin, ClusterAdmin]:
    """Source and target."""
    seconds = flow.admin_timeout_ms / 1000
    return ClusterAdmin(flow.source, timeout_seconds=seconds), ClusterAdmin(flow.target, timeout_seconds=seconds)


def topics_of_both(
    pool: ThreadPoolExecutor, source: ClusterAdmin, target: ClusterAdmin
) -> tuple[ClusterTopics, ClusterTopics]:
    """All topics of source and target, asked for at the same time."""
    here, there = pool.submit(source.topics), pool.submit(target.topics)
    return here.result(), there.result()
