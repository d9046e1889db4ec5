"""Sources that the cleaner has been through: the copy is equal to what it left, and the map has the holes."""

from __future__ import annotations

import random
import time

import pytest

from srm_common.testing import LocalKafka
from srm_common.wire.reencoding import merging
from tests.contract.parts import Cluster
from tests.kafka.console_consumer import seen_by_java
from tests.kafka.engine import Engine
from tests.kafka.flows import Seen
from tests.kafka.records import eventually, log_batches, plain, produce, read_all

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "equality")


COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": "100",
}


@pytest.mark.parametrize("loops", ["plain", "compiled"])
def test_compacted_topics_with_holes(engine: Engine, name: str, loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_compiled", None)
    monkeypatch.setattr(merging, "_looked", True)
    monkeypatch.setattr(merging, "_walked", 0 if loops == "plain" else 1 << 60)
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
    assert (merging._compiled is not None) == (loops == "compiled")
    lz4 = read_all(engine.target, engine.copy_of(name), partitions=[1])[1]
    expected = [
        (placed.offset, placed.seen.key, b"null" if placed.seen.value is None else placed.seen.value) for placed in lz4
    ]
    assert seen_by_java(engine.target, engine.copy_of(name), 1, len(lz4)) == expected
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
    eventually(lambda: _records_in(engine.source, name) <= 22, 300, "the cleaner did not run")
    assert any(batch.header.record_count == 0 for batch in log_batches(engine.source, name)) == idempotent
    outcome = engine.copy(name, ends={(name, 0): end})
    assert not outcome.errors
    assert outcome.ranges[name, 0].position == end
    assert engine.check(name, complete=False) == 20
    assert engine.copy(name).records == 2
    assert engine.check(name) == 22


def roll(kafka: Cluster, topic: str, partition: int) -> None:
    """The active segment is never cleaned. It rolls when a record is ``segment.ms`` newer than its first one."""
    produce(kafka, topic, partition, [Seen(b"newest", b"1", (), int(time.time() * 1000) + 60_000)])


def _records_in(kafka: Cluster, topic: str, partition: int = 0) -> int:
    return sum(batch.header.record_count for batch in log_batches(kafka, topic, partition))
