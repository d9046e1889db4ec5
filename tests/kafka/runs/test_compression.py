"""Copies in another codec than their sources', by real brokers: the same records once, and the map is exact."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.testing import LocalKafka
from srm_common.wire.batches.batch import CODEC_MASK, CONTROL
from tests.kafka.engine import Engine
from tests.kafka.records import log_batches, mixed_records, produce, put, writer

pytestmark = pytest.mark.kafka

LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "compression")


def codecs_of_copy(engine: Engine, topic: str) -> set[str]:
    batches = log_batches(engine.target, engine.copy_of(topic))
    return {
        COMPRESSION_TYPES[batch.header.attributes & CODEC_MASK]
        for batch in batches
        if not batch.header.attributes & CONTROL
    }


@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly-once", "at-least-once"])
@pytest.mark.parametrize("wanted", COMPRESSION_TYPES)
def test_every_batch_of_the_copy_has_the_wanted_codec(
    engine: Engine, name: str, wanted: str, exactly_once: bool
) -> None:
    engine.create(name)
    for number, codec in enumerate(COMPRESSION_TYPES):
        produce(engine.source, name, 0, mixed_records(400, number, [60, 3000][number % 2]), compression_type=codec)
    # A row of tiny ones, and transactions of both ends.
    produce(
        engine.source, name, 0, mixed_records(100, 8, 30), compression_type="lz4", batch_num_messages=1, linger_ms=0
    )
    for number, kept in enumerate((True, False, True)):
        producer = writer(engine.source, transactional_id=f"{name}-{number}", compression_type="zstd")
        producer.init_transactions(120)
        producer.begin_transaction()
        put(producer, name, 0, mixed_records(50, 20 + number))
        assert producer.flush(120) == 0
        producer.commit_transaction(120) if kept else producer.abort_transaction(120)
    compression = Compression(wanted, LEVELS.get(wanted, 0))
    outcome = engine.copy(name, compression=compression, exactly_once=exactly_once)
    assert not outcome.errors
    assert engine.check(name) == outcome.records == 2200
    assert codecs_of_copy(engine, name) == {wanted}
    # The next run goes on behind it.
    produce(engine.source, name, 0, mixed_records(10, 30), compression_type="gzip")
    assert engine.copy(name, compression=compression, exactly_once=exactly_once).records == 10
    assert engine.check(name) == 2210
    assert codecs_of_copy(engine, name) == {wanted}


def test_a_batch_that_grows_beyond_what_the_target_takes_is_divided(engine: Engine, name: str) -> None:
    engine.create(name, target={"max.message.bytes": "20000"})
    produce(
        engine.source, name, 0, mixed_records(600, 1, 400), compression_type="zstd", batch_size=500_000, linger_ms=500
    )
    assert not engine.copy(name, compression=Compression("none")).errors
    assert engine.check(name) == 600
    batches = log_batches(engine.target, engine.copy_of(name))
    assert max(len(batch.data) for batch in batches) <= 20_000


def test_what_the_target_takes_only_in_the_wanted_codec_is_copied(engine: Engine, name: str) -> None:
    engine.create(name, target={"max.message.bytes": "20000"})
    records = [
        record
        if record.value is None
        else type(record)(record.key, b"x" * 100_000, record.headers, record.timestamp_ms)
        for record in mixed_records(20, 1)
    ]
    produce(engine.source, name, 0, records)
    refused = engine.copy(name)
    assert "max.message.bytes is 20000" in refused.errors[name, 0]
    assert not engine.copy(name, compression=Compression("zstd", 3)).errors
    assert engine.check(name) == 20
