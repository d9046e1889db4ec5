"""Reading state topics from a position to their end, read_committed.

A read ends where the last stable offset is when it begins. State may be believed only where that is the high
watermark too: an open transaction hides whatever was committed behind its first record.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.errors import StateUnavailable, UnreachableCluster
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.faults import cluster_error, is_final, kafka_error, transient
from srm_common.kafka.client.librdkafka import (
    EARLIEST,
    LATEST,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    OffsetSpec,
    SharedAdmin,
    TopicMetadata,
    TopicPartition,
    silent_logger,
)
from srm_common.kafka.client.link_pool import LinkPool
from srm_common.kafka.client.security import librdkafka_settings
from srm_common.wire.batch import SourceBatch
from srm_common.wire.plain_records import read_plain_records, timed_records

if TYPE_CHECKING:
    pass

_BATCH = 20_000
_POLL_SECONDS = 0.01
_REQUEST_SECONDS = 30.0
_PAUSE_SECONDS = 0.05
_SETTLING_SECONDS = 1.0
#: How often a read continues where its offsets were not in the log, and the pause before.
_TIMES_AGAIN, _AGAIN_SECONDS = 5, 0.2
#: How long a cluster may be silent, and a leader be on its move, where the caller does not say, and one question of it.
_PATIENCE_SECONDS, _ANSWER_SECONDS = 10.0, 3.0


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record; ``value`` is None for a tombstone. ``headers``, from their number on, only where the log was read by
    its markers."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: bytes = b""


class _Connection:
    """What readers of one cluster share: a consumer, which one thread may use at a time."""

    def __init__(self, cluster: ClusterSettings, committed: bool) -> None:
        self.lock = threading.RLock()
        self.last_fault: KafkaError | None = None
        self.committed = committed
        #: Topics whose leaders the consumer was told. One that has no connection yet when it is assigned partitions
        #: looks for their leaders in vain, and again with librdkafka's next tick only, up to a second later.
        self.known: set[str] = set()
        # librdkafka has no Kerberos: there the link reads.
        self.consumer = None if cluster.of_client(Client.CONSUMER).kerberos is not None else self._consumer(cluster)

    def _consumer(self, cluster: ClusterSettings) -> Consumer:
        return Consumer(
            {
                **librdkafka_settings(cluster, Client.CONSUMER),
                # Never joins a group and never commits; the client wants a name all the same.
                "group.id": "srm-state-reader",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "isolation.level": "read_committed" if self.committed else "read_uncommitted",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                # An empty response marks the end of a partition: do not let the broker wait for more data.
                "fetch.wait.max.ms": 10,
                "error_cb": self._remember,
                "log_level": 0,
            },
            logger=silent_logger,
        )

    def close(self) -> None:
        if self.consumer is not None:
            self.consumer.close()

    def _remember(self, error: KafkaError) -> None:
        self.last_fault = error


class StateReader(Closing):
    """Reads topics of one cluster; a context manager. Threads may share it: one read waits for the other.

    Args:
        timeout_seconds: how long one request may take, and a read bring nothing.
        committed: False also shows records of aborted and of open transactions, as a read_uncommitted consumer sees.
        patience_seconds: how long a cluster may be silent, and leaders be on their move, before a question fails. By
            default no longer than whoever waits for the answer of a command likes. Who gives it, a run, does not
            believe that a topic does not exist before it was said twice.
        admin: the cluster's client where it is shared.
        pool: of the cluster's connections, which a read takes and gives back.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: from every method, as the cluster answers.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float = _REQUEST_SECONDS,
        committed: bool = True,
        patience_seconds: float | None = None,
        admin: SharedAdmin | None = None,
        pool: LinkPool | None = None,
    ) -> None:
        self._cluster = cluster
        self._pool = pool or LinkPool()
        self._be_patient(timeout_seconds, patience_seconds)
        self._admin = admin or SharedAdmin(cluster)
        self._connection = _Connection(cluster, committed)
        self._is_view = False

    def _be_patient(self, timeout_seconds: float, patience_seconds: float | None) -> None:
        self._timeout = timeout_seconds if patience_seconds is None else max(timeout_seconds, patience_seconds)
        self._sure = patience_seconds is not None
        self._patience = min(timeout_seconds, _PATIENCE_SECONDS) if patience_seconds is None else patience_seconds

    def with_patience(
        self, *, timeout_seconds: float = _REQUEST_SECONDS, patience_seconds: float | None = None
    ) -> StateReader:
        """A reader over the same connections that waits as long as is said here; closing it closes nothing."""
        view = copy.copy(self)
        view._be_patient(timeout_seconds, patience_seconds)
        view._is_view = True
        return view

    def close(self) -> None:
        if not self._is_view:
            self._connection.close()
            self._pool.close()

    def partitions(self, topic: str) -> int:
        """The topic's number of partitions, 0 when it does not exist."""
        with self._connection.lock:
            return self._partitions(topic, sure=False)

    def _partitions(self, topic: str, *, sure: bool) -> int:
        doing = f"describe topic {topic}"
        metadata = self._metadata(topic, doing, self._patience)
        if metadata.error is None:
            return len(metadata.partitions)
        if metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            if not sure and self._sure:
                # A broker that has just started may not know yet of a topic.
                time.sleep(_SETTLING_SECONDS)
                return self._partitions(topic, sure=True)
            return 0
        raise cluster_error(self._cluster, doing, metadata.error, Right("Describe", "topic", topic))

    def _metadata(self, topic: str, doing: str, patience_seconds: float) -> TopicMetadata:
        """What a broker says of a topic, its error included; for who holds the connection's lock."""
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                seconds = min(_ANSWER_SECONDS, self._timeout)
                asked = self._connection.consumer or self._admin.client
                described = asked.list_topics(topic, timeout=seconds)
            except KafkaException as error:
                refused = self._connection.last_fault is not None and is_final(self._connection.last_fault)
                if refused or time.monotonic() > deadline:
                    raise self._fault(doing, error) from error
            else:
                self._connection.known.add(topic)
                found: TopicMetadata = described.topics[topic]
                return found

    def offsets(
        self, topic: str, partitions: Iterable[int], spec: OffsetSpec, *, committed: bool = True
    ) -> dict[int, int]:
        """Earliest or latest offsets; the latest is the last stable offset, or the high watermark."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        wanted = set(partitions)
        out: dict[int, int] = {}
        deadline = time.monotonic() + self._patience
        while wanted:
            asked = {TopicPartition(topic, partition): spec for partition in wanted}
            try:
                answers = self._admin.list_offsets(asked, isolation, self._timeout)
                for place, answer in answers.items():
                    out[place.partition] = answer.result().offset
                    wanted.discard(place.partition)
            except KafkaException as error:
                found = kafka_error(error)
                silent = found is not None and found.code() == KafkaError._TIMED_OUT
                if not (silent or transient(error)) or time.monotonic() > deadline:
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
                raise held_by_transaction(self._cluster, topic, held[0], stable[held[0]], ends[held[0]])
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
        out: list[LogRecord] = []
        self._read(topic, starts, ends, out.append)
        return out

    def newest(self, topic: str, ends: Mapping[int, int]) -> dict[bytes, LogRecord]:
        """:func:`last_of_each_key` of what :meth:`read_by_markers` shows from the start on; the others are not held."""
        out: dict[bytes, LogRecord] = {}

        def take(record: LogRecord) -> None:
            assert record.key is not None
            out.pop(record.key, None)
            out[record.key] = record

        self.read_by_markers(topic, {}, ends, take)
        return out

    def read_by_markers(
        self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], take: Callable[[LogRecord], None]
    ) -> None:
        """Pass ``take`` what :meth:`read` returns, of a transactional topic: its markers decide what was aborted,
        since a broker's list of aborted transactions may lack some (docs/adr/0008).

        Records have no timestamp (-1), and those without a key are left out.

        Args:
            starts: as :meth:`read` takes them.
            ends: as :meth:`offsets` or :meth:`stable_ends` lists them; only these partitions are read.
        """

        def look(partition: int, batch: SourceBatch) -> None:
            first, end = starts.get(partition, 0), ends[partition]
            for offset, key, value, headers in read_plain_records(batch):
                if key and first <= offset < end:
                    take(LogRecord(partition, offset, key, value, -1, headers))

        if ends:
            self._read_batches(topic, starts, ends, look)

    def _read_batches(
        self,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        look: Callable[[int, SourceBatch], None],
        committed: bool = True,
    ) -> None:
        # Not at the top: most readers do without kafka-python.
        from srm_common.kafka.client.link import ClusterLink
        from srm_common.kafka.log.committed_log import read_committed

        with ClusterLink(self._cluster.of_client(Client.CONSUMER), part="state", pool=self._pool) as link:

            async def work() -> None:
                await link.open([topic], self._timeout)
                await read_committed(
                    link, topic, ends, look, patience_seconds=self._timeout, starts=starts, committed=committed
                )

            link.run(work)

    def _read(
        self,
        topic: str,
        starts: Mapping[int, int] | None,
        ends: Mapping[int, int] | None,
        take: Callable[[LogRecord], None],
    ) -> None:
        if ends is None:
            ends = self.offsets(topic, range(self.partitions(topic)), LATEST)
        consumer = self._connection.consumer
        if consumer is None:

            def look(partition: int, batch: SourceBatch) -> None:
                first, end = (starts or {}).get(partition, 0), ends[partition]
                for offset, key, value, timestamp_ms in timed_records(batch):
                    if first <= offset < end:
                        take(LogRecord(partition, offset, key, value, timestamp_ms))

            self._read_batches(topic, starts or {}, ends, look, self._connection.committed)
            return
        earliest = self.offsets(topic, ends, EARLIEST)
        open_ends: dict[int, int] = {}
        places = []
        for partition, end in ends.items():
            start = max(earliest[partition], (starts or {}).get(partition, 0))
            if start < end:
                open_ends[partition] = end
                places.append(TopicPartition(topic, partition, start))
        if places:
            with self._connection.lock:
                self._consume(consumer, topic, places, open_ends, take)

    def _consume(
        self,
        consumer: Consumer,
        topic: str,
        places: list[TopicPartition],
        open_ends: dict[int, int],
        take: Callable[[LogRecord], None],
    ) -> None:
        doing = f"read topic {topic}"
        positions = {one.partition: one.offset for one in places}
        again = _TIMES_AGAIN
        try:
            if topic not in self._connection.known:
                self._metadata(topic, doing, self._timeout)
            consumer.assign(places)
            heard = time.monotonic()
            while open_ends:
                messages = consumer.consume(_BATCH, _POLL_SECONDS)
                if messages:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self._timeout:
                    raise self._silence(doing)
                for message in messages:
                    error, partition, offset = message.error(), message.partition(), message.offset()
                    if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                        # The client looks for its group's coordinator, although nothing joins it: no permission is
                        # needed.
                        continue
                    if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET and again:
                        # Retention has taken the beginning since it was listed, or a broker is behind what was listed.
                        again -= 1
                        time.sleep(_AGAIN_SECONDS)
                        earliest = self.offsets(topic, open_ends, EARLIEST)
                        positions = {one: max(positions[one], earliest[one]) for one in open_ends}
                        open_ends = {one: end for one, end in open_ends.items() if positions[one] < end}
                        consumer.assign([TopicPartition(topic, one, positions[one]) for one in open_ends])
                        break
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise cluster_error(self._cluster, doing, error, Right("Read", "topic", topic))
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
                    take(LogRecord(partition, offset, message.key(), message.value(), message.timestamp()[1] or 0))
                    positions[partition] = offset + 1
                    if offset + 1 == open_ends[partition]:
                        del open_ends[partition]
            consumer.unassign()
        except KafkaException as error:
            raise self._fault(doing, error) from error

    def _fault(self, doing: str, error: KafkaException) -> Exception:
        """The callback knows the reason (a refused login) where the call only says that it timed out."""
        found = kafka_error(error)
        if found is not None and found.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            return cluster_error(self._cluster, doing, self._connection.last_fault or error)
        return cluster_error(self._cluster, doing, error)

    def _silence(self, doing: str) -> Exception:
        if self._connection.last_fault is not None:
            return cluster_error(self._cluster, doing, self._connection.last_fault)
        return UnreachableCluster(
            f"cluster '{self._cluster.alias}' ({self._cluster.bootstrap_servers}) sent nothing for "
            f"{self._timeout:.0f} s in response to a request to {doing}; check the addresses and the network"
        )


def held_by_transaction(
    cluster: ClusterSettings, topic: str, partition: int, stable: int, end: int
) -> StateUnavailable:
    """State that an open transaction hides from ``stable`` on."""
    return StateUnavailable(
        f"{topic}-{partition} on cluster '{cluster.alias}' cannot be read beyond offset {stable} of {end}, because an "
        f"open transaction holds it; run again when that has ended or timed out (kafka-transactions.sh "
        f"--bootstrap-server {cluster.bootstrap_servers} find-hanging --topic {topic} --partition {partition} names it)"
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
