"""Writes records of state topics by kafka-python, where librdkafka cannot log in (docs/adr/0020), a batch at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NoReturn

from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, ClusterError, SrmError, UnreachableCluster
from srm_common.kafka.client import codes
from srm_common.kafka.client.frames import RawProduce
from srm_common.kafka.client.link import ClusterLink, RetriableFault
from srm_common.kafka.transactions.producer import Producer
from srm_common.wire import codec
from srm_common.wire.batch import stamp
from srm_common.wire.plain_records import Entry, NewRecord, in_batches, plain_records

#: Of a batch without compression; with it far below a broker's default limit.
_BATCH_BYTES = 512 << 10
_REACH_SECONDS = 15.0
_PAUSE_SECONDS = 0.1
#: Answers that tell that a batch is stored: just now, or when it was sent before.
_STORED = frozenset({codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER})


class LinkWriter:
    """One writer of one cluster; threads take turns (the caller sees to it).

    ``timeout_seconds`` is how long the cluster may take to confirm a write; ``repeats_matter`` as the
    :class:`~srm_common.kafka.state.state_writer.StateWriter` has it.
    """

    def __init__(self, cluster: ClusterSettings, *, timeout_seconds: float, repeats_matter: bool) -> None:
        self._cluster = cluster.of_client(Client.PRODUCER)
        self._timeout = timeout_seconds
        self._repeats_matter = repeats_matter
        self._link: ClusterLink | None = None
        self._producer: Producer | None = None

    def write(self, doing: str, records: Iterable[NewRecord]) -> int:
        """Write all of them, each partition's in order; returns how many when all in-sync replicas have them.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: at least one was not confirmed.
        """
        homes: dict[TopicPartition, list[NewRecord]] = defaultdict(list)
        for record in records:
            homes[TopicPartition(record.topic, record.partition)].append(record)
        if not homes:
            return 0
        link = self._link = self._link or ClusterLink(
            self._cluster, part="writer", at_most_ms=int(self._timeout * 1000)
        )
        deadline = time.monotonic() + self._timeout
        try:
            link.run(lambda: self._write(link, doing, homes, deadline))
        except SrmError:
            # What came of the last batch is not known: its sequence must not be used for another one.
            link.close()
            self._link = self._producer = None
            raise
        return sum(map(len, homes.values()))

    async def _write(
        self, link: ClusterLink, doing: str, homes: dict[TopicPartition, list[NewRecord]], deadline: float
    ) -> None:
        await link.open(timeout_seconds=min(self._timeout, _REACH_SECONDS))
        await link.track({topic for topic, _ in homes})
        if self._producer is None:
            producer = Producer(
                link, None, transactions_v2=False, transaction_timeout_ms=60_000, retry_seconds=self._timeout
            )
            if self._repeats_matter:
                await producer.start()
            self._producer = producer
        for home, ones in homes.items():
            for timestamp_ms, entries in _by_time(ones):
                for some in in_batches(entries, _BATCH_BYTES):
                    await self._store(link, self._producer, doing, home, some, timestamp_ms, deadline)

    async def _store(
        self,
        link: ClusterLink,
        producer: Producer,
        doing: str,
        home: TopicPartition,
        entries: Sequence[Entry],
        timestamp_ms: int,
        deadline: float,
    ) -> None:
        body = codec.compress(codec.ZSTD, plain_records(entries))
        header = stamp(
            attributes=codec.ZSTD,
            last_offset_delta=len(entries) - 1,
            base_timestamp=timestamp_ms,
            max_timestamp=timestamp_ms,
            record_count=len(entries),
            body=body,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.take(home, len(entries)) if self._repeats_matter else -1,
        )
        while True:
            leader = link.leader(*home)
            try:
                if leader is None:
                    raise link.leaderless(*home)
                request = RawProduce(
                    producer.produce_version,
                    None,
                    int(self._timeout * 1000),
                    {home.topic: [(home.partition, (header, body))]},
                )
                code = (await link.send(leader, request)).partitions[0].error_code
                if code in _STORED:
                    return
                fault = codes.name(code)
                if code in codes.DENIED:
                    self._refuse(doing, home, fault)
                # A log that lacks what this producer has written takes nothing more of it, however often.
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

    def __del__(self) -> None:
        # As librdkafka's: its connections end with the last reference.
        if self._link is not None:
            self._link.close()

    def _refuse(self, doing: str, home: TopicPartition, fault: str) -> NoReturn:
        needs = Right("Write", "topic", home.topic)
        raise AccessDenied(f"{self._place} refused to {doing}: {fault}; {needs.missing(self._cluster)}")

    @property
    def _place(self) -> str:
        return f"cluster '{self._cluster.alias}' ({self._cluster.bootstrap_servers})"


def _by_time(records: list[NewRecord]) -> Iterable[tuple[int, list[Entry]]]:
    """Runs of records of the same time: those of a batch share it here."""
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
