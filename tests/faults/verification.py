"""What a read_committed consumer sees on both sides, compared record by record."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka.protocol.admin import ListTransactionsRequest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import task_transactional_id
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import LocalKafka

_LIST_TRANSACTIONS = 66
Record = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], tuple[int, int]]


@dataclass(frozen=True)
class Difference:
    """What one partition lacks or has too much."""

    partition: int
    source: int
    target: int
    missing: int
    doubled: int
    first: str

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: {self.source} records at the source, {self.target} at the target, "
            f"{self.missing} missing, {self.doubled} too many; {self.first}"
        )


def read_committed(bootstrap_servers: str, topic: str, partitions: int) -> dict[int, list[Record]]:
    """All records that a read_committed consumer gets, by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "verification",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    out: dict[int, list[Record]] = {partition: [] for partition in range(partitions)}
    ends: set[int] = set()
    deadline = time.monotonic() + 180
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in out])
        while len(ends) < partitions:
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} cannot be read to its end: only {sorted(ends)} of {partitions}")
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                partition = message.partition()
                assert partition is not None
                if error is None:
                    headers: Any = message.headers() or ()
                    ends.discard(partition)
                    out[partition].append((message.key(), message.value(), tuple(headers), message.timestamp()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.add(partition)
                elif not error.retriable():
                    raise AssertionError(f"{topic}-{partition} cannot be read: {error}")
    finally:
        consumer.close()
    return out


def differences(source: dict[int, list[Record]], target: dict[int, list[Record]]) -> list[Difference]:
    """Per partition; empty when both are equal, order included."""
    found = []
    for partition, expected in source.items():
        actual = target.get(partition, [])
        if expected == actual:
            continue
        wanted, got = Counter(expected), Counter(actual)
        index = next(i for i, pair in enumerate(itertools.zip_longest(expected, actual)) if pair[0] != pair[1])
        found.append(
            Difference(
                partition,
                len(expected),
                len(actual),
                (wanted - got).total(),
                (got - wanted).total(),
                f"first difference at record {index}: {_short(expected, index)} against {_short(actual, index)}",
            )
        )
    return found


def numbered_once(records: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Records that carry a number, each at its first place only."""
    return {
        partition: list(dict.fromkeys(record for record in found if record[1] is not None))
        for partition, found in records.items()
    }


def _short(records: list[Record], index: int) -> str:
    return "nothing" if index >= len(records) else repr(records[index][1])[:40] + f" {records[index][3]}"


def ends(kafka: LocalKafka, places: list[TopicPartition], isolation: IsolationLevel) -> dict[str, int]:
    """Log ends by ``topic-partition``: last stable offsets, or high watermarks. Waits for leaders that move."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    deadline = time.monotonic() + 180
    while True:
        futures = kafka.admin().list_offsets({place: latest for place in places}, isolation_level=isolation)
        try:
            return {f"{place.topic}-{place.partition}": future.result(60).offset for place, future in futures.items()}
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def ongoing(kafka: LocalKafka, flow: FlowName) -> list[str]:
    """Transactional ids of the flow's slots whose transaction was neither committed nor aborted."""
    slots = re.compile(re.escape(task_transactional_id(flow, 0)[:-1]) + r"\d+")
    request: Any = ListTransactionsRequest(version=0, state_filters=["Ongoing"], producer_id_filters=[])
    cluster = replace(ClusterSettings.plaintext("verification", kafka.internal_servers), client_id="tests")
    with ClusterLink(cluster) as link:

        async def ask() -> list[str]:
            await link.open()
            if not link.offers(_LIST_TRANSACTIONS):
                return []  # a broker before 3.0: what is open shows by the last stable offsets alone
            answers = [await link.send(broker.node_id, request) for broker in link.manager.cluster.brokers()]
            assert all(answer.error_code == 0 for answer in answers), answers
            return [state.transactional_id for answer in answers for state in answer.transaction_states]

        return [one for one in link.run(ask) if slots.fullmatch(one)]


def unstable(kafka: LocalKafka, topics: list[str], timeout_seconds: float = 60.0) -> dict[str, tuple[int, int]]:
    """Partitions whose last stable offset is not their high watermark: an open transaction holds readers back.

    Markers of the last commit are on their way for a moment, however long that is on a slow machine.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in kafka.admin().list_topics(topic, timeout=60).topics[topic].partitions
        ]
        stable = ends(kafka, places, IsolationLevel.READ_COMMITTED)
        high = ends(kafka, places, IsolationLevel.READ_UNCOMMITTED)
        found = {place: (stable[place], high[place]) for place in stable if stable[place] != high[place]}
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
