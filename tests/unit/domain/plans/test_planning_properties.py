"""Plans against a simulated target that does what it is told: nothing is left to do, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, OnDataLoss
from srm_common.domain.plans.plan import Plan
from srm_common.domain.plans.planning import SourceView, TargetView, make_plan
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.domain.topics.actions import Action, AlterConfigs, CreateTopic, GrowPartitions, StartOver
from srm_common.domain.topics.lifecycle import TopicIds, settle
from srm_common.domain.topics.recording import RecordTopic, plan_records
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import select_topics
from srm_common.domain.topics.topic_records import Knowledge, TopicRecord, TopicRecords, TopicState
from srm_common.domain.topics.topic_settings import (
    AFTER_MAX,
    BEFORE_MAX,
    LONG_MAX,
    TIMESTAMP_TYPE,
    Source,
    TargetAbilities,
    TopicSetting,
)
from tests.examples import examples
from tests.unit.domain.simulated_flows import with_topics

DEFAULTS = {
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "segment.bytes": "1073741824",
    TIMESTAMP_TYPE: "CreateTime",
    BEFORE_MAX: LONG_MAX,
    AFTER_MAX: "3600000",
}
TOPICS = ("t", "u", "v")


@dataclass
class Topic:
    partitions: int
    own: dict[str, str]
    topic_id: str


@dataclass
class World:
    """Two clusters and what the flow has recorded. Ids are never used twice."""

    flow: FlowSettings
    target_defaults: Mapping[str, str]
    source: dict[str, Topic]
    target: dict[str, Topic]
    records: TopicRecords
    started_over: set[str] = field(default_factory=set)
    made: int = 0

    def plan(self) -> Plan:
        knowledge = Knowledge("id-a", "id-b", {"A": TopicRecords(), "B": self.records}, now_ms=5)
        ids = TopicIds(
            {name: topic.topic_id for name, topic in self.source.items()},
            {name: topic.topic_id for name, topic in self.target.items()},
        )
        decisions = select_topics(self.flow, self.source, knowledge)
        settled = settle(self.flow, decisions, self.records.of_flow(self.flow.name), ids)
        plan = make_plan(
            self.flow,
            [one.decision for one in settled],
            SourceView(
                {name: topic.partitions for name, topic in self.source.items()},
                {name: described(topic.own, DEFAULTS) for name, topic in self.source.items()},
            ),
            TargetView(
                {name: topic.partitions for name, topic in self.target.items()},
                {name: described(topic.own, self.target_defaults) for name, topic in self.target.items()},
                Brokers(3),
                TargetAbilities(self.target_defaults, frozenset(DEFAULTS)),
            ),
        )
        final = {decision.topic: decision for decision in plan.decisions}
        outcomes = [(final[one.decision.topic], one.state, one.reason) for one in settled]
        over = [
            StartOver("B", one.decision.remote_topic or "", one.decision.topic, "") for one in settled if one.start_over
        ]
        records = plan_records(self.flow, knowledge, outcomes, ids.source, ids.target)
        return replace(plan, actions=(*over, *records, *plan.actions))

    def apply(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case CreateTopic():
                    if action.topic not in self.target:
                        self.made += 1
                        self.target[action.topic] = Topic(action.partitions, dict(action.configs), f"made-{self.made}")
                case GrowPartitions():
                    topic = self.target[action.topic]
                    topic.partitions = max(topic.partitions, action.after)
                case AlterConfigs():
                    for change in action.changes:
                        if change.after is None:
                            self.target[action.topic].own.pop(change.key, None)
                        else:
                            self.target[action.topic].own[change.key] = change.after
                case RecordTopic():
                    self.records = with_topics(self.records, [action.after])
                case StartOver():
                    self.started_over.add(action.upstream_topic)
                case _:
                    raise AssertionError(f"a plan of topics has {action}")
        self.records = with_topics(
            self.records,
            (
                replace(record, downstream_topic_id=self.target[record.downstream_topic].topic_id)
                for record in self.records.topics.values()
                if record.downstream_topic_id == NO_TOPIC_ID and record.downstream_topic in self.target
            ),
        )


def described(own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, TopicSetting]:
    topic_settings = {key: TopicSetting(value, Source.STATIC_BROKER) for key, value in defaults.items()}
    return topic_settings | {key: TopicSetting(value, Source.TOPIC) for key, value in own.items()}


own_settings = st.dictionaries(
    st.sampled_from(["retention.ms", "compression.type", "segment.bytes", "cleanup.policy", AFTER_MAX]),
    st.sampled_from(["1", "2", "3"]),
    max_size=3,
)
made_topics = st.builds(Topic, st.integers(1, 6), own_settings, st.sampled_from(["1", "2"]))
choices = st.sampled_from(OnDataLoss)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    flow = FlowSettings(
        FlowName("A", "B"),
        ClusterSettings.plaintext("A", "a:1"),
        ClusterSettings.plaintext("B", "b:1"),
        topics_exclude=tuple(draw(st.sets(st.sampled_from(TOPICS), max_size=1))),
        use_defaults_from=draw(st.sampled_from(["source", "target"])),
        on_data_loss=draw(choices),
        on_target_loss=draw(choices),
        emit_heartbeats=draw(st.booleans()),
    )
    source = draw(st.dictionaries(st.sampled_from(TOPICS), made_topics))
    target = draw(st.dictionaries(st.sampled_from([f"A.{topic}" for topic in TOPICS]), made_topics))
    records = [
        TopicRecord(
            "A->B",
            topic,
            f"A.{topic}",
            "1",
            draw(st.sampled_from(["1", NO_TOPIC_ID])),
            "id-a",
            "id-b",
            "DefaultReplicationPolicy",
            draw(st.sampled_from([state for state in TopicState if state is not TopicState.CLAIMED])),
            1,
        )
        for topic in draw(st.sets(st.sampled_from(TOPICS)))
    ]
    return World(flow, {**DEFAULTS, **draw(own_settings)}, source, target, TopicRecords.of(records))


def shape(topics: Mapping[str, Topic]) -> dict[str, Any]:
    return {name: (topic.partitions, dict(topic.own), topic.topic_id) for name, topic in topics.items()}


@settings(deadline=None, max_examples=examples(300))
@given(worlds())
def test_after_a_plan_nothing_is_left_to_do(world: World) -> None:
    plan = world.plan()
    world.apply(plan.actions)
    again = world.plan()
    assert again.actions == ()
    assert again.lost == plan.lost
    for decision in again.accepted:
        assert decision.remote_topic is not None
        copy, topic = world.target[decision.remote_topic], world.source[decision.topic]
        assert copy.partitions >= topic.partitions
        record = world.records.find("A->B", decision.topic)
        assert record is not None
        assert record.downstream_topic_id == copy.topic_id


@settings(deadline=None)
@given(worlds())
def test_a_plan_may_be_applied_twice(world: World) -> None:
    plan = world.plan()
    world.apply(plan.actions)
    once = shape(world.target)
    world.apply(plan.actions)
    assert shape(world.target) == once


@settings(deadline=None)
@given(worlds())
def test_nothing_is_deleted_or_shrunk_and_strangers_are_left_alone(world: World) -> None:
    before = shape(world.target)
    source = shape(world.source)
    plan = world.plan()
    world.apply(plan.actions)
    assert shape(world.source) == source
    copies = {decision.remote_topic for decision in plan.accepted}
    for name, (partitions, own, topic_id) in before.items():
        assert world.target[name].topic_id == topic_id
        assert world.target[name].partitions >= partitions
        if name not in copies:
            assert (world.target[name].partitions, world.target[name].own) == (partitions, own)
    assert set(world.target) - set(before) <= copies | {"heartbeats"}


@settings(deadline=None)
@given(worlds())
def test_what_was_lost_comes_back_whole_or_not_without_being_said(world: World) -> None:
    before = shape(world.target)
    recorded = world.records.of_flow("A->B")
    plan = world.plan()
    for decision in plan.accepted:
        record, copy = recorded.get(decision.topic), before.get(decision.remote_topic or "")
        if record is None or record.downstream_topic_id == NO_TOPIC_ID:
            continue
        if copy is None or copy[2] != record.downstream_topic_id:
            assert world.flow.on_target_loss is not OnDataLoss.FAIL
            over = {action.topic for action in plan.actions if isinstance(action, StartOver)}
            assert (decision.remote_topic in over) is (world.flow.on_target_loss is OnDataLoss.RESET)
