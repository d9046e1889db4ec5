"""Writes a workload's topics to the source cluster and checks in its log that they came out as described."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.errors import BenchError
from bench.records import key_of, value_pool
from bench.segment_files import LogContent, read_partition, read_topics
from bench.workloads import PARTITIONS, Workload

# Distinct values; a multiple of no partition count, so that no partition sees the same value at the same place twice.
_POOL_BYTES = 24_000_000
_COMPACTION_TIMEOUT_SECONDS = 600.0
_NEVER_MS = str(2**62)

CreateTopic = Callable[[str, int, dict[str, str]], None]
AlterTopic = Callable[[str, dict[str, str]], None]


@dataclass(frozen=True)
class SourceData:
    """What is there to copy, by topic and partition.

    ``uncompressed_bytes`` is keys plus values of the records that are in the log.
    """

    record_bytes: int
    partitions: Mapping[tuple[str, int], LogContent]

    @property
    def content(self) -> LogContent:
        """All partitions together."""
        return sum(self.partitions.values(), LogContent())

    @property
    def records(self) -> int:
        return self.content.records

    @property
    def uncompressed_bytes(self) -> int:
        return self.records * self.record_bytes

    @property
    def wire_bytes(self) -> int:
        """Record batches as they lie in the log."""
        return self.content.wire_bytes

    def to_json(self) -> dict[str, object]:
        batches = max(1, self.content.batches)
        return {
            "records": self.records,
            "uncompressed_mb": round(self.uncompressed_bytes / 1e6, 1),
            "log_mb": round(self.wire_bytes / 1e6, 1),
            "compression_factor": round(self.uncompressed_bytes / max(1, self.wire_bytes), 2),
            "batches": self.content.batches,
            "records_per_batch": round(self.records / batches, 1),
            "log_bytes_per_batch": round(self.wire_bytes / batches),
            "batches_with_holes": self.content.batches_with_holes,
            "codecs": list(self.content.codecs),
        }


def topic_settings(workload: Workload) -> dict[str, str]:
    """Settings of a source topic with records."""
    settings = {"retention.ms": "-1", "compression.type": "producer"}
    if workload.compacted:
        settings |= {
            "cleanup.policy": "compact",
            # Only closed segments are compacted: many small ones leave little behind. Kafka takes no less than 1 MB.
            "segment.bytes": str(max(1 << 20, workload.uncompressed_bytes // PARTITIONS // 40)),
            "min.cleanable.dirty.ratio": "0.01",
        }
    return settings


def write(workload: Workload, bootstrap_servers: str, create_topic: CreateTopic) -> None:
    """Creates the topics and writes every record. Raises BenchError when a record was not acknowledged."""
    for topic in workload.topics:
        create_topic(topic, PARTITIONS, topic_settings(workload))
    for topic in workload.empty_topics:
        create_topic(topic, PARTITIONS, {"retention.ms": "-1"})
    failures: list[str] = []

    def on_error(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": workload.codec,
            "batch.size": workload.batch_bytes,
            "batch.num.messages": workload.batch_records,
            "linger.ms": 5000,  # only full batches go out before the last flush
            "acks": "all",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 512_000,
            "delivery.report.only.error": True,
            "log_level": 0,
        },
        logger=None,
    )
    for topic, partition, key, value in _records(workload):
        while True:
            try:
                producer.produce(topic, value, key, partition, on_error)
                break
            except BufferError:
                producer.poll(0.02)
        if failures:
            break
    left = producer.flush(300)
    if failures or left:
        reason = failures[0] if failures else f"{left} records not acknowledged within 300 s"
        raise BenchError(f"writing the data of {workload.name} failed: {reason}")


def _records(workload: Workload) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Topic, partition, key, value; partitions in turn, keys of a compacted topic at random."""
    pool = value_pool(workload.record_bytes, _POOL_BYTES // workload.record_bytes | 1)
    lanes = [(topic, partition) for topic in workload.topics for partition in range(PARTITIONS)]
    keys = random.Random(2)
    distinct = workload.distinct_keys
    size = len(pool)
    for number in range(workload.records):
        topic, partition = lanes[number % len(lanes)]
        key = key_of(int(keys.random() * distinct) if distinct else number)
        yield topic, partition, key, pool[number % size]


def wait_for_compaction(workload: Workload, log_directory: Path, alter_topic: AlterTopic) -> None:
    """Waits until the broker's cleaner is through, then tells it to leave the topic alone.

    Through means: four of five batches have holes, and the log has not changed for some seconds.
    Raises BenchError when that does not happen.
    """
    deadline = time.monotonic() + _COMPACTION_TIMEOUT_SECONDS
    last, unchanged = LogContent(), 0
    while unchanged < 3:
        if time.monotonic() > deadline:
            raise BenchError(
                f"the log cleaner was not through with {workload.name} after {_COMPACTION_TIMEOUT_SECONDS:.0f} s: "
                f"{last.batches_with_holes} of {last.batches} batches have holes"
            )
        time.sleep(3)
        try:
            now = read_topics(log_directory, workload.topics, PARTITIONS)
        except FileNotFoundError:  # the cleaner swapped a segment under our eyes
            continue
        holed = now.batches_with_holes > now.batches * 0.8
        unchanged = unchanged + 1 if holed and now == last else 0
        last = now
    for topic in workload.topics:
        alter_topic(topic, {"min.cleanable.dirty.ratio": "0.99", "min.compaction.lag.ms": _NEVER_MS})


def inspect(workload: Workload, log_directory: Path) -> SourceData:
    """Reads the log and checks it. Raises BenchError when batches are not of the described kind."""
    partitions = {
        (topic, partition): read_partition(log_directory / f"{topic}-{partition}")
        for topic in workload.topics
        for partition in range(PARTITIONS)
    }
    data = SourceData(workload.record_bytes, partitions)
    problems = layout_problems(workload, data.content)
    if problems:
        raise BenchError(f"the data of {workload.name} is not as described: {'; '.join(problems)}")
    return data


def layout_problems(workload: Workload, content: LogContent) -> list[str]:
    """What differs from the description; empty when all is well."""
    problems = []
    if content.codecs != (workload.codec,):
        problems.append(f"codecs are {', '.join(content.codecs)}, not {workload.codec}")
    if workload.compacted:
        if not 0 < content.records < workload.records:
            problems.append(f"{content.records} of {workload.records} records are left")
        if content.batches_with_holes < content.batches * 0.8:
            problems.append(f"only {content.batches_with_holes} of {content.batches} batches have holes")
        return problems
    if content.records != workload.records:
        problems.append(f"{content.records} records, not {workload.records}")
    wanted = min(workload.batch_records, workload.batch_bytes / workload.record_bytes)
    if not 0.85 * wanted <= content.records_per_batch <= 1.05 * wanted:
        problems.append(f"{content.records_per_batch:.1f} records a batch, not about {wanted:.0f}")
    return problems
