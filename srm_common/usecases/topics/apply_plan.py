"""Carry out a plan: one handler for each kind of action, kinds in a fixed order, every action with its own result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from srm_common.domain.access.acl_changes import CreateAcls, DeleteAcls, UnknownAcls
from srm_common.domain.flow import FlowSettings
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import Action, ActionResult, AlterConfigs, CreateTopic, GrowPartitions, StartOver
from srm_common.domain.topics.recording import RecordTopic
from srm_common.usecases.topics.apply_acls import create_acls, delete_acls, fail_unknown
from srm_common.usecases.topics.apply_records import complete_records, record_topics
from srm_common.usecases.topics.apply_start_over import start_over
from srm_common.usecases.topics.apply_topics import alter_configs, create_topics, grow_partitions
from srm_common.usecases.topics.applying import Applying

Handler = Callable[[Applying, Sequence[Any]], Iterable[ActionResult]]

#: What carries out each kind of action. Kinds are done in this order: a copy has a record before it exists, and exists
#: before anything else is said about it. A handler gets all actions of its kind at once and sees the results of
#: earlier kinds.
HANDLERS: dict[type[Action], Handler] = {
    StartOver: start_over,
    RecordTopic: record_topics,
    CreateTopic: create_topics,
    GrowPartitions: grow_partitions,
    AlterConfigs: alter_configs,
    CreateAcls: create_acls,
    DeleteAcls: delete_acls,
    UnknownAcls: fail_unknown,
}


def apply_plan(flow: FlowSettings, plan: Plan) -> list[ActionResult]:
    """Carry out the actions of a plan; results are in the plan's order. Harmless when repeated.

    Raises:
        UnreachableCluster, AccessDenied: a cluster cannot be queried at all; nothing is known of what was done.
    """
    kinds: dict[type[Action], list[Action]] = {kind: [] for kind in HANDLERS}
    for action in plan.actions:
        kinds[type(action)].append(action)
    applying = Applying(flow)
    for kind, actions in kinds.items():
        applying.results |= {
            action: ActionResult(action, error=f"not done, because {applying.blocked[action.topic]}")
            for action in actions
            if action.topic in applying.blocked
        }
        left = [action for action in actions if action not in applying.results]
        if left:
            applying.results |= {result.action: result for result in HANDLERS[kind](applying, left)}
    complete_records(applying, [one for one in plan.actions if isinstance(one, RecordTopic)])
    return [applying.results[action] for action in plan.actions]
