"""The copy is equal to the source: key, value, headers, timestamp, order, partition; and the offset map is exact."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.batches.batch import CODEC_MASK, CONTROL
from srm_common.wire.batches.codec import NAMES
from srm_common.wire.reencoding import merging
from tests.kafka.engine import Background, Engine, assert_same
from tests.kafka.flows import Seen, flow_between, prepare
from tests.kafka.records import log_batches, mixed_records, noise, plain, produce, read_all
from tests.slot_worker import here

pytestmark = pytest.mark.kafka

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "equality")


# ---- shapes of records and batches


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(engine: Engine, name: str, codec: str) -> None:
    engine.create(name, 3)
    for partition in range(3):
        produce(
            engine.source, name, partition, mixed_records(1500, partition), compression_type=codec, batch_size=64_000
        )
    outcome = engine.copy(name)
    assert not outcome.errors
    assert engine.check(name) == outcome.records == 4500
    assert outcome.total("reencoded_batches") == 0  # unopened, every one
    for partition in range(3):
        before = [
            batch for batch in log_batches(engine.source, name, partition) if not batch.header.attributes & CONTROL
        ]
        after = [batch for batch in log_batches(engine.target, engine.copy_of(name), partition)]
        after = [batch for batch in after if not batch.header.attributes & CONTROL]
        assert [bytes(batch.data[61:]) for batch in after] == [bytes(batch.data[61:]) for batch in before]
        # A producer that was held up sends batches of a few records, and those as they are when that is shorter.
        assert codec in {NAMES[batch.header.attributes & CODEC_MASK] for batch in after} <= {codec, "none"}


def test_small_batches_in_compiled_loops(engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_compiled", None)
    monkeypatch.setattr(merging, "_looked", True)
    monkeypatch.setattr(merging, "_walked", 1 << 60)
    engine.create(name, 2)
    for partition in range(2):
        # As many as one request may carry; the loops are loaded by the first answer.
        produce(engine.source, name, partition, mixed_records(8000, partition), batch_num_messages=5)
    outcome = engine.copy(name, chunk_bytes=200_000, fetch_bytes=300_000)
    assert not outcome.errors
    assert engine.check(name) == outcome.records == 16_000
    assert merging._compiled is not None
    # Nothing of those is left, and what follows is copied from there on.
    produce(engine.source, name, 0, mixed_records(500, 9), batch_num_messages=5)
    assert engine.copy(name).records == 500
    assert engine.check(name) == 16_500
    assert outcome.total("reencoded_batches") > 2


# ---- starts, ends, growth


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


def test_a_target_without_the_newer_transactions(broker_jvm: BrokerJvm, source_kafka: LocalKafka, name: str) -> None:
    with LocalKafka(name="older", features={"transaction.version": "0"}, jvm=broker_jvm) as target:
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
            records = [
                record if record.key is not None else replace(record, key=b"x")
                for record in mixed_records(400, partition)
            ]
            records += noise(1, 5_000_000) if kind == "large" else plain(5)
            produce(source_kafka, topic, partition, records, compression_type="lz4", message_max_bytes=6 << 20)
        counts[topic] = 3 * len(records)
    old = [Seen(b"old", b"1", (), int(time.time() * 1000) - 400 * 86_400_000)]
    produce(source_kafka, f"{name}-plain", 0, old)  # beyond every default of retention and of record times
    prepare(flow)
    run = replicate(flow, RunOptions("r"), here)
    assert run.state is RunState.DONE, run.partitions
    engine = Engine(source_kafka, target_kafka, name)
    for topic, count in counts.items():
        assert engine.check(topic) == count + (topic == f"{name}-plain")
