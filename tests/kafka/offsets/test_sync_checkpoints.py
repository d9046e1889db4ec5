"""Offset syncs and checkpoints of real copies, judged by what a group would read and by MirrorMaker 2's classes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.translation import Translated
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.testing import LocalKafka
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.wire.state.mm2 import decode_offset_sync
from tests.kafka.checkpoint_rounds import checkpoints, copy, values
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit
from tests.kafka.judge import mm2_checkpoints, mm2_reads

pytestmark = pytest.mark.kafka


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",), offset_lag_max=50)


def syncs(flow: FlowSettings) -> list[tuple[int, int]]:
    cluster = flow.source if flow.offset_syncs_topic_location == "source" else flow.target
    with StateReader(cluster) as reader:
        offset_syncs = [decode_offset_sync(r.key, r.value) for r in reader.read(names.offset_syncs_topic(flow))]
    # On the source all flows to one target share the topic.
    return [(sync.upstream, sync.downstream) for sync in offset_syncs if (sync.topic,) == flow.topics]


def visible(kafka: LocalKafka, flow: FlowSettings, topic: str) -> dict[int, bytes | None]:
    """Offset -> value of partition 0 as read_committed consumers see it."""
    cluster = flow.source if kafka.bootstrap_servers == flow.source.bootstrap_servers else flow.target
    with StateReader(cluster) as reader:
        return {r.offset: r.value for r in reader.read(topic) if r.partition == 0}


@pytest.mark.parametrize("size", [1, 900])
def test_every_position_reads_what_was_unread(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, size: int
) -> None:
    """Transactions that commit and abort at the source, and chunks of any size: holes on both sides.

    Exactly that with records of an ordinary size; of tiny ones, whose map would cost too much, some may come again.
    """
    chance = random.Random(7)
    source_kafka.create_topic(name, 1)
    settings = {"bootstrap.servers": source_kafka.bootstrap_servers, "transactional.id": name, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions()
    for _ in range(3):
        for number in range(12):
            producer.begin_transaction()
            for record in range(chance.randint(1, 6)):
                producer.produce(name, value=b"%d-%d " % (number, record) * size, partition=0)
            producer.flush()
            (producer.abort_transaction if chance.random() < 0.4 else producer.commit_transaction)()
        copy(flow)
    upstream = visible(source_kafka, flow, name)
    downstream = visible(target_kafka, flow, f"{flow.name.source}.{name}")
    assert list(upstream.values()) == list(downstream.values())
    segments_topic = names.segments_topic(flow.name.source)
    with StateReader(flow.target) as reader:
        partitions = reader.partitions(segments_topic)
        log = SegmentLog(reader, segments_topic, partitions)
        log.read_new({})
        # And once more by history alone, with nothing new.
        old = SegmentLog(reader, segments_topic, partitions)
        old.read_new(reader.offsets(segments_topic, range(partitions), LATEST))
        for position in range(max(upstream) + 2):
            translation = log.translate(name, 0, position)
            assert isinstance(translation, Translated)
            assert translation.exact or size == 1
            assert old.translate(name, 0, position) == translation
            unread = [value for offset, value in upstream.items() if offset >= position]
            would_read = [value for offset, value in downstream.items() if offset >= translation.offset]
            assert would_read[-len(unread) :] == unread or not unread, position
            assert len(would_read) == len(unread) or not translation.exact, position


def formatted(group: str, remote: str, partition: int, offset: int, metadata: str) -> str:
    """A line of MirrorMaker 2's ``CheckpointFormatter``, by which the console consumer prints checkpoints."""
    return (
        f"Checkpoint{{consumerGroupId={group}, topicPartition={remote}-{partition}, upstreamOffset={offset}, "
        f"downstreamOffset={offset}, metadata={metadata}}}"
    )


def test_mirror_makers_own_classes_read_what_we_write(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    flow = replace(flow, offset_syncs_topic_location="target", emit_heartbeats=True, heartbeats_topic_location="target")
    source_kafka.create_topic(name, 2)
    group, remote = name + "-g", f"{flow.name.source}.{name}"
    for partition in (0, 1):
        write(source_kafka, name, values(0, 30), partition)
    copy(flow)
    commit(source_kafka, group, TopicPartition(name, 0, 12), TopicPartition(name, 1, 30, metadata="é"))
    assert sync_checkpoints(flow).checkpoints == 2
    beat = emit_heartbeat(flow)
    lines = mm2_reads(
        target_kafka,
        ("heartbeats", "heartbeats"),
        ("checkpoints", names.checkpoints_topic(flow)),
        ("format", names.checkpoints_topic(flow)),
        ("syncs", names.offset_syncs_topic(flow)),
        ("translate", f"{flow.name.source}/{group}"),
    )
    source = flow.name.source
    assert ["heartbeat", source, "target", str(beat.timestamp_ms), str(beat.timestamp_ms)] in lines
    told = {tuple(line) for line in lines if line[0] != "heartbeat"}
    assert told == {
        ("checkpoint", group, f"{remote}-0", "12", "12", ""),
        ("checkpoint", group, f"{remote}-1", "30", "30", "é"),
        ("formatted", formatted(group, remote, 0, 12, "")),
        ("formatted", formatted(group, remote, 1, 30, "é")),
        ("sync", f"{name}-0", "0", "0"),
        ("sync", f"{name}-0", "29", "29"),
        ("sync", f"{name}-1", "0", "0"),
        ("sync", f"{name}-1", "29", "29"),
        ("translated", f"{remote}-0", "12", ""),
        ("translated", f"{remote}-1", "30", "é"),
    }


def test_mirror_makers_own_connector_reads_our_syncs(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """It finds the groups, reads our offset syncs, and never puts a group further than we do; at the end as far."""
    source_kafka.create_topic(name, 1)
    remote = f"{flow.name.source}.{name}"
    quiet = replace(flow, emit_checkpoints=False, offset_lag_max=10)
    for start in (0, 100, 200):
        write(source_kafka, name, values(start, start + 100))
        copy(quiet)
        assert sync_checkpoints(quiet).offset_syncs > 5
    groups = {f"{name}-{position:03}": position for position in (0, 7, 99, 100, 101, 250, 295, 299, 300)}
    for group, position in groups.items():
        commit(source_kafka, group, TopicPartition(name, 0, position))
    theirs = mm2_checkpoints(source_kafka, target_kafka, flow, name, f"{name}-.*", len(groups))
    assert checkpoints(flow) == []
    assert sync_checkpoints(flow).checkpoints == len(groups)
    ours = {
        (checkpoint.group, checkpoint.topic, checkpoint.partition): (checkpoint.upstream, checkpoint.downstream)
        for checkpoint in checkpoints(flow)
    }
    assert theirs.keys() == ours.keys() == {(group, remote, 0) for group in groups}
    downstream = visible(target_kafka, flow, remote)
    for group, position in groups.items():
        (their_upstream, their_place), (our_upstream, our_place) = theirs[group, remote, 0], ours[group, remote, 0]
        assert their_upstream == our_upstream == position
        assert their_place <= our_place
        assert their_place == our_place or position < 299
        assert sum(offset >= our_place for offset in downstream) == 300 - position

    # With our checkpoints there it only goes on from them, and we from its.
    commit(source_kafka, f"{name}-007", TopicPartition(name, 0, 300))
    (moved,) = mm2_checkpoints(source_kafka, target_kafka, flow, name, f"{name}-.*", 1).items()
    assert moved == ((f"{name}-007", remote, 0), (300, ours[f"{name}-300", remote, 0][1]))
