"""The copy is equal to the source: key, value, headers, timestamp, order, partition; and the offset map is exact."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.offsets.segments import Candidate, groups, joined
from srm_common.domain.offsets.translation import translate
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.batch import CODEC_MASK, CONTROL
from srm_common.wire.codec import NAMES
from tests.kafka.engine import Background, Engine, assert_same
from tests.kafka.flows import Seen, flow_between, prepare
from tests.kafka.records import eventually, grow, log_batches, mixed_records, produce, put, read_all, writer

pytestmark = pytest.mark.kafka

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "equality")


def plain(count: int, size: int = 100, start: int = 0) -> list[Seen]:
    now = int(time.time() * 1000) - 100_000
    return [Seen(b"k%d" % n, b"%d:" % n + b"v" * size, (), now + n) for n in range(start, start + count)]


def noise(count: int, size: int) -> list[Seen]:
    """Values that no codec makes smaller."""
    dice = random.Random(size)
    now = int(time.time() * 1000)
    return [Seen(b"k%d" % n, dice.randbytes(size), (), now) for n in range(count)]


# ---- shapes of records and batches


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(engine: Engine, name: str, codec: str) -> None:
    engine.create(name, 3)
    for partition in range(3):
        produce(
            engine.source, name, partition, mixed_records(4000, partition), compression_type=codec, batch_size=64_000
        )
    outcome = engine.copy(name)
    assert not outcome.errors
    assert engine.check(name) == outcome.records == 12_000
    assert outcome.total("reencoded_batches") == 0  # unopened, every one
    for partition in range(3):
        before = [one for one in log_batches(engine.source, name, partition) if not one.header.attributes & CONTROL]
        after = [one for one in log_batches(engine.target, engine.copy_of(name), partition)]
        after = [one for one in after if not one.header.attributes & CONTROL]
        assert [bytes(one.data[61:]) for one in after] == [bytes(one.data[61:]) for one in before]
        # A producer that was held up sends batches of a few records, and those as they are when that is shorter.
        assert codec in {NAMES[one.header.attributes & CODEC_MASK] for one in after} <= {codec, "none"}


def test_mixed_codecs_and_sizes_in_one_partition(engine: Engine, name: str) -> None:
    engine.create(name)
    for number, codec in enumerate([*CODECS, *reversed(CODECS)]):
        size = [50, 5000][number % 2]
        idempotent = {"enable_idempotence": True} if number % 3 == 0 else {}
        produce(engine.source, name, 0, mixed_records(300, number, size), compression_type=codec, **idempotent)
    assert not engine.copy(name).errors
    assert engine.check(name) == 3000


def test_null_and_empty_keys_values_and_headers(engine: Engine, name: str) -> None:
    engine.create(name, 2)
    now = int(time.time() * 1000)
    headers: list[tuple[tuple[str, bytes | None], ...]] = [
        (), (("h", None),), (("h", b""),), (("", b"x"),), (("h", b"1"), ("h", b"2"), ("h", None), ("h", b"1")),
    ]  # fmt: skip
    records = [
        Seen(key, value, some, now) for key in (None, b"", b"k") for value in (None, b"", b"v") for some in headers
    ]
    produce(engine.source, name, 1, records)
    assert not engine.copy(name).errors
    assert engine.check(name) == len(records)
    assert [one.seen for one in read_all(engine.target, engine.copy_of(name))[1]] == records


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_single_record_batches_are_merged(engine: Engine, name: str, codec: str) -> None:
    engine.create(name, 2)
    for partition in range(2):
        produce(
            engine.source, name, partition, mixed_records(1500, partition, 60),
            compression_type=codec, batch_num_messages=1, linger_ms=0,
        )  # fmt: skip
    assert len(log_batches(engine.source, name)) == 1500
    outcome = engine.copy(name)
    assert not outcome.errors
    assert engine.check(name) == 3000
    assert outcome.total("reencoded_records") == 3000
    assert len(log_batches(engine.target, engine.copy_of(name))) < 100


def test_five_megabyte_records_in_more_partitions_than_a_request_has_room_for(engine: Engine, name: str) -> None:
    large = {"max.message.bytes": str(6 << 20)}
    engine.create(name, 8, source=large, target=large)
    for partition in range(8):
        produce(engine.source, name, partition, noise(2, 5_000_000), message_max_bytes=6 << 20, batch_size=1000)
    outcome = engine.copy(name, slots=2)
    assert not outcome.errors
    assert engine.check(name) == 16


def test_append_time_becomes_the_records_time(engine: Engine, name: str) -> None:
    engine.create(name, source={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        produce(engine.source, name, 0, mixed_records(300, 3), compression_type=codec)
    assert not engine.copy(name).errors
    assert engine.check(name) == 1500
    (copied,) = read_all(engine.target, engine.copy_of(name)).values()
    assert all(time.time() * 1000 - one.seen.timestamp_ms < 60_000 for one in copied)


def test_empty_topics(engine: Engine, name: str) -> None:
    engine.create(name, 3)
    full = f"{name}-full"
    engine.create(full)
    assert engine.copy(name).records == 0
    assert engine.check(name) == 0
    produce(engine.source, full, 0, plain(10))
    outcome = engine.copy(name, full)
    assert not outcome.errors
    assert outcome.records == 10
    assert engine.check(name) == 0
    assert engine.check(full) == 10


# ---- transactions at the source


def test_interleaved_transactions(engine: Engine, name: str) -> None:
    engine.create(name, 2)
    dice = random.Random(5)
    producers = [writer(engine.source, transactional_id=f"{name}-{n}", linger_ms=1) for n in range(3)]
    for producer in producers:
        producer.init_transactions(120)
    bystander = writer(engine.source, linger_ms=0)
    open_: set[int] = set()
    for number in range(120):
        which = dice.randrange(3)
        producer = producers[which]
        if which not in open_:
            producer.begin_transaction()
            open_.add(which)
        for partition in dice.sample(range(2), dice.choice([1, 2])):
            put(producer, name, partition, plain(dice.randrange(1, 40), start=number * 100))
        producer.flush(60)
        if dice.random() < 0.5:
            put(bystander, name, dice.randrange(2), plain(3, start=number * 100 + 50))
            bystander.flush(60)
        if dice.random() < 0.6:
            producer.abort_transaction(120) if dice.random() < 0.45 else producer.commit_transaction(120)
            open_.discard(which)
    for which in sorted(open_)[1:]:
        producers[which].commit_transaction(120)
    outcome = engine.copy(name, fetch_partition_bytes=2000, held=True)
    assert not outcome.errors
    first = engine.check(name, held=True)
    everything = sum(map(len, read_all(engine.source, name, isolation="read_uncommitted").values()))
    assert 0 < first < everything
    for which in sorted(open_)[:1]:
        producers[which].abort_transaction(120)
    assert not engine.copy(name).errors
    assert engine.check(name) >= first


def test_an_aborted_transaction_over_many_fetches(engine: Engine, name: str) -> None:
    engine.create(name)
    producer = writer(engine.source, transactional_id=name, linger_ms=0, batch_size=4000)
    producer.init_transactions(120)
    produce(engine.source, name, 0, plain(50))
    for kept in (True, False, True, False):
        producer.begin_transaction()
        for part in range(20):
            put(producer, name, 0, plain(50, start=part * 50))
            producer.flush(60)
            if part % 10 == 0:
                produce(engine.source, name, 0, plain(2, start=part))
        producer.commit_transaction(120) if kept else producer.abort_transaction(120)
    outcome = engine.copy(name, fetch_partition_bytes=5000, chunk_bytes=50_000)
    assert not outcome.errors
    assert outcome.slots[0].transactions > 3
    assert engine.check(name) == 50 + 2 * 1000 + 8 * 2


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


def test_a_chunk_of_nothing_but_a_marker_leaves_no_gap_in_the_map(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """Who reads uncommitted sees a transaction's marker later than its records."""
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
    spans = [(one.upstream_start, one.upstream_end) for one in segments]
    assert spans == [(0, 5), *((end - 1, end + 5) for end in positions[:-1])]
    whole = joined(segments)
    for position in range(36):
        assert translate([whole], position) == translate(segments, position)
    (group,) = groups(Candidate(number, one, 40) for number, one in enumerate(segments))
    assert [one.segment for one in group] == segments
    assert engine.check(name, isolation="read_uncommitted") == 30


