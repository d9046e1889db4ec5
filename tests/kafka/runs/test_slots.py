"""Slots beside what is usual: a partition that fails beside sound ones, a busy coordinator, a slow link."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import NewTopic

from srm_common.domain.cluster import ClusterSettings
from srm_common.testing import BrokerJvm, LocalKafka
from tests.kafka.engine import Background, Engine, wait_for_copies
from tests.kafka.flows import Seen, flow_between
from tests.kafka.records import mixed_records, produce, put, writer
from tests.worlds.slow_network import SlowNetwork

pytestmark = pytest.mark.kafka


def _plain(count: int, size: int = 100) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(None, b"%d " % number + os.urandom(size), (), now) for number in range(count)]


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[LocalKafka]:
    """A target of three nodes; tests stop its third one and start it again."""
    with LocalKafka(nodes=3, name="target") as target:
        yield target


def _with_a_node_down(source: LocalKafka, target: LocalKafka, name: str) -> tuple[Engine, str, str]:
    """An engine, a topic whose copies have their leaders, and one whose copies lie on the third node, which is down."""
    sound, failing = f"{name}-sound", f"{name}-failing"
    if not target.running(3):
        target.restart(3)
    target.wait_until_ready()
    # Named before: the engine makes the flow's own topics, and these shall have their leaders.
    alias = flow_between(source, target, name).name.source
    copies = {f"{alias}.{sound}": 1, f"{alias}.{failing}": 3}
    new = [NewTopic(copy, 2, replica_assignment=[[node], [node]]) for copy, node in copies.items()]
    for made in target.admin().create_topics(new).values():
        made.result(60)
    target.stop(3)
    engine = Engine(source, target, name)
    for topic in (sound, failing):
        assert engine.copy_of(topic) in copies
        source.create_topic(topic, 2)
        for partition in range(2):
            produce(source, topic, partition, mixed_records(100))
    return engine, sound, failing


def test_a_partition_that_fails_does_not_hold_up_the_others(
    source_kafka: LocalKafka, three_nodes: LocalKafka, name: str
) -> None:
    """The sound ones go on all the time, and the failing ones follow when their node is back."""
    engine, sound, failing = _with_a_node_down(source_kafka, three_nodes, name)
    job = {"pass_seconds": 600, "retry_timeout_seconds": 500, "linger_seconds": 0.1}
    # It ends soon after the failing ones have caught up, since nothing fails any more.
    run = Background(engine, sound, failing, tail_until=time.time() + 10, **job)
    producer = writer(source_kafka)
    for round_ in range(1, 6):
        wait_for_copies(engine, sound, 0, 100 * round_)
        put(producer, sound, 0, mixed_records(100, seed=round_))
        assert producer.flush(60) == 0
    assert run.running
    three_nodes.restart(3)
    wait_for_copies(engine, failing, 0, 100)
    outcome = run.result()
    assert not outcome.errors
    engine.copy(sound, failing)
    assert engine.check(sound) == 700
    assert engine.check(failing) == 200


def test_a_partition_that_fails_to_the_end_is_named_and_the_others_are_copied(
    source_kafka: LocalKafka, three_nodes: LocalKafka, name: str
) -> None:
    engine, sound, failing = _with_a_node_down(source_kafka, three_nodes, name)
    outcome = engine.copy(sound, failing, retry_timeout_seconds=2)
    assert set(outcome.errors) == {(failing, 0), (failing, 1)}
    assert all("has no leader" in error for error in outcome.errors.values()), outcome.errors
    assert engine.check(sound) == 200


def test_a_coordinator_that_still_ends_the_last_transaction_costs_no_chunk(
    source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """With many partitions in a transaction its markers are still being written when the next one begins."""
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 200)
    producer = writer(source_kafka, batch_size=4000)
    for partition in range(200):
        put(producer, name, partition, _plain(60, 500))
    assert producer.flush(60) == 0
    outcome = engine.copy(name, chunk_bytes=1 << 20, fetch_partition_bytes=8000, fetch_bytes=1 << 20)
    assert not outcome.errors
    assert outcome.slots[0].transactions > 3
    assert outcome.slots[0].retries == 0
    assert engine.check(name) == 200 * 60


def test_a_link_that_carries_one_batch_in_time_carries_all(
    broker_jvm: BrokerJvm, source_kafka: LocalKafka, name: str
) -> None:
    """What one fetch brings takes the link several times the limit of a request and of a transaction."""
    link = SlowNetwork(round_trip_seconds=0.0, bytes_a_second=1.0e6)
    target = LocalKafka(name="target", settings={"advertised.listeners": f"CLIENT://{link.address}"}, jvm=broker_jvm)
    with link.before(target.bootstrap_servers), target:
        engine = Engine(source_kafka, target, name)
        engine.create(name, 4)
        producer = writer(source_kafka, batch_size=400_000, linger_ms=200)
        for partition in range(4):
            put(producer, name, partition, _plain(2500, 1000))
        assert producer.flush(60) == 0
        engine.flow = replace(engine.flow, target=ClusterSettings.plaintext(engine.flow.target.alias, link.address))
        before, _ = link.carried
        outcome = engine.copy(
            name, request_timeout_ms=4000, transaction_timeout_ms=8000, chunk_seconds=2.0, retry_timeout_seconds=60
        )
        assert not outcome.errors
        # Started over again and again, it would send the same bytes again and again.
        assert link.carried[0] - before < 2 * outcome.total("bytes")
        assert engine.check(name) == 10_000
