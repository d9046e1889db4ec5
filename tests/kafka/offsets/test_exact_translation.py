"""Translations of every position against real logs: what would be read on the target is what was unread at the source.

Exactly that, for every kind of batch; where the source cannot be queried, never less.
"""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.offsets.translation import Evidence, Translated
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from tests.contract.parts import Cluster
from tests.kafka.engine import Engine
from tests.kafka.flows import Seen
from tests.kafka.records import eventually, log_batches, produce, put, writer
from tests.kafka.translations import check_exact, logs, records, translated, without_source

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def engine(source_kafka: Cluster, target_kafka: Cluster) -> Engine:
    return Engine(source_kafka, target_kafka, "exact")


def transactions(kafka: Cluster, topic: str, partition: int, count: int, seed: int) -> None:
    """Many small transactions of two producers, between records of others; some are aborted."""
    dice = random.Random(seed)
    producers = [writer(kafka, transactional_id=f"{topic}-{seed}-{n}", linger_ms=0) for n in range(2)]
    for producer in producers:
        producer.init_transactions(60)
    bystander = writer(kafka, linger_ms=0)
    for number in range(count):
        producer = producers[number % 2]
        producer.begin_transaction()
        put(producer, topic, partition, records(dice.randrange(1, 5), start=number * 10))
        producer.flush(60)
        if number % 9 == 0:
            put(bystander, topic, partition, records(2, start=number * 10 + 5))
            bystander.flush(60)
        producer.abort_transaction(60) if dice.random() < 0.35 else producer.commit_transaction(60)


COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": "100",
}


def compact_and_leave_alone(kafka: Cluster, topic: str, partitions: int, fewer_than: int) -> None:
    """Wait until each partition has so few records, then keep the cleaner off and wait for the end of its work."""

    def counts() -> list[int]:
        return [
            sum(batch.header.record_count for batch in log_batches(kafka, topic, partition))
            for partition in range(partitions)
        ]

    eventually(lambda: all(count < fewer_than for count in counts()), 300, "the cleaner did not run")
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    kafka.admin().incremental_alter_configs([resource])[resource].result(60)
    seen: list[list[int]] = []

    def quiet() -> bool:
        seen.append(counts())
        time.sleep(0.4)
        return len(seen) >= 8 and all(one == seen[-1] for one in seen[-8:])

    eventually(quiet, 300, "the cleaner did not stop")


def test_every_kind_of_batch(engine: Engine, name: str) -> None:
    source = engine.source
    topics = {kind: f"{name}-{kind}" for kind in ("compacted", "transactional", "tiny", "cut", "append-time")}
    engine.create(topics["compacted"], 2, source=COMPACTED)
    engine.create(topics["transactional"], 1)
    engine.create(topics["tiny"], 1)
    engine.create(topics["cut"], 1, target={"max.message.bytes": "3000"})
    engine.create(topics["append-time"], 1, source={"message.timestamp.type": "LogAppendTime"})
    for partition in (0, 1):
        produce(
            source, topics["compacted"], partition, records(2500, keys=900), batch_num_messages=100,
            compression_type="lz4" if partition else "none",
        )  # fmt: skip
        late = Seen(b"newest", b"1", (), int(time.time() * 1000) + 60_000)
        produce(source, topics["compacted"], partition, [late])  # the active segment is never cleaned
    produce(source, topics["tiny"], 0, records(300), batch_num_messages=1, linger_ms=0)
    produce(source, topics["cut"], 0, records(60, size=400), compression_type="gzip")
    produce(source, topics["append-time"], 0, records(300), compression_type="zstd")
    for part in (1, 2):
        transactions(source, topics["transactional"], 0, 80, part)
        logs(source, topics["transactional"])
        assert not engine.copy(topics["transactional"]).errors
    compact_and_leave_alone(source, topics["compacted"], 2, fewer_than=1500)
    assert not engine.copy(*topics.values(), chunk_bytes=8000).errors

    by: Counter[Evidence] = Counter()
    for topic in topics.values():
        upstream, downstream = logs(source, topic), logs(engine.target, engine.copy_of(topic))
        by += check_exact(translated(engine.flow, topic, upstream), upstream, downstream)
    assert by[Evidence.MAP] > 1000
    assert by[Evidence.SOURCE] > 100

    # While the source is away: floors that say so, and still nothing is skipped.
    away = without_source(engine.flow)
    topic = topics["compacted"]
    upstream, downstream = logs(source, topic), logs(engine.target, engine.copy_of(topic))
    wanted = [(topic, 0, position) for position in range(upstream[0][-1].offset + 1)]
    with ExactTranslation(away) as exact:
        answers = exact.translate(wanted)
        assert "not reachable" in exact.away[engine.flow.source.alias]
    floors = 0
    for (_, _, position), answer in answers.items():
        assert isinstance(answer, Translated)
        unread = sum(placed.offset >= position for placed in upstream[0])
        would_read = sum(placed.offset >= answer.offset for placed in downstream[0])
        assert would_read == unread if answer.exact else would_read >= unread
        if not answer.exact:
            floors += 1
            assert "does not say where" in answer.why
            assert "not reachable" in answer.why
    assert floors > 100

    # The source loses the older half: what it still has is counted, and nothing is skipped for it.
    half = upstream[0][len(upstream[0]) // 2].offset
    source.admin().delete_records([TopicPartition(topic, 0, half)])[TopicPartition(topic, 0)].result(60)
    with ExactTranslation(engine.flow) as exact:
        later = exact.translate(wanted)
        assert not exact.away
    for one, answer in later.items():
        assert isinstance(answer, Translated)
        unread = sum(record.offset >= one[2] for record in upstream[0])
        would_read = sum(record.offset >= answer.offset for record in downstream[0])
        assert would_read == unread if answer.exact else would_read >= unread
        before = answers[one]
        assert isinstance(before, Translated)
        assert answer.offset >= before.offset
    assert sum(isinstance(one, Translated) and one.by is Evidence.SOURCE for one in later.values()) > 20
