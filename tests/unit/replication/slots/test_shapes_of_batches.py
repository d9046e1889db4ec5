"""Batches of every kind and size, and the limits of the target: the copy is equal, and the map is exact."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.testing import FakeCluster
from tests.contract.parts import Cluster
from tests.kafka.engine import Engine
from tests.kafka.flows import Seen
from tests.kafka.records import log_batches, mixed_records, noise, plain, produce, read_all

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def engine(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Engine:
    return Engine(source_kafka, target_kafka, "equality")


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
    assert [placed.seen for placed in read_all(engine.target, engine.copy_of(name))[1]] == records


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


def test_large_records_in_more_partitions_than_a_request_has_room_for(engine: Engine, name: str) -> None:
    engine.create(name, 8)
    for partition in range(8):
        produce(engine.source, name, partition, noise(2, 600_000), batch_size=1000)
    outcome = engine.copy(name, slots=2, fetch_bytes=2 << 20, fetch_partition_bytes=1 << 17)
    assert not outcome.errors
    assert engine.check(name) == 16


def test_append_time_becomes_the_records_time(engine: Engine, name: str) -> None:
    engine.create(name, source={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        produce(engine.source, name, 0, mixed_records(300, 3), compression_type=codec)
    assert not engine.copy(name).errors
    assert engine.check(name) == 1500
    (copied,) = read_all(engine.target, engine.copy_of(name)).values()
    assert all(time.time() * 1000 - placed.seen.timestamp_ms < 60_000 for placed in copied)


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


def test_batches_larger_than_the_targets_limit_are_cut(engine: Engine, name: str) -> None:
    engine.create(name, 2, target={"max.message.bytes": "10000"})
    for codec in CODECS:
        for partition in range(2):
            produce(engine.source, name, partition, noise(100, 1500), compression_type=codec)
    assert max(len(batch.data) for batch in log_batches(engine.source, name)) > 50_000
    outcome = engine.copy(name)
    assert not outcome.errors
    assert engine.check(name) == 1000
    assert max(len(batch.data) for batch in log_batches(engine.target, engine.copy_of(name))) <= 10_000


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
    assert {result.position for result in outcome.ranges.values()} == {10}
    for partition in range(2):
        error = outcome.errors[name, partition]
        assert f"partition {engine.copy_of(name)}-{partition} at target" in error
        assert "max.message.bytes was lowered during the run" in error
    assert engine.check(name, complete=False) == 20


def _alter_topic(kafka: Cluster, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.admin().incremental_alter_configs([resource])[resource].result(60)


def test_at_least_once(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> None:
    engine = Engine(source_kafka, target_kafka, name, exactly_once=False)
    engine.create(name, 2)
    for partition in range(2):
        produce(source_kafka, name, partition, mixed_records(2000, partition), compression_type="lz4")
        produce(source_kafka, name, partition, plain(300), batch_num_messages=1, linger_ms=0)
    outcome = engine.copy(name, exactly_once=False, chunk_bytes=100_000)
    assert not outcome.errors
    assert engine.check(name) == 4600
    batches = log_batches(target_kafka, engine.copy_of(name))
    assert not any(batch.header.attributes & 0x30 for batch in batches)  # neither transactional nor markers
    assert all(batch.header.producer_id >= 0 for batch in batches)  # idempotent
    produce(source_kafka, name, 0, plain(10))
    assert engine.copy(name, exactly_once=False).records == 10
    assert engine.check(name) == 4610


@pytest.mark.parametrize("which", ["offsets_topic", "segments_topic"])
def test_a_state_topic_that_takes_no_batches_of_that_size_is_named(engine: Engine, name: str, which: str) -> None:
    engine.create(name, 40)
    for partition in range(40):
        produce(engine.source, name, partition, plain(10))
    topic = getattr(engine.state, which)
    _alter_topic(engine.target, topic, "max.message.bytes", "100")
    outcome = engine.copy(name)
    error = outcome.errors[name, 0]
    assert f"max.message.bytes of state topic {topic} at cluster 'target' is too small" in error
    assert outcome.ranges[name, 0].position == 0
    _alter_topic(engine.target, topic, "max.message.bytes", "1048588")
    assert not engine.copy(name).errors
    assert engine.check(name) == 400
