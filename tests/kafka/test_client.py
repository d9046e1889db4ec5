"""Our library against Kafka's own RemoteClusterUtils and MirrorClient, heartbeats over two hops among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.client import Partition, ReplicationClient, SourceTopic
from srm_common.domain.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow_graph import GraphFlow
from srm_common.domain.heartbeat_report import HeartbeatReport
from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.run_options import RunOptions
from srm_common.domain.run_record import RunState
from srm_common.errors import UnreachableCluster
from srm_common.replication.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.emit_heartbeat import emit_heartbeat
from srm_common.usecases.heartbeats import heartbeat_report, heartbeats_by_hop
from srm_common.usecases.refresh_topics import refresh_topics
from srm_common.usecases.replicate import replicate
from srm_common.usecases.status import status
from srm_common.usecases.sync_checkpoints import sync_checkpoints
from tests.kafka.flows import flow_between, write
from tests.kafka.groups import commit
from tests.kafka.remote_cluster_judge import remote_cluster_utils

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
    if flow.emit_heartbeats:
        emit_heartbeat(flow)
    assert replicate(flow, RunOptions("r"), here).state is RunState.DONE


def chain(clusters: Sequence[LocalKafka], stem: str, policy: str) -> list[FlowSettings]:
    """Flows from each cluster to the next that copy nothing but heartbeats, and what starts with ``stem``."""
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
                topics=(rf"(.*\.)?{stem}",),
            )
        )
    graph = tuple(GraphFlow(flow.name, flow.policy, flow.source, flow.target) for flow in flows)
    return [replace(flow, graph=graph) for flow in flows]


def ask(properties: Mapping[str, str], *questions: str) -> dict[str, list[list[str]]]:
    """What our library answers, in the form of :func:`remote_cluster_utils`."""
    answers: dict[str, list[list[str]]] = {}
    with ReplicationClient(properties) as client:
        for question in questions:
            what, _, about = question.partition(":")
            alias, _, groups = about.partition("/")
            found: dict[str, Any] = {}
            match what:
                case "hops":
                    answers[question] = [[str(client.replication_hops(about))]]
                case "upstream":
                    answers[question] = [sorted(client.upstream_clusters())]
                case "heartbeats":
                    answers[question] = [sorted(client.heartbeat_topics())]
                case "checkpoints":
                    answers[question] = [sorted(client.checkpoint_topics())]
                case "remote":
                    answers[question] = [sorted(client.remote_topics(about or None))]
                case "group":
                    found = {groups: client.translated_offsets(alias, groups)}
                case "groups":
                    found = client.translated_offsets_of_groups(alias, re.compile(groups))
            if what in ("group", "groups"):
                answers[question] = [
                    [group, place.topic, str(place.partition), str(at.offset), at.metadata]
                    for group, places in found.items()
                    for place, at in places.items()
                ]
    return answers


def same(ours: Mapping[str, list[list[str]]], theirs: Mapping[str, list[list[str]]]) -> None:
    for question, answer in theirs.items():
        if question.startswith("remote:"):
            # MirrorClient takes dotted state topics that are not its own for copies.
            answer = [[topic for topic in line if not topic.endswith(".internal")] for line in answer]
        assert sorted(ours[question]) == sorted(answer), question


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
        report.flow, report.source, report.now_ms + 3_600_000, report.every_ms, report.silent_after_ms, report.copied
    )
    assert "although one is due every 30 s" in str(late.silence)

    properties = {"bootstrap.servers": third_kafka.bootstrap_servers}
    if policy != "MigratingReplicationPolicy":
        properties["replication.policy.class"] = f"org.apache.kafka.connect.mirror.{policy}"
    questions = [f"hops:{origin}", f"hops:{middle}", "hops:nowhere", "upstream:", "heartbeats:", "checkpoints:"]
    ours = ask(properties, *questions)
    same(ours, remote_cluster_utils(properties, *questions))
    assert [ours[question][0][0] for question in questions[:3]] == ["2", "1", "-1"]


def test_offsets_and_topics_as_kafkas_library_has_them(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    flow = flow_between(source_kafka, target_kafka, name, groups=(f"{name}.*",))
    alias, remote = flow.name.source, f"{flow.name.source}.{name}"
    source_kafka.create_topic(name, partitions=2)
    write(source_kafka, name, [b"%d" % number for number in range(40)])
    write(source_kafka, name, [b"%d" % number for number in range(20)], partition=1)
    run(flow)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 30, "noted"), TopicPartition(name, 1, 20))
    commit(source_kafka, f"{name}-h", TopicPartition(name, 0, 7))
    sync_checkpoints(flow)

    properties = {"bootstrap.servers": target_kafka.bootstrap_servers}
    questions = ["remote:", f"remote:{alias}", "checkpoints:", "upstream:", f"group:{alias}/{name}-g",
                 f"group:{alias}/none", f"groups:{alias}/{name}-.*", f"groups:{alias}/{name}"]  # fmt: skip
    ours = ask(properties, *questions)
    same(ours, remote_cluster_utils(properties, *questions))
    assert ours[f"remote:{alias}"] == [[remote]]
    assert sorted(ours[f"group:{alias}/{name}-g"]) == [
        [f"{name}-g", remote, "0", "30", "noted"],
        [f"{name}-g", remote, "1", "20", ""],
    ]
    with ReplicationClient(properties) as client:
        assert client.source_topics(remote) == (SourceTopic(alias, name),)
        assert client.source_topics(name) == ()
        several = client.translated_offsets_of_groups(alias, [f"{name}-g", f"{name}-h", "none"])
        assert list(several) == [f"{name}-g", f"{name}-h"]
        assert several[f"{name}-h"][Partition(remote, 0)].upstream_offset == 7
        assert client.translated_offsets_of_groups("nowhere") == {}
        assert client.translated_offsets_of_groups(alias).keys() == several.keys()


@pytest.mark.parametrize("kind", [IdentityReplicationPolicy, MigratingReplicationPolicy])
def test_copies_that_keep_their_names(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, kind: type[IdentityReplicationPolicy]
) -> None:
    alias = name.replace("-", "")
    policy: ReplicationPolicy = kind(source_alias=alias)
    flow = flow_between(source_kafka, target_kafka, name, groups=(f"{name}.*",), policy=policy, topics=(name,))
    source_kafka.create_topic(name, partitions=1)
    target_kafka.create_topic(f"{name}-local", partitions=1)
    write(source_kafka, name, [b"x"] * 10)
    run(flow)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 4))
    sync_checkpoints(flow)
    properties = {
        "bootstrap.servers": target_kafka.bootstrap_servers,
        "replication.policy.class": kind.__name__,
        "source.cluster.alias": alias,
    }
    with ReplicationClient(properties) as client:
        assert client.remote_topics(alias) == {name}
        assert client.source_topics(name) == (SourceTopic(alias, name),)
        assert f"{name}-local" not in client.remote_topics()
        assert client.translated_offsets(alias, f"{name}-g")[Partition(name, 0)].offset == 4


def test_a_cluster_that_is_away_is_an_error_and_not_an_empty_answer() -> None:
    with ReplicationClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_seconds=2) as client:
        with pytest.raises(UnreachableCluster, match="'local'"):
            client.replication_hops("a")
        with pytest.raises(UnreachableCluster, match="'local'"):
            client.translated_offsets("a", "g")
