"""The topics that a flow copies at this moment: accepted, and present on both sides."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.copied_topics import CopiedTopic
from srm_common.domain.topics.lifecycle import LOSSES, TARGET_DELETED, TopicIds, settle
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import NO_TOPIC_ID
from srm_common.domain.topics.topic_settings import TIMESTAMP_TYPE
from srm_common.usecases.flows.cluster_records import FlowTopics, refuse_switch
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of

_SETTLING_SECONDS = 1.0


def replicated_topics(
    flow: FlowSettings | FlowClusters, lost: Callable[[TopicDecision], None] = lambda decision: None
) -> list[CopiedTopic]:
    """The accepted and recorded topics that exist on both sides, sorted by upstream name.

    A topic without a record is left to the next refresh, which records it before anything is copied.

    Args:
        lost: called for each topic that is left out because its copy was deleted, or re-created by others.

    Raises:
        ConfigError: an alias means another cluster than before, or a policy renames what is copied.
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    with clusters_of(flow) as clusters:
        return _replicated(clusters, lost)


def _replicated(clusters: FlowClusters, lost: Callable[[TopicDecision], None]) -> list[CopiedTopic]:
    flow, source, target = clusters.flow, clusters.source.admin, clusters.target.admin
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-topics") as pool:
        topics = FlowTopics.decided(clusters, pool)
        refuse_switch(flow, topics.decisions)
        copied, there = topics.copied(flow), topics.target
        records = copied.records
        recorded = [decision for decision in topics.decisions if decision.accepted and decision.topic in records]
        pairs = [
            (decision.topic, decision.remote_topic)
            for decision in recorded
            if decision.remote_topic is not None
            and decision.remote_topic in there.partitions
            and copied.copied_in_runs(decision.topic, decision.remote_topic)
        ]
        upstream = pool.submit(source.describe_topics, [pair[0] for pair in pairs])
        remotes = {one.remote_topic for one in recorded if one.remote_topic is not None}
        downstream = pool.submit(target.describe_topics, sorted(remotes & there.partitions.keys()))
        settings = pool.submit(target.topic_settings, [pair[1] for pair in pairs])
        ours, theirs, limits = upstream.result(), downstream.result(), settings.result()
    ids = TopicIds(target={name: facts.topic_id for name, facts in theirs.items()})
    missing = [
        settled.decision
        for settled in settle(flow, recorded, {one.topic: records[one.topic] for one in recorded}, ids)
        if settled.decision.code in LOSSES
    ]
    if any(one.code == TARGET_DELETED for one in missing):
        # A broker may not know yet of a topic that another one has made.
        time.sleep(_SETTLING_SECONDS)
        there_now = target.topics().partitions
        missing = [one for one in missing if one.code != TARGET_DELETED or one.remote_topic not in there_now]
    for one in missing:
        lost(one)
    mappings = []
    for topic, remote in pairs:
        # A topic that was deleted between the requests is gone from the answer, and looked at again next time.
        if topic not in ours or remote not in theirs or remote not in limits:
            continue
        if records[topic].downstream_topic_id not in (NO_TOPIC_ID, theirs[remote].topic_id):
            continue  # another topic than the record's
        kind = limits[remote].get(TIMESTAMP_TYPE)
        if kind is not None and kind.value == "LogAppendTime":
            continue  # refused by the plan, which says why
        limit = limits[remote].get("max.message.bytes")
        mappings.append(
            CopiedTopic(
                topic,
                remote,
                min(ours[topic].partitions, theirs[remote].partitions),
                ours[topic].topic_id,
                theirs[remote].topic_id,
                int(limit.value) if limit is not None and limit.value is not None else MAX_MESSAGE_BYTES,
                flow.policy.is_heartbeats_topic(topic),
            )
        )
    return mappings
