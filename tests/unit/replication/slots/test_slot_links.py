"""The connections of a slot, which the next slot of the same process goes on with."""

from __future__ import annotations

import gc
import mmap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.errors import ConfigError
from srm_common.kafka.client.connections import connections
from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.links import broker_link
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import buffers
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots import fetching, slot, slot_links
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.faults import Fault
from tests.kafka.engine import DEFAULT_LIMIT, Background, Engine, TailingTime, slot_connections, wait_for_copies
from tests.kafka.records import eventually, mixed_records, noise, produce


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a second does not make a slot connect again."""
    monkeypatch.setattr(broker_link, "_STILL_THERE_SECONDS", 60.0)


@pytest.fixture
def pool() -> Iterator[LinkPool]:
    with LinkPool(one_loop=True) as pool:
        yield pool


@pytest.fixture
def engine(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> Engine:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 2)
    return engine


def connected(source: FakeCluster, target: FakeCluster) -> list[int]:
    """How often slots have connected to either."""
    return [slot_connections(source), slot_connections(target)]


def fetched_from(cluster: FakeCluster) -> int:
    """The offset that was asked for last."""
    fetches = cluster.asked("Fetch")
    return max((int(one.fetch_offset) for topic in fetches[-1].topics for one in topic.partitions), default=0)


class Tail:
    """A slot that has copied 20 records, and waits for more until its time is over."""

    def __init__(self, engine: Engine, source: FakeCluster, name: str, **job: object) -> None:
        produce(source, name, 0, mixed_records(20))
        self.clock = TailingTime()
        self.run = Background(engine, name, clock=self.clock, tail_until=self.clock.until, **job)
        wait_for_copies(engine, name, 0, 20)
        eventually(lambda: fetched_from(source) == 20, 60, "the slot does not ask for more")

    def end(self) -> None:
        self.clock.end()
        outcome = self.run.result()
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)


def test_a_slot_goes_on_with_the_connections_of_the_one_before(
    engine: Engine, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, pool: LinkPool
) -> None:
    for number in range(3):
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        outcome = engine.copy(name, pool=pool, request_timeout_ms=3000 + number)
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)
    assert connected(source_kafka, target_kafka) == [1, 1]
    assert engine.check(name) == 60


def test_connections_that_are_kept_hold_no_buffer(
    engine: Engine, source_kafka: FakeCluster, name: str, pool: LinkPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Buffer(mmap.mmap):
        """Unlike its base, it can be looked at by a weak reference."""

    made: WeakSet[Buffer] = WeakSet()

    def memory(size: int) -> Buffer:
        buffer = Buffer(-1, size)
        made.add(buffer)
        return buffer

    monkeypatch.setattr(buffers, "_memory", memory)
    produce(source_kafka, name, 0, noise(3, 500_000))
    assert engine.copy(name, pool=pool).records == 3
    gc.collect()
    assert not made


def test_without_a_pool_each_slot_makes_connections_of_its_own(
    engine: Engine, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    for number in range(2):
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        engine.copy(name)
    assert connected(source_kafka, target_kafka) == [2, 2]


def test_brokers_hold_no_answer_back_for_longer_than_the_slot_has_time(
    engine: Engine,
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    pool: LinkPool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "_DRAIN_SECONDS", 60.0)
    Tail(engine, source_kafka, name, pool=pool, pass_seconds=0.3, fetch_max_wait_ms=50_000).end()
    assert max(request.max_wait_ms for request in source_kafka.asked("Fetch")) <= 300
    produce(source_kafka, name, 0, mixed_records(20, seed=1))
    assert engine.copy(name, pool=pool).records == 20
    assert connected(source_kafka, target_kafka) == [1, 1]
    assert engine.check(name) == 40


def test_a_broker_that_owes_an_answer_is_connected_to_again(
    engine: Engine, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, pool: LinkPool
) -> None:
    Tail(engine, source_kafka, name, pool=pool, fetch_max_wait_ms=60_000).end()
    produce(source_kafka, name, 0, mixed_records(20, seed=1))
    assert engine.copy(name, pool=pool).records == 20
    assert connected(source_kafka, target_kafka) == [2, 1]
    assert engine.check(name) == 40


def test_what_a_quota_has_kept_from_being_sent_is_not_sent_in_the_next_slot(
    engine: Engine,
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    pool: LinkPool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetching, "_DRAIN_SECONDS", 0.0)
    quotas: list[Fault] = []
    begins = time.monotonic()

    def clock() -> float:
        """Begins with an answer that asks for a pause, which is longer than the slot has time."""
        nonlocal begins
        if not quotas or quotas[0].times:
            begins = time.monotonic()
        return time.monotonic() - begins

    produce(source_kafka, name, 0, mixed_records(20))
    run = Background(
        engine, name, pool=pool, clock=clock, tail_until=time.time() + 3600, pass_seconds=0.3, fetch_max_wait_ms=7
    )
    wait_for_copies(engine, name, 0, 20)
    quotas.append(source_kafka.throttle("Fetch", 1.0, times=1))
    assert run.result().records == 20
    before = len(source_kafka.asked("Fetch"))
    produce(source_kafka, name, 0, mixed_records(20, seed=1))
    assert engine.copy(name, pool=pool, fetch_max_wait_ms=11).records == 20
    assert {request.max_wait_ms for request in source_kafka.asked("Fetch")[before:]} == {11}
    assert engine.check(name) == 40


@pytest.mark.parametrize("limit", ["_MAX_IDLE_SECONDS", "_MAX_AGE_SECONDS"])
def test_connections_that_are_old_or_were_unused_for_long_are_made_again(
    engine: Engine,
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    pool: LinkPool,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    monkeypatch.setattr(connections, limit, 0.0)
    for number in range(2):
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        outcome = engine.copy(name, pool=pool)
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)
    assert connected(source_kafka, target_kafka) == [2, 2]


def test_a_slot_that_had_to_start_over_leaves_nothing(
    engine: Engine, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, pool: LinkPool
) -> None:
    """What it has learned of brokers may be why."""
    produce(source_kafka, name, 0, mixed_records(20))
    target_kafka.refuse("Produce", Errors.NotEnoughReplicasError.errno, times=1)
    outcome = engine.copy(name, pool=pool)
    assert (outcome.records, outcome.slots[0].retries) == (20, 1)
    assert pool.take(engine.flow.source) is None
    assert engine.check(name) == 20


def fails_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(*_: object) -> None:
        raise ConfigError("not installed here")

    monkeypatch.setattr(slot, "range_transforms", not_installed)


def gets_one_link(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(cluster: ClusterSettings, **options: Any) -> ClusterLink:
        if cluster.alias != "a":
            raise ConfigError("no such certificate")
        return ClusterLink(cluster, **options)

    monkeypatch.setattr(slot_links, "ClusterLink", link)


@pytest.mark.parametrize("fails", [fails_to_be_made, gets_one_link])
def test_a_slot_that_could_not_begin_leaves_nothing(
    engine: Engine,
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    pool: LinkPool,
    fails: Callable[[pytest.MonkeyPatch], None],
) -> None:
    produce(source_kafka, name, 0, mixed_records(20))
    engine.copy(name, pool=pool)
    loop = pool.event_loop()
    with pytest.MonkeyPatch.context() as broken:
        fails(broken)
        with pytest.raises(ConfigError):
            engine.copy(name, pool=pool)
    assert loop._closed
    produce(source_kafka, name, 0, mixed_records(20, seed=1))
    assert engine.copy(name, pool=pool).records == 20
    assert connected(source_kafka, target_kafka) == [2, 2]


def test_a_slot_that_was_fenced_leaves_nothing(
    engine: Engine, source_kafka: FakeCluster, name: str, pool: LinkPool
) -> None:
    """What it has left to send must not be sent beside the next slot."""
    produce(source_kafka, name, 0, mixed_records(20))
    older, newer = (Ownership.take(engine.flow, 1, 1) for _ in range(2))
    loop = pool.event_loop()
    task = SlotTask(0, older.identities[0], (CopyRange(name, engine.copy_of(name), 0, 0, 20, DEFAULT_LIMIT),))
    assert copy_slot(engine.job(), task, pool=pool).fenced is not None
    assert loop._closed
    assert pool.take(engine.flow.target) is None
    newer.release()
    assert engine.copy(name, pool=pool).records == 20
    assert engine.check(name) == 20


def test_clusters_that_were_restarted_meanwhile_are_connected_to_again(
    engine: Engine, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, pool: LinkPool
) -> None:
    for number, cluster in enumerate((None, source_kafka, target_kafka)):
        if cluster is not None:
            cluster.go_away()
            cluster.come_back()
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        outcome = engine.copy(name, pool=pool)
        assert (outcome.records, outcome.slots[0].retries) == (20, 0)
    assert engine.check(name) == 60


def test_other_settings_have_other_connections_and_leave_none_behind(
    engine: Engine, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, pool: LinkPool
) -> None:
    """As after a password has changed: the driver hands the new one on with the next pass."""
    before = engine.flow.source
    for number, backoff in enumerate((70, 80)):
        cluster = replace(before, kafka_python={**before.kafka_python, "reconnect_backoff_ms": backoff})
        engine.flow = replace(engine.flow, source=cluster)
        produce(source_kafka, name, 0, mixed_records(20, seed=number))
        assert engine.copy(name, pool=pool).records == 20
    assert connected(source_kafka, target_kafka) == [2, 1]
    assert [pool.take(cluster) is None for cluster in (engine.flow.source, engine.flow.target)] == [False, False]
    assert pool.take(replace(before, kafka_python={**before.kafka_python, "reconnect_backoff_ms": 70})) is None
