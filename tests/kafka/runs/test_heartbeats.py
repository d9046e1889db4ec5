"""Heartbeats over two hops, as Kafka's own library sees them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.usecases.monitoring.heartbeats import heartbeat_report, heartbeats_by_hop
from srm_common.usecases.monitoring.list_flows import status
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import flow_between
from tests.kafka.markers import wait_for_markers
from tests.kafka.remote_cluster_judge import judged
from tests.slot_worker import here

pytestmark = pytest.mark.kafka

POLICIES: dict[str, Callable[[str], ReplicationPolicy]] = {
    "DefaultReplicationPolicy": lambda alias: DefaultReplicationPolicy(),
    "IdentityReplicationPolicy": lambda alias: IdentityReplicationPolicy(source_alias=alias),
    "MigratingReplicationPolicy": lambda alias: MigratingReplicationPolicy(source_alias=alias),
}


@pytest.fixture(scope="module")
def third_kafka(broker_jvm: BrokerJvm) -> Iterator[LocalKafka]:
    """A cluster behind the target of the others."""
    with LocalKafka(name="third", jvm=broker_jvm) as kafka:
        yield kafka


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
    graph = tuple(GraphFlow.of(flow.name, flow.policy, flow.source, flow.target) for flow in flows)
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
    seen = {heartbeat.topic: heartbeat for heartbeat in report.copied}
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
