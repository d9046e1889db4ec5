"""Handlers of the actions on topics: create, grow, alter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from srm_common.domain.flow.principals import Right
from srm_common.domain.topics.actions import Action, ActionResult, AlterConfigs, CreateTopic, GrowPartitions
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.faults import is_denied
from srm_common.kafka.client.librdkafka import KafkaError
from srm_common.usecases.topics.applying import Applying

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
        "the principal has exceeded its controller_mutation_rate quota on the target; the next run retries, or raise "
        "it with kafka-configs.sh --alter --entity-type users --add-config controller_mutation_rate=..."
    ),
    KafkaError.POLICY_VIOLATION: (
        "a policy of the target's brokers (create.topic.policy.class.name, alter.config.policy.class.name) forbids it; "
        "create the topic by hand, or leave the setting out by config.properties.exclude"
    ),
    KafkaError.INVALID_CONFIG: (
        "the target does not take a setting of the source; leave it out by config.properties.exclude"
    ),
}


def create_topics(applying: Applying, actions: Sequence[CreateTopic]) -> list[ActionResult]:
    """Create topics and wait until they have leaders."""
    results = [
        _created(applying, action, fault)
        for action, fault in zip(actions, applying.target.create_topics(actions), strict=True)
    ]
    return _with_leaders(applying.target, results, {action: action.partitions for action in actions})


def grow_partitions(applying: Applying, actions: Sequence[GrowPartitions]) -> list[ActionResult]:
    """Add partitions and wait until they have leaders."""
    faults = applying.target.grow_partitions(actions)
    present = applying.target.topics().partitions if any(faults) else {}
    results = [
        ActionResult(action, note="it has as many already")
        if fault is not None and present.get(action.topic, 0) >= action.after
        else outcome(applying, action, fault)
        for action, fault in zip(actions, faults, strict=True)
    ]
    return _with_leaders(applying.target, results, {action: action.after for action in actions})


def alter_configs(applying: Applying, actions: Sequence[AlterConfigs]) -> list[ActionResult]:
    """Change the named settings, incrementally."""
    faults = applying.target.alter_configs(actions)
    return [outcome(applying, action, fault) for action, fault in zip(actions, faults, strict=True)]


def _created(applying: Applying, action: CreateTopic, fault: KafkaError | None) -> ActionResult:
    if fault is not None and fault.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return ActionResult(action, note="it exists already; the next refresh compares it")
    return outcome(applying, action, fault)


def outcome(applying: Applying, action: Action, fault: KafkaError | None) -> ActionResult:
    """The result of an action by what the cluster answered; ``fault`` None is success."""
    if fault is None:
        return ActionResult(action)
    reason = f"{fault.str()} ({fault.name()})"
    if fault.code() in _HINTS:
        reason += f"; {_HINTS[fault.code()]}"
    if is_denied(fault):
        reason += f"; {Right(_RIGHTS[type(action)], 'topic', action.topic).missing(applying.flow.target)}"
    return ActionResult(action, error=reason)


def _with_leaders(
    target: ClusterAdmin, results: list[ActionResult], partitions: Mapping[Action, int]
) -> list[ActionResult]:
    """Wait for what was created and grown to have leaders, and note what has none."""
    wanted = {result.action.topic: partitions[result.action] for result in results if result.error is None}
    late = target.await_leaders(wanted, seconds=_LEADERS_SECONDS) if wanted else set()
    note = f"some of its partitions have no leader after {_LEADERS_SECONDS:.0f} s"
    return [replace(result, note=note) if result.action.topic in late else result for result in results]
