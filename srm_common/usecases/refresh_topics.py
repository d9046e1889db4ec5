"""Make the target's topics ready for a flow: look at both clusters, plan, apply.

One metadata request to each side, the settings of accepted topics and of their copies in batches, and nothing per
topic in a loop: with nothing to change that is all.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError

from srm_common.domain.flow import FlowSettings
from srm_common.domain.planning import (
    Action,
    ActionResult,
    AlterConfigs,
    CreateTopic,
    GrowPartitions,
    Plan,
    SourceView,
    TargetView,
    make_plan,
)
from srm_common.domain.selection import TopicDecision, select_topics
from srm_common.domain.topic_settings import TIMESTAMP_TYPE, target_abilities
from srm_common.errors import AccessDenied
from srm_common.kafka.admin import ClusterAdmin, ClusterTopics
from srm_common.kafka.faults import is_denied

_LEADERS_SECONDS = 30.0
_RIGHTS = {
    CreateTopic: "Create on the topic or on the cluster",
    GrowPartitions: "Alter on the topic",
    AlterConfigs: "AlterConfigs on the topic",
}


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


def plan_topics(flow: FlowSettings) -> Plan:
    """What has to change on the target so that the flow can copy. Changes nothing.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    source, target = _admins(flow)
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="srm-plan") as pool:
        here, there = _topics_of_both(pool, source, target)
        decisions = select_topics(flow, here.partitions)
        accepted = [decision for decision in decisions if decision.accepted]
        copies = [decision.remote_topic for decision in accepted if decision.remote_topic in there.partitions]
        source_settings = pool.submit(source.topic_settings, [decision.topic for decision in accepted])
        # Any topic shows which settings the target knows.
        example = copies or list(there.partitions)[:1]
        target_settings = pool.submit(target.topic_settings, [name for name in example if name is not None])
        broker = pool.submit(_broker_settings, target, there)
        known = next((frozenset(settings) for settings in target_settings.result().values()), None)
        return make_plan(
            flow,
            decisions,
            SourceView(here.partitions, source_settings.result()),
            TargetView(
                there.partitions,
                target_settings.result(),
                len(there.brokers),
                target_abilities(broker.result(), known),
            ),
        )


def apply_plan(flow: FlowSettings, plan: Plan) -> list[ActionResult]:
    """Carry out the actions of a plan, each with its own result, in the plan's order. Harmless when repeated.

    Raises:
        UnreachableCluster, AccessDenied: the target cannot be asked at all; nothing is known of what was done.
    """
    if not plan.actions:
        return []
    target = ClusterAdmin(flow.target, timeout_seconds=flow.admin_timeout_ms / 1000)
    creations = [action for action in plan.actions if isinstance(action, CreateTopic)]
    growths = [action for action in plan.actions if isinstance(action, GrowPartitions)]
    alterations = [action for action in plan.actions if isinstance(action, AlterConfigs)]
    outcomes: dict[Action, ActionResult] = {}
    for creation, fault in zip(creations, target.create_topics(creations), strict=True):
        outcomes[creation] = _created(creation, fault)
    grown = target.grow_partitions(growths)
    present = target.topics().partitions if any(grown) else {}
    for growth, fault in zip(growths, grown, strict=True):
        if fault is not None and present.get(growth.topic, 0) >= growth.after:
            outcomes[growth] = ActionResult(growth, note="it has as many already")
        else:
            outcomes[growth] = _outcome(growth, fault)
    _await_leaders(target, outcomes)
    for alteration, fault in zip(alterations, target.alter_configs(alterations), strict=True):
        outcomes[alteration] = _outcome(alteration, fault)
    return [outcomes[action] for action in plan.actions]


def replicated_topics(flow: FlowSettings) -> list[TopicMapping]:
    """The accepted topics that exist on both sides, sorted by upstream name.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at.
    """
    source, target = _admins(flow)
    with ThreadPoolExecutor(max_workers=3, thread_name_prefix="srm-topics") as pool:
        here, there = _topics_of_both(pool, source, target)
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


def decide_topics(flow: FlowSettings) -> list[TopicDecision]:
    """The decision on every topic of the source, by its name alone; asks the source only."""
    source = ClusterAdmin(flow.source, timeout_seconds=flow.admin_timeout_ms / 1000)
    return select_topics(flow, source.topics().partitions)


def _admins(flow: FlowSettings) -> tuple[ClusterAdmin, ClusterAdmin]:
    seconds = flow.admin_timeout_ms / 1000
    return ClusterAdmin(flow.source, timeout_seconds=seconds), ClusterAdmin(flow.target, timeout_seconds=seconds)


def _topics_of_both(
    pool: ThreadPoolExecutor, source: ClusterAdmin, target: ClusterAdmin
) -> tuple[ClusterTopics, ClusterTopics]:
    here, there = pool.submit(source.topics), pool.submit(target.topics)
    return here.result(), there.result()


def _broker_settings(target: ClusterAdmin, topics: ClusterTopics) -> dict[str, str | None]:
    try:
        return target.broker_settings(topics.brokers[0])
    except AccessDenied:
        # DescribeConfigs on the cluster is a right that replication does without: every setting is then spelled out.
        return {}


def _created(action: CreateTopic, fault: KafkaError | None) -> ActionResult:
    if fault is not None and fault.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return ActionResult(action, note="it exists already; the next refresh compares it")
    return _outcome(action, fault)


def _outcome(action: Action, fault: KafkaError | None) -> ActionResult:
    if fault is None:
        return ActionResult(action)
    reason = f"{fault.str()} ({fault.name()})"
    if is_denied(fault):
        reason += f"; the login of cluster '{action.cluster}' needs the right {_RIGHTS[type(action)]} {action.topic}"
    return ActionResult(action, error=reason)


def _await_leaders(target: ClusterAdmin, outcomes: dict[Action, ActionResult]) -> None:
    """Wait for what was created and grown to have leaders, and note what has none."""
    made = {
        action: action.partitions if isinstance(action, CreateTopic) else action.after
        for action, result in outcomes.items()
        if result.error is None and isinstance(action, CreateTopic | GrowPartitions)
    }
    if not made:
        return
    wanted = {action.topic: partitions for action, partitions in made.items()}
    late = target.await_leaders(wanted, seconds=_LEADERS_SECONDS)
    for action in made:
        if action.topic in late:
            note = f"some of its partitions have no leader after {_LEADERS_SECONDS:.0f} s"
            outcomes[action] = replace(outcomes[action], note=note)


def failed(results: Sequence[ActionResult]) -> list[ActionResult]:
    """Those that did not succeed."""
    return [result for result in results if result.error is not None]
