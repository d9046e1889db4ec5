"""Writes records to state topics, outside the copy's transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.faults import cluster_error
from srm_common.kafka.client.librdkafka import KafkaError, KafkaException, Message, Producer, silent_logger
from srm_common.kafka.client.security import librdkafka_settings
from srm_common.wire.plain_records import Headers

WRITE_SECONDS = 30.0

#: librdkafka asks for a producer id whenever metadata arrives, and otherwise after half a second. The first metadata
#: ends the bootstrap connection that it came through, when no other is up yet: a second response, through a broker's
#: own connection, spares the wait (``rd_kafka_idemp_pid_fsm``, ``rd_kafka_parse_Metadata``).
PRODUCER_ID_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class NewRecord:
    """``value`` None is a tombstone; ``timestamp_ms`` None the time of writing."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()


class StateWriter:
    """A producer to one cluster that keeps each partition's records in order.

    ``patience_seconds`` is a run's: how long the cluster may take to confirm a write.
    ``repeats_matter``: whether a record that lies in the log twice, one right behind the other, says something else
    than one. Where it does not, the producer is not idempotent, which saves its first write the requests for a
    producer id.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float = WRITE_SECONDS,
        patience_seconds: float | None = None,
        repeats_matter: bool = True,
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout_seconds = timeout_seconds if patience_seconds is None else patience_seconds
        self._last_fault: KafkaError | None = None
        self._needs_producer_id = repeats_matter
        self._producer = Producer(
            {
                **librdkafka_settings(cluster, Client.PRODUCER),
                "acks": "all",
                "enable.idempotence": repeats_matter,
                **({} if repeats_matter else {"max.in.flight.requests.per.connection": 1}),
                # A run record of a large flow has megabytes of JSON, a twentieth of that when compressed; the
                # client measures before, the broker after.
                "compression.type": "zstd",
                "message.max.bytes": 128 << 20,
                "linger.ms": 0,
                "message.timeout.ms": int(timeout_seconds * 1000),
                "error_cb": self._remember,
                "log_level": 0,
            },
            logger=silent_logger,
        )

    def write(self, doing: str, records: Iterable[NewRecord]) -> int:
        """Write all of them, each partition's in order; returns when all in-sync replicas have them.

        Args:
            doing: what this is, for errors, e.g. ``"write checkpoints"``.

        Returns:
            How many were written.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: at least one was not confirmed.
        """
        failures: list[tuple[KafkaError, str]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append((error, message.topic() or ""))

        count = 0
        try:
            for record in records:
                self._produce(record, delivered)
                count += 1
            if count and self._needs_producer_id:
                self._needs_producer_id = False
                self._obtain_producer_id(record.topic)
            left = self._producer.flush(self._timeout + 5) if count else 0
        except KafkaException as error:
            raise cluster_error(self._cluster, doing, error) from error
        if failures:
            # A refused login shows as a time-out of the message; the callback knows better.
            first, topic = failures[0]
            timed_out = first.code() == KafkaError._MSG_TIMED_OUT
            needs = Right("Write", "topic", topic)
            raise cluster_error(self._cluster, doing, (timed_out and self._last_fault) or first, needs)
        if left:
            raise UnreachableCluster(f"cluster '{self._cluster.alias}' did not acknowledge in time: {doing}")
        return count

    def _produce(self, record: NewRecord, delivered: Callable[[KafkaError | None, Message], None]) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    partition=record.partition,
                    on_delivery=delivered,
                    headers=[(name.decode(), text) for name, text in record.headers],
                    timestamp=record.timestamp_ms or 0,  # the client takes 0 for the time of writing
                )
                return
            except BufferError:
                # The client's queue is full: wait until the broker has taken some.
                if time.monotonic() > deadline:
                    raise UnreachableCluster(
                        f"cluster '{self._cluster.alias}' did not accept records for {record.topic}-{record.partition}"
                    ) from None
                self._producer.poll(0.1)

    def _obtain_producer_id(self, topic: str) -> None:
        """Request metadata until records are confirmed, but no longer than librdkafka needs without that."""
        deadline = time.monotonic() + PRODUCER_ID_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._producer.list_topics(topic, timeout=left)
            except KafkaException:
                return  # no broker responds: what becomes of the records tells why
            if not self._producer.flush(0.02):
                return

    def _remember(self, error: KafkaError) -> None:
        self._last_fault = error
