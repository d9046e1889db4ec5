"""Reading state topics from a position to their end, read_committed.

A read ends at the last stable offset as of its start. State can be trusted only if that is also the high watermark: an
open transaction hides everything committed after its first record.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.runs.open_transaction import find_hanging
from srm_common.errors import ClusterError, CorruptBatch, PartitionError, StateUnavailable
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.faults import cluster_error
from srm_common.kafka.client.librdkafka import KafkaError
from srm_common.kafka.client.links.link import EARLIEST, LATEST, ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.log.committed_log import log_offsets, read_between
from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.state.plain_records import read_plain_records, timed_records

T = TypeVar("T")

_REQUEST_SECONDS = 30.0
_PAUSE_SECONDS = 0.05
_SETTLING_SECONDS = 1.0
#: A run reads the same few topics several times at its beginning.
_AGREED_SECONDS = 10.0
#: How long a cluster may be silent, or a leader election take, where the caller does not say.
_PATIENCE_SECONDS = 10.0


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


class StateReader(Closing):
    """Reads topics of one cluster; a context manager. Threads may share it.

    Args:
        timeout_seconds: how long one request may take, and how long a read may return nothing.
        committed: False also shows records of aborted and of open transactions, as a read_uncommitted consumer sees.
        patience_seconds: how long a cluster may be silent, or leader elections take, before a call fails. By default no
            longer than the user of a command should wait. With it, as in a run, a topic counts as missing only when
            the cluster said so twice.
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
        pool: LinkPool | None = None,
    ) -> None:
        self._cluster = cluster
        self._committed = committed
        self._pool, self._owns_pool = pool or LinkPool(), pool is None
        self._be_patient(timeout_seconds, patience_seconds)
        #: The link of a session.
        self._held: ClusterLink | None = None

    def _be_patient(self, timeout_seconds: float, patience_seconds: float | None) -> None:
        self._timeout = timeout_seconds if patience_seconds is None else max(timeout_seconds, patience_seconds)
        self._sure = patience_seconds is not None
        self._patience = min(timeout_seconds, _PATIENCE_SECONDS) if patience_seconds is None else patience_seconds

    def with_patience(
        self, *, timeout_seconds: float = _REQUEST_SECONDS, patience_seconds: float | None = None
    ) -> StateReader:
        """A reader over the same connections with these time limits; closing it closes nothing."""
        view = copy.copy(self)
        view._be_patient(timeout_seconds, patience_seconds)
        view._owns_pool = False
        return view

    def close(self) -> None:
        if self._owns_pool:
            self._pool.close()

    @contextmanager
    def session(self) -> Iterator[StateReader]:
        """A reader for calls that belong together, for one thread: they use one link, which looks up the leaders of a
        topic once, and again when they have moved. Numbers of partitions are always requested."""
        if self._held is not None:
            yield self
            return
        view = copy.copy(self)
        view._owns_pool = False
        with self._link() as view._held:
            yield view

    def partitions(self, topic: str) -> int:
        """The topic's number of partitions, 0 when it does not exist."""
        with self._link() as link:
            if link.opened:
                link.run(lambda: link.know([topic]))
            else:
                link.run(lambda: link.open([topic], self._patience))
            if self._sure:
                link.run(lambda: link.agree(unless_within_seconds=_AGREED_SECONDS))
            found = self._numbers(link, topic)
            if not found and self._sure:
                # A broker that has just started may not know the topic yet.
                time.sleep(_SETTLING_SECONDS)
                link.run(lambda: link.know([topic]))
                found = self._numbers(link, topic)
        return found

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The id of a topic (KIP-516), in a session as :meth:`partitions` has just found it; None where there is no
        such topic, or the cluster gives it no id."""
        with self._link() as link:
            found: uuid.UUID | None = link.manager.cluster.topic_id(topic)
        return found if found is not None and found.int else None

    def _numbers(self, link: ClusterLink, topic: str) -> int:
        cluster = link.manager.cluster
        if topic in cluster.unauthorized_topics:
            denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
            raise cluster_error(self._cluster, f"describe topic {topic}", denied, Right("Describe", "topic", topic))
        return len(cluster.partitions_for_topic(topic) or ())

    def offsets(self, topic: str, partitions: Iterable[int], at: int, *, committed: bool = True) -> dict[int, int]:
        """Offsets at EARLIEST, LATEST (the last stable offset, or the high watermark) or a timestamp in ms."""
        wanted = list(partitions)
        if not wanted:
            return {}

        async def ask() -> dict[int, int]:
            await link.open([topic], self._patience)
            return await log_offsets(link, topic, wanted, at, committed=committed, patience_seconds=self._patience)

        with self._link() as link:
            return self._run(link, f"list the offsets of topic {topic}", ask)

    def _run(self, link: ClusterLink, doing: str, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return link.run(work)
        except CorruptBatch:
            raise
        except (PartitionError, RetriableFault) as error:
            raise ClusterError(
                f"cluster '{self._cluster.alias}' ({self._cluster.bootstrap_servers}) could not {doing}: {error}"
            ) from error

    def _link(self) -> AbstractContextManager[ClusterLink]:
        if self._held is not None:
            return nullcontext(self._held)
        return ClusterLink(self._cluster.of_client(Client.CONSUMER), part="state", pool=self._pool)

    def stable_ends(self, topic: str, partitions: Iterable[int], within_seconds: float) -> dict[int, int]:
        """The ends of the partitions, once no open transaction holds any of them back.

        Raises:
            StateUnavailable: one is still held back after ``within_seconds``; names it.
        """
        wanted = list(partitions)
        deadline = time.monotonic() + within_seconds
        while True:
            # In this order, a write in between makes the two differ; they never agree by chance.
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
        self._read_records(topic, starts, ends, out.append)
        return out

    def last_records(
        self, topic: str, starts: Mapping[int, int] | None = None, ends: Mapping[int, int] | None = None
    ) -> dict[bytes, LogRecord]:
        """The current content of a compacted topic: the last record of each key that :meth:`read` returns, tombstones
        included, without null keys. They are in the order of the log; other records are not held in memory."""
        out: dict[bytes, LogRecord] = {}
        self._read_records(topic, starts, ends, partial(_put_last, out))
        return out

    def newest(self, topic: str, ends: Mapping[int, int]) -> dict[bytes, LogRecord]:
        """As :meth:`last_records`, of what :meth:`read_by_markers` shows from the start on."""
        out: dict[bytes, LogRecord] = {}
        self.read_by_markers(topic, {}, ends, partial(_put_last, out))
        return out

    def _read_records(
        self,
        topic: str,
        starts: Mapping[int, int] | None,
        ends: Mapping[int, int] | None,
        take: Callable[[LogRecord], object],
    ) -> None:
        """Pass to ``take`` what :meth:`read` returns."""
        if ends is None:
            with self.session() as reader:
                present = reader.offsets(topic, range(reader.partitions(topic)), LATEST)
                reader._read_records(topic, starts, present, take)
            return

        def look(partition: int, batch: SourceBatch, first: int) -> None:
            for offset, key, value, timestamp_ms in timed_records(batch):
                if first <= offset < ends[partition]:
                    take(LogRecord(partition, offset, key, value, timestamp_ms))

        self._read_batches(topic, starts or {}, ends, look)

    def read_by_markers(
        self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], take: Callable[[LogRecord], None]
    ) -> None:
        """Pass to ``take`` what :meth:`read` returns for a transactional topic: its markers decide what was aborted,
        since a broker's list of aborted transactions may lack some (docs/adr/0008).

        Records have no timestamp (-1), and those without a key are left out.

        Args:
            starts: as :meth:`read` takes them.
            ends: as :meth:`offsets` or :meth:`stable_ends` lists them; only these partitions are read.
        """

        def look(partition: int, batch: SourceBatch, first: int) -> None:
            for offset, key, value, headers in read_plain_records(batch):
                if key and first <= offset < ends[partition]:
                    take(LogRecord(partition, offset, key, value, -1, headers))

        self._read_batches(topic, starts, ends, look)

    def _read_batches(
        self,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        look: Callable[[int, SourceBatch, int], None],
    ) -> None:
        """``look`` is called with a partition, a batch, and the first requested offset of the partition."""
        ends = {partition: end for partition, end in ends.items() if starts.get(partition, 0) < end}
        if not ends:
            return

        async def work() -> None:
            await link.open([topic], self._timeout)
            begin = await log_offsets(link, topic, list(ends), EARLIEST, committed=True, patience_seconds=self._timeout)
            first = {partition: max(offset, starts.get(partition, 0)) for partition, offset in begin.items()}
            await read_between(
                link,
                topic,
                first,
                ends,
                look,
                patience_seconds=self._timeout,
                committed=self._committed,
            )

        with self._link() as link:
            self._run(link, f"read topic {topic}", work)


def held_by_transaction(
    cluster: ClusterSettings, topic: str, partition: int, stable: int, end: int
) -> StateUnavailable:
    """State that an open transaction hides from ``stable`` on."""
    return StateUnavailable(
        f"{topic}-{partition} on cluster '{cluster.alias}' cannot be read beyond offset {stable} of {end}, because an "
        f"open transaction holds it; run again when that has ended or timed out "
        f"({find_hanging(cluster.bootstrap_servers, topic, partition)} names it)"
    )


def _put_last(out: dict[bytes, LogRecord], record: LogRecord) -> None:
    if record.key is not None:
        out.pop(record.key, None)
        out[record.key] = record
