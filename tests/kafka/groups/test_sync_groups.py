"""Offsets of idle groups on the target follow those at the source."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest, StepName
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import LocalKafka
from srm_common.usecases.groups.decide_groups import decide_groups
from srm_common.usecases.moving.failover import Move
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.kafka.checkpoint_rounds import checkpoints, copy
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.kafka.judge import share_group
from tests.kafka.records import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return replace(
        flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",)),
        sync_group_offsets=True,
        sync_group_offsets_interval_seconds=0.0,
    )


def dead(flow: FlowSettings) -> ClusterSettings:
    """In the source's place an address where nothing listens."""
    return ClusterSettings.plaintext(flow.name.source, "127.0.0.1:1")


def share_groups_named(flow: FlowSettings, *groups: str) -> list[str]:
    request = MoveRequest(MoveKind.FAILOVER, MoveMode.DISASTER, groups or None, dry_run=True)
    result = Move(flow, request).run(StepName.CHECK)
    assert result.exit_code == (2 if groups else 0)
    return [sentence for sentence in result.sentences if "share group" in sentence]


def begin(flow: FlowSettings, source_kafka: LocalKafka, name: str, partitions: int = 1) -> None:
    """A hundred records a partition are copied."""
    source_kafka.create_topic(name, partitions)
    for partition in range(partitions):
        write(source_kafka, name, [b"%d" % number for number in range(100)], partition)
    copy(flow)


