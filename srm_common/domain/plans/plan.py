"""A plan: every decision on the source's topics, and the actions that follow. A value that is printed, compared and
carried out; making it is the business of :mod:`srm_common.domain.plans.planning`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowName, OnDataLoss
from srm_common.domain.topics.actions import Action
from srm_common.domain.topics.lifecycle import LOSSES
from srm_common.domain.topics.selection import TopicDecision

_LINES = 500


@dataclass(frozen=True)
class Plan:
    """Decisions on all topics of the source, and the actions that follow from them, in the order they are done.

    ``notices`` are what a person should know and no action mends. The cluster ids tell where it was made for; empty
    where a cluster does not tell its id. ``restore`` is what was chosen for single topics whose copies are lost, by
    upstream topic.
    """

    flow: FlowName
    decisions: tuple[TopicDecision, ...]
    actions: tuple[Action, ...] = ()
    notices: tuple[str, ...] = ()
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    restore: Mapping[str, OnDataLoss] = field(default_factory=dict)

    @property
    def accepted(self) -> tuple[TopicDecision, ...]:
        return tuple(decision for decision in self.decisions if decision.accepted)

    @property
    def lost(self) -> tuple[TopicDecision, ...]:
        """Topics that are not copied, because their copies are lost and nobody has chosen what to do."""
        return tuple(decision for decision in self.decisions if decision.code in LOSSES)

    def with_more(self, actions: Iterable[Action], notices: Iterable[str] = ()) -> Plan:
        """This plan, and then these."""
        return replace(self, actions=(*self.actions, *actions), notices=(*self.notices, *notices))

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        return {
            "flow": str(self.flow),
            "source_cluster_id": self.source_cluster_id,
            "target_cluster_id": self.target_cluster_id,
            "restore": {topic: str(choice) for topic, choice in self.restore.items()},
            "actions": [action.to_json() for action in self.actions],
            "notices": list(self.notices),
            "topics": [decision.to_json() for decision in self.decisions],
        }

    def render(self) -> str:
        """The plan as text, actions first, no more than a log can hold."""
        lines = [f"{self.flow}: {counted(len(self.accepted), 'topic')} of {len(self.decisions)} copied"]
        lines += [f"  {action}" for action in self.actions[:_LINES]] or ["  nothing to do"]
        if len(self.actions) > _LINES:
            lines.append(f"  ... and {len(self.actions) - _LINES} more; srm-control plan shows all")
        lines += [f"  not copied: {decision.topic}: {decision.reason}" for decision in self.lost]
        lines += [f"  note: {notice}" for notice in self.notices]
        return "\n".join(lines)