def test_read_uncommitted_copies_aborted_records_too(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, name, read_committed=False)
    engine.create(name)
    producer = writer(source_kafka, transactional_id=name)
    producer.init_transactions(120)
    for kept in (True, False, True):
        producer.begin_transaction()
        put(producer, name, 0, plain(20))
        producer.flush(60)
        producer.commit_transaction(120) if kept else producer.abort_transaction(120)
    producer.begin_transaction()
    put(producer, name, 0, plain(7))
    producer.flush(60)
    assert not engine.copy(name, read_committed=False).errors
    assert engine.check(name, isolation="read_uncommitted") == 67
    producer.abort_transaction(120)


# ---- compaction


COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": "100",
}


def test_compacted_topics_with_holes(engine: Engine, name: str) -> None:
    codecs = {0: "none", 1: "lz4", 2: "zstd", 3: "gzip", 4: "snappy"}
    engine.create(name, 5, source=COMPACTED)
    now = int(time.time() * 1000)
    dice = random.Random(9)
    for partition, codec in codecs.items():
        records = []
        for number in range(6000):
            key = b"once%d" % number if number % 3 == 0 else b"k%d" % dice.randrange(40)
            value = None if number % 50 == 0 else b"%d:" % number + b"text " * dice.randrange(60)
            headers = (("n", b"%d" % number), ("n", None)) if number % 7 == 0 else ()
            records.append(Seen(key, value, headers, now - dice.randrange(1000)))
        produce(engine.source, name, partition, records, compression_type=codec, batch_num_messages=200)
    for partition in codecs:
        roll(engine.source, name, partition)

    eventually(
        lambda: all(_records_in(engine.source, name, one) < 3000 for one in codecs), 180, "the cleaner did not run"
    )
    outcome = engine.copy(name, chunk_bytes=100_000)
    assert not outcome.errors
    assert outcome.total("reencoded_batches") > 50
    copied = engine.check(name)
    assert copied == outcome.records
    assert copied < 15_000
    # A start in the midst of holes, and the same map again.
    assert engine.copy(name).records == 0


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_range_whose_end_was_removed_by_the_cleaner(engine: Engine, name: str, idempotent: bool) -> None:
    # For an idempotent producer the cleaner leaves its last batch, emptied; else nothing at all.
    engine.create(name, source=COMPACTED)
    gone = Seen(b"gone", b"0", (), int(time.time() * 1000))
    produce(engine.source, name, 0, plain(20))
    produce(engine.source, name, 0, [gone] * 200, enable_idempotence=idempotent, batch_num_messages=50)
    end = engine.ends(name)[name, 0]
    assert end == 220
    produce(engine.source, name, 0, [gone])
    roll(engine.source, name, 0)
    eventually(lambda: _records_in(engine.source, name) <= 22, 180, "the cleaner did not run")
    assert any(one.header.record_count == 0 for one in log_batches(engine.source, name)) == idempotent
    outcome = engine.copy(name, ends={(name, 0): end})
    assert not outcome.errors
    assert outcome.ranges[name, 0].position == end
    assert engine.check(name, complete=False) == 20
    assert engine.copy(name).records == 2
    assert engine.check(name) == 22


