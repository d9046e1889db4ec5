"""srm-meta.internal, which all flows into a cluster share. Brokers keep it as the fake does: ``tests/contract``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import META_TOPIC
from srm_common.domain.topics.topic_records import Ancestor, ClusterBinding, TopicRecord, TopicState
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster


def record(flow: str, topic: str) -> TopicRecord:
    lineage = (Ancestor("id-a", "ä", topic),)
    return TopicRecord(
        flow, topic, f"a.{topic}", "u", "d", "id-a", "id-b", "identity", TopicState.REPLICATING, 1, lineage
    )


@pytest.fixture
def cluster() -> Iterator[ClusterSettings]:
    with FakeCluster(name="target") as kafka:
        yield ClusterSettings.plaintext("target", kafka.bootstrap_servers)


def test_what_is_written_is_read_and_what_is_forgotten_is_gone(cluster: ClusterSettings, name: str) -> None:
    records = [record(name, f"t{number}") for number in range(50)]
    with TopicRegistry(cluster) as registry:
        registry.write(records, [ClusterBinding(name, "id-a", 7)], replication_factor=1)
    with TopicRegistry(cluster) as registry:
        topic_records = registry.read()
        assert topic_records.of_flow(name) == {topic_record.upstream_topic: topic_record for topic_record in records}
        assert topic_records.bindings[name] == ClusterBinding(name, "id-a", 7)
        registry.write(forget=[records[0].key], forget_bindings=[name])
        topic_records = registry.read()
        assert set(topic_records.of_flow(name)) == {f"t{number}" for number in range(1, 50)}
        assert name not in topic_records.bindings


def test_a_cluster_without_the_topic_has_no_records() -> None:
    with (
        FakeCluster(name="bare") as kafka,
        TopicRegistry(ClusterSettings.plaintext("x", kafka.bootstrap_servers)) as it,
    ):
        assert it.read().topics == {}
        assert META_TOPIC not in kafka.topics()
        _corrupt(kafka, it)


def _corrupt(kafka: FakeCluster, registry: TopicRegistry) -> None:
    """A record that cannot be read stops every flow into a cluster."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    kafka.create_topic(META_TOPIC, config={"cleanup.policy": "compact"})
    for key in (b"\xff\x00", b"text", b'"topic"', b"[]", b'["later", 1]'):
        producer.produce(META_TOPIC, b"not ours", key=key)
    producer.flush(60)
    assert registry.read().topics == {}
    key = b'["topic","a->b","t"]'
    for value, message in ((b"{}", "cannot be read"), (json.dumps({"version": 9}).encode(), "version 9")):
        producer.produce(META_TOPIC, value, key=key)
        producer.flush(60)
        with pytest.raises(CorruptRecord, match=message):
            registry.read()
    registry.write(forget=[("a->b", "t")])
    assert registry.read().topics == {}
