"""Apply a plan: one handler per kind of action, kinds in a fixed order, one result per action."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from srm_common.domain.access.acl_changes import CreateAcls, DeleteAcls, UnknownAcls
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.flow.start_position import StartKind, StartPosition
from srm_common.domain.plans.plan import Plan, PlanFile
from srm_common.domain.schemas.id_mapping import MapSchema
from srm_common.domain.schemas.planning import (
    DeleteSchemaVersion,
    RegisterSchema,
    RestoreMode,
    SetCompatibility,
    UncopiedSchema,
)
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.domain.topics.actions import (
    Action,
    ActionResult,
    AlterConfigs,
    CreateTopic,
    GrowPartitions,
    StartOver,
    UnknownSettings,
)
from srm_common.domain.topics.copy_graph import Answer, Conflict, CopyGraph
from srm_common.domain.topics.recording import RecordTopic
from srm_common.domain.topics.topic_records import Knowledge, TopicRecord, TopicState, new_bindings
from srm_common.errors import SrmError
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.faults import is_denied, is_too_much
from srm_common.kafka.client.librdkafka import KafkaError
from srm_common.usecases.flows.cluster_records import FlowTopics, with_clusters
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.kept_records import keep_records
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.former_maps import drop_maps
from srm_common.usecases.topics.acls import create_acls, delete_acls, fail_unknown
from srm_common.usecases.topics.changes import Changed, alter, create
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.schemas import (
    TimeLimit,
    delete_versions,
    map_schemas,
    register_schemas,
    restore_modes,
    set_levels,
)

_LEADERS_SECONDS = 30.0
_RIGHTS: dict[type[Action], str] = {CreateTopic: "Create", GrowPartitions: "Alter", AlterConfigs: "AlterConfigs"}
_UNKNOWN = (
    "it is unknown whether it was done, the next refresh checks; with a quota on the target the response comes late"
)
#: What a person can do about refusals that are not about rights.
_HINTS = {
    KafkaError._TIMED_OUT: _UNKNOWN,
    KafkaError.REQUEST_TIMED_OUT: _UNKNOWN,
    KafkaError.THROTTLING_QUOTA_EXCEEDED: (
        "the principal has exceeded its controller_mutation_rate quota on the target; it is tried again, or raise "
        "it with kafka-configs.sh --alter --entity-type users --add-config controller_mutation_rate=..."
    ),
    KafkaError.POLICY_VIOLATION: (
        "a policy of the target's brokers (create.topic.policy.class.name, alter.config.policy.class.name) forbids it; "
        "create the topic yourself, or exclude the setting with config.properties.exclude"
    ),
    KafkaError.INVALID_REPLICATION_FACTOR: (
        "it is not created with fewer replicas while brokers are down, the next refresh tries again; if they are gone "
        "for good, move the replicas that they held to others, or configure fewer"
    ),
    KafkaError.INVALID_CONFIG: (
        "the target does not take a setting of the source; leave it out by config.properties.exclude"
    ),
}
#: From the claim to the record; less than others respect a claim (``CLAIM_MS``), by what clocks may differ.
_CLAIM_SECONDS = 45.0


@dataclass
class Applying:
    """One plan being carried out.

    ``results`` are those of the kinds that came earlier; ``blocked`` are topics that must not be touched any more, with
    the reason. ``schema_time`` is for all changes of schemas together.
    """

    clusters: FlowClusters
    results: dict[Action, ActionResult] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    schema_time: TimeLimit = field(default_factory=TimeLimit)


def apply_plan(flow: FlowSettings | FlowClusters, plan: Plan) -> list[ActionResult]:
    """Carry out the actions of a plan; results are in the plan's order. Harmless when repeated.

    Raises:
        UnreachableCluster, AccessDenied: a cluster cannot be queried at all; nothing is known of what was done.
    """
    with clusters_of(flow) as clusters:
        return _applied(clusters, plan)


def _applied(clusters: FlowClusters, plan: Plan) -> list[ActionResult]:
    kinds: dict[type[Action], list[Action]] = {kind: [] for kind in HANDLERS}
    for action in plan.actions:
        kinds[type(action)].append(action)
    applying = Applying(clusters)
    for kind, actions in kinds.items():
        applying.results |= {
            action: ActionResult(action, error=f"not done, because {applying.blocked[action.topic]}")
            for action in actions
            if action.topic in applying.blocked
        }
        left = [action for action in actions if action not in applying.results]
        if left:
            applying.results |= {result.action: result for result in HANDLERS[kind](applying, left)}
    _complete_records(applying, [one for one in plan.actions if isinstance(one, RecordTopic)])
    keep_records(clusters)
    return [applying.results[action] for action in plan.actions]


@dataclass(frozen=True)
class AppliedFile:
    """``changed`` says what is different from the file; with any, nothing was done. ``done`` are the file's actions
    that were not needed any more, ``results`` the others. ``plan`` is the one that was made now."""

    plan: Plan
    results: tuple[ActionResult, ...] = ()
    changed: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


def apply_printed(flow: FlowSettings | FlowClusters, printed: PlanFile) -> AppliedFile:
    """Apply exactly the plan in a file, or nothing: plan again, compare, and apply if nothing would be done that is not
    in the file.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: one of the clusters cannot be looked at, or not be changed.
    """
    with clusters_of(flow) as clusters:
        now = plan_topics(clusters, restore=printed.restore)
        changes = printed.compare(now)
        if changes.changed:
            return AppliedFile(now, changed=changes.changed)
        return AppliedFile(now, tuple(apply_plan(clusters, now)), done=changes.done)


# ---- handlers


def start_over(applying: Applying, actions: Sequence[StartOver]) -> Iterator[ActionResult]:
    """Move the source offsets of all these topics; those that could not be moved are left alone altogether.

    A topic whose offsets stayed must not be copied into a new copy: everything before them would be missing there.
    """
    request = Request(
        verb="start over",
        topics=tuple(re.escape(action.upstream_topic) for action in actions),
        to=StartPosition(StartKind.EARLIEST),
    )
    problems: dict[str, str] = {}
    try:
        for edit in edit_source_offsets(applying.clusters, request):
            if edit.problem:
                problems.setdefault(edit.topic, edit.problem)
    except SrmError as error:
        problems = {action.upstream_topic: str(error) for action in actions}
    if problems:
        # All or nothing: with one problem no offset was written.
        first = next(iter(problems.values()))
        problems = {action.upstream_topic: problems.get(action.upstream_topic, first) for action in actions}
    for action in actions:
        problem = problems.get(action.upstream_topic)
        if problem is not None:
            applying.blocked[action.topic] = f"its source offsets could not be moved: {problem}"
        yield ActionResult(action, error=problem)


def record_topics(applying: Applying, actions: Sequence[RecordTopic]) -> Iterator[ActionResult]:
    """Claim what is new, check for concurrent claims, then record. This precedes all other actions of the plan, so that
    a copy already has a record when it appears on the target. Where it replaces another one, the map of that goes
    first: once the record is written, nothing tells that the map is not about the new copy."""
    clusters = applying.clusters
    flow = clusters.flow
    begun = time.monotonic()
    new = [action for action in actions if action.is_new]
    factor = flow.internal_replication_factor
    registry = clusters.target.registry
    registry.write(_claims(new, clusters.now_ms()), replication_factor=factor)
    with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-claim") as pool:
        topics = FlowTopics.fetch(clusters, pool)
    knowledge = (topics.with_lost(clusters) if new else topics).knowledge
    registry.write((), new_bindings(flow, knowledge), replication_factor=factor)
    conflicts = _conflicts(flow, knowledge, new)
    refused = {action: found.reason for action, found in conflicts.items()}
    given_up = [action for action, found in conflicts.items() if found.answer is Answer.REFUSE]
    if time.monotonic() - begun > _CLAIM_SECONDS:
        late = f"claiming it took longer than {_CLAIM_SECONDS:.0f} s; the next refresh tries again"
        refused |= {action: late for action in new if action not in refused}
    replaced = [action for action in actions if action.replaces_copy and action not in refused]
    drop_maps(clusters, {action.after.upstream_topic for action in replaced})
    registry.write(
        (
            *(action.after for action in actions if action not in refused),
            *(action.before for action in given_up if action.before is not None),
        ),
        forget=[action.after.key for action in given_up if action.before is None],
        replication_factor=factor,
    )
    applying.blocked |= {action.topic: reason for action, reason in refused.items()}
    for action in actions:
        yield ActionResult(action, error=refused.get(action))


def _complete_records(applying: Applying, actions: Iterable[RecordTopic]) -> None:
    """Write down the ids of copies that this plan has created."""
    waiting = [
        action.after
        for action in actions
        if action.after.downstream_topic_id == NO_TOPIC_ID and applying.results[action].error is None
    ]
    if not waiting:
        return
    target = applying.clusters.target
    facts = target.admin.describe_topics(record.downstream_topic for record in waiting)
    target.registry.write(
        replace(record, downstream_topic_id=facts[record.downstream_topic].topic_id)
        for record in waiting
        if record.downstream_topic in facts and facts[record.downstream_topic].topic_id
    )


def _claims(actions: Iterable[RecordTopic], now_ms: int) -> Iterator[TopicRecord]:
    for action in actions:
        yield replace(action.after, state=TopicState.CLAIMED, since_ms=now_ms)


def _conflicts(flow: FlowSettings, knowledge: Knowledge, actions: Sequence[RecordTopic]) -> dict[RecordTopic, Conflict]:
    while True:
        graph = CopyGraph(flow, knowledge)
        conflicts = {
            action: conflict
            for action in actions
            if (conflict := graph.conflict(action.after.upstream_topic, action.topic)) is not None
        }
        ask = {alias for conflict in conflicts.values() for alias in conflict.ask}
        if not ask:
            return conflicts
        knowledge = with_clusters(flow, knowledge, ask)


def create_topics(applying: Applying, actions: Sequence[CreateTopic]) -> list[ActionResult]:
    """Create topics and wait until they have leaders."""
    admin = applying.clusters.target.admin
    results = [
        _created(applying, action, created) for action, created in zip(actions, create(admin, actions), strict=True)
    ]
    return _with_leaders(admin, results, {action: action.partitions for action in actions})


def grow_partitions(applying: Applying, actions: Sequence[GrowPartitions]) -> list[ActionResult]:
    """Add partitions and wait until they have leaders."""
    target = applying.clusters.target.admin
    faults = target.grow_partitions(actions)
    present = target.topics().partitions if any(faults) else {}
    results = [
        ActionResult(action, note="it has as many already")
        if fault is not None and present.get(action.topic, 0) >= action.after
        else outcome(applying.clusters.flow.target, action, fault)
        for action, fault in zip(actions, faults, strict=True)
    ]
    return _with_leaders(target, results, {action: action.after for action in actions})


def alter_configs(applying: Applying, actions: Sequence[AlterConfigs]) -> list[ActionResult]:
    """Change the named settings, incrementally."""
    target = applying.clusters.target
    return [
        _changed(target.settings, action, changed)
        for action, changed in zip(actions, alter(target.admin, actions), strict=True)
    ]


def _created(applying: Applying, action: CreateTopic, created: Changed) -> ActionResult:
    if created.fault is not None and created.fault.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return ActionResult(action, note="it exists already; the next refresh compares it")
    return _changed(applying.clusters.flow.target, action, created)


def _changed(target: ClusterSettings, action: Action, changed: Changed) -> ActionResult:
    return replace(outcome(target, action, changed.fault), note=changed.note, left_out=changed.left_out)


def outcome(target: ClusterSettings, action: Action, fault: KafkaError | None) -> ActionResult:
    """The result of an action from the cluster's response; ``fault`` None is success."""
    if fault is None:
        return ActionResult(action)
    reason = f"{fault.str()} ({fault.name()})"
    if fault.code() in _HINTS and not is_too_much(fault):
        reason += f"; {_HINTS[fault.code()]}"
    if is_denied(fault):
        reason += f"; {Right(_RIGHTS[type(action)], 'topic', action.topic).missing(target)}"
    return ActionResult(action, error=reason)


