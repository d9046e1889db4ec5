"""What is made of records and settings of state topics; that brokers make and keep them is in tests/kafka/state."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.offsets.segments import OffsetSpan, build_segment
from srm_common.errors import CorruptRecord, StateTopicInvalid, UnreachableCluster
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics, ensure_state_topics
from srm_common.testing import FakeCluster
from srm_common.wire.state.mm2 import partition_for, source_offset_key, source_offset_value
from srm_common.wire.state.segments import encode_segment, segment_partition


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    """A flow with aliases of its own, so that its state topics are its own too."""
    return FlowSettings(
        FlowName(name, name + "-t"),
        ClusterSettings.plaintext(name, source_kafka.bootstrap_servers),
        ClusterSettings.plaintext(name + "-t", target_kafka.bootstrap_servers),
    )


@pytest.fixture
def state(flow: FlowSettings) -> StateTopics:
    return ensure_state_topics(flow)


def write(kafka: FakeCluster, topic: str, *records: tuple[int, bytes, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for partition, key, value in records:
        producer.produce(topic, key=key, value=value, partition=partition)
    assert producer.flush(60) == 0


def offset_record(flow: FlowSettings, topic: str, value: bytes | None) -> tuple[int, bytes, bytes | None]:
    key = source_offset_key(flow.name.source, topic, 0)
    return partition_for(key, 25), key, value


def test_a_topic_of_mirror_maker_is_read_sooner_from_now_on(
    flow: FlowSettings, target_kafka: FakeCluster, name: str
) -> None:
    topic = f"mm2-offsets.{name}.internal"
    target_kafka.create_topic(topic, 25, 1, {"cleanup.policy": "compact"})
    notes = [note for note in ensure_state_topics(flow).notes if topic in note]
    assert notes == [
        f"set segment.bytes=1048576, max.compaction.lag.ms=3600000 on state topic {topic} of cluster '{name}-t'"
    ]
    assert ClusterAdmin(flow.target).topic_settings([topic])[topic]["segment.bytes"].value == "1048576"
    assert not ensure_state_topics(flow).notes


def test_offsets_are_read_as_mirror_maker_means_them(
    flow: FlowSettings, state: StateTopics, target_kafka: FakeCluster
) -> None:
    foreign = source_offset_key("another", "t", 0)
    write(
        target_kafka,
        state.offsets_topic,
        offset_record(flow, "moved", source_offset_value(3)),
        offset_record(flow, "moved", source_offset_value(41)),
        offset_record(flow, "reset", source_offset_value(7)),
        offset_record(flow, "reset", None),
        (partition_for(foreign, 25), foreign, source_offset_value(9)),
        (0, b"not ours", b"anything"),
    )
    offsets = read_source_offsets(flow, state)
    assert offsets == {("moved", 0): 42}
    assert not offsets.faults


def test_a_corrupt_offset_fails_its_own_partition_alone(
    flow: FlowSettings, state: StateTopics, target_kafka: FakeCluster
) -> None:
    bad = offset_record(flow, "bad", b'{"offset":"x"}')
    write(target_kafka, state.offsets_topic, offset_record(flow, "good", source_offset_value(0)), bad)
    offsets = read_source_offsets(flow, state)
    assert offsets == {("good", 0): 1}
    (fault,) = offsets.faults.values()
    assert isinstance(fault, CorruptRecord)
    assert list(offsets.faults) == [("bad", 0)]
    assert f"of {state.offsets_topic}-{bad[0]} " in str(fault)
    assert bad[1].decode() in str(fault)


def test_the_copy_in_the_keys_own_partition_counts_after_growth(
    flow: FlowSettings, state: StateTopics, target_kafka: FakeCluster
) -> None:
    home, key, new = offset_record(flow, "grown", source_offset_value(20))
    stray = (home + 1) % 25
    write(target_kafka, state.offsets_topic, (home, key, new))
    write(target_kafka, state.offsets_topic, (stray, key, source_offset_value(10)))
    assert read_source_offsets(flow, state) == {("grown", 0): 21}


def test_lost_offsets_are_refused_while_the_map_proves_a_copy(
    flow: FlowSettings, state: StateTopics, target_kafka: FakeCluster
) -> None:
    assert read_source_offsets(flow, state) == {}
    key, value = encode_segment(build_segment("t", 0, 0, 5, [OffsetSpan(0, 5, 0, 5)], 1000))
    write(target_kafka, state.segments_topic, (segment_partition("t", 0, 25), key, value))
    with pytest.raises(
        StateTopicInvalid, match=rf"{state.offsets_topic} .*1 segments.*srm-control repair --flow '{flow.name}'"
    ):
        read_source_offsets(flow, state)
    # A reset on purpose leaves tombstones: that is no loss.
    write(target_kafka, state.offsets_topic, offset_record(flow, "t", None))
    assert read_source_offsets(flow, state) == {}


def test_a_cluster_that_ends_the_connection_is_an_error_about_a_topic(
    flow: FlowSettings, state: StateTopics, target_kafka: FakeCluster
) -> None:
    with (
        target_kafka.lose_request("DescribeConfigs", times=None),
        pytest.raises(UnreachableCluster, match=f"to describe the settings of state topic {state.offsets_topic}: "),
    ):
        ensure_state_topics(flow)


def test_flow_state_keeps_the_last_value(flow: FlowSettings, state: StateTopics) -> None:
    with FlowState(flow) as store:
        assert store.read("run") is None
        store.write("run", {"n": 1, "text": "é"})
        store.write("run", {"n": 2})
        store.write("slots", 4)
        store.write("gone", [1])
        store.write("gone", None)
        assert store.read("run") == {"n": 2}
        assert store.read_all() == {"run": {"n": 2}, "slots": 4}
    with FlowState(flow) as store:
        assert store.read_all("slots", "absent") == {"slots": 4}


def test_flow_state_names_foreign_records(flow: FlowSettings, state: StateTopics, target_kafka: FakeCluster) -> None:
    topic = f"srm-flow-state.{flow.name.source}.internal"
    write(target_kafka, topic, (0, b"run", b"{"), (0, b"plan", b'{"version":9,"value":1}'))
    with FlowState(flow) as store:
        with pytest.raises(CorruptRecord, match=f"'run' at offset 0 of {topic}"):
            store.read("run")
        with pytest.raises(CorruptRecord, match="version 9, only 1"):
            store.read("plan")
