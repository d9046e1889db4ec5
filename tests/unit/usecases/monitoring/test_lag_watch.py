"""How far flows are behind now, asked in the background of clusters that answer, go away, or change meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from srm_common.domain.amount import Amount
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.samples import flow_samples
from srm_common.domain.monitoring.flow_lag import FlowLag
from srm_common.domain.topic_partition import TopicPartition
from srm_common.testing import FakeCluster
from srm_common.usecases.monitoring.lag_watch import INTEREST_SECONDS, LagWatch, lag_now
from srm_common.usecases.monitoring.list_flows import status
from srm_common.usecases.monitoring.report_run import make_report
from tests.kafka.checkpoint_rounds import copy, values
from tests.kafka.flows import flow_between, write


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 2)
    return flow_between(source_kafka, target_kafka, name, topics=(f"{name}.*",))


@pytest.fixture
def watch() -> Iterator[LagWatch]:
    # It asks again and again: whoever took longer than its patience on a slow machine is asked once more.
    watch = LagWatch(every_seconds=0.2, patience_seconds=1.0)
    yield watch
    watch.close()


def wait_for(watch: LagWatch, flow: FlowSettings, right: Callable[[FlowLag], bool]) -> FlowLag:
    deadline = time.monotonic() + 120
    while True:
        lag = watch.of([flow]).get(flow.name)
        if lag is not None and right(lag):
            return lag
        assert time.monotonic() < deadline, lag
        time.sleep(0.05)


def write_at(kafka: FakeCluster, topic: str, stamps: list[int], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for stamp in stamps:
        producer.produce(topic, value=b"x", partition=partition, timestamp=stamp)
        producer.flush(60)


def test_lag_and_the_age_of_the_oldest_record_are_those_of_now(
    flow: FlowSettings, source_kafka: FakeCluster, name: str, watch: LagWatch
) -> None:
    assert lag_now(flow) is None
    now = int(time.time() * 1000)
    write_at(source_kafka, name, [now - 7_200_000, now - 7_000_000])
    copy(flow)
    assert watch.of([flow]) == {}, "who asks first waits for nobody"
    assert wait_for(watch, flow, lambda _: True).whole.records.most == 0
    assert watch.of([flow])[flow.name].whole.oldest_ms is None

    # An hour's pause: the first record that waits is the one after the newest copied.
    stamps = [now - 3_600_000 + 1000 * number for number in range(40)]
    write_at(source_kafka, name, stamps)
    write_at(source_kafka, name, [now - 60_000], partition=1)
    lag = wait_for(watch, flow, lambda one: one.whole.records.most == 41)
    assert lag.whole.oldest_ms == stamps[0]
    assert {place[1]: one.oldest_ms for place, one in lag.partitions.items()} == {0: stamps[0], 1: now - 60_000}
    assert (lag.topics[name], lag.fault) == (lag.whole, None)
    asked = lag_now(flow)
    assert asked is not None
    assert asked == replace(lag, taken_ms=asked.taken_ms)

    # A partition that the flow has not seen yet, and a topic that is deleted.
    source_kafka.admin().create_partitions([NewPartitions(name, 3)])[name].result()
    write_at(source_kafka, name, [now - 1000], partition=2)
    assert (
        wait_for(watch, flow, lambda one: one.whole.records.most == 42).partitions[TopicPartition(name, 2)].position
        == 0
    )
    copy(flow)
    assert wait_for(watch, flow, lambda one: one.whole.records.most == 0).taken_ms > lag.taken_ms
    write(source_kafka, name, values(0, 7))
    wait_for(watch, flow, lambda one: one.whole.records.most == 7)
    source_kafka.admin().delete_topics([name])[name].result()
    assert wait_for(watch, flow, lambda one: one.whole.records.most == 0).partitions == {}


def test_a_cluster_that_is_silent_leaves_the_last_figure_with_its_time_and_nobody_waits(
    flow: FlowSettings, target_kafka: FakeCluster, name: str, watch: LagWatch
) -> None:
    with FakeCluster(name="away") as source:
        source.create_topic(name, 1)
        flow = replace(flow, source=ClusterSettings.plaintext(flow.source.alias, source.bootstrap_servers))
        write(source, name, values(0, 10))
        copy(flow)
        write(source, name, values(0, 4))
        known = wait_for(watch, flow, lambda one: one.whole.records.most == 4)
        with source.silence():
            silent = wait_for(watch, flow, lambda one: one.fault is not None)
        assert (silent.whole, silent.taken_ms >= known.taken_ms) == (known.whole, True)
        assert flow.source.alias in str(silent.fault)
        back = wait_for(watch, flow, lambda one: one.fault is None)
        assert back.taken_ms > silent.taken_ms

        # The target's silence does not keep the source from being asked.
        away = replace(flow, target=ClusterSettings.plaintext("target", "127.0.0.1:1"))
        write(source, name, values(0, 1))
        wait_for(watch, flow, lambda one: one.whole.records.most == 5)
        assert "127.0.0.1:1" in str(wait_for(watch, away, lambda one: one.fault is not None).fault)


def test_a_partition_without_a_leader_has_a_lag_that_nobody_knows(
    flow: FlowSettings, name: str, watch: LagWatch, request: pytest.FixtureRequest
) -> None:
    with FakeCluster(nodes=3, name="away") as source:
        source.create_topic(name, 3, 1)  # one on each node, and nowhere else
        flow = replace(flow, source=ClusterSettings.plaintext(flow.source.alias, source.bootstrap_servers))
        write(source, name, values(0, 30))
        copy(flow)
        for number in range(3):
            write(source, name, values(0, 4), partition=number)
        wait_for(watch, flow, lambda one: one.whole.records.most == 12)
        gone = source.admin().list_topics(name).topics[name].partitions[1].leader
        source.stop(gone)
        silent = wait_for(watch, flow, lambda one: (name, 1) in one.unknown)
        assert silent.unknown == {(name, 1)}
        assert (silent.whole.records.least, silent.whole.records.most) == (8, None)
        assert silent.whole.behind_ms(silent.taken_ms) is None
        assert name in str(silent.fault)

        request.getfixturevalue("impatient")
        told = make_report(flow, "r")
        assert told.lag == Amount(8, 8, parts=3, unknown=1)
        samples = flow_samples(told)
        assert (Metric.RECORDS_LAG in samples, samples[Metric.UNKNOWN_LAGS].value) == (False, 1)
        assert "at least 8, unknown in 1 of 3 partitions" in status(flow).headline()


def test_nothing_is_asked_when_nobody_looks_any_more_and_closing_ends_every_thread(
    flow: FlowSettings, source_kafka: FakeCluster, name: str
) -> None:
    write(source_kafka, name, values(0, 3))
    copy(flow)
    ahead = 0.0
    watch = LagWatch(every_seconds=0.1, clock=lambda: time.monotonic() + ahead)

    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.endswith(flow.source.alias)]

    try:
        wait_for(watch, flow, lambda one: one.whole.records.most == 0)
        assert threads() == [f"srm-lag-source-{flow.source.alias}"]
        ahead += INTEREST_SECONDS + 1
        deadline = time.monotonic() + 120
        while threads():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        write(source_kafka, name, values(0, 2))
        wait_for(watch, flow, lambda one: one.whole.records.most == 2)
    finally:
        watch.close()
    assert (threads(), watch.of([flow])) == ([], {})