def roll(kafka: LocalKafka, topic: str, partition: int) -> None:
    """The active segment is never cleaned. It rolls when a record is ``segment.ms`` newer than its first one."""
    produce(kafka, topic, partition, [Seen(b"newest", b"1", (), int(time.time() * 1000) + 60_000)])


def _records_in(kafka: LocalKafka, topic: str, partition: int = 0) -> int:
    return sum(one.header.record_count for one in log_batches(kafka, topic, partition))


# ---- limits of the target


def test_batches_larger_than_the_targets_limit_are_cut(engine: Engine, name: str) -> None:
    engine.create(name, 2, target={"max.message.bytes": "10000"})
    for codec in CODECS:
        for partition in range(2):
            produce(engine.source, name, partition, noise(100, 1500), compression_type=codec)
    assert max(len(one.data) for one in log_batches(engine.source, name)) > 50_000
    outcome = engine.copy(name)
    assert not outcome.errors
    assert engine.check(name) == 1000
    assert max(len(one.data) for one in log_batches(engine.target, engine.copy_of(name))) <= 10_000


def test_a_record_larger_than_the_targets_limit_stops_its_partition_alone(engine: Engine, name: str) -> None:
    engine.create(name, 3, target={"max.message.bytes": "10000"})
    for partition in range(3):
        produce(engine.source, name, partition, noise(40, 1500))
    produce(engine.source, name, 1, [*noise(5, 700), *noise(1, 20_000), *noise(5, 700)])
    for partition in range(3):
        produce(engine.source, name, partition, noise(20, 1500))
    outcome = engine.copy(name)
    (error,) = outcome.errors.values()
    broken = outcome.ranges[name, 1]
    assert broken.error_kind == "RecordTooLarge"
    assert error == (
        f"partition {name}-1: the record at offset 45 needs {broken.error_kind and _size(error)} bytes, "
        "but the target topic's max.message.bytes is 10000"
    )
    assert _size(error) > 20_000
    assert broken.position == 45  # everything before it, also of its own batch
    assert {outcome.ranges[name, partition].position for partition in (0, 2)} == {60}
    assert engine.check(name, complete=False) == 60 + 45 + 60
    # The next pass stops at the same record; when the limit is raised, the one after that goes on.
    assert engine.copy(name).ranges[name, 1].position == 45
    engine.limits[name] = 30_000
    _alter_topic(engine.target, engine.copy_of(name), "max.message.bytes", "30000")
    assert not engine.copy(name).errors
    assert engine.check(name) == 60 + 71 + 60


