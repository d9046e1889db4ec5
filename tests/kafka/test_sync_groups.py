"""Offsets of idle groups on the target follow those at the source."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition

from srm_common.domain.flow import FlowSettings
from srm_common.domain.run_options import RunOptions
from srm_common.kafka.group_offsets import GroupReader
from srm_common.replication.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.replicate import replicate
from srm_common.usecases.sync_checkpoints import sync_checkpoints
from tests.kafka.flows import flow_between, prepare, write
from tests.kafka.groups import commit

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return replace(
        flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",)),
        sync_group_offsets=True,
        sync_group_offsets_interval_seconds=0.0,
    )


def on_target(flow: FlowSettings, group: str) -> dict[int, tuple[int, str]]:
    found, faults = GroupReader(flow.target).offsets([group])
    assert not faults
    return {partition: (at.offset, at.metadata) for (_, partition), at in found[0].offsets.items()}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_idle_groups_follow_and_used_ones_are_left_alone(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, protocol: str
) -> None:
    source_kafka.create_topic(name, 2)
    for partition in range(2):
        write(source_kafka, name, [b"%d" % number for number in range(100)], partition)
    prepare(flow)
    replicate(flow, RunOptions("r"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    group, remote = f"{name}-g", f"{flow.name.source}.{name}"

    commit(source_kafka, group, TopicPartition(name, 0, 40, metadata="note"), TopicPartition(name, 1, 100))
    report = sync_checkpoints(flow)
    assert (report.group_positions, report.groups_synced, report.groups_in_use, report.faults) == (2, 1, (), ())
    assert on_target(flow, group) == {0: (40, "note"), 1: (100, "")}
    assert sync_checkpoints(flow).group_positions == 0

    # Somebody reads there: nothing is touched, and it is said.
    consumer = Consumer(
        {
            "bootstrap.servers": target_kafka.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([remote])
        deadline = time.monotonic() + 40
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        commit(source_kafka, group, TopicPartition(name, 0, 60))
        report = sync_checkpoints(flow)
        assert report.groups_in_use == ((group, "stable"),)
        assert "left alone" in str(report)
        assert on_target(flow, group)[0] == (40, "note")
        consumer.commit(offsets=[TopicPartition(remote, 1, 50), TopicPartition(remote, 0, 80)], asynchronous=False)
    finally:
        consumer.close()

    # It has read on at 0 and gone back at 1: the first stays, the second follows the source.
    deadline = time.monotonic() + 30
    while sync_checkpoints(flow).groups_in_use:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert {partition: at for partition, (at, _) in on_target(flow, group).items()} == {0: 80, 1: 100}


def test_only_as_often_as_the_interval_says(flow: FlowSettings, source_kafka: LocalKafka, name: str) -> None:
    seldom = replace(flow, sync_group_offsets_interval_seconds=3600.0)
    source_kafka.create_topic(name, 1)
    write(source_kafka, name, [b"%d" % number for number in range(100)])
    prepare(flow)
    replicate(flow, RunOptions("r"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 40))
    assert sync_checkpoints(seldom).group_positions == 1
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 70))
    assert sync_checkpoints(seldom).group_positions == 0
    assert sync_checkpoints(replace(flow, sync_group_offsets=False)).group_positions == 0
    assert sync_checkpoints(flow).group_positions == 1
