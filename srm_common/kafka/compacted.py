"""Reading state topics from a position to their end, read_committed.

A read ends where the last stable offset is when it begins. State may be believed only where that is the high
watermark too: an open transaction hides whatever was committed behind its first record.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from srm_common.domain.cluster import ClusterSettings
from srm_common.errors import StateUnavailable, UnreachableCluster
from srm_common.kafka.faults import cluster_error, is_final, kafka_error, transient

_BATCH = 20_000
_POLL_SECONDS = 0.01
_REQUEST_SECONDS = 30.0
_PAUSE_SECONDS = 0.05
_MOVING_SECONDS = 10.0
#: How long a cluster may be silent before it counts as unreachable, and one question of it.
_REACH_SECONDS, _ANSWER_SECONDS = 10.0, 3.0

EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]

silent_logger = logging.getLogger("srm_common.kafka.librdkafka")
silent_logger.addHandler(logging.NullHandler())
silent_logger.propagate = False


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record; ``value`` is None for a tombstone."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class StateReader:
    """Reads topics of one cluster; a context manager.

    Args:
        committed: False also shows records of aborted and of open transactions, as a read_uncommitted consumer sees.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
    """

    def __init__(
        self, cluster: ClusterSettings, *, timeout_seconds: float = _REQUEST_SECONDS, committed: bool = True
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds
        self._last_fault: KafkaError | None = None
        self._admin = AdminClient({**cluster.confluent, "log_level": 0}, logger=silent_logger)
        self._consumer = Consumer(
            {
                **cluster.confluent,
                # Never joins a group and never commits; the client wants a name all the same.
                "group.id": "srm-state-reader",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                # The end of a partition is told by an empty answer: do not let the broker wait for more data.
                "fetch.wait.max.ms": 10,
                "error_cb": self._remember,
                "log_level": 0,
            },
            logger=silent_logger,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> int:
        """The topic's number of partitions, 0 when it does not exist."""
        doing = f"describe topic {topic}"
        deadline = time.monotonic() + min(self._timeout, _REACH_SECONDS)
        while True:
            try:
                patience = min(_ANSWER_SECONDS, self._timeout)
                metadata = self._consumer.list_topics(topic, timeout=patience).topics[topic]
                break
            except KafkaException as error:
                refused = self._last_fault is not None and is_final(self._last_fault)
                if refused or time.monotonic() > deadline:
                    raise self._fault(doing, error) from error
        if metadata.error is None:
            return len(metadata.partitions)
        if metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        raise cluster_error(self._cluster, doing, metadata.error)

    def offsets(
        self, topic: str, partitions: Iterable[int], spec: OffsetSpec, *, committed: bool = True
    ) -> dict[int, int]:
        """Earliest or latest offsets; the latest is the last stable offset, or the high watermark."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        wanted = set(partitions)
        out: dict[int, int] = {}
        deadline = time.monotonic() + min(self._timeout, _MOVING_SECONDS)
        while wanted:
            asked = {TopicPartition(topic, partition): spec for partition in wanted}
            try:
                answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._timeout)
                for place, answer in answers.items():
                    out[place.partition] = answer.result().offset
                    wanted.discard(place.partition)
            except KafkaException as error:
                if not transient(error) or time.monotonic() > deadline:
                    raise self._fault(f"list the offsets of topic {topic}", error) from error
                time.sleep(_PAUSE_SECONDS)
        return out

    def stable_ends(self, topic: str, partitions: Iterable[int], within_seconds: float) -> dict[int, int]:
        """The ends of the partitions, once no open transaction holds any of them back.

        Raises:
            StateUnavailable: one is still held back after ``within_seconds``; names it.
        """
        wanted = list(partitions)
        deadline = time.monotonic() + within_seconds
        while True:
            # In this order: what is written in between makes the marks differ, never agree by chance.
            stable = self.offsets(topic, wanted, LATEST)
            ends = self.offsets(topic, wanted, LATEST, committed=False)
            held = sorted(partition for partition in wanted if stable[partition] != ends[partition])
            if not held:
                return stable
            if time.monotonic() > deadline:
                first = held[0]
                raise StateUnavailable(
                    f"{topic}-{first} on cluster '{self._cluster.alias}' cannot be read beyond offset "
                    f"{stable[first]} of {ends[first]}, because an open transaction holds it; run again when that "
                    f"has ended or timed out (kafka-transactions.sh --bootstrap-server "
                    f"{self._cluster.bootstrap_servers} find-hanging --topic {topic} --partition {first} names it)"
                )
            time.sleep(_PAUSE_SECONDS)

    def read(
        self, topic: str, starts: Mapping[int, int] | None = None, ends: Mapping[int, int] | None = None
    ) -> list[LogRecord]:
        """All committed records from ``starts`` to ``ends``, each partition's in the order of its log.

        Args:
            starts: partition -> first offset; a partition that is not named, and an offset before the log's
                start, mean the log's start. Defaults to the start of every partition.
            ends: partition -> end; only these partitions are read. Defaults to the present end of every one.
        """
        if ends is None:
            ends = self.offsets(topic, range(self.partitions(topic)), LATEST)
        earliest = self.offsets(topic, ends, EARLIEST)
        open_ends: dict[int, int] = {}
        places = []
        for partition, end in ends.items():
            start = max(earliest[partition], (starts or {}).get(partition, 0))
            if start < end:
                open_ends[partition] = end
                places.append(TopicPartition(topic, partition, start))
        return self._read(topic, places, open_ends)

    def _read(self, topic: str, places: list[TopicPartition], open_ends: dict[int, int]) -> list[LogRecord]:
        out: list[LogRecord] = []
        if not places:
            return out
        doing = f"read topic {topic}"
        try:
            self._consumer.assign(places)
            heard = time.monotonic()
            while open_ends:
                messages = self._consumer.consume(_BATCH, _POLL_SECONDS)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self._timeout:
                    raise self._silence(doing)
                for message in messages:
                    error, partition, offset = message.error(), message.partition(), message.offset()
                    if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                        # The client looks for its group's coordinator, though nobody joins it: no right is needed.
                        continue
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise cluster_error(self._cluster, doing, error)
                    assert partition is not None
                    assert offset is not None
                    if error is not None:
                        # A marker, or nothing but aborted records, may be the last thing before the end.
                        if partition in open_ends and offset >= open_ends[partition]:
                            del open_ends[partition]
                        continue
                    if partition not in open_ends:
                        continue
                    if offset >= open_ends[partition]:
                        del open_ends[partition]
                        continue
                    out.append(
                        LogRecord(partition, offset, message.key(), message.value(), message.timestamp()[1] or 0)
                    )
                    if offset + 1 == open_ends[partition]:
                        del open_ends[partition]
            self._consumer.unassign()
        except KafkaException as error:
            raise self._fault(doing, error) from error
        return out

    def _remember(self, error: KafkaError) -> None:
        self._last_fault = error

    def _fault(self, doing: str, error: KafkaException) -> Exception:
        """The callback knows the reason (a refused login) where the call only says that it timed out."""
        found = kafka_error(error)
        if found is not None and found.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            return cluster_error(self._cluster, doing, self._last_fault or error)
        return cluster_error(self._cluster, doing, error)

    def _silence(self, doing: str) -> Exception:
        if self._last_fault is not None:
            return cluster_error(self._cluster, doing, self._last_fault)
        return UnreachableCluster(
            f"cluster '{self._cluster.alias}' ({self._cluster.bootstrap_servers}) sent nothing for "
            f"{self._timeout:.0f} s when asked to {doing}; check the addresses and the network"
        )


def last_of_each_key(records: Iterable[LogRecord]) -> dict[bytes, LogRecord]:
    """What a compacted topic says now: the last record of each key, tombstones included, without null keys.

    The order is that of the last records.
    """
    out: dict[bytes, LogRecord] = {}
    for record in records:
        if record.key is not None:
            out.pop(record.key, None)
            out[record.key] = record
    return out
