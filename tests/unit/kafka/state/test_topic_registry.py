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


KEY = b'["topic","a->b","t"]'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            b"{}",
            "cannot be read: KeyError('version'); write a tombstone with that key to drop it, and the next refresh",
        ),
        (json.dumps({"version": 9}).encode(), "has version 9, only 1 is known; run with the newer software"),
        (
            json.dumps({"version": 1, **record("a->b", "t").to_json(), "state": "later"}).encode(),
            "cannot be read: its state 'later' is not known; run with the newer software that wrote it",
        ),
    ],
)
def test_a_topic_record_that_cannot_be_read_concerns_its_flow(
    cluster: ClusterSettings, value: bytes, said: str
) -> None:
    with TopicRegistry(cluster) as registry:
        registry.write([record("a->b", "other"), record("c->b", "t")], replication_factor=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for key in (
            b"\xff\x00",
            b"text",
            b'"topic"',
            b"[]",
            b'["later", 1]',
            b'["topic", "a->b"]',
            b'["topic", 1, "t"]',
        ):
            producer.produce(META_TOPIC, b"not ours", key=key)
        producer.produce(META_TOPIC, value, key=KEY)
        producer.flush(60)
        known = registry.read()
        assert said in known.unreadable["a->b", "t"]
        assert known.unreadable.keys() == {("a->b", "t")}
        assert set(known.of_flow("c->b")) == {"t"}
        with pytest.raises(CorruptRecord, match=r"at offset \d+ of srm-meta.internal"):
            known.of_flow("a->b")
        assert set(known.readable.of_flow("a->b")) == {"other"}
        registry.write(forget=[("a->b", "t")])
        assert set(registry.read().of_flow("a->b")) == {"other"}


def test_a_cluster_record_that_cannot_be_read_stops_all_flows(cluster: ClusterSettings) -> None:
    with TopicRegistry(cluster) as registry:
        registry.write((), [ClusterBinding("a", "id-a", 7)], replication_factor=1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce(META_TOPIC, b"{}", key=b'["cluster","a"]')
        producer.flush(60)
        with pytest.raises(CorruptRecord, match="cannot be read"):
            registry.read()
