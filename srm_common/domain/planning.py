"""What has to change on the target before a flow can copy: a plan of small frozen actions, each with its reason.

A plan is a value: printing it and applying it are two readers of the same thing. Applying a plan twice is harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.names import heartbeats_topic
from srm_common.domain.selection import TopicDecision
from srm_common.domain.topic_settings import (
    FOLLOWED,
    TIMESTAMP_TYPE,
    SettingRules,
    Source,
    TargetAbilities,
    TopicSetting,
    same_value,
)


@dataclass(frozen=True)
class CreateTopic:
    """Create ``topic`` on the cluster ``cluster``. A ``replication_factor`` of -1 is the broker's default."""

    cluster: str
    topic: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]
    reason: str

    def __str__(self) -> str:
        replicas = (
            "replicas by the broker's default"
            if self.replication_factor < 0
            else _count(self.replication_factor, "replica")
        )
        partitions = _count(self.partitions, "partition")
        return f"create topic {self.topic} on {self.cluster}: {partitions}, {replicas} ({self.reason})"

    def to_json(self) -> dict[str, Any]:
        return {
            "action": "create_topic",
            "cluster": self.cluster,
            "topic": self.topic,
            "before": None,
            "after": {
                "partitions": self.partitions,
                "replication_factor": self.replication_factor,
                "configs": dict(self.configs),
            },
            "reason": self.reason,
        }


