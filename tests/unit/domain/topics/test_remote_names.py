from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.topics.remote_names import RemoteNames, SourceTopic
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState

RECORD = TopicRecord("a->b", "orders", "a.orders", "1", "2", "A", "B", "p", TopicState.REPLICATING, 0)


def names(*topics: str, policy: ReplicationPolicy | None = None, records: TopicRecords | None = None) -> RemoteNames:
    return RemoteNames(frozenset(topics), records or TopicRecords(), policy or DefaultReplicationPolicy())


def test_names_tell_as_in_mirror_maker() -> None:
    # MirrorClientTest: testRemoteTopics, testHeartbeatTopics, testUpstreamClusters.
    remote_names = names(
        "topic1", "source1.topic2", "source2.source1.topic3", "source3.source4.source5.heartbeats", "heartbeats",
        "source1.heartbeats", "source1.checkpoints.internal", "source2.internal", "__consumer_offsets",
    )  # fmt: skip
    assert remote_names.remote_topics() == {
        "source1.topic2",
        "source2.source1.topic3",
        "source1.heartbeats",
        "source3.source4.source5.heartbeats",
    }
    assert remote_names.remote_topics("source1") == {"source1.topic2", "source1.heartbeats"}
    assert remote_names.heartbeat_topics == {"heartbeats", "source1.heartbeats", "source3.source4.source5.heartbeats"}
    assert remote_names.checkpoint_topics == {"source1.checkpoints.internal"}
    assert remote_names.upstream_clusters == {"source1", "source3", "source4", "source5"}
    assert [remote_names.hops(alias) for alias in ("source1", "source4", "source5", "source2", "topic1")] == [
        1,
        2,
        3,
        -1,
        -1,
    ]
    assert remote_names.source_topics("source2.source1.topic3") == (SourceTopic("source2", "source1.topic3"),)


def test_records_win_over_names() -> None:
    records = TopicRecords.of([RECORD, replace(RECORD, upstream_topic="b", downstream_topic="plain", flow="x->b")])
    remote_names = names("a.orders", "plain", "my.topic", records=records)
    assert remote_names.source_topics("plain") == (SourceTopic("x", "b"),)
    assert remote_names.source_topics("a.orders") == (SourceTopic("a", "orders"),)
    # A dotted topic of this cluster looks like a copy, to MirrorMaker 2 too.
    assert remote_names.remote_topics() == {"a.orders", "plain", "my.topic"}
    assert remote_names.remote_topics("x") == {"plain"}


@pytest.mark.parametrize("kind", [IdentityReplicationPolicy, MigratingReplicationPolicy])
def test_where_names_do_not_tell_records_do(kind: type) -> None:
    policy = kind(source_alias="a")
    topics = ("orders", "local", "heartbeats", "a.heartbeats")
    # As MirrorMaker 2: every topic but its own heartbeats.
    assert names(*topics, policy=policy).remote_topics() == {"orders", "local", "a.heartbeats"}
    assert names(*topics, policy=kind()).remote_topics() == {"a.heartbeats"}
    records = TopicRecords.of([replace(RECORD, downstream_topic="orders")])
    assert names(*topics, policy=policy, records=records).remote_topics("a") == {"orders", "a.heartbeats"}
    assert names(*topics, policy=policy, records=records).source_topics("local") == ()


def test_flows_that_merge_into_one_topic() -> None:
    merged = [replace(RECORD, flow=f"{alias}->b", downstream_topic="orders") for alias in "ca"]
    claimed = replace(RECORD, flow="d->b", downstream_topic="orders", state=TopicState.CLAIMED)
    remote_names = names("orders", records=TopicRecords.of([*merged, claimed]))
    assert remote_names.source_topics("orders") == (SourceTopic("a", "orders"), SourceTopic("c", "orders"))
    assert remote_names.remote_topics("c") == {"orders"}
    assert remote_names.remote_topics("d") == frozenset()


def test_flows_with_policies_of_their_own() -> None:
    policies: dict[str, ReplicationPolicy] = {
        "a": DefaultReplicationPolicy(),
        "b": DefaultReplicationPolicy("_", separator_in_internal_names=False),
    }
    topics = frozenset({"a.heartbeats", "b_heartbeats", "b.checkpoints.internal", "b_c_heartbeats"})
    remote_names = RemoteNames(topics, policies=policies)
    assert (remote_names.hops("a"), remote_names.hops("b"), remote_names.hops("c")) == (1, 1, 2)
    assert remote_names.heartbeat_topics == {"a.heartbeats", "b_heartbeats", "b_c_heartbeats"}
    assert remote_names.checkpoint_topics == {"b.checkpoints.internal"}
