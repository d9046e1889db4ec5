"""The effect of an edit of a flow's filters: which topics and groups it starts and stops."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.filters.flow_filters import topic_filter
from srm_common.domain.flow import FlowSettings
from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.topics.selection import TopicDecision
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.groups.decide_groups import decide_group_names, decide_groups
from srm_common.usecases.topics.plan_topics import decide_topics

_NOTES = 10


@dataclass(frozen=True)
class TopicsEffect:
    """Decisions on all topics, without the edit and with it. ``notes`` name topics that an added expression would take
    in and something else keeps out: a loop, another policy, a name that is too long."""

    before: tuple[TopicDecision, ...]
    after: tuple[TopicDecision, ...]
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> tuple[TopicDecision, ...]:
        was = {decision.topic for decision in self.before if decision.accepted}
        return tuple(decision for decision in self.after if decision.accepted and decision.topic not in was)

    @property
    def stops(self) -> tuple[TopicDecision, ...]:
        was = {decision.topic for decision in self.before if decision.accepted}
        return tuple(decision for decision in self.after if not decision.accepted and decision.topic in was)


@dataclass(frozen=True)
class GroupsEffect:
    """Groups of the source whose offsets are translated, without the edit and with it. ``notes``: what could not be
    listed."""

    before: frozenset[str]
    after: frozenset[str]
    notes: tuple[str, ...] = ()


def topics_effect(before: FlowSettings, after: FlowSettings) -> TopicsEffect:
    """Raises as :func:`~srm_common.usecases.topics.plan_topics.decide_topics`."""
    with FlowClusters(before) as clusters:
        was = decide_topics(clusters)
        decisions = decide_topics(clusters.with_flow(after))
    added = PatternList(expression for expression in after.topics if expression not in before.topics)
    chosen = topic_filter(after)
    kept_out = [
        f"{decision.topic} is matched and still not copied: {decision.reason}"
        for decision in decisions
        if not decision.accepted
        and added.matching(decision.topic) is not None
        and chosen.decide(decision.topic).accepted
    ]
    if len(kept_out) > _NOTES:
        kept_out[_NOTES:] = [f"... and {len(kept_out) - _NOTES} more; srm-control topics --explain lists all of them"]
    return TopicsEffect(tuple(was), tuple(decisions), tuple(kept_out))


def groups_effect(before: FlowSettings, after: FlowSettings) -> GroupsEffect:
    """Raises as :func:`~srm_common.usecases.groups.decide_groups.decide_groups`."""
    decisions, faults = decide_groups(before)
    decisions = [decision for decision in decisions if decision.kind == "consumer"]
    becomes = decide_group_names(after, [decision.group for decision in decisions])
    return GroupsEffect(
        frozenset(decision.group for decision in decisions if decision.accepted),
        frozenset(become.group for become in becomes if become.accepted),
        tuple(fault.reason for fault in faults),
    )