@dataclass(frozen=True)
class GrowPartitions:
    """Give ``topic`` as many partitions as ``after`` says."""

    cluster: str
    topic: str
    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        return (
            f"grow topic {self.topic} on {self.cluster} from {self.before} to {_count(self.after, 'partition')} "
            f"({self.reason})"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "action": "grow_partitions",
            "cluster": self.cluster,
            "topic": self.topic,
            "before": {"partitions": self.before},
            "after": {"partitions": self.after},
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting: ``after`` None removes the topic's own value, so that the cluster's default counts."""

    key: str
    before: str | None
    after: str | None
    reason: str

    def __str__(self) -> str:
        after = "the cluster's default" if self.after is None else self.after
        return f"{self.key} {self.before} -> {after} ({self.reason})"


@dataclass(frozen=True)
class AlterConfigs:
    """Change settings of ``topic``; all others stay as they are."""

    cluster: str
    topic: str
    changes: tuple[SettingChange, ...]
    reason: str

    def __str__(self) -> str:
        return f"alter topic {self.topic} on {self.cluster}: " + "; ".join(str(change) for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return {
            "action": "alter_configs",
            "cluster": self.cluster,
            "topic": self.topic,
            "before": {change.key: change.before for change in self.changes},
            "after": {change.key: change.after for change in self.changes},
            "reason": self.reason,
            "reasons": {change.key: change.reason for change in self.changes},
        }


Action = CreateTopic | GrowPartitions | AlterConfigs


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What became of one action: ``error`` is None or one sentence, ``note`` what is worth saying of a success."""

    action: Action
    error: str | None = None
    note: str | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"FAILED: {self.action}: {self.error}"
        return f"done: {self.action}" + (f"; {self.note}" if self.note else "")

    def to_json(self) -> dict[str, Any]:
        return {**self.action.to_json(), "error": self.error, "note": self.note}


@dataclass(frozen=True)
class Plan:
    """Decisions on all topics of the source, and the actions that follow from them.

    ``notices`` are what a person should know and no action mends.
    """

    flow: FlowName
    decisions: tuple[TopicDecision, ...]
    actions: tuple[Action, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[TopicDecision, ...]:
        return tuple(decision for decision in self.decisions if decision.accepted)

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        return {
            "flow": str(self.flow),
            "actions": [action.to_json() for action in self.actions],
            "notices": list(self.notices),
            "topics": [decision.to_json() for decision in self.decisions],
        }

    def render(self) -> str:
        """The plan as text, actions first."""
        lines = [f"{self.flow}: {_count(len(self.accepted), 'topic')} of {len(self.decisions)} copied"]
        lines += [f"  {action}" for action in self.actions] or ["  nothing to do"]
        lines += [f"  note: {notice}" for notice in self.notices]
        return "\n".join(lines)


@dataclass(frozen=True)
class SourceView:
    """The source cluster: partitions of every topic, and settings of the accepted ones."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]]


@dataclass(frozen=True)
class TargetView:
    """The target cluster: partitions of every topic, settings of the remote ones that exist, and what it can do."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]]
    brokers: int
    abilities: TargetAbilities = field(default_factory=lambda: TargetAbilities({}))


def make_plan(flow: FlowSettings, decisions: list[TopicDecision], source: SourceView, target: TargetView) -> Plan:
    """The actions that make the target ready for the accepted topics.

    A topic whose copy exists with settings that would falsify it is refused: its decision says so.
    """
    rules = SettingRules(flow, target.abilities)
    factor, lowered = _affordable(flow.replication_factor, target.brokers)
    actions: list[Action] = []
    notices: list[str] = []
    final: list[TopicDecision] = []
    heartbeats = _heartbeats(flow, target)
    if heartbeats is not None:
        actions.append(heartbeats)
    for decision in decisions:
        if not decision.accepted or decision.remote_topic is None:
            final.append(decision)
            continue
        topic, remote = decision.topic, decision.remote_topic
        settings = source.settings.get(topic, {})
        left_out = rules.left_out(settings)
        if left_out:
            notices.append(f"{remote}: {flow.name.target} does not have {', '.join(sorted(left_out))}; left out")
        existing = target.partitions.get(remote)
        if existing is None:
            final.append(decision)
            actions.append(_creation(flow, rules, topic, remote, source.partitions[topic], settings, factor, lowered))
            continue
        there = target.settings.get(remote, {})
        refusal = _falsifying(flow, remote, there)
        if refusal is not None:
            final.append(TopicDecision(topic, False, refusal, remote))
            continue
        final.append(decision)
        wanted = source.partitions[topic]
        if existing < wanted:
            reason = f"{topic} has {wanted} on {flow.name.source}"
            actions.append(GrowPartitions(flow.name.target, remote, existing, wanted, reason))
        elif existing > wanted:
            notices.append(
                f"{remote} has {_count(existing, 'partition')} on {flow.name.target}, but {topic} has {wanted} on "
                f"{flow.name.source}; the extra ones stay empty"
            )
        changes = _changes(rules, settings, there)
        if changes and flow.sync_topic_configs:
            actions.append(AlterConfigs(flow.name.target, remote, changes, f"keep it like {topic}"))
        elif harmful := [change for change in changes if change.key in FOLLOWED]:
            notices.append(
                f"{remote}: sync.topic.configs.enabled is false, so these stay as they are: "
                + "; ".join(str(change) for change in harmful)
            )
    return Plan(flow.name, tuple(final), tuple(actions), tuple(notices))


def _creation(
    flow: FlowSettings,
    rules: SettingRules,
    topic: str,
    remote: str,
    partitions: int,
    settings: Mapping[str, TopicSetting],
    factor: int,
    lowered: str,
) -> CreateTopic:
    wishes = rules.wishes(settings)
    configs = tuple(sorted((key, wish.value) for key, wish in wishes.items() if wish.value is not None))
    return CreateTopic(flow.name.target, remote, partitions, factor, configs, f"copy of {topic}{lowered}")


def _changes(
    rules: SettingRules, settings: Mapping[str, TopicSetting], there: Mapping[str, TopicSetting]
) -> tuple[SettingChange, ...]:
    changes = []
    for key, wish in sorted(rules.wishes(settings).items()):
        now = there.get(key)
        if now is None:  # the target does not have such a setting
            continue
        if wish.value is None:
            if now.source is Source.TOPIC:
                changes.append(SettingChange(key, now.value, None, wish.reason))
        elif not same_value(key, now.value, wish.value):
            changes.append(SettingChange(key, now.value, wish.value, wish.reason))
    return tuple(changes)


def _falsifying(flow: FlowSettings, remote: str, there: Mapping[str, TopicSetting]) -> str | None:
    kind = there.get(TIMESTAMP_TYPE)
    if kind is None or kind.value != "LogAppendTime":
        return None
    return (
        f"{remote} on {flow.name.target} has {TIMESTAMP_TYPE}=LogAppendTime, which would replace the time of every "
        f"record; mend it with: kafka-configs.sh --bootstrap-server {flow.target.bootstrap_servers} --alter "
        f"--entity-type topics --entity-name {remote} --add-config {TIMESTAMP_TYPE}=CreateTime"
    )


def _heartbeats(flow: FlowSettings, target: TargetView) -> CreateTopic | None:
    topic = heartbeats_topic()
    if not flow.emit_heartbeats or topic in target.partitions:
        return None
    factor, lowered = _affordable(flow.heartbeats_replication_factor, target.brokers)
    configs = (("cleanup.policy", "compact"),)
    return CreateTopic(flow.name.target, topic, 1, factor, configs, f"heartbeats of {flow.name}{lowered}")


def _affordable(factor: int, brokers: int) -> tuple[int, str]:
    """The replication factor that so many brokers can hold, and what to say when it is less than asked."""
    if factor <= brokers:
        return factor, ""
    return brokers, f"; {factor} replicas asked, but the target has {_count(brokers, 'broker')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
