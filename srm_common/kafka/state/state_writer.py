"""Writes records to state topics, outside the copy's transactions, a batch at a time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import NoReturn

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.state_topics import batch_too_large, time_refused
from srm_common.errors import AccessDenied, ClusterError, SrmError, UnreachableCluster
from srm_common.kafka.client.library import ProduceRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.transactions.producer import IDEMPOTENT_PRODUCE_VERSION, SEQUENCE_MASK, init_producer
from srm_common.wire.batches import codec
from srm_common.wire.batches.batch import stamp
from srm_common.wire.state.plain_records import Entry, NewRecord, in_batches, plain_records
from srm_common.wire.varints import Buffer

WRITE_SECONDS = 30.0
#: The size of a batch before compression, which makes it much smaller than a broker's default limit.
_BATCH_BYTES = 512 << 10
_PAUSE_SECONDS = 0.1
#: For transactions that are never begun.
_TRANSACTION_TIMEOUT_MS = 60_000
#: Has Zstandard (KIP-110).
_OLDEST_PRODUCE_VERSION = 7
#: Answers by which a batch is stored: just now, or when it was sent before.
_STORED = frozenset({codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER})


class _Identity:
    """A producer id, and the sequences that were taken under it."""

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences: dict[TopicPartition, int] = defaultdict(int)

    def take(self, home: TopicPartition, records: int) -> int:
        """The base sequence for the next records of a partition."""
        sequence = self._sequences[home]
        self._sequences[home] = (sequence + records) & SEQUENCE_MASK
        return sequence


class StateWriter:
    """Writes to one cluster and keeps each partition's records in order; threads may share it.

    Args:
        timeout_seconds: how long the cluster may take to confirm a write, and to be reachable for it.
        repeats_matter: whether it matters that a record is in the log twice in a row. Where it does not, the producer
            is not idempotent, which saves its first write the request for a producer id.
        pool: of the cluster's connections, which a write takes and gives back.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float = WRITE_SECONDS,
        repeats_matter: bool = True,
        pool: LinkPool | None = None,
    ) -> None:
        self._cluster = cluster.of_client(Client.PRODUCER)
        self._timeout = timeout_seconds
        self._repeats_matter = repeats_matter
        self._pool = pool
        self._lock = threading.Lock()
        self._identity: _Identity | None = None

    def write(self, doing: str, records: Iterable[NewRecord]) -> int:
        """Write all of them, each partition's in order; returns when all in-sync replicas have them.

        Args:
            doing: what is being done, for errors, e.g. ``"write checkpoints"``.

        Returns:
            How many were written.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: at least one was not confirmed.
        """
        homes: dict[TopicPartition, list[NewRecord]] = defaultdict(list)
        for record in records:
            homes[TopicPartition(record.topic, record.partition)].append(record)
        if not homes:
            return 0
        # Sequences arrive in the order in which they were taken.
        with self._lock if self._repeats_matter else nullcontext():
            try:
                limit_ms = int(self._timeout * 1000)
                with ClusterLink(self._cluster, part="writer", at_most_ms=limit_ms, pool=self._pool) as link:
                    link.run(lambda: self._write(link, doing, homes, time.monotonic() + self._timeout))
            except BaseException:
                # The fate of the last batch is unknown: its sequence must not be used for another one.
                self._identity = None
                raise
        return sum(map(len, homes.values()))

    async def _write(
        self, link: ClusterLink, doing: str, homes: dict[TopicPartition, list[NewRecord]], deadline: float
    ) -> None:
        await link.open({topic for topic, _ in homes}, self._timeout)
        if self._repeats_matter and self._identity is None:
            self._identity = _Identity(
                *await init_producer(
                    link,
                    None,
                    transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                    producer_id=-1,
                    epoch=-1,
                    deadline=deadline,
                )
            )

        async def write_to(home: TopicPartition, ones: list[NewRecord]) -> SrmError | None:
            try:
                for timestamp_ms, entries in _by_time(ones):
                    for some in in_batches(entries, _BATCH_BYTES):
                        await self._store(link, doing, home, some, timestamp_ms, deadline)
            except SrmError as error:
                return error
            return None

        # Partitions do not wait for each other, however slow the cluster is.
        futures = [link.loop.call_soon_with_future(write_to, home, ones) for home, ones in homes.items()]
        faults = [fault for future in futures if (fault := await future) is not None]
        if faults:
            raise faults[0]

    async def _store(
        self,
        link: ClusterLink,
        doing: str,
        home: TopicPartition,
        entries: Sequence[Entry],
        timestamp_ms: int,
        deadline: float,
    ) -> None:
        identity = self._identity if self._repeats_matter else None
        body = codec.compress(codec.ZSTD, plain_records(entries))
        header = stamp(
            attributes=codec.ZSTD,
            last_offset_delta=len(entries) - 1,
            base_timestamp=timestamp_ms,
            max_timestamp=timestamp_ms,
            record_count=len(entries),
            body=body,
            producer_id=-1 if identity is None else identity.producer_id,
            producer_epoch=-1 if identity is None else identity.epoch,
            base_sequence=-1 if identity is None else identity.take(home, len(entries)),
        )
        while True:
            leader = link.leader(*home)
            try:
                if leader is None:
                    raise link.leaderless(*home)
                code = await self._send(link, leader, home, header, body)
                if code in _STORED:
                    return
                fault = codes.name(code)
                if code in codes.DENIED:
                    self._refuse(doing, home, fault)
                if code == codes.MESSAGE_TOO_LARGE:
                    too_large = batch_too_large(home.topic, self._cluster.alias, len(header) + len(body))
                    raise ClusterError(f"{self._place} could not {doing}: {too_large}")
                if code == codes.INVALID_TIMESTAMP:
                    why = time_refused(home.topic, self._cluster.alias)
                    raise ClusterError(f"{self._place} could not {doing}: {why}")
                # A log that has lost records of this producer refuses all further ones, however often they are sent.
                if code in codes.REDO_CHUNK or not codes.retriable(code):
                    raise ClusterError(f"{self._place} could not {doing}: {home.topic}-{home.partition}: {fault}")
            except AccessDenied:
                raise
            except (RetriableFault, SrmError) as error:
                if not isinstance(error, RetriableFault) and leader is not None:
                    raise
                fault = str(error)
            if time.monotonic() > deadline:
                raise UnreachableCluster(f"{self._place} did not acknowledge in time: {doing}: {fault}")
            await link.loop.sleep(_PAUSE_SECONDS)
            await link.refresh()

    async def _send(self, link: ClusterLink, leader: int, home: TopicPartition, *batch: Buffer) -> int:
        """Send one batch; the leader's error code. The source, which gets offset syncs, may be older than 2.8."""
        timeout_ms = int(self._timeout * 1000)
        await link.connect(leader)
        if link.takes(leader, ApiKey.PRODUCE, IDEMPOTENT_PRODUCE_VERSION):
            topics: dict[str, list[tuple[int, Sequence[Buffer]]]] = {home.topic: [(home.partition, batch)]}
            answer = await link.send(leader, RawProduce(IDEMPOTENT_PRODUCE_VERSION, None, timeout_ms, topics))
            return int(answer.partitions[0].error_code)
        topic = ProduceRequest.TopicProduceData
        part = topic.PartitionProduceData(index=home.partition, records=b"".join(batch))
        answer = await link.send(
            leader,
            ProduceRequest(
                min_version=_OLDEST_PRODUCE_VERSION,
                max_version=IDEMPOTENT_PRODUCE_VERSION,
                transactional_id=None,
                acks=-1,
                timeout_ms=timeout_ms,
                topic_data=[topic(name=home.topic, partition_data=[part])],
            ),
        )
        stored = {(topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses}
        if home not in stored:
            raise RetriableFault(f"a broker of {link.alias} left {home.topic}-{home.partition} out of its response")
        return int(stored[home].error_code)

    def _refuse(self, doing: str, home: TopicPartition, fault: str) -> NoReturn:
        needs = Right("Write", "topic", home.topic)
        raise AccessDenied(f"{self._place} refused to {doing}: {fault}; {needs.missing(self._cluster)}")

    @property
    def _place(self) -> str:
        return f"cluster '{self._cluster.alias}' ({self._cluster.bootstrap_servers})"


def _by_time(records: list[NewRecord]) -> Iterable[tuple[int, list[Entry]]]:
    """Runs of records of the same time, which the records of a batch share here."""
    now_ms = int(time.time() * 1000)
    run: list[Entry] = []
    at = None
    for record in records:
        stamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        if run and stamp_ms != at:
            yield at or 0, run
            run = []
        at = stamp_ms
        run.append((record.key, record.value, record.headers))
    if run:
        yield at or 0, run
