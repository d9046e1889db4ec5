"""Heartbeats of long runs, and when their copies came."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import segments_topic
from srm_common.domain.offsets.joined_segments import joined
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import AccessDenied
from srm_common.kafka.state.heartbeat_log import arrival_ms
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.heartbeats import heartbeat_report
from srm_common.usecases.monitoring.list_flows import status
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.runs.emit_heartbeat import HeartbeatWriter, SteadyHeartbeats, emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.runs.run_journal import last_run
from srm_common.usecases.topics.refresh_topics import refresh_topics
from srm_common.wire.state.mm2 import decode_heartbeat
from srm_common.wire.state.segments import encode_joined, encode_segment
from tests.kafka.flows import flow_between
from tests.kafka.records import eventually, plain, produce
from tests.slot_worker import here
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides


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


def beats(*clusters: FakeCluster) -> list[int]:
    return [len(cluster.records("heartbeats")) for cluster in clusters]


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_heartbeats_topic_of_others_stays_as_it_is(sides: Sides, policy: str) -> None:
    sides.set(emit_heartbeats=True, heartbeats_topic_location="both")
    sides.source.create_topic("orders")
    for cluster in (sides.source, sides.target):
        cluster.create_topic("heartbeats", 3, 1, {"cleanup.policy": policy})
        cluster.refuse("IncrementalAlterConfigs", TOPIC_AUTHORIZATION_FAILED, when="heartbeats")
    assert sides.refresh().fault is None
    emit_heartbeat(sides.flow)
    assert sides.run().state is RunState.DONE
    assert beats(sides.source, sides.target) == [1, 1]
    assert [one.topic_config("heartbeats")["cleanup.policy"] for one in (sides.source, sides.target)] == [policy] * 2


def test_no_right_to_heartbeats_stops_the_copy(sides: Sides) -> None:
    sides.source.create_topic("orders")
    for cluster in (sides.source, sides.target):
        for api in ("CreateTopics", "DescribeConfigs", "Produce"):
            cluster.refuse(api, TOPIC_AUTHORIZATION_FAILED, when="heartbeats")
    for emit in (False, True):
        sides.set(emit_heartbeats=emit, heartbeats_topic_location="both")
        sides.refresh()
        assert sides.run().state is RunState.DONE
    with pytest.raises(AccessDenied, match="Create on topic 'heartbeats'"):
        emit_heartbeat(sides.flow)


def test_heartbeats_are_written_to_a_topic_that_may_not_be_described(
    sides: Sides, caplog: pytest.LogCaptureFixture
) -> None:
    sides.set(emit_heartbeats=True, heartbeats_topic_location="both")
    sides.target.create_topic("heartbeats", 1, 1, {"cleanup.policy": "compact"})
    sides.target.refuse("DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when="heartbeats")
    with FlowClusters(sides.flow) as clusters, caplog.at_level(logging.WARNING):
        writer = HeartbeatWriter(clusters)
        writer.beat()
        writer.beat()
    assert beats(sides.source, sides.target) == [2, 2]
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "heartbeats are written all the same" in warning
    assert "DescribeConfigs on topic 'heartbeats'" in warning


def test_a_run_that_takes_long_is_not_silent(sides: Sides) -> None:
    sides.set(emit_heartbeats=True, heartbeats_replication=True)
    sides.source.create_topic("orders")
    hours = itertools.count()
    now = [1_700_000_000.0]

    def slow(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        found = here(job, tasks)
        now[0] += 3600 * next(hours)
        return found

    with FlowClusters(sides.flow, clock=lambda: now[0]) as clusters:
        for run_id in ("short", "long"):
            refresh_topics(clusters, at_once=True)
            emit_heartbeat(clusters)
            replicate(clusters, RunOptions(run_id), slow)
            found = heartbeat_report(clusters, run=last_run(clusters))
            assert found.silence is None
        assert (found.age_ms or 0) >= 3_600_000
        assert status(clusters).healthy
        report = make_report(clusters, run_id)
        assert report.heartbeats is not None
        assert report.heartbeats.silence is None
        now[0] += 3600
        assert not status(clusters).healthy


def test_heartbeats_are_copied_from_the_beginning_whatever_the_flow_starts_at(sides: Sides) -> None:
    """Else the first run would bring none, and the next one may be an hour away."""
    sides.set(emit_heartbeats=True, heartbeats_replication=True, auto_offset_reset="latest")
    sides.source.create_topic("orders")
    produce(sides.source, "orders", 0, plain(3))
    sides.refresh()
    emit_heartbeat(sides.flow)
    record = sides.run()
    assert heartbeat_report(sides.flow, run=record).age_ms is not None
    assert {partition.upstream_topic: partition.records for partition in record.partitions} == {
        "heartbeats": 1,
        "orders": 0,
    }
