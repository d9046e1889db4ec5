"""Slots that tail: they continue with what is written meanwhile until their time is up."""

from __future__ import annotations

import time

import pytest

from srm_common.kafka.client.protocol import codes
from srm_common.testing import FakeCluster
from tests.kafka.engine import Background, Engine, TailingTime, wait_for_copies
from tests.kafka.records import mixed_records, produce, put, writer


def test_a_slot_goes_on_with_what_is_written_meanwhile(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 3)
    produce(source_kafka, name, 0, mixed_records(50))
    ends = engine.ends(name)
    clock = TailingTime()
    run = Background(engine, name, clock=clock, ends=ends, tail_until=clock.until, linger_seconds=0.1)
    producer = writer(source_kafka)
    written = 0
    while run.running:
        # Partition 2 stays idle, partition 1 had nothing when the ranges were cut.
        for partition in (0, 1):
            put(producer, name, partition, mixed_records(20, seed=written))
        assert producer.flush(60) == 0
        written += 20
        if written <= 100:
            wait_for_copies(engine, name, 1, written)
        else:
            # It ends although there is always something new.
            clock.end()
            time.sleep(0.02)
    outcome = run.result()
    assert not outcome.errors
    assert outcome.ranges[name, 1].position >= 100
    assert outcome.ranges[name, 1].end >= outcome.ranges[name, 1].position
    assert outcome.slots[0].transactions >= 5
    engine.copy(name)
    assert engine.check(name) == 50 + 2 * written


def test_an_idle_slot_ends_when_its_time_is_over(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    clock = TailingTime()
    source_kafka.after(5, "Fetch").do(clock.end)
    outcome = engine.copy(name, clock=clock, tail_until=clock.until, fetch_max_wait_ms=50)
    assert clock() > 0, "it has asked five times and got nothing"
    assert (outcome.records, outcome.slots[0].transactions, outcome.errors) == (0, 0, {})


def test_a_slot_that_starts_late_still_copies_its_ranges(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(300))
    outcome = engine.copy(name, tail_until=time.time() - 1, chunk_bytes=2000)
    assert not outcome.errors
    assert engine.check(name) == 300


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("Produce", codes.INVALID_PRODUCER_EPOCH),
        ("Produce", codes.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("EndTxn", codes.PRODUCER_FENCED),
    ],
)
def test_a_partition_without_records_does_not_keep_a_slot_from_ending_after_a_failed_chunk(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, api: str, code: int
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 2)
    produce(source_kafka, name, 0, mixed_records(50))
    with target_kafka.refuse(api, code, times=1):
        clock = TailingTime()
        run = Background(engine, name, clock=clock, tail_until=clock.until, linger_seconds=0.1)
        wait_for_copies(engine, name, 0, 50)
        clock.end()
        outcome = run.result()
    assert outcome.slots[0].retries == 1
    assert not outcome.errors
    assert engine.check(name) == 50
