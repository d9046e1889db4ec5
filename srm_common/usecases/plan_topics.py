"""Look at both clusters, decide about every topic, plan. Changes nothing.

One metadata request to each side, the settings of accepted topics and of their copies in batches, and nothing per
topic in a loop: with nothing to change that is all.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.plan import Plan
from srm_common.domain.planning import SourceView, TargetView, make_plan
from srm_common.domain.refresh_memory import EVERYTHING, Alterations, Job, RefreshMemory
from srm_common.domain.selection import TopicDecision, select_topics
from srm_common.domain.topic_settings import target_abilities
from srm_common.errors import AccessDenied
from srm_common.kafka.admin import ClusterAdmin, ClusterTopics
from srm_common.kafka.flow_state import FlowState
from srm_common.usecases.both_clusters import admins, topics_of_both


def plan_topics(
    flow: FlowSettings, *, due: frozenset[Job] = EVERYTHING, alterations: Alterations | None = None
) -> Plan:
    """What has to change on the target so that the flow can copy.

    Args:
        due: plan this only; all decisions are made in any case.
        alterations: earlier changes of settings; by default they are read from the flow's state.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    source, target = admins(flow)
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-plan") as pool:
        earlier = pool.submit(_alterations, flow) if alterations is None else None
        here, there = topics_of_both(pool, source, target)
        decisions = select_topics(flow, here.partitions)
        accepted = [decision for decision in decisions if decision.accepted]
        copies = [decision.remote_topic for decision in accepted if decision.remote_topic in there.partitions]
        source_settings = pool.submit(source.topic_settings, [decision.topic for decision in accepted])
        # Any topic shows which settings the target knows.
        example = copies or list(there.partitions)[:1]
        target_settings = pool.submit(target.topic_settings, [name for name in example if name is not None])
        broker = pool.submit(_broker_settings, target, there)
        known = next((frozenset(settings) for settings in target_settings.result().values()), None)
        plan = make_plan(
            flow,
            decisions,
            SourceView(here.partitions, source_settings.result()),
            TargetView(
                there.partitions,
                target_settings.result(),
                len(there.brokers),
                target_abilities(broker.result(), known),
            ),
            due=due,
            alterations=alterations if earlier is None else earlier.result(),
        )
        return replace(plan, source_cluster_id=here.cluster_id, target_cluster_id=there.cluster_id)


def _alterations(flow: FlowSettings) -> Alterations:
    with FlowState(flow) as state:
        return RefreshMemory.from_json(state.read("refresh")).alterations


def decide_topics(flow: FlowSettings) -> list[TopicDecision]:
    """The decision on every topic of the source, by its name alone; asks the source only."""
    source, _ = admins(flow)
    return select_topics(flow, source.topics().partitions)


def _broker_settings(target: ClusterAdmin, topics: ClusterTopics) -> dict[str, str | None]:
    try:
        return target.broker_settings(topics.brokers[0])
    except AccessDenied:
        # DescribeConfigs on the cluster is a right that replication does without: every setting is then spelled out.
        return {}
