"""Mixed records into real brokers, and everything that can be seen of them there: by a consumer, and in the log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, NewPartitions, OffsetSpec, ResourceType

from srm_common.testing import FakeCluster, LocalKafka
from srm_common.wire.batches.batch import SourceBatch, split
from tests.contract.parts import Cluster
from tests.kafka.flows import Seen
from tests.kafka.markers import wait_until_readable

QUEUE = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_000_000}
READ_SECONDS = 180.0


@dataclass(frozen=True)
class Placed:
    """A record and its offset."""

    offset: int
    seen: Seen


def mixed_records(count: int, seed: int = 1, size: int = 200) -> list[Seen]:
    """Null and empty keys and values, headers with nulls and duplicates, times in disorder within the last hour.

    Half of the values are text that compresses, half is noise; ``size`` is their mean length.
    """
    dice = random.Random(seed)
    now = int(time.time() * 1000)
    records = []
    for number in range(count):
        key = dice.choice([None, b"", b"k%d" % number, b"k%d" % (number % 17), dice.randbytes(9)])
        text = (b'{"number":%d,"text":"%s"}' % (number, b"lorem ipsum " * (size // 6)))[: dice.randrange(2 * size)]
        value = dice.choice([None, b"", text, text, text, dice.randbytes(dice.randrange(2 * size))])
        headers = [
            (dice.choice(["h", "trace", "", "ünï"]), dice.choice([None, b"", b"1", dice.randbytes(5)]))
            for _ in range(dice.choice([0, 0, 0, 1, 2, 5]))
        ]
        records.append(Seen(key, value, tuple(headers), now - dice.randrange(3_600_000)))
    return records


def plain(count: int, size: int = 100, start: int = 0) -> list[Seen]:
    """Records that differ in their number alone."""
    now = int(time.time() * 1000) - 100_000
    return [Seen(b"k%d" % n, b"%d:" % n + b"v" * size, (), now + n) for n in range(start, start + count)]


def noise(count: int, size: int) -> list[Seen]:
    """Values that no codec makes smaller."""
    dice = random.Random(size)
    now = int(time.time() * 1000)
    return [Seen(b"k%d" % n, dice.randbytes(size), (), now) for n in range(count)]


def produce(kafka: Cluster, topic: str, partition: int, records: Iterable[Seen], **settings: Any) -> None:
    """Write records as they are; ``settings`` are librdkafka's with underscores (``compression_type="lz4"``)."""
    producer = writer(kafka, **settings)
    put(producer, topic, partition, records)
    assert producer.flush(60) == 0


def writer(kafka: Cluster, **settings: Any) -> Producer:
    """A producer that keeps the order, as :func:`put` checks. Not idempotent unless told: to get a producer id takes
    half a second."""
    order: dict[str, Any] = {"enable.idempotence": True}
    if not settings.keys() & {"transactional_id", "enable_idempotence"}:
        order = {"max.in.flight.requests.per.connection": 1}
    if "transactional_id" in settings:
        order["transaction.timeout.ms"] = 600_000  # ten minutes: none ends by itself, however slow the machine is
    return Producer(
        {"bootstrap.servers": kafka.internal_servers, "linger.ms": 20, **QUEUE, **order}
        | {name.replace("_", "."): value for name, value in settings.items()}
    )


def put(producer: Producer, topic: str, partition: int, records: Iterable[Seen]) -> None:
    """Hand records to a producer; one that is refused, or stored before those ahead of it, fails the test."""
    last = -1

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal last
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        assert offset > last, f"{topic}-{partition}: {offset} comes after {last}"
        last = offset

    for number, one in enumerate(records):
        producer.produce(
            topic,
            key=one.key,
            value=one.value,
            headers=list(one.headers) or None,
            timestamp=one.timestamp_ms,
            partition=partition,
            on_delivery=delivered,
        )
        if number % 1000 == 0:
            producer.poll(0)


