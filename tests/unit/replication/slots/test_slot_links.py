"""The connections of a slot, which the next slot of the same process goes on with."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import FakeCluster
from tests.kafka.engine import DEFAULT_LIMIT, Background, Engine, TailingTime, slot_connections, wait_for_copies
from tests.kafka.records import mixed_records, produce


@pytest.fixture
def kept() -> Iterator[LinkPool]:
    with LinkPool(one_loop=True) as kept:
        yield kept


def fetched_from(cluster: FakeCluster) -> int:
    """The offset that was asked for last."""
    (topic,) = cluster.asked("Fetch")[-1].topics
    return max(int(partition.fetch_offset) for partition in topic.partitions)


def test_a_slot_goes_on_with_the_connections_of_the_one_before(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, kept: LinkPool
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 2)
    for number in range(3):
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        outcome = engine.copy(name, kept=kept, request_timeout_ms=3000 + number)
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)
    assert [slot_connections(one) for one in (source_kafka, target_kafka)] == [1, 1]
    assert engine.check(name) == 60


def test_slots_that_keep_nothing_make_connections_of_their_own(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    for number in range(2):
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        engine.copy(name)
    assert [slot_connections(one) for one in (source_kafka, target_kafka)] == [2, 2]


def test_a_tailing_slot_is_owed_no_answer_at_its_end(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, kept: LinkPool
) -> None:
    """Fetch waits at the broker for records for as long as the slot has time, and no longer."""
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    for number in range(2):
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        began = time.monotonic()
        outcome = engine.copy(name, kept=kept, tail_until=time.time() + 0.5, fetch_max_wait_ms=20_000)
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)
        assert time.monotonic() - began < 15
    waits = [request.max_wait_ms for request in source_kafka.asked("Fetch")]
    assert max(waits) <= 500
    assert [slot_connections(one) for one in (source_kafka, target_kafka)] == [1, 1]
    assert engine.check(name) == 40


def test_a_broker_that_owes_an_answer_is_connected_to_again(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, kept: LinkPool
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(20))
    clock = TailingTime()
    run = Background(engine, name, kept=kept, clock=clock, tail_until=clock.until, fetch_max_wait_ms=60_000)
    wait_for_copies(engine, name, 0, 20)
    until = time.monotonic() + 60
    while fetched_from(source_kafka) < 20 and time.monotonic() < until:
        time.sleep(0.01)
    clock.end()
    assert run.result().records == 20
    produce(source_kafka, name, 0, mixed_records(20, seed=1))
    assert engine.copy(name, kept=kept).records == 20
    assert [slot_connections(one) for one in (source_kafka, target_kafka)] == [2, 1]
    assert engine.check(name) == 40


def test_a_slot_that_was_fenced_leaves_nothing(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, kept: LinkPool
) -> None:
    """What it has left to send must not be sent beside the next slot."""
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(20))
    older, newer = (Ownership.take(engine.flow, 1, 1) for _ in range(2))
    loop = kept.event_loop()
    task = SlotTask(0, older.identities[0], (CopyRange(name, engine.copy_of(name), 0, 0, 20, DEFAULT_LIMIT),))
    assert copy_slot(engine.job(), task, kept=kept).fenced is not None
    assert kept.event_loop() is not loop
    assert kept.take(engine.flow.target) is None
    newer.release()
    assert engine.copy(name, kept=kept).records == 20
    assert engine.check(name) == 20


def test_clusters_that_were_restarted_meanwhile_are_connected_to_again(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, kept: LinkPool
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    for number, cluster in enumerate((None, source_kafka, target_kafka)):
        if cluster is not None:
            cluster.go_away()
            cluster.come_back()
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        outcome = engine.copy(name, kept=kept)
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)
    assert engine.check(name) == 60


def test_other_settings_have_other_connections_and_leave_none_behind(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, kept: LinkPool
) -> None:
    """As after a password has changed: the driver hands the new one on with the next pass."""
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    before = engine.flow.source
    for number, backoff in enumerate((70, 80)):
        cluster = replace(before, kafka_python={**before.kafka_python, "reconnect_backoff_ms": backoff})
        engine.flow = replace(engine.flow, source=cluster)
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        assert engine.copy(name, kept=kept).records == 20
    assert [slot_connections(one) for one in (source_kafka, target_kafka)] == [2, 1]
    assert [kept.take(cluster) is None for cluster in (engine.flow.source, engine.flow.target)] == [False, False]
    assert kept.take(replace(before, kafka_python={**before.kafka_python, "reconnect_backoff_ms": 70})) is None
