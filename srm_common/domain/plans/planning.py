"""The changes that the target needs before a flow can copy: from two views of the clusters to a :class:`Plan`.

Applying a plan twice is harmless, and a plan never deletes a topic or takes partitions away.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import has_heartbeats
from srm_common.domain.flow.principals import ANONYMOUS, Right, login_principal
from srm_common.domain.plans.idle_steps import idle_steps
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import (
    Action,
    AlterConfigs,
    CreateTopic,
    GrowPartitions,
    Job,
    SettingChange,
    UnknownSettings,
)
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alterations
from srm_common.domain.topics.refused_settings import MAX_MESSAGE
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.state_topics import written_heartbeats
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
_RETENTION_MS, _, _CLEANUP = RETENTION
#: As ``retention.ms`` has it.
_FOR_EVER = -1
#: Code of the decision on a topic that gets no copy, because its settings cannot be read.
SETTINGS_UNREADABLE = "settings_unreadable"
#: An expression that is a topic's name.
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class SourceView:
    """The source cluster: partitions of every topic, and settings of the accepted ones. ``unreadable``: why those of a
    topic cannot be read, in one sentence."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]]
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetView:
    """The target cluster: partitions of every topic, settings of the remote ones that exist, its brokers, what it can
    do, and the fewest replicas of a partition by topic. ``unreadable`` as at the source."""

    partitions: Mapping[str, int]
    settings: Mapping[str, Mapping[str, TopicSetting]]
    brokers: Brokers
    abilities: TargetAbilities = field(default_factory=lambda: TargetAbilities({}))
    replicas: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)


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

    A topic whose copy exists with settings that would falsify it is refused: its decision says so. So is one without a
    copy whose settings cannot be read, since the copy would get others; existing copies go on, without synced settings.

    Args:
        due: plan this only; decisions and notices do not depend on it.
        alterations: earlier changes of settings, to detect those that are reverted.
    """
    planning = _Planning(flow, source, target, due, alterations or Alterations())
    final = tuple(planning.plan(decision) for decision in decisions)
    few = _few_replicas(flow, target, (one.remote_topic for one in final if one.accepted and one.remote_topic))
    accepted = [decision.topic for decision in final if decision.accepted]
    about_topics = (*_unseen(flow, source), *_like_heartbeats(flow, accepted))
    about_steps = (*idle_steps(flow, final), *_short_lived(flow, final, source, target))
    notices = (*about_topics, *about_steps, *few, *planning.all_notices())
    return Plan(flow.name, final, tuple(planning.actions), notices)


class _Planning:
    """The plan that is being made, topic by topic."""

    def __init__(
        self, flow: FlowSettings, source: SourceView, target: TargetView, due: frozenset[Job], alterations: Alterations
    ) -> None:
        self._flow, self._source, self._target = flow, source, target
        self._due, self._alterations = due, alterations
        self._create = Job.TOPICS in due
        self._rules = SettingRules(flow, target.abilities)
        self._excluded = self._rules.excluded(RETENTION)
        self._drift = Drift(flow, target.abilities)
        self._unread: list[str] = []
        self._left_out: dict[str, list[str]] = defaultdict(list)
        self._wider: list[str] = []
        self._notices: list[str] = []
        own = (_heartbeats(flow, target), _dead_letters(flow, target)) if self._create else ()
        self.actions: list[Action] = [creation for creation in own if creation is not None]

    def plan(self, decision: TopicDecision) -> TopicDecision:
        """Add what the topic needs; returns the decision, or the refusal that follows from settings."""
        if not decision.accepted or decision.remote_topic is None:
            return decision
        topic, remote = decision.topic, decision.remote_topic
        name = self._flow.name
        settings = self._source.settings.get(topic, {})
        left_out = self._rules.left_out(settings)
        if left_out:
            self._left_out[", ".join(sorted(left_out))].append(remote)
        existing = self._target.partitions.get(remote)
        if existing is None:
            return self._plan_new(decision, topic, remote, settings)
        refusal = _falsifying(self._flow, remote, self._target.settings.get(remote, {}))
        if refusal is not None:
            return TopicDecision(topic, False, refusal, remote)
        wanted = self._source.partitions[topic]
        if existing < wanted and self._create:
            reason = f"{topic} has {wanted} on {name.source}"
            self.actions.append(GrowPartitions(name.target, remote, existing, wanted, reason))
        if existing > wanted:
            self._wider.append(f"{remote} ({existing} instead of {wanted})")
        self._sync_settings(topic, remote, settings)
        return decision

    def _plan_new(
        self, decision: TopicDecision, topic: str, remote: str, settings: Mapping[str, TopicSetting]
    ) -> TopicDecision:
        unreadable = self._source.unreadable.get(topic)
        if unreadable is not None:
            reason = f"its settings cannot be read, so {remote} is not created: {unreadable}"
            if self._create:
                self.actions.append(UnknownSettings(self._flow.name.target, remote, reason, Job.TOPICS))
            return TopicDecision(topic, False, reason, remote, SETTINGS_UNREADABLE)
        self._drift.compare(remote, settings, None, self._excluded)
        if self._create:
            partitions = self._source.partitions[topic]
            self.actions.append(_copy(self._flow, self._target, self._rules, topic, remote, partitions, settings))
        return decision

    def _sync_settings(self, topic: str, remote: str, settings: Mapping[str, TopicSetting]) -> None:
        target, synced = self._flow.name.target, self._flow.sync_topic_configs
        unreadable = self._source.unreadable.get(topic) or self._target.unreadable.get(remote)
        if unreadable is not None:
            if not synced:
                self._unread.append(f"{remote}: {unreadable}")
            elif Job.CONFIGS in self._due:
                reason = f"settings cannot be read; records are copied all the same: {unreadable}"
                self.actions.append(UnknownSettings(target, remote, reason))
            return
        there = self._target.settings.get(remote, {})
        self._drift.compare(remote, settings, there, self._excluded)
        changes = self._changes(remote, settings, there)
        if not changes:
            return
        if not synced:
            self._drift.unchanged(remote, changes)
        elif Job.CONFIGS in self._due:
            alteration = AlterConfigs(target, remote, changes, f"keep it like {topic}")
            self._notices += undone(alteration, self._alterations)
            self.actions.append(alteration)

    def _changes(
        self, remote: str, settings: Mapping[str, TopicSetting], there: Mapping[str, TopicSetting]
    ) -> tuple[SettingChange, ...]:
        changes = []
        for key, wish in sorted(self._rules.wishes(settings).items()):
            now = there.get(key)
            if now is None:  # the target does not have such a setting
                continue
            if wish.value is not None:
                if not same_value(key, now.value, wish.value):
                    changes.append(SettingChange(key, now.value, wish.value, wish.reason))
            elif now.source is Source.TOPIC:
                if not wish.if_ours or self._alterations.made(remote, key, now.value):
                    changes.append(SettingChange(key, now.value, None, wish.reason))
                elif not same_value(key, now.value, settings[key].value):
                    self._drift.kept(remote, key, now.value)
        return tuple(changes)

    def all_notices(self) -> list[str]:
        """About single topics, then about all; one sentence for whatever many topics have in common."""
        source, target = self._flow.name.source, self._flow.name.target
        found = [
            *(f"{target} does not have {keys}; left out of {some(copies)}" for keys, copies in self._left_out.items()),
            *self._notices,
        ]
        if self._wider:
            found.append(
                f"more partitions on {target} than on {source}: {some(self._wider)}; the extra ones get nothing from "
                "this flow"
            )
        found += self._drift.notices()
        if self._unread:
            found.append(
                f"it is not known whether the copies of {counted(len(self._unread), 'topic')} expire or reject "
                f"records, because settings cannot be read; the first is {self._unread[0]}"
            )
        return found


def _unseen(flow: FlowSettings, source: SourceView) -> Iterator[str]:
    """A sentence about each topic that ``topics`` names but the source does not show: brokers hide topics that the
    principal may not describe, so nothing else would explain why it is not copied."""
    if flow.topic_filter_class is not None:
        return
    for name in flow.topics:
        if name in source.partitions or not _NAME.fullmatch(name) or has_heartbeats(flow, name):
            continue
        if "." in name and any(map(re.compile(name).fullmatch, source.partitions)):
            continue
        text = f"{name}, which topics names, is not copied: {flow.name.source} shows no such topic"
        if login_principal(flow.source) != ANONYMOUS:
            text += f"; if there is one, {Right('Describe', 'topic', name).missing(flow.source)}"
        yield text


def _like_heartbeats(flow: FlowSettings, topics: Iterable[str]) -> Iterator[str]:
    """A sentence about topics that only by their names look like heartbeats of other clusters."""
    like = [name for name in topics if flow.policy.is_heartbeats_topic(name) and not has_heartbeats(flow, name)]
    if like:
        yield (
            f"named like heartbeats of other clusters, but copied as data, transforms included: {some(like)}; "
            "if they are heartbeats, add the aliases in their names to clusters"
        )


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
    wanted = next((topic for topic in written_heartbeats(flow) if topic.location == "target"), None)
    if wanted is None or wanted.name in target.partitions:
        return None
    configs = tuple(wanted.needs.items())
    factor = wanted.replication_factor
    return _creation(flow, target, wanted.name, wanted.partitions, factor, configs, f"heartbeats of {flow.name}")


def _dead_letters(flow: FlowSettings, target: TargetView) -> CreateTopic | None:
    """One partition, as Connect creates it. What fails may be as large as what does not, and as old: retention goes by
    the timestamps of records, which dead letters keep."""
    topic = flow.dead_letter_topic
    if not topic or topic in target.partitions:
        return None
    configs = ((_CLEANUP, "delete"), (MAX_MESSAGE, str(_DEAD_LETTER_BYTES)), (_RETENTION_MS, str(_FOR_EVER)))
    factor, optional = flow.errors_deadletterqueue_topic_replication_factor, frozenset(key for key, _ in configs)
    return _creation(flow, target, topic, 1, factor, configs, f"dead letters of {flow.name}", optional)


def _short_lived(
    flow: FlowSettings, decisions: Iterable[TopicDecision], source: SourceView, target: TargetView
) -> Iterator[str]:
    """A sentence about a dead letter topic that loses what is written to it."""
    topic = flow.dead_letter_topic
    there = target.settings.get(topic, {}) if topic else {}
    cleanup = _value(there, _CLEANUP, "")
    if "compact" in cleanup:
        yield (
            f"dead letter topic {topic} on {flow.name.target} has {_CLEANUP}={cleanup}: dead letters with equal keys "
            f"replace each other, and those without a key are refused; set it to delete"
        )
    kept = _kept_ms(there)
    ages = {one.topic: _kept_ms(source.settings.get(one.topic, {})) for one in decisions if _may_fail(flow, one)}
    oldest = max(sorted(ages), key=ages.__getitem__, default=None)
    if there and oldest is not None and kept < ages[oldest]:
        settings = source.settings.get(oldest, {})
        policy, own = _value(settings, _CLEANUP, "delete"), _value(settings, _RETENTION_MS, str(_FOR_EVER))
        why = f"{_RETENTION_MS}={own}" if "delete" in policy else f"{_CLEANUP}={policy}"
        yield (
            f"dead letter topic {topic} on {flow.name.target} has {_RETENTION_MS}={kept:.0f}, and {oldest} on "
            f"{flow.name.source} has {why}: dead letters have the timestamps of the source's records, so old ones are "
            f"deleted minutes after they are written; set it to {_FOR_EVER}"
        )


def _may_fail(flow: FlowSettings, decision: TopicDecision) -> bool:
    """Whether records of the topic may become dead letters: those that nothing is done to never do."""
    topic, copy = decision.topic, decision.remote_topic
    if not decision.accepted or copy is None or has_heartbeats(flow, topic):
        return False
    if flow.transforms_python or flow.maps_schema_ids or any(step.concerns(copy) for step in flow.transforms):
        return True
    return any(statement.concerns(topic) for statement in flow.statements)


def _kept_ms(settings: Mapping[str, TopicSetting]) -> float:
    """How long records are kept, by their own timestamps."""
    if "delete" not in _value(settings, _CLEANUP, "delete"):
        return math.inf
    kept = float(_value(settings, _RETENTION_MS, str(_FOR_EVER)))
    return math.inf if kept < 0 else kept


def _value(settings: Mapping[str, TopicSetting], key: str, default: str) -> str:
    found = settings.get(key)
    return default if found is None or found.value is None else found.value


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
