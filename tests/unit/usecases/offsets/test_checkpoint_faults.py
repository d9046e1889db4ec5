"""Checkpoints where state topics were lost, re-created, or hold what nobody can read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from srm_common.domain.flow import FlowSettings, OnDataLoss, names
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from srm_common.wire.state.mm2 import encode_checkpoint
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.checkpoint_rounds import checkpoints, copy, values
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.kafka.records import delete_topic
from tests.slot_worker import here
from tests.unit.usecases.fakes import Rounds


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",))


def test_what_was_written_before_holds_also_when_the_memory_of_it_is_lost(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    source_kafka.create_topic(name, 1)
    for start in (0, 10):
        write(source_kafka, name, values(start, start + 10))
        copy(flow)
    for group, position in (("a", 4), ("b", 10), ("c", 12), ("d", 25)):
        commit(source_kafka, f"{name}-{group}", TopicPartition(name, 0, position))
    assert sync_checkpoints(flow).checkpoints == 4
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers, "log_level": 0})
    state = names.flow_state_topic(flow.name.source)
    lost: list[tuple[bytes | None, int]] = [
        (None, 0),
        (b'{"version":1,"written_ms":1,"value":{"synced":[],"checked":7}}', 0),
        (b"garbage", 1),
        (b'{"version":99,"value":{}}', 1),
    ]
    for value, skipped in lost:
        producer.produce(state, key=b"checkpoints", value=value, partition=0)
        assert producer.flush(60) == 0
        report = sync_checkpoints(flow)
        assert (report.segments, report.checkpoints, report.unchanged) == (2, 0, 4), value
        assert len(report.skipped) == skipped, value
        assert (skipped == 0) or state in report.skipped[0]
        assert sync_checkpoints(flow).segments == 0
    assert len(checkpoints(flow)) == 4


def test_checkpoints_of_a_former_copy_start_over(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    """The copy was deleted and made again: what pointed into the old one would skip records of the new one."""
    source_kafka.create_topic(name, 1)
    group, remote = f"{name}-g", f"{flow.name.source}.{name}"
    for start in (0, 10, 20):
        write(source_kafka, name, values(start, start + 10))
        copy(flow)
    commit(source_kafka, group, TopicPartition(name, 0, 25))
    commit(source_kafka, f"{name}-gone", TopicPartition(name, 0, 30))
    sync_checkpoints(flow)
    assert [(checkpoint.upstream, checkpoint.downstream) for checkpoint in checkpoints(flow)] == [(25, 27), (30, 32)]

    delete_topic(target_kafka, remote)
    refresh_topics(flow, at_once=True)
    report = sync_checkpoints(flow)
    assert {row.reason for row in report.untranslated} == {f"its copy {remote} was deleted on the target"}
    source_kafka.admin().delete_consumer_groups([f"{name}-gone"])[f"{name}-gone"].result(60)
    flow = replace(flow, on_target_loss=OnDataLoss.RESET)
    refresh_topics(flow, at_once=True)
    assert replicate(flow, RunOptions("r"), here).state is RunState.DONE
    report = sync_checkpoints(flow)
    assert (report.renewed, report.faults) == (2, ())
    # All in one chunk this time: there are no markers between.
    newest = {checkpoint.group: (checkpoint.upstream, checkpoint.downstream) for checkpoint in checkpoints(flow)}
    assert newest == {group: (25, 25), f"{name}-gone": (30, 0)}
    assert sync_checkpoints(flow).checkpoints == 0


BAD_CHECKPOINTS: list[tuple[bytes | None, bytes | None]] = [
    (b"garbage", b"garbage"),
    (b"\x00\x01g\x00\x03a.t\x00\x00\x00\x00", b"\x00\x00\x00\x00"),  # cut off
    (b"\x00\x01h\x00\x03a.t\x00\x00\x00\x00", b"\x00\x01" + bytes(18)),  # version 1
    (b"\x00\x01i\x00\x03a.t\x00\x00\x00\x00", b"\x00\x00" + b"\xff" * 16 + bytes(2)),  # negative
    (b"\xff\xffg", b"\x00\x00" + bytes(18)),  # a string of negative length
    (b'["MirrorCheckpointConnector",{}]', b"{}"),
    (None, b"\x00\x00" + bytes(18)),  # nobody's: compaction drops it
    (b"tombstone", None),
]


def test_records_that_nobody_can_read_are_skipped_and_counted(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    source_kafka.create_topic(name, 1)
    write(source_kafka, name, values(0, 10))
    copy(flow)
    commit(source_kafka, name + "-g", TopicPartition(name, 0, 5))
    topic, segments = names.checkpoints_topic(flow), names.segments_topic(flow.name.source)
    # The topics are compacted, and so refuse a record without a key; an older broker may hold one.
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers, "log_level": 0})
    for key, value in BAD_CHECKPOINTS:
        if key is not None:
            producer.produce(topic, key=key, value=value, partition=0)
    producer.produce(segments, key=b"garbage", value=b"garbage", partition=0)
    producer.produce(segments, key=b"\x63\x01t\x00" + bytes(8), value=bytes(40), partition=0)
    assert producer.flush(60) == 0
    report = sync_checkpoints(flow)
    assert (report.checkpoints, report.faults, len(report.skipped)) == (1, (), 8)
    assert "8 unreadable records skipped" in str(report)
    assert str(report.to_json()["skipped"][0]).startswith(f"{segments}-0 at offset ")
    assert any("version 1; only 0 is known" in one for one in report.skipped)
    assert any("version 99; 2 and 3 are known" in one for one in report.skipped)
    assert report.lines()[-1] == report.skipped[-1]
    # A group goes on in spite of a checkpoint beyond the copy's end, whoever wrote that.
    wrong = Checkpoint(name + "-g", f"{flow.name.source}.{name}", 0, 3, 99)
    StateWriter(flow.target).write("write a wrong checkpoint", [NewRecord(topic, 0, *encode_checkpoint(wrong))])
    commit(source_kafka, name + "-g", TopicPartition(name, 0, 6))
    assert sync_checkpoints(flow).renewed == 1
    with StateReader(flow.target) as reader:
        (newest,) = newest_checkpoints(reader, topic).by_place.values()
    assert (newest.upstream, newest.downstream) == (6, 6)
