"""Transactions at the source: what was committed is copied, in order, and nothing else."""

from __future__ import annotations

import random

import pytest

from srm_common.testing import LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.backlog import uncopied
from tests.kafka.engine import Engine
from tests.kafka.flows import flow_between
from tests.kafka.records import plain, produce, put, read_all, writer
from tests.kafka.topic_pairs import Pair, run

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def engine(source_kafka: LocalKafka, target_kafka: LocalKafka) -> Engine:
    return Engine(source_kafka, target_kafka, "equality")


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


def test_whose_transaction_holds_records_back(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    pair = Pair(flow, source_kafka, target_kafka, name, 2)
    for partition in range(2):
        produce(source_kafka, name, partition, plain(3))
    assert run(flow).records == 6
    producer = writer(source_kafka, transactional_id=f"till-{name}")
    producer.init_transactions(120)
    producer.begin_transaction()
    put(producer, name, 1, plain(2))
    producer.flush(60)
    for partition in range(2):
        produce(source_kafka, name, partition, plain(4))
    record = run(flow, run_id="second")
    assert record.records == 4
    (found,) = record.open_transactions
    assert (found.place, found.offset, found.end) == ((name, 1), 3, 9)
    assert found.transactional_id == f"till-{name}"
    with FlowClusters(flow) as clusters:
        held = uncopied(clusters).held
    assert held.startswith(f"{name}-1 cannot be copied beyond offset 3 yet, because a transaction is open there")
    producer.commit_transaction(120)
    record = run(flow, run_id="third")
    assert (record.records, record.open_transactions) == (6, ())
    pair.assert_equal()
