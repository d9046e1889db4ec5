"""Which topics of the source a flow copies, each with a decision a person can read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain.filters import Decision, NameFilter
from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import is_cycle

LONGEST_TOPIC_NAME = 249  # org.apache.kafka.common.internals.Topic.MAX_NAME_LENGTH


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """Whether ``topic`` is copied, as what, and why or why not."""

    topic: str
    accepted: bool
    reason: str
    remote_topic: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "accepted": self.accepted,
            "reason": self.reason,
            "remote_topic": self.remote_topic,
        }


def select_topics(flow: FlowSettings, topics: Iterable[str]) -> list[TopicDecision]:
    """Decide on every topic of the source, sorted by name (``MirrorSourceConnector.shouldReplicateTopic``)."""
    chosen = NameFilter.of("topics", flow.topics, flow.topics_exclude)
    return [_decide(flow, chosen, topic) for topic in sorted(topics)]


def _decide(flow: FlowSettings, chosen: NameFilter, topic: str) -> TopicDecision:
    policy, target = flow.policy, flow.name.target
    if policy.is_internal_topic(topic):
        return TopicDecision(topic, False, "internal topics are never copied")
    if is_cycle(policy, target, topic):
        return TopicDecision(topic, False, f"it came from '{target}' and would go round in a circle")
    decision = chosen.decide(topic)
    if not decision.accepted and flow.heartbeats_replication and policy.is_heartbeats_topic(topic):
        decision = Decision(True, "heartbeats topics are copied (heartbeats.replication.enabled)")
    if not decision.accepted:
        return TopicDecision(topic, False, decision.reason)
    remote = policy.format_remote_topic(flow.name.source, topic)
    if len(remote) > LONGEST_TOPIC_NAME:
        return TopicDecision(
            topic, False, f"its copy's name would be longer than {LONGEST_TOPIC_NAME} characters: {remote}"
        )
    return TopicDecision(topic, True, decision.reason, remote)
