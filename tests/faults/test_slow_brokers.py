"""Brokers that throttle or do not respond for a while, and flows without transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Producer

from srm_common.testing import LocalKafka
from tests.faults.lossy_proxy import PRODUCE, LossyProxy
from tests.faults.quotas import quota
from tests.faults.run import PATIENCE, Run
from tests.faults.scenario import Scenario, survive

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Quotas are about the last two seconds; by default eleven, so that small amounts would pass unthrottled.
    "quota.window.num": "2",
}
Clusters = tuple[LocalKafka, LocalKafka]
MakeScenario = Callable[..., Scenario]


@pytest.fixture(scope="module")
def proxy() -> LossyProxy:
    return LossyProxy()


@pytest.fixture(scope="module")
def clusters(proxy: LossyProxy) -> Iterator[Clusters]:
    """The target is behind the proxy."""
    settings = SETTINGS | {"advertised.listeners": f"CLIENT://{proxy.address}"}
    target = LocalKafka(name="target", settings=settings)
    with LocalKafka(name="source", settings=SETTINGS) as source, proxy.before(target.bootstrap_servers), target:
        yield source, target


def _fill(scenario: Scenario, records: int, size: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": scenario.source.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 10_000,
        }
    )
    for number in range(records):
        value = b"%d " % number + scenario.dice.randbytes(size)
        producer.produce(scenario.topic, value=value, partition=number % scenario.partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def _named(scenario: Scenario) -> Scenario:
    """All its slots by one name, so that one quota counts for them."""
    flow = scenario.flow
    scenario.set(source=replace(flow.source, client_id="srm"), target=replace(flow.target, client_id="srm"))
    return scenario


def test_throttled_at_the_source(clusters: Clusters, scenario: MakeScenario) -> None:
    one = _named(scenario(*clusters))
    _fill(one, 2000, 1000)
    with quota(one.source, "consumer_byte_rate", 800_000):
        started = time.monotonic()
        one.last_run()
        assert time.monotonic() - started > 2
    assert one.verify() == 2000


def test_throttled_at_the_target_longer_than_a_transaction_may_last(clusters: Clusters, scenario: MakeScenario) -> None:
    """One answer of the source takes three seconds to write, the transaction must end within two."""
    one = _named(scenario(*clusters, transaction_timeout_ms=2000, fetch_partition_bytes=1 << 20, chunk_bytes=64 << 20))
    _fill(one, 3000, 1000)
    with quota(one.target, "producer_byte_rate", 400_000):
        started = time.monotonic()
        record = one.last_run().record()
        assert time.monotonic() - started > 3
    assert one.verify() == 3000
    retries = sum(partition.retries for partition in record.partitions)
    one.note(f"{retries} retries, {sum(partition.transactions for partition in record.partitions)} transactions")
    assert retries <= 8, f"{retries} chunks were started over: the transactions timed out"


def test_requests_throttled(clusters: Clusters, scenario: MakeScenario) -> None:
    """By the broker's time they cost, so that answers to small requests ask for patience, too."""
    one = _named(scenario(*clusters))
    _fill(one, 1000, 1000)
    with quota(one.source, "request_percentage", 2.0), quota(one.target, "request_percentage", 2.0):
        one.last_run()
    assert one.verify() == 1000


def test_brokers_stand_still(clusters: Clusters, scenario: MakeScenario) -> None:
    """Longer than requests are waited for; connections stay open all the while."""

    def stand_still(broker: LocalKafka, one: Scenario, run: Run) -> None:
        broker.pause()
        one.pause(3.0, 4.5)
        broker.resume()

    survive(scenario(*clusters, request_timeout_ms=2000), *[partial(stand_still, broker) for broker in clusters])


def test_at_least_once_loses_nothing(clusters: Clusters, scenario: MakeScenario, proxy: LossyProxy) -> None:
    """Without transactions answers get lost, of data and of offsets; all is copied, in order, some of it twice."""
    one = scenario(*clusters, exactly_once=False, target_address=proxy.address)

    def lose(one: Scenario, run: Run) -> None:
        before, limit = proxy.lost[PRODUCE], time.monotonic() + PATIENCE
        proxy.lose_share(PRODUCE, 0.2)
        one.pause(2.0, 3.0)
        while proxy.lost[PRODUCE] == before:
            assert time.monotonic() < limit, "no answer to lose"
            time.sleep(0.01)
        proxy.calm()

    survive(one, *[lose] * 2, exactly=False)
