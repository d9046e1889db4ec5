"""Heartbeats over two hops, under every policy, and in a long run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from confluent_kafka import Producer

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.flow.names import segments_topic
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.offsets.segments import OffsetSpan, Segment, joined
from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.state.heartbeat_log import arrival_ms
from srm_common.kafka.state.state_reader import StateReader
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.heartbeats import heartbeat_report, heartbeats_by_hop
from srm_common.usecases.monitoring.status import status
from srm_common.usecases.runs.emit_heartbeat import SteadyHeartbeats, emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from srm_common.wire.mm2 import decode_heartbeat
from srm_common.wire.segments import encode_joined, encode_segment
from tests.kafka.flows import flow_between
from tests.kafka.markers import wait_for_markers
from tests.kafka.records import eventually
from tests.kafka.remote_cluster_judge import judged

pytestmark = pytest.mark.kafka

POLICIES: dict[str, Callable[[str], ReplicationPolicy]] = {
    "DefaultReplicationPolicy": lambda alias: DefaultReplicationPolicy(),
    "IdentityReplicationPolicy": lambda alias: IdentityReplicationPolicy(source_alias=alias),
    "MigratingReplicationPolicy": lambda alias: MigratingReplicationPolicy(source_alias=alias),
}


@pytest.fixture(scope="module")
def third_kafka() -> Iterator[LocalKafka]:
    """A cluster behind the target of the others."""
    with LocalKafka(name="third") as kafka:
        yield kafka


def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


def run(flow: FlowSettings) -> None:
    """What a run does, in its order."""
    refresh_topics(flow, at_once=True)
    emit_heartbeat(flow)
    record = replicate(flow, RunOptions("r"), here)
    assert record.state is RunState.DONE
    wait_for_markers(flow, record)


def chain(clusters: Sequence[LocalKafka], stem: str, policy: str) -> list[FlowSettings]:
    """Flows from each cluster to the next that copy nothing but heartbeats."""
    flows = []
    for number, (source, target) in enumerate(pairwise(clusters)):
        alias, after = f"{stem}{number}", f"{stem}{number + 1}"
        flow = flow_between(source, target, stem, heartbeats_replication=True, emit_heartbeats=True)
        flows.append(
            replace(
                flow,
                name=FlowName(alias, after),
                source=replace(flow.source, alias=alias),
                target=replace(flow.target, alias=after),
                policy=POLICIES[policy](alias),
                topics=(),
                # However long this takes, nothing counts as silent.
                schedule_interval_seconds=3600.0,
            )
        )
    graph = tuple(GraphFlow(flow.name, flow.policy, flow.source, flow.target) for flow in flows)
    return [replace(flow, graph=graph) for flow in flows]


@pytest.mark.parametrize("policy", POLICIES)
def test_heartbeats_over_two_hops(
    source_kafka: LocalKafka, target_kafka: LocalKafka, third_kafka: LocalKafka, name: str, policy: str
) -> None:
    stem = re.sub("[^a-z0-9]", "", name)[-20:]
    first, second = chain([source_kafka, target_kafka, third_kafka], stem, policy)
    assert heartbeat_report(first).silence is not None
    run(first)
    run(second)
    origin, middle, end = f"{stem}0", f"{stem}1", f"{stem}2"
    report = heartbeats_by_hop(second)
    seen = {one.topic: one for one in report.copied}
    near, far = seen[f"{middle}.heartbeats"], seen[f"{middle}.{origin}.heartbeats"]
    assert (near.path, far.path) == ((middle, end), (origin, middle, end))
    assert far.beat is not None
    assert (far.beat.source, far.beat.target) == (origin, middle)
    # One machine, one clock: no latency is negative, and those of the hops add up.
    taken = [hop.latency_ms for hop in far.by_hop]
    assert [(hop.source, hop.target) for hop in far.by_hop] == [(origin, middle), (middle, end)]
    assert all(latency is not None and latency >= 0 for latency in taken), far.by_hop
    assert far.latency_ms == sum(latency for latency in taken if latency is not None)
    assert report.silence is None
    assert status(second).healthy
    # Nobody writes heartbeats any more, and a long time passes.
    late = HeartbeatReport(
        report.flow, report.source, report.now_ms + 86_400_000, report.every_ms, report.silent_after_ms, report.copied
    )
    assert "is 24 h old, although one is due every 60 min" in str(late.silence)

    properties = {"bootstrap.servers": third_kafka.bootstrap_servers}
    if policy != "MigratingReplicationPolicy":
        properties["replication.policy.class"] = f"org.apache.kafka.connect.mirror.{policy}"
    questions = [f"hops:{origin}", f"hops:{middle}", "hops:nowhere", "upstream:", "heartbeats:", "checkpoints:"]
    ours = judged(properties, *questions)
    assert [ours[question][0][0] for question in questions[:3]] == ["2", "1", "-1"]


def test_a_joined_segment_does_not_tell_when_its_chunks_came(target_kafka: LocalKafka, name: str) -> None:
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
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    flow = flow_between(source_kafka, target_kafka, name, emit_heartbeats=True, schedule_interval_seconds=1.0)

    def written(cluster: ClusterSettings) -> int:
        with StateReader(cluster) as reader:
            records = reader.read("heartbeats") if reader.partitions("heartbeats") else []
        beats = [decode_heartbeat(record.key, record.value) for record in records]
        return sum((beat.source, beat.target) == (flow.name.source, flow.name.target) for beat in beats)

    with FlowClusters(flow) as clusters, SteadyHeartbeats(clusters):
        eventually(lambda: min(written(flow.source), written(flow.target)) >= 2, 120, "two heartbeats on each side")
    with FlowClusters(replace(flow, emit_heartbeats=False)) as clusters, SteadyHeartbeats(clusters):
        pass
