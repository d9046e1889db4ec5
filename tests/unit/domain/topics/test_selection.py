"""Which topics are copied: the vectors of MirrorSourceConnectorTest, and as a property."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from srm_common.domain.topics.selection import CopiedTopics, select_topics
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState

FLOW = FlowSettings(
    FlowName("source", "target"),
    ClusterSettings.plaintext("source", "s:1"),
    ClusterSettings.plaintext("target", "t:1"),
    topics_exclude=(),
)
IDENTITY = IdentityReplicationPolicy(source_alias="source")


def accepted(flow: FlowSettings, *topics: str) -> list[str]:
    return [decision.topic for decision in select_topics(flow, topics) if decision.accepted]


def test_default_policy_never_goes_round_in_a_circle() -> None:
    cycles = ["target.topic1", "target.source.topic1", "source.target.topic1", "target.source.target.topic1",
              "source.target.source.topic1"]  # fmt: skip
    assert accepted(FLOW, *cycles, "topic1", "source.topic1") == ["source.topic1", "topic1"]


def test_identity_policy_sees_circles_of_heartbeats_only() -> None:
    flow = replace(FLOW, policy=IDENTITY)
    topics = ["target.topic1", "target.source.topic1", "othersource.topic1", "topic1"]
    assert sorted(topics) == accepted(flow, *topics)
    heartbeats = ["target.heartbeats", "target.source.heartbeats", "source.target.heartbeats"]
    assert accepted(flow, *heartbeats, "heartbeats", "othersource.heartbeats") == [
        "heartbeats",
        "othersource.heartbeats",
    ]


@pytest.mark.parametrize(
    ("separator", "switch", "topics", "expected"),
    [
        (".", True, (), ["heartbeats", "us-west.heartbeats"]),
        ("_", True, (), ["heartbeats"]),
        (".", False, (), []),
        (".", False, (".*",), ["heartbeats", "us-west.heartbeats"]),
    ],
)
def test_heartbeats(separator: str, switch: bool, topics: tuple[str, ...], expected: list[str]) -> None:
    flow = replace(FLOW, policy=DefaultReplicationPolicy(separator), heartbeats_replication=switch, topics=topics)
    assert accepted(flow, "heartbeats", "us-west.heartbeats") == expected


def test_heartbeats_of_two_clusters_are_never_mixed() -> None:
    class AllNamesStay(DefaultReplicationPolicy):
        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return topic

    flow = replace(FLOW, policy=AllNamesStay())
    decisions = {decision.topic: decision for decision in select_topics(flow, ["heartbeats", "x", "y.heartbeats"])}
    assert not decisions["heartbeats"].accepted
    assert "mixed with the heartbeats that are written to heartbeats on 'target'" in decisions["heartbeats"].reason
    assert decisions["x"].remote_topic == "x"
    assert decisions["y.heartbeats"].remote_topic == "y.heartbeats"


def test_reasons_and_names() -> None:
    flow = replace(FLOW, topics=("a.*",), topics_exclude=(".*-old",))
    decisions = select_topics(flow, ["b", "a-old", "a", "target.a", "__x", "heartbeats", "a" * 243])
    assert [(found.topic[:10], found.accepted, found.remote_topic) for found in decisions] == [
        ("__x", False, None),
        ("a", True, "source.a"),
        ("a-old", False, None),
        ("aaaaaaaaaa", False, None),
        ("b", False, None),
        ("heartbeats", True, "source.heartbeats"),
        ("target.a", False, None),
    ]
    reasons = [found.reason for found in decisions]
    assert reasons[:3] == [
        "internal topics are never copied",
        "'a.*' of topics matches it",
        "excluded by '.*-old' of topics.exclude",
    ]
    assert "longer than 249 characters" in reasons[3]
    assert "heartbeats.replication.enabled" in reasons[5]
    assert "it came from 'target'" in reasons[6]


@given(
    st.lists(st.text("ab.-_", min_size=1, max_size=8), unique=True),
    st.sampled_from([DefaultReplicationPolicy(), DefaultReplicationPolicy("__"), IDENTITY]),
)
def test_every_topic_has_one_decision_and_remote_names_are_unique(topics: list[str], policy: ReplicationPolicy) -> None:
    decisions = select_topics(replace(FLOW, policy=policy), topics)
    assert [found.topic for found in decisions] == sorted(topics)
    assert all(found.reason for found in decisions)
    remotes = [found.remote_topic for found in decisions if found.accepted]
    assert len(set(remotes)) == len(remotes)


def record(
    topic: str, state: TopicState, *, flow: str = "a->b", copy: str = "", former: tuple[str, ...] = ()
) -> TopicRecord:
    copy = copy or f"a.{topic}"
    copy_id = "" if state is TopicState.CLAIMED else f"id of {copy}"
    return TopicRecord(
        flow, topic, copy, "up", copy_id, "id-a", "id-b", "p", state, since_ms=1, former_downstream_topics=former
    )


def test_each_state_of_a_record() -> None:
    copied = CopiedTopics("a->b", TopicRecords.of(record(state.value, state) for state in TopicState))
    assert copied.going_on == {"replicating"}
    assert copied.names.keys() == {state.value for state in TopicState} - {"claimed"}
    assert copied.ids.keys() == {f"a.{state.value}" for state in TopicState} - {"a.claimed"}
    in_runs = {state for state in TopicState if copied.copied_in_runs(state.value, f"a.{state.value}")}
    assert in_runs == {TopicState.REPLICATING, TopicState.RECREATED}
    gone = {state for state in TopicState if copied.gone(state.value) is not None}
    assert gone == {TopicState.TARGET_DELETED}
    assert copied.gone("target_deleted") == "its copy a.target_deleted was deleted on the target"


def test_a_name_belongs_to_the_copy_that_was_made_under_it() -> None:
    copied = CopiedTopics("a->b", TopicRecords.of([record("t", TopicState.REPLICATING, copy="old.t")]))
    assert copied.names == {"t": "old.t"}
    assert not copied.copied_in_runs("t", "a.t")
    assert copied.gone("u") is None


def test_who_else_writes_to_a_copy() -> None:
    records = [
        record("t", TopicState.REPLICATING, copy="t"),
        record("t", TopicState.REPLICATING, flow="c->b", copy="t"),
        record("t", TopicState.CUT, flow="d->b", copy="t"),
        record("t", TopicState.REPLICATING, flow="e->b", copy="e.t", former=("t",)),
    ]
    copied = CopiedTopics("a->b", TopicRecords.of(records))
    assert copied.other_writers("t") == ("c->b",)
    assert copied.feeders("t") == ("a->b", "c->b", "d->b", "e->b")
    assert copied.other_writers("e.t") == ("e->b",)
    assert copied.records.keys() == {"t"}
