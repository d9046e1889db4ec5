"""A source log that lost its end and has grown beyond the copied position again."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.state.source_offsets import offset_record
from srm_common.kafka.state.state_topics import present_state_topics
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import rewritten_offsets, write_transaction
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.source_offsets import committed_now
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.state.mm2 import COPIED_TO_HEADER, EPOCH_HEADER
from tests.kafka.engine import Engine
from tests.kafka.flows import flow_between, prepare
from tests.kafka.records import mixed_records, produce
from tests.slot_worker import here


def run(flow: FlowSettings, run_id: str) -> RunRecord:
    return replicate(flow, RunOptions(run_id=run_id), here)


def test_a_slot_notices_it_while_it_copies(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(200))
    assert not engine.copy(name).errors

    source_kafka.move_leader(name, keep=0)
    produce(source_kafka, name, 0, mixed_records(500, seed=2))
    outcome = engine.copy(name)
    assert outcome.ranges[name, 0].error_kind == "DataLost"
    assert outcome.ranges[name, 0].position == 200
    error = str(outcome.ranges[name, 0].error)
    assert error.endswith("; the next run applies on.data.loss")
    assert "at offset 0 " in error


def test_the_epoch_is_a_header_beside_what_mirror_maker_writes(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(200))
    outcome = engine.copy(name)
    consumer = Consumer({"bootstrap.servers": target_kafka.bootstrap_servers, "group.id": name})
    consumer.assign(
        [TopicPartition(engine.state.offsets_topic, one, 0) for one in range(engine.state.offsets_partitions)]
    )
    try:
        (message,) = consumer.consume(1, 120)
    finally:
        consumer.close()
    epoch = outcome.ranges[name, 0].leader_epoch
    assert epoch >= 0
    assert message.value() == b'{"offset":199}'
    assert message.headers() == [(EPOCH_HEADER.decode(), b"%d" % epoch), (COPIED_TO_HEADER.decode(), b"200")]


def test_a_position_that_was_set_has_the_epoch_of_its_place_in_the_log(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    source_kafka.create_topic(name)
    produce(source_kafka, name, 0, mixed_records(100))
    prepare(flow)
    run(flow, "1")
    (first,) = committed_now(flow).epochs.values()
    source_kafka.move_leader(name)
    produce(source_kafka, name, 0, mixed_records(100, seed=2))
    run(flow, "2")
    (second,) = committed_now(flow).epochs.values()
    assert second > first

    def epoch_at(offset: int) -> int | None:
        edit_source_offsets(flow, Request("set", offsets={Place(name, 0): offset}))
        now = committed_now(flow)
        assert now == {(name, 0): offset} if offset else not now
        return now.epochs.get(Place(name, 0))

    assert [epoch_at(offset) for offset in (50, 100, 101, 0, 150)] == [first, first, second, None, second]
    source_kafka.move_leader(name, keep=0)
    produce(source_kafka, name, 0, mixed_records(300, seed=3))
    record = run(flow, "3")
    assert (record.state, record.records) == (RunState.FAILED, 0)
    assert "truncated and has grown again" in str(record.failed_partitions[0].trouble)
    # The same offset is another place in the log as it is now.
    (planned,) = edit_source_offsets(flow, Request("set", offsets={Place(name, 0): 150}), dry_run=True)
    assert (planned.changes, planned.effect.partition(",")[0]) == (True, "stays at 150")
    assert epoch_at(150) not in (first, second, None)
    assert run(flow, "4").records == 150


def test_an_offset_that_is_written_once_more_keeps_its_epoch(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    source_kafka.create_topic(name)
    produce(source_kafka, name, 0, mixed_records(100))
    prepare(flow)
    run(flow, "1")
    with FlowClusters(flow) as clusters:
        state, known = present_state_topics(clusters.target.reader, flow), committed_now(clusters)
    ahead = offset_record(flow.name, state, Place(name, 0), 200)

    async def stopped_before(self: Producer) -> None:
        """A process that ends before its commit."""

    with Ownership.take(flow, 1, 1) as owner, monkeypatch.context() as patch:
        patch.setattr(Producer, "commit", stopped_before)
        write_transaction(flow, owner.identities[0], [ahead])
    with Ownership.take(flow, 1, 1):
        pass
    again = rewritten_offsets(flow, state)
    assert again == [
        offset_record(
            flow.name, state, Place(name, 0), 100, epoch=known.epochs[Place(name, 0)], copied_to=CopiedTo(100, 100)
        )
    ]
    StateWriter(flow.target).write("write them once more", again)
    now = committed_now(flow)
    assert (now, now.epochs, now.copied_to) == (known, known.epochs, known.copied_to)
