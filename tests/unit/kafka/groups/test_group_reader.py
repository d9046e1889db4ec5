from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.protocol import frames
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupOffsets, GroupReader
from srm_common.kafka.groups.group_watch import GroupWatch
from srm_common.testing import FakeCluster
from tests.kafka.group_commits import commit


@pytest.fixture
def reader(source_kafka: FakeCluster) -> GroupReader:
    # Hundreds of requests at once, on a machine that does other things first.
    return GroupReader(ClusterSettings.plaintext("source", source_kafka.bootstrap_servers), timeout_seconds=120)


def test_offsets_states_and_notes(source_kafka: FakeCluster, reader: GroupReader, name: str) -> None:
    source_kafka.create_topic(name, 3)
    simple, active = name + "-simple", name + "-active"
    commit(source_kafka, simple, TopicPartition(name, 0, 17, metadata="note"), TopicPartition(name, 2, 0))
    consumer = Consumer(
        {"bootstrap.servers": source_kafka.bootstrap_servers, "group.id": active, "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([name])
        while not consumer.assignment():
            consumer.poll(0.1)
        consumer.commit(offsets=[TopicPartition(name, 1, 5)], asynchronous=False)
        groups, faults = reader.groups()
        assert not faults
        assert {g.name: g.state for g in groups if g.name.startswith(name)} == {simple: "empty", active: "stable"}
        offsets, faults = reader.offsets([active, simple, name + "-unknown"])
        assert not faults
        assert offsets == [
            GroupOffsets(active, {Place(name, 1): CommittedOffset(5)}),
            GroupOffsets(simple, {Place(name, 0): CommittedOffset(17, "note"), Place(name, 2): CommittedOffset(0)}),
            GroupOffsets(name + "-unknown", {}),
        ]
    finally:
        consumer.close()


def test_many_groups(source_kafka: FakeCluster, reader: GroupReader, name: str) -> None:
    source_kafka.create_topic(name, 1)
    groups = [f"{name}-{i:03}" for i in range(250)]
    for number, group in enumerate(groups):
        commit(source_kafka, group, TopicPartition(name, 0, number))
    offsets, faults = reader.offsets(groups)
    assert not faults
    assert [g.offsets[Place(name, 0)].offset for g in offsets] == list(range(250))


def test_an_unreachable_cluster_is_named() -> None:
    reader = GroupReader(ClusterSettings.plaintext("east", "127.0.0.1:1"), timeout_seconds=1)
    with pytest.raises(UnreachableCluster, match="'east'"):
        reader.groups()


def test_answers_that_are_too_large_are_asked_for_in_parts(
    source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group with more than may be read spoils no other."""
    source_kafka.create_topic(name, 40)
    groups = [f"{name}-{number}" for number in range(6)]
    for group in groups:
        source_kafka.commit(group, {(name, number): 1 for number in range(40)}, "m" * 4000)
    huge = f"{name}-huge"
    source_kafka.commit(huge, {(name, number): 1 for number in range(40)}, "m" * 12_000)
    cluster = ClusterSettings.plaintext("source", source_kafka.bootstrap_servers)
    monkeypatch.setattr(frames, "_LARGEST_ANSWER", 350_000)
    offsets, faults = GroupReader(cluster, timeout_seconds=5).offsets([huge, *groups])
    assert [(found.group, len(found.offsets)) for found in offsets] == [(group, 40) for group in groups]
    assert [fault.group for fault in faults] == [huge]
    assert "at most 350000 are possible" in faults[0].reason
    with GroupWatch(cluster) as watch:
        offsets, (sentence,) = watch.committed(lambda group: group.startswith(name))
    assert sorted(found.group for found in offsets) == groups
    assert "did not return the offsets of 1 groups" in sentence
