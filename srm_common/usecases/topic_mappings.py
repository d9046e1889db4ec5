"""The topics that a flow copies now: accepted, and present on both sides."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from srm_common.domain.flow import FlowSettings
from srm_common.domain.selection import select_topics
from srm_common.domain.topic_settings import TIMESTAMP_TYPE
from srm_common.usecases.both_clusters import admins, topics_of_both


@dataclass(frozen=True, slots=True)
class TopicMapping:
    """One accepted topic that exists on both sides. ``partitions`` is how many both have: those are copied.

    The ids tell a topic from a later one of the same name.
    """

    upstream: str
    downstream: str
    partitions: int
    upstream_topic_id: str
    downstream_topic_id: str
    max_message_bytes: int = 1_048_588


def replicated_topics(flow: FlowSettings) -> list[TopicMapping]:
    """The accepted topics that exist on both sides, sorted by upstream name.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    source, target = admins(flow)
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="srm-topics") as pool:
        here, there = topics_of_both(pool, source, target)
        pairs = [
            (decision.topic, decision.remote_topic)
            for decision in select_topics(flow, here.partitions)
            if decision.accepted and decision.remote_topic in there.partitions and decision.remote_topic is not None
        ]
        upstream = pool.submit(source.describe_topics, [pair[0] for pair in pairs])
        downstream = pool.submit(target.describe_topics, [pair[1] for pair in pairs])
        settings = pool.submit(target.topic_settings, [pair[1] for pair in pairs])
        ours, theirs, limits = upstream.result(), downstream.result(), settings.result()
    mappings = []
    for topic, remote in pairs:
        # A topic that was deleted between the requests is gone from the answer, and looked at again next time.
        if topic not in ours or remote not in theirs or remote not in limits:
            continue
        kind = limits[remote].get(TIMESTAMP_TYPE)
        if kind is not None and kind.value == "LogAppendTime":
            continue  # refused by the plan, which says why
        limit = limits[remote].get("max.message.bytes")
        mappings.append(
            TopicMapping(
                topic,
                remote,
                min(ours[topic].partitions, theirs[remote].partitions),
                ours[topic].topic_id,
                theirs[remote].topic_id,
                int(limit.value) if limit is not None and limit.value is not None else 1_048_588,
            )
        )
    return mappings
