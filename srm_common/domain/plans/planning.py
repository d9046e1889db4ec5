"""The changes that the target needs before a flow can copy: from two views of the clusters to a :class:`Plan`.

Applying a plan twice is harmless, and a plan never deletes a topic or takes partitions away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import heartbeats_topic
from srm_common.domain.flow.principals import ANONYMOUS, Right, login_principal
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import Action, AlterConfigs, CreateTopic, GrowPartitions, SettingChange
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alterations, Job
from srm_common.domain.topics.refused_settings import MAX_MESSAGE
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_settings import (
    OPTIONAL,
    RETENTION,
    TIMESTAMP_TYPE,
    Drift,
    SettingRules,
    Source,
    TargetAbilities,
    TopicSetting,
    same_value,
    some,
    undone,
)

_DEAD_LETTER_BYTES = 16 << 20
#: An expression that is a topic's name.
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class SourceView:
    """The source cluster: partitions of every topic, and settings of the accepted ones."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]]


@dataclass(frozen=True)
class TargetView:
    """The target cluster: partitions of every topic, settings of the remote ones that exist, its brokers, what it can
    do, and the fewest replicas of a partition by topic."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]]
    brokers: Brokers
    abilities: TargetAbilities = field(default_factory=lambda: TargetAbilities({}))
    replicas: Mapping[str, int] = field(default_factory=dict)


def make_plan(
    flow: FlowSettings,
    decisions: list[TopicDecision],
    source: SourceView,
    target: TargetView,
    *,
    due: frozenset[Job] = EVERYTHING,
    alterations: Alterations | None = None,
) -> Plan:
    """The actions that make the target ready for the accepted topics.

    A topic whose copy exists with settings that would falsify it is refused: its decision says so.

    Args:
        due: plan this only; decisions and notices do not depend on it.
        alterations: earlier changes of settings, to detect those that are reverted.
    """
    alterations = alterations or Alterations()
    rules = SettingRules(flow, target.abilities)
    actions: list[Action] = []
    notices: list[str] = []
    final: list[TopicDecision] = []
    drift = Drift(flow, target.abilities)
    excluded = rules.excluded(RETENTION)
    create = Job.TOPICS in due
    heartbeats = _heartbeats(flow, target)
    if heartbeats is not None and create:
        actions.append(heartbeats)
    dead_letters = _dead_letters(flow, target)
    if dead_letters is not None and create:
        actions.append(dead_letters)
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
            drift.compare(remote, settings, None, excluded)
            if create:
                actions.append(_copy(flow, target, rules, topic, remote, source.partitions[topic], settings))
            continue
        there = target.settings.get(remote, {})
        refusal = _falsifying(flow, remote, there)
        if refusal is not None:
            final.append(TopicDecision(topic, False, refusal, remote))
            continue
        final.append(decision)
        wanted = source.partitions[topic]
        if existing < wanted and create:
            reason = f"{topic} has {wanted} on {flow.name.source}"
            actions.append(GrowPartitions(flow.name.target, remote, existing, wanted, reason))
        if existing > wanted:
            notices.append(
                f"{remote} has {counted(existing, 'partition')} on {flow.name.target}, but {topic} has {wanted} on "
                f"{flow.name.source}; the extra ones stay empty"
            )
        drift.compare(remote, settings, there, excluded)
        changes = _changes(rules, settings, there)
        if not changes:
            continue
        if not flow.sync_topic_configs:
            drift.unchanged(remote, changes)
        elif Job.CONFIGS in due:
            alteration = AlterConfigs(flow.name.target, remote, changes, f"keep it like {topic}")
            notices += undone(alteration, alterations)
            actions.append(alteration)
    notices += _few_replicas(flow, target, (one.remote_topic for one in final if one.accepted and one.remote_topic))
    return Plan(flow.name, tuple(final), tuple(actions), (*_unseen(flow, source), *notices, *drift.notices()))


def _unseen(flow: FlowSettings, source: SourceView) -> Iterator[str]:
    """A sentence about each topic that ``topics`` names but the source does not show: brokers hide topics that the
    principal may not describe, so nothing else would explain why it is not copied."""
    if flow.topic_filter_class is not None:
        return
    for name in flow.topics:
        if name in source.partitions or not _NAME.fullmatch(name) or flow.policy.is_heartbeats_topic(name):
            continue
        if "." in name and any(map(re.compile(name).fullmatch, source.partitions)):
            continue
        text = f"{name}, which topics names, is not copied: {flow.name.source} shows no such topic"
        if login_principal(flow.source) != ANONYMOUS:
            text += f"; if there is one, {Right('Describe', 'topic', name).missing(flow.source)}"
        yield text


def _copy(
    flow: FlowSettings,
    target: TargetView,
    rules: SettingRules,
    topic: str,
    remote: str,
    partitions: int,
    settings: Mapping[str, TopicSetting],
) -> CreateTopic:
    wishes = rules.wishes(settings)
    configs = tuple(sorted((key, wish.value) for key, wish in wishes.items() if wish.value is not None))
    return _creation(flow, target, remote, partitions, flow.replication_factor, configs, f"copy of {topic}", OPTIONAL)


def _creation(
    flow: FlowSettings,
    target: TargetView,
    topic: str,
    partitions: int,
    factor: int,
    configs: tuple[tuple[str, str], ...],
    reason: str,
    optional: frozenset[str] = frozenset(),
) -> CreateTopic:
    brokers = target.brokers
    return CreateTopic(
        flow.name.target,
        topic,
        partitions,
        brokers.affordable(factor),
        configs,
        reason + brokers.shortage(factor),
        brokers.attempts(factor),
        optional,
    )


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
        f"{remote} on {flow.name.target} has {TIMESTAMP_TYPE}=LogAppendTime, which would replace every "
        f"record's timestamp; fix it with: kafka-configs.sh --bootstrap-server {flow.target.bootstrap_servers} --alter "
        f"--entity-type topics --entity-name {remote} --add-config {TIMESTAMP_TYPE}=CreateTime"
    )


def _heartbeats(flow: FlowSettings, target: TargetView) -> CreateTopic | None:
    topic = heartbeats_topic()
    if not flow.emit_heartbeats or topic in target.partitions:
        return None
    configs = (("cleanup.policy", "compact"),)
    factor = flow.heartbeats_replication_factor
    return _creation(flow, target, topic, 1, factor, configs, f"heartbeats of {flow.name}")


def _dead_letters(flow: FlowSettings, target: TargetView) -> CreateTopic | None:
    """One partition, as Connect creates it. What fails may be as large as what does not."""
    topic = flow.dead_letter_topic
    if not topic or topic in target.partitions:
        return None
    configs = ((MAX_MESSAGE, str(_DEAD_LETTER_BYTES)),)
    factor, optional = flow.errors_deadletterqueue_topic_replication_factor, frozenset({MAX_MESSAGE})
    return _creation(flow, target, topic, 1, factor, configs, f"dead letters of {flow.name}", optional)


def _few_replicas(flow: FlowSettings, target: TargetView, copies: Iterable[str]) -> Iterator[str]:
    """A sentence about copies that were created with fewer replicas than they are to have, once the target has brokers
    for more."""
    wanted = min(flow.replication_factor, target.brokers.alive)
    few = [f"{copy} ({target.replicas[copy]})" for copy in copies if target.replicas.get(copy, wanted) < wanted]
    if few:
        yield (
            f"fewer replicas than replication.factor = {flow.replication_factor} on {flow.name.target}: {some(few)}; "
            "kafka-reassign-partitions.sh adds some"
        )
