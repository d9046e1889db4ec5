"""Carry out a plan: one handler for each kind of action, kinds in a fixed order, every action with its own result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from srm_common.domain.actions import Action, ActionResult, AlterConfigs, CreateTopic, GrowPartitions
from srm_common.domain.flow import FlowSettings
from srm_common.domain.plan import Plan
from srm_common.usecases.apply_topics import alter_configs, create_topics, grow_partitions
from srm_common.usecases.applying import Applying

Handler = Callable[[Applying, Sequence[Any]], Iterable[ActionResult]]

#: What carries out each kind of action. Kinds are done in this order: a topic exists before anything else is said
#: about it. A handler gets all actions of its kind at once and sees the results of earlier kinds.
HANDLERS: dict[type[Action], Handler] = {
    CreateTopic: create_topics,
    GrowPartitions: grow_partitions,
    AlterConfigs: alter_configs,
}


def apply_plan(flow: FlowSettings, plan: Plan) -> list[ActionResult]:
    """Carry out the actions of a plan; results are in the plan's order. Harmless when repeated.

    Raises:
        UnreachableCluster, AccessDenied: a cluster cannot be asked at all; nothing is known of what was done.
    """
    kinds: dict[type[Action], list[Action]] = {kind: [] for kind in HANDLERS}
    for action in plan.actions:
        kinds[type(action)].append(action)
    applying = Applying(flow)
    for kind, actions in kinds.items():
        if actions:
            applying.results |= {result.action: result for result in HANDLERS[kind](applying, actions)}
    return [applying.results[action] for action in plan.actions]
