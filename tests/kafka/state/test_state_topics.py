from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import StateTopicInvalid, StateUnavailable
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics, ensure_state_topics
from srm_common.testing import LocalKafka
from srm_common.wire.state.mm2 import partition_for, source_offset_key, source_offset_value

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    """A flow with aliases of its own, so that its state topics are its own too."""
    return FlowSettings(
        FlowName(name, name + "-t"),
        ClusterSettings.plaintext(name, source_kafka.bootstrap_servers),
        ClusterSettings.plaintext(name + "-t", target_kafka.bootstrap_servers),
    )


@pytest.fixture
def state(flow: FlowSettings) -> StateTopics:
    return ensure_state_topics(flow)


def settings_of(kafka: LocalKafka, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = kafka.admin().describe_configs([resource])[resource].result()
    return {name: str(entry.value) for name, entry in entries.items()}


def alter(kafka: LocalKafka, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.admin().incremental_alter_configs([resource])[resource].result()
    wait_until(lambda: settings_of(kafka, topic)[name] == value)


def wait_until(holds: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def delete_before(kafka: LocalKafka, place: TopicPartition) -> None:
    """Retried, because a log takes a moment to follow a new cleanup policy."""

    def deleted() -> bool:
        (answer,) = kafka.admin().delete_records([place]).values()
        error = answer.exception(60)
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.POLICY_VIOLATION:
            return False
        answer.result()
        return True

    wait_until(deleted)


def write(kafka: LocalKafka, topic: str, *records: tuple[int, bytes, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for partition, key, value in records:
        producer.produce(topic, key=key, value=value, partition=partition)
    assert producer.flush(60) == 0


def offset_record(flow: FlowSettings, topic: str, value: bytes | None) -> tuple[int, bytes, bytes | None]:
    key = source_offset_key(flow.name.source, topic, 0)
    return partition_for(key, 25), key, value


def test_all_are_created_once(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    first = ensure_state_topics(flow)
    assert (first.offsets_topic, first.offsets_partitions) == (f"mm2-offsets.{name}.internal", 25)
    assert (first.segments_topic, first.segments_partitions) == (f"mm2-offset-segments.{name}.internal", 25)
    assert any("1 replica instead of 3" in note for note in first.notes)
    assert ensure_state_topics(flow) == replace(first, notes=())
    at_target = target_kafka.admin().list_topics().topics
    found = {topic: len(at_target[topic].partitions) for topic in at_target if name in topic}
    assert found == {
        f"mm2-offsets.{name}.internal": 25,
        f"mm2-offset-segments.{name}.internal": 25,
        f"mm2-status.{name}.internal": 5,
        f"mm2-configs.{name}.internal": 1,
        f"{name}.checkpoints.internal": 1,
        f"srm-flow-state.{name}.internal": 1,
    }
    assert "srm-meta.internal" in at_target
    assert all(settings_of(target_kafka, topic)["cleanup.policy"] == "compact" for topic in found)
    assert f"mm2-offset-syncs.{name}-t.internal" in source_kafka.admin().list_topics().topics


def test_settings_that_lose_nothing_are_repaired(
    flow: FlowSettings, state: StateTopics, target_kafka: LocalKafka
) -> None:
    alter(target_kafka, state.offsets_topic, "cleanup.policy", "delete")
    checkpoints = f"{flow.name.source}.checkpoints.internal"
    alter(target_kafka, checkpoints, "cleanup.policy", "compact,delete")
    notes = ensure_state_topics(flow).notes
    assert len(notes) == 2
    assert all("set cleanup.policy=compact" in note for note in notes)
    for topic in (state.offsets_topic, checkpoints):
        wait_until(lambda t=topic: settings_of(target_kafka, t)["cleanup.policy"] == "compact")  # type: ignore[misc]


def test_a_cluster_that_takes_no_such_setting_is_used_all_the_same(
    flow: FlowSettings, target_kafka: LocalKafka, name: str
) -> None:
    """Here because of another setting of the topic; elsewhere for want of a right."""
    topic = f"mm2-offsets.{name}.internal"
    target_kafka.create_topic(topic, 25, 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "72000000"})
    taken, refused = [note for note in ensure_state_topics(flow).notes if topic in note]
    assert taken == f"set segment.bytes=1048576 on state topic {topic} of cluster '{name}-t'"
    assert "takes longer to read than necessary" in refused
    assert refused.endswith(f"--entity-name {topic} --add-config max.compaction.lag.ms=3600000")


def test_a_policy_that_has_deleted_records_is_refused(
    flow: FlowSettings, state: StateTopics, target_kafka: LocalKafka
) -> None:
    write(target_kafka, state.offsets_topic, (3, b"k", b"v"), (3, b"k", b"v"))
    alter(target_kafka, state.offsets_topic, "cleanup.policy", "delete")
    delete_before(target_kafka, TopicPartition(state.offsets_topic, 3, 1))
    with pytest.raises(
        StateTopicInvalid, match=rf"{state.offsets_topic} .*cleanup.policy=delete .*kafka-configs.sh .*"
    ):
        ensure_state_topics(flow)


def test_many_commits_cost_no_memory(flow: FlowSettings, state: StateTopics, target_kafka: LocalKafka) -> None:
    """What counts is the newest record of each key, however long the log is."""
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers, "linger.ms": 20, "log_level": 0})
    keys = [source_offset_key(flow.name.source, f"t-{number}", 0) for number in range(20)]
    for number in range(100_000):
        key = keys[number % 20]
        producer.produce(
            state.offsets_topic, key=key, value=source_offset_value(number), partition=partition_for(key, 25)
        )
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush(120) == 0
    read_source_offsets(flow, state)
    tracemalloc.start()
    try:
        offsets = read_source_offsets(flow, state)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert offsets == {(f"t-{number}", 0): 99_980 + number + 1 for number in range(20)}
    assert peak < 12 << 20


def test_an_open_transaction_on_the_offsets_is_not_read_past(
    flow: FlowSettings, state: StateTopics, target_kafka: LocalKafka
) -> None:
    partition, key, value = offset_record(flow, "t", source_offset_value(5))
    producer = Producer(
        {"bootstrap.servers": target_kafka.bootstrap_servers, "transactional.id": flow.name.source, "log_level": 0}
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(state.offsets_topic, key=key, value=value, partition=partition)
    producer.flush()
    with pytest.raises(StateUnavailable, match=rf"{state.offsets_topic}-{partition} .*open transaction"):
        read_source_offsets(flow, state, stable_within_seconds=0.2)
    producer.abort_transaction()
    assert read_source_offsets(flow, state) == {}


def test_flow_state_takes_megabytes(flow: FlowSettings, state: StateTopics) -> None:
    rows = [{"topic": f"topic-{i}", "partition": i % 50, "position": i * 7919, "error": None} for i in range(40_000)]
    with FlowState(flow) as store:
        store.write("run", rows)
        assert store.read("run") == rows


def test_brokers_that_want_more_replicas_in_sync_than_there_are_get_what_there_is(
    flow: FlowSettings, state: StateTopics, target_kafka: LocalKafka
) -> None:
    alter(target_kafka, state.offsets_topic, "min.insync.replicas", "2")
    mended = ensure_state_topics(flow)
    assert any("set min.insync.replicas=1 on state topic" in note for note in mended.notes)
    wait_until(lambda: settings_of(target_kafka, state.offsets_topic)["min.insync.replicas"] == "1")
