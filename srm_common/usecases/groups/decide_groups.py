"""Decide which consumer groups of the source a flow translates, each with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from srm_common.domain.filters.flow_filters import group_filter
from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.selection import select_topics
from srm_common.kafka.groups.group_offsets import Group, GroupFault
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """``state`` is Kafka's word, None for a group that the source does not have; ``kind`` is ``consumer`` (of either
    protocol), ``share`` or ``streams``. ``topics``: of those it has committed offsets on, the ones that are copied and
    the ones that are not; None if not checked."""

    group: str
    accepted: bool
    reason: str
    state: str | None = None
    topics: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    kind: str = "consumer"

    @classmethod
    def unsupported(cls, group: Group) -> GroupDecision:
        """The refusal of a group of another kind."""
        reason = f"{group.protocol} groups are not supported: their offsets are not translated"
        return cls(group.name, False, reason, group.state, kind=group.protocol)

    def to_json(self) -> dict[str, Any]:
        out = {
            "group": self.group,
            "accepted": self.accepted,
            "reason": self.reason,
            "state": self.state,
            "kind": self.kind,
        }
        if self.topics is not None:
            out |= {"copied_topics": list(self.topics[0]), "other_topics": list(self.topics[1])}
        return out


def decide_group_names(flow: FlowSettings, groups: Iterable[str]) -> list[GroupDecision]:
    """The decisions by name alone, without any query."""
    chosen = group_filter(flow)
    decisions = ((group, chosen.decide(group)) for group in groups)
    return [GroupDecision(group, decision.accepted, decision.reason) for group, decision in decisions]


def decide_groups(flow: FlowSettings | FlowClusters) -> tuple[list[GroupDecision], list[GroupFault]]:
    """The decision on every group of the source that reads topics; and what could not be listed.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the source answers.
    """
    with clusters_of(flow) as clusters:
        flow = clusters.flow
        listed, faults = clusters.source.groups().groups()
        others, unlisted = clusters.source.other_groups()
    decided = decide_group_names(flow, (group.name for group in listed))
    decisions = [replace(made, state=group.state) for made, group in zip(decided, listed, strict=True)]
    decisions += map(GroupDecision.unsupported, others)
    return sorted(decisions, key=lambda made: made.group), faults or unlisted


def explain_group(flow: FlowSettings | FlowClusters, group: str) -> tuple[GroupDecision, list[GroupFault]]:
    """The decision on one group, and the topics it has committed offsets on. Raises as :func:`decide_groups`."""
    with clusters_of(flow) as clusters:
        return _explained(clusters, group)


def _explained(clusters: FlowClusters, group: str) -> tuple[GroupDecision, list[GroupFault]]:
    flow, reader = clusters.flow, clusters.source.groups()
    listed, faults = reader.groups()
    for other in clusters.source.other_groups()[0]:
        if other.name == group:
            return GroupDecision.unsupported(other), faults
    states = {found.name: found.state for found in listed}
    (decision,) = decide_group_names(flow, [group])
    if group not in states:
        return decision, faults
    offsets, more = reader.offsets([group])
    committed = sorted({topic for found in offsets for topic, _ in found.offsets})
    copied = {made.topic for made in select_topics(flow, committed) if made.accepted}
    topics = (
        tuple(topic for topic in committed if topic in copied),
        tuple(topic for topic in committed if topic not in copied),
    )
    return replace(decision, state=states[group], topics=None if more else topics), [*faults, *more]