def read_all(
    kafka: Cluster,
    topic: str,
    *,
    isolation: str = "read_committed",
    partitions: Sequence[int] | None = None,
    held: bool = False,
) -> dict[int, list[Placed]]:
    """All records of a topic by partition, with their offsets, from its start to its end now.

    ``held``: a transaction is open on purpose.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.internal_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 8 << 20,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        wanted = sorted(found) if partitions is None else list(partitions)
        out: dict[int, list[Placed]] = {partition: [] for partition in wanted}
        if isolation == "read_committed" and not held:
            wait_until_readable(kafka, topic, wanted)
        starts = [consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=60)[0] for one in wanted]
        consumer.assign([TopicPartition(topic, one, low) for one, low in zip(wanted, starts, strict=True)])
        unfinished = set(wanted)
        deadline = time.monotonic() + READ_SECONDS
        while unfinished:
            assert time.monotonic() < deadline, f"{topic} was not read to its end in {READ_SECONDS:.0f} s"
            for message in consumer.consume(2000, timeout=0.05):
                partition = message.partition()
                assert partition is not None
                error = message.error()
                if error is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    unfinished.discard(partition)
                    continue
                headers: Any = message.headers() or ()
                offset = message.offset()
                assert offset is not None
                seen = Seen(message.key(), message.value(), tuple(headers), message.timestamp()[1])
                out[partition].append(Placed(offset, seen))
    finally:
        consumer.close()
    return out


def log_batches(kafka: Cluster, topic: str, partition: int = 0) -> list[SourceBatch]:
    """The batches of a partition as they lie in the first node's log files, markers included."""
    if isinstance(kafka, FakeCluster):
        return [batch.source() for batch in kafka.log(topic, partition)]
    assert isinstance(kafka, LocalKafka)
    while True:
        try:
            files = [memoryview(path.read_bytes()) for path in kafka.segment_files(topic, partition)]
        except FileNotFoundError:  # the cleaner has just put another in its place
            continue
        return [batch for file in files for batch in split(file)]


def eventually(what: Callable[[], bool], seconds: float, why: str) -> None:
    """Wait until ``what`` holds."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.1)


def grow(kafka: Cluster, topic: str, partitions: int) -> None:
    """Give a topic so many partitions, and wait until the broker shows them with leaders."""
    kafka.admin().create_partitions([NewPartitions(topic, partitions)], operation_timeout=60)[topic].result(60)

    def led() -> bool:
        found = kafka.admin().list_topics(topic, timeout=60).topics[topic].partitions.values()
        return len(found) == partitions and all(metadata.leader >= 0 for metadata in found)

    eventually(led, 300, f"{topic} has no {partitions} leaders")


def delete_topic(kafka: Cluster, topic: str) -> None:
    """Delete a topic, and wait until nobody knows it."""
    kafka.admin().delete_topics([topic], operation_timeout=60)[topic].result(60)

    def gone() -> bool:
        try:
            return topic not in kafka.admin().list_topics(timeout=60).topics
        except KafkaException:
            return False

    eventually(gone, 300, f"{topic} is still there")


def contents_of(kafka: LocalKafka) -> dict[str, object]:
    """What a command could have changed on a cluster: each topic's settings, and where its logs end."""
    topics = {
        topic: found for topic, found in kafka.admin().list_topics(timeout=60).topics.items() if topic[:2] != "__"
    }
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    logs = {TopicPartition(topic, number): latest for topic, found in topics.items() for number in found.partitions}
    ends = kafka.admin().list_offsets(logs) if logs else {}
    described = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    settings = kafka.admin().describe_configs(described) if described else {}
    return {
        **{f"{place.topic}-{place.partition}": answer.result().offset for place, answer in ends.items()},
        **{
            one.name: {key: str(entry.value) for key, entry in answer.result().items()}
            for one, answer in settings.items()
        },
    }
