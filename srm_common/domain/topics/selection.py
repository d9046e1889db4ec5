"""Which topics of the source a flow copies, each with a decision and its reason, and the names of the copies by the
records on its target.

Filters and policy decide by names; whether a copy would form a loop or duplicate records is decided from the records on
the clusters (:mod:`srm_common.domain.topics.copy_graph`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.filters.flow_filters import Chooser, topic_filter
from srm_common.domain.flow import FlowSettings
from srm_common.domain.patterns.name_filter import Decision
from srm_common.domain.policy import is_cycle, is_shipped, policy_name
from srm_common.domain.topics.copy_graph import Answer, CopyGraph
from srm_common.domain.topics.topic_records import Knowledge, TopicRecord, TopicRecords, TopicState

LONGEST_TOPIC_NAME = 249  # org.apache.kafka.common.internals.Topic.MAX_NAME_LENGTH
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_NOTHING_KNOWN = Knowledge()
#: The code where what the flow recorded of a topic cannot be read: its copy's name, and where it came from.
RECORD_UNREADABLE = "record_unreadable"


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """Whether ``topic`` is copied, as what, and why or why not.

    ``code`` is the reason for machines: ``included``, ``heartbeats`` or, refused, ``internal``, ``not_included``,
    ``excluded``, ``cycle``, ``diamond``, ``undecided``, ``policy_switch``, ``policy_failed``, ``name_too_long``,
    ``name_refused``, ``name_taken``, ``record_unreadable``, and those of later steps. ``ask`` are aliases of clusters
    whose records would settle an ``undecided`` one.
    """

    topic: str
    accepted: bool
    reason: str
    remote_topic: str | None = None
    code: str = ""
    ask: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "accepted": self.accepted,
            "code": self.code,
            "reason": self.reason,
            "remote_topic": self.remote_topic,
        }


def select_topics(
    flow: FlowSettings, topics: Iterable[str], knowledge: Knowledge = _NOTHING_KNOWN
) -> list[TopicDecision]:
    """Decide on every topic of the source, sorted by name (``MirrorSourceConnector.shouldReplicateTopic``).

    Args:
        knowledge: what was read of the clusters; without it names alone decide.
    """
    chosen = topic_filter(flow)
    graph = CopyGraph(flow, knowledge)
    there = knowledge.records.get(flow.name.target, TopicRecords())
    own = there.readable.of_flow(flow.name)
    doubtful = {alias: _doubtful(flow, alias, records) for alias, records in knowledge.records.items()}
    # A name belongs to the topic whose records are under it, also when another one would come before it now.
    taken = {one.downstream_topic: topic for topic, one in own.items() if knowledge.counts(one)}
    decisions = []
    for topic in sorted(topics):
        try:
            decision = _decide(flow, chosen, topic)
            if decision.accepted and (fault := there.unreadable.get((str(flow.name), topic))) is not None:
                decision = replace(decision, accepted=False, reason=fault, code=RECORD_UNREADABLE)
            if decision.accepted and topic not in own:
                decision = _not_doubtful(flow, decision, doubtful)
            if decision.accepted and decision.remote_topic is not None:
                decision = _not_taken(decision, taken)
            if decision.accepted and decision.remote_topic is not None:
                decision = _renamed(flow, decision, own.get(topic)) or _sound(graph, decision)
        except Exception as error:  # a third-party policy may raise anything; the other topics continue
            if is_shipped(flow.policy):
                raise
            fault = f"policy {policy_name(flow.policy)} failed on it: {type(error).__name__}: {error}"
            decision = TopicDecision(topic, False, fault, code="policy_failed")
        decisions.append(decision)
    return decisions


def _decide(flow: FlowSettings, chosen: Chooser, topic: str) -> TopicDecision:
    policy, target = flow.policy, flow.name.target
    if policy.is_internal_topic(topic):
        return TopicDecision(topic, False, "internal topics are never copied", code="internal")
    if is_cycle(policy, target, topic):
        return TopicDecision(topic, False, f"it came from '{target}' and would form a loop", code="cycle")
    decision = chosen.decide(topic)
    code = "included"
    if not decision.accepted and flow.heartbeats_replication and policy.is_heartbeats_topic(topic):
        decision = Decision(True, "heartbeats topics are copied (heartbeats.replication.enabled)")
        code = "heartbeats"
    if not decision.accepted:
        code = "excluded" if decision.reason.startswith("excluded") else "not_included"
        return TopicDecision(topic, False, decision.reason, code=code)
    remote = policy.format_remote_topic(flow.name.source, topic)
    if not isinstance(remote, str) or not _LEGAL.fullmatch(remote) or remote in (".", ".."):
        return TopicDecision(
            topic, False, f"its copy's name would be {remote!r}, which is not a valid topic name", code="name_refused"
        )
    if remote == policy.heartbeats_topic():
        reason = f"its copy would be mixed with the heartbeats that are written to {remote} on '{target}'"
        return TopicDecision(topic, False, reason, code="name_refused")
    if remote.startswith("__") or (remote != topic and remote.endswith((".internal", "-internal"))):
        reason = f"its copy's name would be that of an internal topic: {remote}"
        return TopicDecision(topic, False, reason, code="name_refused")
    if len(remote) > LONGEST_TOPIC_NAME:
        return TopicDecision(
            topic,
            False,
            f"its copy's name would be longer than {LONGEST_TOPIC_NAME} characters: {remote}",
            code="name_too_long",
        )
    return TopicDecision(topic, True, decision.reason, remote, code)


def _doubtful(flow: FlowSettings, alias: str, records: TopicRecords) -> dict[str, str]:
    """Topics of the cluster ``alias`` that may be copies by other flows, since records that cannot be read, and are
    known from nowhere else, may be about them; each with a sentence. Names are all there is to go by."""
    into = [one for one in flow.graph if one.name.target == alias]
    policies = {str(one.name): (one.policy, one.name.source) for one in into}
    names: dict[str, str] = {}
    for (other, topic), fault in records.unreadable.items():
        if other == str(flow.name) or (other, topic) in records.topics:
            continue
        names[topic] = fault
        policy, source = policies.get(other, (None, ""))
        if policy is not None and is_shipped(policy):
            names[policy.format_remote_topic(source, topic)] = fault
    return names


def _not_doubtful(
    flow: FlowSettings, decision: TopicDecision, doubtful: Mapping[str, Mapping[str, str]]
) -> TopicDecision:
    for alias, name in ((flow.name.source, decision.topic), (flow.name.target, decision.remote_topic)):
        if (fault := doubtful.get(alias, {}).get(name or "")) is not None:
            reason = f"it is unknown where the records of {name} on {alias} come from: {fault}"
            return replace(decision, accepted=False, reason=reason, code="undecided")
    return decision


def _not_taken(decision: TopicDecision, taken: dict[str, str]) -> TopicDecision:
    remote = decision.remote_topic
    assert remote is not None
    first = taken.setdefault(remote, decision.topic)
    if first == decision.topic:
        return decision
    return replace(
        decision, accepted=False, reason=f"{first} is copied as {remote} by this flow already", code="name_taken"
    )


def _renamed(flow: FlowSettings, decision: TopicDecision, record: TopicRecord | None) -> TopicDecision | None:
    """The refusal of a topic whose copy was created under another policy with another name; None if that is not the
    case."""
    if record is None or record.state is TopicState.CLAIMED:
        return None
    if record.downstream_topic == decision.remote_topic or flow.policy_switch == "force":
        return None
    return replace(
        decision,
        accepted=False,
        reason=(
            f"{record.policy} made its copy {record.downstream_topic}, {policy_name(flow.policy)} would make "
            f"{decision.remote_topic}; set the policy back, or replication.policy.switch = force"
        ),
        code="policy_switch",
    )


def _sound(graph: CopyGraph, decision: TopicDecision) -> TopicDecision:
    assert decision.remote_topic is not None
    conflict = graph.conflict(decision.topic, decision.remote_topic)
    if conflict is None:
        return decision
    code = str(conflict.rule) if conflict.answer is Answer.REFUSE else "undecided"
    return replace(decision, accepted=False, reason=conflict.reason, code=code, ask=tuple(sorted(conflict.ask)))


#: What was made again at the source is for the run to judge, which knows what was copied.
_COPIED_IN_RUNS = (TopicState.REPLICATING, TopicState.RECREATED)


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """One topic to copy. ``partitions`` is how many there are on both sides; ``max_message_bytes`` is the copy's, and
    so is ``compacted``. Where its settings could not be read now, ``settings_known`` is False, and it counts as one
    without limits. ``heartbeats``: it has heartbeats, which no transform is for.

    The ids tell a topic from a later one of the same name; empty if they were not requested.
    """

    upstream: str
    downstream: str
    partitions: int
    upstream_topic_id: str = ""
    downstream_topic_id: str = ""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    heartbeats: bool = False
    compacted: bool = False
    settings_known: bool = True


@dataclass(frozen=True)
class CopiedTopics:
    """The topics of ``flow``, by the records of its target. ``records`` are those of the flow, by upstream topic."""

    flow: str
    all_records: TopicRecords
    records: Mapping[str, TopicRecord] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", self.all_records.of_flow(self.flow))

    @property
    def going_on(self) -> frozenset[str]:
        """Upstream topics that nothing keeps from being copied."""
        return frozenset(topic for topic, one in self.records.items() if one.state is TopicState.REPLICATING)

    @property
    def names(self) -> dict[str, str]:
        """Upstream topic -> its copy, of all whose records are in the copy; only claimed ones are not."""
        return {
            topic: one.downstream_topic for topic, one in self.records.items() if one.state is not TopicState.CLAIMED
        }

    @property
    def ids(self) -> dict[str, str]:
        """Copy -> its id, where it is recorded."""
        return {
            record.downstream_topic: record.downstream_topic_id
            for record in self.records.values()
            if record.downstream_topic_id
        }

    def copied_in_runs(self, topic: str, copy: str) -> bool:
        """Whether a run copies ``topic`` into ``copy``, according to the records."""
        record = self.records.get(topic)
        return record is not None and record.state in _COPIED_IN_RUNS and record.downstream_topic == copy

    def gone(self, topic: str) -> str | None:
        """Why ``topic`` has no copy any more, in one sentence; None where it has one or never had."""
        record = self.records.get(topic)
        if record is None or record.state is not TopicState.TARGET_DELETED:
            return None
        return f"its copy {record.downstream_topic} was deleted on the target"

    def other_writers(self, copy: str) -> tuple[str, ...]:
        """Other flows that copy into ``copy`` now."""
        return tuple(
            sorted(
                {
                    record.flow
                    for record in self.all_records.feeding(copy)
                    if record.state is TopicState.REPLICATING and record.downstream_topic == copy
                }
                - {self.flow}
            )
        )

    def feeders(self, copy: str) -> tuple[str, ...]:
        """All flows whose records are in ``copy``, or may be soon, this one among them."""
        return tuple(sorted({record.flow for record in self.all_records.feeding(copy)}))
