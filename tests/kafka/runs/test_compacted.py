from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import StateUnavailable, UnreachableCluster
from srm_common.kafka.client.links.link import EARLIEST, ClusterLink
from srm_common.kafka.log import committed_log
from srm_common.kafka.state import state_reader
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.testing import LocalKafka
from srm_common.wire.protocol import fetch

pytestmark = pytest.mark.kafka


@pytest.fixture
def cluster(target_kafka: LocalKafka) -> ClusterSettings:
    return ClusterSettings.plaintext("target", target_kafka.bootstrap_servers)


@pytest.fixture
def reader(cluster: ClusterSettings) -> Iterator[StateReader]:
    with StateReader(cluster) as reader:
        yield reader


@pytest.fixture
def topic(target_kafka: LocalKafka, name: str) -> str:
    target_kafka.create_topic(name, 3, 1, {"cleanup.policy": "compact"})
    return name


def transactional(kafka: LocalKafka, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions()
    return producer


def test_reads_what_is_committed_and_nothing_else(target_kafka: LocalKafka, topic: str, reader: StateReader) -> None:
    producer = transactional(target_kafka, topic)
    for value, keep in ((b"1", True), (b"2", False), (b"3", True), (b"4", False)):
        producer.begin_transaction()
        for partition in (0, 2):
            producer.produce(topic, key=b"k%d" % partition, value=value, partition=partition)
        producer.produce(topic, key=b"gone", value=None if value == b"3" else value, partition=0)
        producer.flush()
        (producer.commit_transaction if keep else producer.abort_transaction)()
    records = reader.read(topic)
    assert [(r.partition, r.key, r.value) for r in records if r.partition == 2] == [
        (2, b"k2", b"1"),
        (2, b"k2", b"3"),
    ]
    latest = reader.last_records(topic)
    assert {key: record.value for key, record in latest.items()} == {b"k0": b"3", b"k2": b"3", b"gone": None}
    # The last thing in both logs is an aborted transaction and its marker.
    ends = reader.stable_ends(topic, range(3), within_seconds=120)
    assert ends == {0: 12, 1: 0, 2: 8}
    assert reader.read(topic, starts=ends) == []
    (tail,) = reader.read(topic, starts={2: 1}, ends={2: 8})
    assert (tail.offset, tail.value) == (4, b"3")
    assert reader.read(topic, ends={2: 4})[-1].offset == 0


def test_markers_tell_what_was_aborted_where_a_broker_lists_nothing(
    target_kafka: LocalKafka, topic: str, reader: StateReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = transactional(target_kafka, topic)
    for number, keep in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for partition in (0, 2):
            for key in (b"a", b"b"):
                producer.produce(topic, key=key, value=None if number == 2 else b"%d" % number, partition=partition)
        producer.flush()
        (producer.commit_transaction if keep else producer.abort_transaction)()
    ends = reader.stable_ends(topic, range(3), within_seconds=120)
    expected = [(record.partition, record.offset, record.key, record.value) for record in reader.read(topic)]
    assert len(expected) == 8
    decode = fetch.decode

    def listing_nothing(body: memoryview, names: Mapping[bytes, str] | None = None) -> fetch.FetchAnswer:
        answer = decode(body, names)
        return answer._replace(
            partitions=[fetched_partition._replace(aborted=[]) for fetched_partition in answer.partitions]
        )

    monkeypatch.setattr(fetch, "decode", listing_nothing)
    for starts in ({}, {0: 2, 2: 5}, dict(ends)):
        records: list[LogRecord] = []
        reader.read_by_markers(topic, starts, ends, records.append)
        rest = [one for one in expected if one[1] >= starts.get(one[0], 0)]
        assert sorted((record.partition, record.offset, record.key, record.value) for record in records) == sorted(rest)
    newest = reader.newest(topic, {2: ends[2]})
    assert {key: (one.partition, one.value) for key, one in newest.items()} == {b"a": (2, None), b"b": (2, None)}
    reader.read_by_markers(topic, {}, {}, records.append)


def test_an_open_transaction_is_waited_for_and_then_named(
    target_kafka: LocalKafka, topic: str, reader: StateReader
) -> None:
    producer = transactional(target_kafka, topic)
    producer.begin_transaction()
    producer.produce(topic, key=b"k", value=b"open", partition=1)
    producer.flush()
    with pytest.raises(StateUnavailable, match=rf"{topic}-1 .*offset 0 of 1, because an open transaction"):
        reader.stable_ends(topic, range(3), within_seconds=0.3)
    producer.commit_transaction()
    assert reader.stable_ends(topic, range(3), within_seconds=120) == {0: 0, 1: 2, 2: 0}


def test_what_retention_takes_while_it_is_read_is_passed_over(
    target_kafka: LocalKafka, name: str, reader: StateReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    target_kafka.create_topic(name, 2, 1)
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers})
    for number in range(20):
        producer.produce(name, key=b"k", value=b"%d" % number, partition=number % 2)
    assert producer.flush(60) == 0
    target_kafka.admin().delete_records([TopicPartition(name, 0, 6)])[TopicPartition(name, 0)].result(60)
    real, stale = committed_log.log_offsets, [{0: 0, 1: 0}]

    async def log_offsets(
        link: ClusterLink, topic: str, partitions: list[int], at: int, **options: Any
    ) -> dict[int, int]:
        return stale.pop() if stale and at == EARLIEST else await real(link, topic, partitions, at, **options)

    monkeypatch.setattr(state_reader, "log_offsets", log_offsets)
    records = reader.read(name)
    assert not stale
    assert sorted((record.partition, record.offset) for record in records) == [
        *((0, offset) for offset in range(6, 10)),
        *((1, offset) for offset in range(10)),
    ]


def test_a_missing_topic_has_no_partitions(reader: StateReader, topic: str) -> None:
    assert reader.partitions(topic + "-not") == 0
    assert reader.partitions(topic) == 3


def test_an_unreachable_cluster_is_named() -> None:
    nowhere = ClusterSettings.plaintext("west", "127.0.0.1:1")
    with StateReader(nowhere, timeout_seconds=1) as reader:
        with pytest.raises(UnreachableCluster, match=r"cluster 'west' \(127\.0\.0\.1:1\)"):
            reader.partitions("t")
        with pytest.raises(UnreachableCluster, match="west"):
            reader.read("t", ends={0: 1})


def test_many_records_are_read_fast(target_kafka: LocalKafka, topic: str, reader: StateReader) -> None:
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers, "linger.ms": 50, "log_level": 0})
    for i in range(100_000):
        producer.produce(topic, key=b"key-%d" % (i % 500), value=b"%d" % i, partition=i % 3)
        if i % 10_000 == 0:
            producer.flush()
    producer.flush()
    began = time.process_time()
    latest = reader.last_records(topic)
    seconds = time.process_time() - began
    assert len(latest) == 500
    print(f"{seconds:.2f} s of processor time for 100,000 records")
    assert seconds < 20
