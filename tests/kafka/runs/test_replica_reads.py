"""Sources in racks: partitions are read from the replica in the flow's own rack (KIP-392), until it fails."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.frames import RawFetch
from srm_common.kafka.log.log_windows import LogWindows, Window
from srm_common.testing import LocalKafka
from tests.kafka.engine import Background, Engine, wait_for_copies
from tests.kafka.records import eventually, mixed_records, produce, writer

pytestmark = pytest.mark.kafka

RECORDS = 3000


@pytest.fixture(scope="module")
def racks() -> Iterator[LocalKafka]:
    with LocalKafka(nodes=3, name="racks", racks=("east", "west", "north")) as kafka:
        yield kafka


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The brokers that fetches go to, in turn."""
    nodes: list[int] = []
    real = ClusterLink.post

    async def post(
        link: ClusterLink, node: Any, request: Any, timeout_ms: float | None = None, reply: Any = None
    ) -> Any:
        if isinstance(request, RawFetch):
            nodes.append(node)
        return await real(link, node, request, timeout_ms, reply)

    monkeypatch.setattr(ClusterLink, "post", post)
    return nodes


def test_the_replica_in_the_own_rack_is_read_until_it_fails(
    racks: LocalKafka, target_kafka: LocalKafka, name: str, asked: list[int]
) -> None:
    engine = Engine(racks, target_kafka, name)
    racks.create_topic(name, 1)
    target_kafka.create_topic(engine.copy_of(name), 1)
    produce(racks, name, 0, mixed_records(RECORDS))
    leader = racks.admin().list_topics(name, timeout=60).topics[name].partitions[0].leader
    follower = next(node for node in racks.nodes if node != leader)
    rack = ("east", "west", "north")[follower - 1]
    engine.flow = replace(engine.flow, source=replace(engine.flow.source, rack=rack))

    assert not engine.copy(name, fetch_bytes=1 << 20, fetch_partition_bytes=1 << 16).errors
    assert engine.check(name) == RECORDS
    # The leader is asked first, and says so.
    assert asked[0] == leader
    assert follower in asked

    asked.clear()
    with LogWindows(engine.flow.source) as windows:
        sights, faults = windows.read([Window(name, 0, 0, RECORDS)])
    assert not faults
    assert [(sight.complete, len(sight.offsets)) for sight in sights.values()] == [(True, RECORDS)]
    assert follower in asked

    produce(racks, name, 0, mixed_records(RECORDS, seed=2))
    asked.clear()
    racks.kill(follower)
    try:
        assert not engine.copy(name).errors
        assert leader in asked
    finally:
        racks.restart(follower)
    assert engine.check(name) == 2 * RECORDS


def test_aborted_transactions_that_a_replica_does_not_list(
    racks: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """A replica that was away appends several aborted transactions of one producer at once, and its index then hides
    all but the first from reads that end before the next transaction of another producer: as follower, and as leader.
    """
    # Written to while one of the two is away.
    racks.create_topic(name, 1, replication_factor=2, config={"min.insync.replicas": "1"})
    replicas = racks.admin().list_topics(name, timeout=60).topics[name].partitions[0]
    leader, follower = replicas.leader, next(node for node in replicas.replicas if node != replicas.leader)
    racks.kill(follower)
    try:
        aborting, committing = (_transactions(racks, f"{name}-{number}") for number in range(2))
        _write_transaction(aborting, name, 1, commit=False)
        _write_transaction(aborting, name, 3, commit=False)
        _write_transaction(aborting, name, 60, commit=False)
        _write_transaction(committing, name, 5, commit=True)
        _write_transaction(aborting, name, 5, commit=True)
        del aborting, committing
    finally:
        racks.restart(follower)
    eventually(
        lambda: len(racks.admin().list_topics(name, timeout=60).topics[name].partitions[0].isrs) == 2,
        120,
        "the follower does not catch up",
    )

    def copied(alias: str, rack: str | None) -> None:
        engine = Engine(racks, target_kafka, alias)
        target_kafka.create_topic(engine.copy_of(name), 1)
        engine.flow = replace(engine.flow, source=replace(engine.flow.source, rack=rack or ""))
        outcome = engine.copy(name, fetch_bytes=1 << 20, fetch_partition_bytes=1 << 14)
        assert not outcome.errors
        assert engine.check(name) == 10
        (told,) = outcome.slots[0].notes
        assert f"broker {follower} of {engine.flow.name.source} gave out aborted records" in told

    copied(f"{name}-follower", ("east", "west", "north")[follower - 1])
    racks.stop(leader)
    try:
        eventually(
            lambda: racks.admin().list_topics(name, timeout=60).topics[name].partitions[0].leader == follower,
            120,
            "the follower does not become leader",
        )
        copied(f"{name}-leader", None)
    finally:
        racks.restart(leader)


def _transactions(kafka: LocalKafka, transactional_id: str) -> Producer:
    producer = writer(kafka, transactional_id=transactional_id, linger_ms=0)
    producer.init_transactions(120)
    return producer


def _write_transaction(producer: Producer, topic: str, records: int, *, commit: bool) -> None:
    """Each record in a batch of its own."""
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, b"%d " % number + bytes(4000), partition=0)
        assert producer.flush(120) == 0
    if commit:
        producer.commit_transaction(120)
    else:
        producer.abort_transaction(120)


def test_a_replica_that_comes_back_does_not_stop_the_flow(
    racks: LocalKafka, target_kafka: LocalKafka, name: str, asked: list[int]
) -> None:
    """The leader names it again before the slot has heard that it is there."""
    engine = Engine(racks, target_kafka, name)
    racks.create_topic(name, 1)
    target_kafka.create_topic(engine.copy_of(name), 1)
    produce(racks, name, 0, mixed_records(100))
    leader = racks.admin().list_topics(name, timeout=60).topics[name].partitions[0].leader
    follower = next(node for node in racks.nodes if node != leader)
    rack = ("east", "west", "north")[follower - 1]
    engine.flow = replace(engine.flow, source=replace(engine.flow.source, rack=rack))
    racks.kill(follower)
    try:
        # Until no broker speaks of it.
        eventually(lambda: follower not in racks.admin().list_topics(timeout=60).brokers, 300, "it is still listed")
        run = Background(engine, name, tail_until=time.time() + 240, pass_seconds=10)
        wait_for_copies(engine, name, 0, 100)
    finally:
        racks.restart(follower)
    count, asked[:] = 100, []

    def go_on() -> None:
        nonlocal run
        if not run.running:  # the follower takes longer than a pass
            assert not run.result().errors
            run = Background(engine, name, tail_until=time.time() + 240, pass_seconds=10)

    while follower not in asked:
        produce(racks, name, 0, mixed_records(20, seed=count))
        count += 20
        wait_for_copies(engine, name, 0, count, go_on)
    outcome = run.result()
    assert not outcome.errors
    engine.copy(name)
    assert engine.check(name) == count
