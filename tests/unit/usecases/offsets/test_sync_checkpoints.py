"""Offset syncs and checkpoints, and the map they come from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.wire.state.mm2 import decode_heartbeat, decode_offset_sync
from tests.kafka.checkpoint_rounds import checkpoints, copy, values
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.unit.usecases.fakes import Rounds


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",), offset_lag_max=50)


def syncs(flow: FlowSettings) -> list[tuple[int, int]]:
    cluster = flow.source if flow.offset_syncs_topic_location == "source" else flow.target
    with StateReader(cluster) as reader:
        offset_syncs = [decode_offset_sync(r.key, r.value) for r in reader.read(names.offset_syncs_topic(flow))]
    # On the source all flows to one target share the topic.
    return [(sync.upstream, sync.downstream) for sync in offset_syncs if (sync.topic,) == flow.topics]


def test_checkpoints_follow_groups_and_never_go_backwards(
    flow: FlowSettings, source_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    source_kafka.create_topic(name, 2)
    group, remote = name + "-g", f"{flow.name.source}.{name}"
    write(source_kafka, name, values(0, 100))
    copy(flow)
    commit(source_kafka, group, TopicPartition(name, 0, 40, metadata="note"), TopicPartition(name, 1, 0))
    commit(source_kafka, "other-" + name, TopicPartition(name, 0, 1))

    report = sync_checkpoints(flow)
    assert (report.segments, report.groups, report.checkpoints, report.unchanged) == (1, 1, 2, 0)
    assert report.untranslated == ()
    assert checkpoints(flow) == [Checkpoint(group, remote, 0, 40, 40, "note"), Checkpoint(group, remote, 1, 0, 0)]
    assert syncs(flow) == [(0, 0), (51, 51), (99, 99)]

    report = sync_checkpoints(flow)
    assert (report.segments, report.offset_syncs, report.checkpoints, report.unchanged) == (0, 0, 0, 2)

    # A second chunk: the commit marker of the first lies between them. Then the group moves, first in the older one.
    write(source_kafka, name, values(100, 150))
    copy(flow)
    assert sync_checkpoints(flow).checkpoints == 0
    assert syncs(flow)[3:] == [(100, 101), (149, 150)]
    for position, expected in ((70, 70), (100, 100), (101, 102), (150, 151), (160, 151)):
        commit(source_kafka, group, TopicPartition(name, 0, position))
        sync_checkpoints(flow)
        newest = checkpoints(flow)[-1]
        assert (newest.upstream, newest.downstream) == (min(position, 150), expected), position
    # The group was reset at the source: that is followed.
    commit(source_kafka, group, TopicPartition(name, 0, 10))
    sync_checkpoints(flow)
    assert checkpoints(flow)[-1] == Checkpoint(group, remote, 0, 10, 10)


def test_parts_of_the_map_that_left_the_target_are_dropped(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    source_kafka.create_topic(name, 1)
    for start in (0, 10, 20):
        write(source_kafka, name, values(start, start + 10))
        copy(flow)
    remote = f"{flow.name.source}.{name}"
    (answer,) = target_kafka.admin().delete_records([TopicPartition(remote, 0, 15)]).values()
    answer.result()
    assert sync_checkpoints(flow).pruned_segments == 1
    topic = names.segments_topic(flow.name.source)
    with StateReader(flow.target) as reader:
        kept = [record.value for record in reader.last_records(topic).values()]
    assert len(kept) == 3
    assert kept.count(None) == 1
    # Not again at once; and a group before what is known is told so.
    commit(source_kafka, name + "-old", TopicPartition(name, 0, 5))
    commit(source_kafka, name + "-new", TopicPartition(name, 0, 15))
    report = sync_checkpoints(flow)
    assert report.pruned_segments == 0
    assert [row.group for row in report.untranslated] == [name + "-old"]
    assert "before upstream offset 10" in report.untranslated[0].reason
    assert "not translated" in str(report)
    assert [(c.group, c.upstream, c.downstream) for c in checkpoints(flow)] == [(name + "-new", 15, 16)]


def test_small_segments_are_joined_and_nothing_translates_otherwise(
    flow: FlowSettings, source_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    source_kafka.create_topic(name, 1)
    topic = names.segments_topic(flow.name.source)
    flow = replace(flow, offset_syncs_topic_location="target", sync_group_offsets=False)

    def map_now() -> SegmentLog:
        log = SegmentLog(reader, topic, reader.partitions(topic))
        log.read_new({})
        return log

    with StateReader(flow.target) as reader:
        for start in range(0, 50, 5):
            write(source_kafka, name, values(start, start + 5))
            copy(flow)
        before = map_now()
        assert len(before.read_all()) == 10
        commit(source_kafka, f"{name}-a", TopicPartition(name, 0, 12))
        report = sync_checkpoints(flow)
        assert (report.joined_segments, report.joins, report.pruned_segments) == (6, 1, 0)
        assert "6 segments joined to 1" in str(report)
        after = map_now()
        live = [record for record in reader.last_records(topic).values() if record.value is not None]
        assert len(live) == len(after.read_all()) == 5
        for position in range(53):
            assert after.translate(name, 0, position) == before.translate(name, 0, position)
        # What was joined is no news: neither for offset syncs nor for checkpoints.
        seen = syncs(flow)
        report = sync_checkpoints(flow, at_once=True)
        assert (report.segments, report.offset_syncs, report.checkpoints, report.unchanged) == (0, 0, 0, 1)
        assert syncs(flow) == seen
        # A group that moves within the older part is put where it was before.
        commit(source_kafka, f"{name}-a", TopicPartition(name, 0, 23))
        write(source_kafka, name, values(50, 55))
        copy(flow)
        report = sync_checkpoints(flow, at_once=True)
        assert (report.segments, report.checkpoints) == (1, 1)
        assert [(checkpoint.upstream, checkpoint.downstream) for checkpoint in checkpoints(flow)] == [
            (12, 14),
            (23, 27),
        ]


def test_a_round_keeps_to_its_interval_and_offset_syncs_do_not_wait(
    flow: FlowSettings, source_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    flow = replace(flow, emit_checkpoints_interval_seconds=3600.0)
    source_kafka.create_topic(name, 1)
    write(source_kafka, name, values(0, 10))
    copy(flow)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 5))
    assert sync_checkpoints(flow).checkpoints == 1
    write(source_kafka, name, values(10, 20))
    copy(flow)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 15))
    report = sync_checkpoints(flow)
    assert (report.offset_syncs, report.checkpoints, report.groups) == (2, 0, 0)
    assert report.due_in_seconds is not None
    assert "checkpoints are due in" in str(report)
    # Asked for at once, and with what was copied while nothing was due.
    report = sync_checkpoints(flow, at_once=True)
    assert (report.offset_syncs, report.checkpoints, report.due_in_seconds) == (0, 1, None)
    assert [(checkpoint.upstream, checkpoint.downstream) for checkpoint in checkpoints(flow)] == [(5, 5), (15, 16)]


def test_nothing_is_written_for_what_the_flow_does_not_emit(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, sync_checkpoints: Rounds
) -> None:
    flow = replace(flow, emit_offset_syncs=False, emit_checkpoints=False, offset_syncs_topic_location="target")
    source_kafka.create_topic(name, 1)
    write(source_kafka, name, values(0, 10))
    copy(flow)
    commit(source_kafka, name + "-g", TopicPartition(name, 0, 5))
    report = sync_checkpoints(flow)
    assert (report.checkpoints, report.offset_syncs, report.groups) == (0, 0, 0)
    assert names.offset_syncs_topic(flow) not in target_kafka.admin().list_topics().topics


def test_heartbeats_of_the_target_need_the_target_alone(flow: FlowSettings, target_kafka: FakeCluster) -> None:
    flow = replace(flow, emit_heartbeats=True, heartbeats_topic_location="target")
    nowhere = replace(flow.source, bootstrap_servers="127.0.0.1:1", confluent={"bootstrap.servers": "127.0.0.1:1"})
    with FlowClusters(replace(flow, source=nowhere), clock=lambda: 1_700_000_000.5) as clusters:
        first = emit_heartbeat(clusters)
    assert first.timestamp_ms == 1_700_000_000_500
    with StateReader(flow.target) as reader:
        records = [r for r in reader.read("heartbeats") if flow.name.source.encode() in (r.key or b"")]
    assert [decode_heartbeat(r.key, r.value) for r in records] == [first]
    assert [(r.partition, r.timestamp_ms) for r in records] == [(0, first.timestamp_ms)]
