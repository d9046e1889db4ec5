"""Writes records to state topics, outside the copy's transactions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.faults import cluster_error, kafka_error
from srm_common.kafka.client.librdkafka import KafkaError, KafkaException, Message, Producer, silent_logger
from srm_common.kafka.client.security import librdkafka_settings
from srm_common.kafka.state.link_writer import LinkWriter
from srm_common.wire.plain_records import NewRecord

WRITE_SECONDS = 30.0

#: librdkafka asks for a producer id whenever metadata arrives, and otherwise after half a second. The first metadata
#: ends the bootstrap connection that it came through, when no other is up yet: a second response, through a broker's
#: own connection, spares the wait (``rd_kafka_idemp_pid_fsm``, ``rd_kafka_parse_Metadata``).
PRODUCER_ID_SECONDS = 0.5


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
        self._lock = threading.Lock()
        # librdkafka has no Kerberos.
        by_link = cluster.of_client(Client.PRODUCER).kerberos is not None
        self._repeats_matter = repeats_matter
        self._by_link = (
            LinkWriter(cluster, timeout_seconds=timeout_seconds, repeats_matter=repeats_matter) if by_link else None
        )
        self._producer = None if by_link else self._made()

    def _made(self) -> Producer:
        repeats_matter = self._repeats_matter
        return Producer(
            {
                **librdkafka_settings(self._cluster, Client.PRODUCER),
                "acks": "all",
                "enable.idempotence": repeats_matter,
                **({} if repeats_matter else {"max.in.flight.requests.per.connection": 1}),
                # A run record of a large flow has megabytes of JSON, a twentieth of that when compressed; the
                # client measures before, the broker after.
                "compression.type": "zstd",
                "message.max.bytes": 128 << 20,
                "linger.ms": 0,
                "message.timeout.ms": int(self._timeout * 1000),
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
        if self._by_link is not None:
            with self._lock:
                return self._by_link.write(doing, records)
        assert self._producer is not None
        failures: list[tuple[KafkaError, str]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append((error, message.topic() or ""))

        count = 0
        try:
            for record in records:
                self._produce(self._producer, record, delivered)
                count += 1
            if count and self._needs_producer_id:
                self._needs_producer_id = False
                self._obtain_producer_id(self._producer, record.topic)
            left = self._producer.flush(self._timeout + 5) if count else 0
        except (KafkaException, SystemError) as error:
            # An error that ends a producer is raised in whatever runs next, in the callback of a record, too: Python
            # then speaks of a result with an exception set.
            fault = error if isinstance(error, KafkaException) else error.__cause__
            if not isinstance(fault, KafkaException):
                raise
            self._renew(fault)
            raise cluster_error(self._cluster, doing, fault) from error
        if failures:
            self._renew(next((error for error, _ in failures if error.fatal()), failures[0][0]))
            # A refused login shows as a time-out of the message; the callback knows better.
            first, topic = failures[0]
            timed_out = first.code() == KafkaError._MSG_TIMED_OUT
            needs = Right("Write", "topic", topic)
            raise cluster_error(self._cluster, doing, (timed_out and self._last_fault) or first, needs)
        if left:
            raise UnreachableCluster(f"cluster '{self._cluster.alias}' did not acknowledge in time: {doing}")
        return count

    def _renew(self, error: KafkaException | KafkaError) -> None:
        """Have a new producer after an error that ends this one: librdkafka's takes nothing any more once a log lacks
        what it has written, as after an unclean election of a leader."""
        found = kafka_error(error)
        if found is not None and (found.fatal() or found.code() == KafkaError._FATAL):
            self._producer = self._made()
            self._needs_producer_id = self._repeats_matter

    def _produce(
        self, producer: Producer, record: NewRecord, delivered: Callable[[KafkaError | None, Message], None]
    ) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                producer.produce(
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
                producer.poll(0.1)

    def _obtain_producer_id(self, producer: Producer, topic: str) -> None:
        """Request metadata until records are confirmed, but no longer than librdkafka needs without that."""
        deadline = time.monotonic() + PRODUCER_ID_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                producer.list_topics(topic, timeout=left)
            except KafkaException:
                return  # no broker responds: what becomes of the records tells why
            if not producer.flush(0.02):
                return

    def _remember(self, error: KafkaError) -> None:
        self._last_fault = error
