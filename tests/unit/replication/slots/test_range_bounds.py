"""Ranges that begin and end anywhere: inside batches, at markers, in new partitions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from srm_common.domain.offsets.joined_segments import Candidate, groups, joined
from srm_common.domain.offsets.translation import translate
from srm_common.testing import FakeCluster
from srm_common.wire.batches.batch import CONTROL
from tests.kafka.engine import Engine
from tests.kafka.records import eventually, grow, log_batches, mixed_records, plain, produce, put, read_all, writer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def engine(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Engine:
    return Engine(source_kafka, target_kafka, "equality")


def test_a_topic_that_ends_with_aborted_records_and_markers(engine: Engine, name: str) -> None:
    engine.create(name)
    producer = writer(engine.source, transactional_id=name)
    producer.init_transactions(120)
    produce(engine.source, name, 0, plain(5))
    producer.begin_transaction()
    put(producer, name, 0, plain(500))
    producer.flush(60)
    producer.abort_transaction(120)
    outcome = engine.copy(name)
    assert not outcome.errors
    assert engine.check(name) == 5  # and the committed position is the end: the tail is not fetched again
    assert outcome.ranges[name, 0].position == 506


@pytest.mark.parametrize("committed", [True, False])
def test_brokers_are_asked_for_committed_records(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, committed: bool
) -> None:
    """Otherwise markers would be searched for, transaction by transaction."""
    engine = Engine(source_kafka, target_kafka, name, read_committed=committed)
    engine.create(name)
    produce(source_kafka, name, 0, plain(5))
    source_kafka.forget_requests()
    assert engine.copy(name, read_committed=committed).records == 5
    levels = {one.isolation_level for one in source_kafka.asked("Fetch")}
    assert levels == {int(committed)}


def test_a_chunk_of_nothing_but_a_marker_leaves_no_gap_in_the_map(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    """A flow that reads uncommitted sees a transaction's marker later than its records."""
    engine = Engine(source_kafka, target_kafka, name, read_committed=False)
    engine.create(name)
    producer = writer(source_kafka, transactional_id=name)
    producer.init_transactions(120)
    positions = []
    for number in range(6):
        producer.begin_transaction()
        put(producer, name, 0, plain(5))
        producer.flush(60)
        assert engine.copy(name, read_committed=False).records == 5
        producer.commit_transaction(120)
        end = 6 * number + 6
        eventually(lambda end=end: engine.ends(name, committed=False)[name, 0] == end, 240, "the marker is there")  # type: ignore[misc]
        outcome = engine.copy(name, read_committed=False)
        assert (outcome.records, outcome.slots[0].transactions) == (0, 1)
        positions.append(outcome.ranges[name, 0].position)
    assert positions == [6, 12, 18, 24, 30, 36]
    segments = engine.segments(name)[0]
    spans = [(segment.upstream_start, segment.upstream_end) for segment in segments]
    assert spans == [(0, 5), *((end - 1, end + 5) for end in positions[:-1])]
    whole = joined(segments)
    for position in range(36):
        assert translate([whole], position) == translate(segments, position)
    (group,) = groups(Candidate(number, one, 40) for number, one in enumerate(segments))
    assert [candidate.segment for candidate in group] == segments
    assert engine.check(name, isolation="read_uncommitted") == 30


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_passes_that_begin_and_end_inside_batches(engine: Engine, name: str, codec: str) -> None:
    engine.create(name, 2)
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(1000, 7), compression_type=codec)
    assert len(log_batches(engine.source, name)) < 20
    copied = 0
    for cut in (1, 333, 334, 999):
        ends = {(name, 0): cut, (name, 1): cut // 2}
        outcome = engine.copy(name, ends=ends)
        assert not outcome.errors
        copied += outcome.records
        assert engine.check(name, complete=False) == copied == cut + cut // 2
    assert not engine.copy(name).errors
    assert engine.check(name) == 2000


def test_a_start_given_by_hand_inside_a_batch(engine: Engine, name: str) -> None:
    engine.create(name)
    produce(engine.source, name, 0, plain(1000))
    outcome = engine.copy(name, starts={(name, 0): 777})
    assert not outcome.errors
    (copied,) = read_all(engine.target, engine.copy_of(name)).values()
    (original,) = read_all(engine.source, name).values()
    assert [placed.seen for placed in copied] == [placed.seen for placed in original[777:]]
    (segment,) = engine.segments(name)[0]
    assert (segment.upstream_start, segment.upstream_end) == (777, 1000)


def test_a_topic_that_grows_between_passes(engine: Engine, name: str) -> None:
    engine.create(name, 3)
    for partition in range(3):
        produce(engine.source, name, partition, mixed_records(200, partition))
    assert not engine.copy(name).errors
    assert engine.check(name) == 600
    for kafka, topic in ((engine.source, name), (engine.target, engine.copy_of(name))):
        grow(kafka, topic, 6)
    for partition in range(6):
        produce(engine.source, name, partition, mixed_records(100, 50 + partition))
    assert not engine.copy(name, slots=2).errors
    assert engine.check(name) == 1200


def test_many_topics_partitions_and_slots_chunk_by_chunk(engine: Engine, name: str) -> None:
    topics = [f"{name}-{n}" for n in range(3)]
    for number, topic in enumerate(topics):
        engine.create(topic, 4)
        for partition in range(4):
            produce(
                engine.source, topic, partition, mixed_records(300, number * 4 + partition),
                compression_type=CODECS[(number + partition) % 5], batch_size=10_000,
            )  # fmt: skip
    outcome = engine.copy(*topics, slots=3, chunk_bytes=10_000, fetch_bytes=1 << 20, fetch_partition_bytes=8000)
    assert not outcome.errors
    assert all(slot.transactions > 2 for slot in outcome.slots)
    for topic in topics:
        assert engine.check(topic) == 1200


def test_markers_of_the_copys_own_transactions_are_jumps_in_the_map(engine: Engine, name: str) -> None:
    engine.create(name)
    produce(engine.source, name, 0, plain(3000, size=500), batch_size=10_000)
    outcome = engine.copy(name, chunk_bytes=100_000, fetch_partition_bytes=30_000)
    assert outcome.slots[0].transactions > 3
    assert engine.check(name) == 3000
    starts: Sequence[int] = [segment.downstream_start for segment in engine.segments(name)[0]]
    assert len(starts) == outcome.slots[0].transactions
    markers = [batch for batch in log_batches(engine.target, engine.copy_of(name)) if batch.header.attributes & CONTROL]
    assert [marker.header.next_offset for marker in markers][:-1] == list(starts[1:])
