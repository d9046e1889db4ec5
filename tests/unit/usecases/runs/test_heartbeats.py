"""Heartbeats of long runs, and when their copies came."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka import Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import segments_topic
from srm_common.domain.offsets.joined_segments import joined
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.kafka.state.heartbeat_log import arrival_ms
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.emit_heartbeat import SteadyHeartbeats
from srm_common.wire.state.mm2 import decode_heartbeat
from srm_common.wire.state.segments import encode_joined, encode_segment
from tests.kafka.flows import flow_between
from tests.kafka.records import eventually


def test_a_joined_segment_does_not_tell_when_its_chunks_came(target_kafka: FakeCluster, name: str) -> None:
    topic = segments_topic(name)
    target_kafka.create_topic(topic, 1, 1, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers})

    def put(record: tuple[bytes, bytes], timestamp_ms: int) -> None:
        producer.produce(topic, key=record[0], value=record[1], timestamp=timestamp_ms)
        assert producer.flush(60) == 0

    def arrived(offset: int) -> int | None:
        with StateReader(ClusterSettings.plaintext("b", target_kafka.bootstrap_servers)) as reader:
            return arrival_ms(reader, name, "heartbeats", offset, begun)

    begun = int(time.time() * 1000) - 600_000
    chunks = [Segment("heartbeats", 0, n, n + 1, 2 * n, 2 * n + 1, (OffsetSpan(n, 1, 2 * n, 1),)) for n in range(4)]
    put(encode_joined(joined(chunks[:3]), 2), begun + 300_000)
    assert arrived(2) is None
    put(encode_segment(chunks[1]), begun + 1_000)
    put(encode_segment(chunks[3]), begun + 3_000)
    assert (arrived(2), arrived(4), arrived(6)) == (begun + 1_000, None, begun + 3_000)


def test_a_long_run_writes_heartbeats_at_the_pace_of_its_schedule(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    flow = flow_between(source_kafka, target_kafka, name, emit_heartbeats=True, schedule_interval_seconds=1.0)

    def written(cluster: ClusterSettings) -> int:
        with StateReader(cluster) as reader:
            records = reader.read("heartbeats") if reader.partitions("heartbeats") else []
        beats = [decode_heartbeat(record.key, record.value) for record in records]
        return sum((beat.source, beat.target) == (flow.name.source, flow.name.target) for beat in beats)

    with FlowClusters(flow) as clusters, SteadyHeartbeats(clusters):
        eventually(lambda: min(written(flow.source), written(flow.target)) >= 2, 300, "two heartbeats on each side")
    with FlowClusters(replace(flow, emit_heartbeats=False)) as clusters, SteadyHeartbeats(clusters):
        pass