def _with_leaders(
    target: ClusterAdmin, results: list[ActionResult], partitions: Mapping[Action, int]
) -> list[ActionResult]:
    """Wait until created and grown partitions have leaders, and note those without."""
    wanted = {result.action.topic: partitions[result.action] for result in results if result.error is None}
    late = target.await_leaders(wanted, seconds=_LEADERS_SECONDS) if wanted else set()
    note = f"some of its partitions have no leader after {_LEADERS_SECONDS:.0f} s"
    return [replace(result, note=note) if result.action.topic in late else result for result in results]


Handler = Callable[[Applying, Sequence[Any]], Iterable[ActionResult]]

#: Kinds that always fail, with their reason: what could not be planned.
UNPLANNED: tuple[type[Action], ...] = (UnknownSettings, UnknownAcls, UncopiedSchema)
#: What carries out each kind of action. Kinds are done in this order: a copy has a record before it exists, and exists
#: before anything else is said about it. A handler gets all actions of its kind at once and sees the results of
#: earlier kinds.
HANDLERS: dict[type[Action], Handler] = {
    StartOver: start_over,
    RecordTopic: record_topics,
    CreateTopic: create_topics,
    GrowPartitions: grow_partitions,
    AlterConfigs: alter_configs,
    UnknownSettings: lambda _, actions: fail_unknown(actions),
    CreateAcls: lambda applying, actions: create_acls(applying.clusters, actions),
    DeleteAcls: lambda applying, actions: delete_acls(applying.clusters, actions, applying.results),
    UnknownAcls: lambda _, actions: fail_unknown(actions),
    UncopiedSchema: lambda _, actions: fail_unknown(actions),
    RegisterSchema: lambda applying, actions: register_schemas(applying.clusters, actions, applying.schema_time),
    RestoreMode: lambda applying, actions: restore_modes(applying.clusters, actions),
    DeleteSchemaVersion: lambda applying, actions: delete_versions(applying.clusters, actions, applying.schema_time),
    SetCompatibility: lambda applying, actions: set_levels(applying.clusters, actions, applying.schema_time),
    MapSchema: lambda applying, actions: map_schemas(applying.clusters, actions, applying.schema_time),
}