def _size(error: str) -> int:
    return int(error.split(" needs ")[1].split()[0])


def test_the_targets_limit_was_lowered_during_the_run(engine: Engine, name: str) -> None:
    engine.create(name, 2)
    for partition in range(2):
        produce(engine.source, name, partition, plain(10))
        produce(engine.source, name, partition, noise(1, 50_000))
        produce(engine.source, name, partition, plain(10))
    _alter_topic(engine.target, engine.copy_of(name), "max.message.bytes", "10000")
    outcome = engine.copy(name)
    assert {one.position for one in outcome.ranges.values()} == {10}
    for partition in range(2):
        error = outcome.errors[name, partition]
        assert f"partition {engine.copy_of(name)}-{partition} at target" in error
        assert "max.message.bytes was lowered during the run" in error
    assert engine.check(name, complete=False) == 20


def _alter_topic(kafka: LocalKafka, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.admin().incremental_alter_configs([resource])[resource].result(60)


# ---- starts, ends, growth


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
    assert [one.seen for one in copied] == [one.seen for one in original[777:]]
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


def test_every_commit_is_whole(engine: Engine, name: str) -> None:
    engine.create(name, 3)
    for partition in range(3):
        produce(engine.source, name, partition, mixed_records(8000, partition, 300), batch_size=5000)
    upstream = read_all(engine.source, name)
    # So many small transactions that even a fast machine is still at it at the second look.
    copy = Background(engine, name, fetch_partition_bytes=10_000, chunk_bytes=10_000)
    looks = 0
    while copy.running:
        before = engine.committed()
        seen = read_all(engine.target, engine.copy_of(name))
        after = engine.committed()
        for partition, records in seen.items():
            # Without aborted data at the source, positions count records.
            assert before.get((name, partition), 0) <= len(records) <= after.get((name, partition), 0)
            assert_same(upstream[partition][: len(records)], records, f"{name}-{partition}")
            looks += 0 < len(records) < 8000
    assert not copy.result().errors
    assert looks
    assert engine.check(name) == 24_000


# ---- other ways to copy


def test_at_least_once(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    engine = Engine(source_kafka, target_kafka, name, exactly_once=False)
    engine.create(name, 2)
    for partition in range(2):
        produce(source_kafka, name, partition, mixed_records(2000, partition), compression_type="lz4")
        produce(source_kafka, name, partition, plain(300), batch_num_messages=1, linger_ms=0)
    outcome = engine.copy(name, exactly_once=False, chunk_bytes=100_000)
    assert not outcome.errors
    assert engine.check(name) == 4600
    batches = log_batches(target_kafka, engine.copy_of(name))
    assert not any(one.header.attributes & 0x30 for one in batches)  # neither transactional nor markers
    assert all(one.header.producer_id >= 0 for one in batches)  # idempotent
    produce(source_kafka, name, 0, plain(10))
    assert engine.copy(name, exactly_once=False).records == 10
    assert engine.check(name) == 4610


def test_a_target_without_the_newer_transactions(source_kafka: LocalKafka, name: str) -> None:
    with LocalKafka(name="older", features={"transaction.version": "0"}) as target:
        engine = Engine(source_kafka, target, name)
        engine.create(name, 3)
        for partition in range(3):
            produce(
                source_kafka, name, partition, mixed_records(2000, partition), compression_type="zstd", batch_size=8000
            )
        outcome = engine.copy(name, chunk_bytes=50_000, fetch_partition_bytes=20_000, slots=2)
        assert not outcome.errors
        assert all(slot.transactions >= 2 for slot in outcome.slots)
        assert engine.check(name) == 6000


def test_markers_of_the_copys_own_transactions_are_jumps_in_the_map(engine: Engine, name: str) -> None:
    engine.create(name)
    produce(engine.source, name, 0, plain(3000, size=500), batch_size=10_000)
    outcome = engine.copy(name, chunk_bytes=100_000, fetch_partition_bytes=30_000)
    assert outcome.slots[0].transactions > 3
    assert engine.check(name) == 3000
    starts: Sequence[int] = [one.downstream_start for one in engine.segments(name)[0]]
    assert len(starts) == outcome.slots[0].transactions
    markers = [one for one in log_batches(engine.target, engine.copy_of(name)) if one.header.attributes & CONTROL]
    assert [one.header.next_offset for one in markers][:-1] == list(starts[1:])


def test_a_whole_run_with_topics_of_all_kinds(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    """The copies are made by the plan, not by the test: their settings must let everything through as it is."""
    flow = flow_between(source_kafka, target_kafka, name, tasks_max=3)
    kinds: dict[str, dict[str, str]] = {
        "plain": {},
        "gzip": {"compression.type": "gzip"},
        "append-time": {"message.timestamp.type": "LogAppendTime"},
        "large": {"max.message.bytes": str(6 << 20)},
        "compacted": {"cleanup.policy": "compact"},
    }
    counts: dict[str, int] = {}
    for kind, config in kinds.items():
        topic = f"{name}-{kind}"
        source_kafka.create_topic(topic, 3, config=config)
        for partition in range(3):
            records = [one if one.key is not None else replace(one, key=b"x") for one in mixed_records(400, partition)]
            records += noise(1, 5_000_000) if kind == "large" else plain(5)
            produce(source_kafka, topic, partition, records, compression_type="lz4", message_max_bytes=6 << 20)
        counts[topic] = 3 * len(records)
    old = [Seen(b"old", b"1", (), int(time.time() * 1000) - 400 * 86_400_000)]
    produce(source_kafka, f"{name}-plain", 0, old)  # beyond every default of retention and of record times
    prepare(flow)
    run = replicate(flow, RunOptions("r"), lambda job, tasks: [copy_slot(job, task) for task in tasks])
    assert run.state is RunState.DONE, run.partitions
    engine = Engine(source_kafka, target_kafka, name)
    for topic, count in counts.items():
        assert engine.check(topic) == count + (topic == f"{name}-plain")