@contextlib.contextmanager
def member(kafka: LocalKafka, group: str, topic: str, partitions: int, protocol: str = "classic") -> Iterator[Consumer]:
    """A consumer that has all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 180
        while len(consumer.assignment()) < partitions:
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        yield consumer
    finally:
        consumer.close()


def on_target(flow: FlowSettings, group: str) -> dict[int, tuple[int, str]]:
    offsets, faults = GroupReader(flow.target).offsets([group])
    assert not faults
    return {partition: (at.offset, at.metadata) for (_, partition), at in offsets[0].offsets.items()}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_idle_groups_follow_and_used_ones_are_left_alone(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, protocol: str
) -> None:
    begin(flow, source_kafka, name, 2)
    group, remote = f"{name}-g", f"{flow.name.source}.{name}"

    commit(source_kafka, group, TopicPartition(name, 0, 40, metadata="note"), TopicPartition(name, 1, 100))
    report = sync_checkpoints(flow)
    assert (report.group_positions, report.groups_synced, report.groups_in_use, report.faults) == (2, 1, (), ())
    assert on_target(flow, group) == {0: (40, "note"), 1: (100, "")}
    assert sync_checkpoints(flow).group_positions == 0

    # Somebody reads there: nothing is touched, and it is said.
    with member(target_kafka, group, remote, 2, protocol) as consumer:
        commit(source_kafka, group, TopicPartition(name, 0, 60))
        report = sync_checkpoints(flow)
        assert report.groups_in_use == ((group, "stable"),)
        assert "left alone" in str(report)
        assert on_target(flow, group)[0] == (40, "note")
        consumer.commit(offsets=[TopicPartition(remote, 1, 50), TopicPartition(remote, 0, 80)], asynchronous=False)

    # It has read on at 0 and gone back at 1: the first stays, the second follows the source.
    eventually(lambda: not sync_checkpoints(flow).groups_in_use, 300, "the group does not get empty")
    assert {partition: at for partition, (at, _) in on_target(flow, group).items()} == {0: 80, 1: 100}


def test_only_as_often_as_the_interval_says(flow: FlowSettings, source_kafka: LocalKafka, name: str) -> None:
    seldom = replace(flow, sync_group_offsets_interval_seconds=3600.0)
    begin(flow, source_kafka, name)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 40))
    assert sync_checkpoints(seldom).group_positions == 1
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 70))
    assert sync_checkpoints(seldom).group_positions == 0
    assert sync_checkpoints(replace(flow, sync_group_offsets=False)).group_positions == 0
    assert sync_checkpoints(flow).group_positions == 1


def test_every_kind_of_group_at_the_source(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """Consumers in use there of both protocols, one that only commits, a deleted one, and share groups on each side."""
    begin(flow, source_kafka, name)
    remote = f"{flow.name.source}.{name}"
    commit(source_kafka, f"{name}-simple", TopicPartition(name, 0, 10))
    commit(source_kafka, f"{name}-taken", TopicPartition(name, 0, 10))
    commit(source_kafka, f"{name}-dead", TopicPartition(name, 0, 10))
    source_kafka.admin().delete_consumer_groups([f"{name}-dead"])[f"{name}-dead"].result(60)
    with (
        share_group(flow.source, f"{name}-share", name),
        share_group(flow.target, f"{name}-taken", remote),
        member(source_kafka, f"{name}-classic", name, 1) as classic,
        member(source_kafka, f"{name}-consumer", name, 1, "consumer") as consumer,
    ):
        classic.commit(offsets=[TopicPartition(name, 0, 20)], asynchronous=False)
        consumer.commit(offsets=[TopicPartition(name, 0, 30)], asynchronous=False)
        report = sync_checkpoints(flow)
        decisions, faults = decide_groups(flow)
        named = [share_groups_named(flow), share_groups_named(replace(flow, source=dead(flow)))]
        refused = share_groups_named(flow, f"{name}-share")
    # By whoever moves groups, too: also when the source is gone, and where the group is asked for by its name.
    for sentences in (*named, refused):
        assert [sentence.split(" is a ")[0] for sentence in sentences] == [f"{name}-share"]
        assert "kafka-share-groups.sh --reset-offsets" in sentences[0]
    assert report.faults == ()
    assert {checkpoint.group: checkpoint.downstream for checkpoint in checkpoints(flow)} == {
        f"{name}-simple": 10, f"{name}-taken": 10, f"{name}-classic": 20, f"{name}-consumer": 30
    }  # fmt: skip
    assert report.unsupported == ((f"{name}-share", "share"),)
    assert report.groups_in_use == ((f"{name}-taken", "of another kind"),)
    assert (report.group_positions, report.groups_synced) == (3, 3)
    for group, place in (("simple", 10), ("classic", 20), ("consumer", 30)):
        assert on_target(flow, f"{name}-{group}") == {0: (place, "")}
    assert not faults
    told = {
        decision.group: (decision.accepted, decision.reason)
        for decision in decisions
        if decision.group.startswith(name)
    }
    assert told.pop(f"{name}-share") == (False, "share groups are not supported: their offsets are not translated")
    assert all(accepted for accepted, _ in told.values())
    assert len(told) == 4


def test_a_group_that_was_rewound_at_the_source_stays_on_the_target(
    flow: FlowSettings, source_kafka: LocalKafka, name: str
) -> None:
    begin(flow, source_kafka, name)
    group = f"{name}-g"
    commit(source_kafka, group, TopicPartition(name, 0, 80))
    assert sync_checkpoints(flow).groups_beyond == ()
    commit(source_kafka, group, TopicPartition(name, 0, 20))
    report = sync_checkpoints(flow)
    assert (report.checkpoints, report.rewound, report.groups_beyond) == (1, (group,), ((group, 1),))
    assert checkpoints(flow)[-1].downstream == 20
    assert on_target(flow, group) == {0: (80, "")}
    commit(source_kafka, group, TopicPartition(name, 0, 90))
    assert sync_checkpoints(flow).groups_beyond == ()
    assert on_target(flow, group) == {0: (90, "")}


def test_no_group_is_moved_on_a_topic_that_several_flows_write_to(
    flow: FlowSettings, source_kafka: LocalKafka, name: str
) -> None:
    begin(flow, source_kafka, name)
    group, remote = f"{name}-g", f"{flow.name.source}.{name}"
    with TopicRegistry(flow.target) as registry:
        ours = registry.read().find(flow.name, name)
        assert ours is not None
        registry.write([replace(ours, flow=f"third->{flow.name.target}", upstream_cluster_id="third")])
    commit(source_kafka, group, TopicPartition(name, 0, 50))
    report = sync_checkpoints(flow)
    assert (report.checkpoints, report.group_positions) == (1, 0)
    assert report.shared == ((remote, (f"third->{flow.name.target}",)),)
    assert on_target(flow, group) == {}
