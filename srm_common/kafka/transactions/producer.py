"""A producer identity on the target: epochs, sequences, transactions. No batching, no retries of data: those belong to
the chunk that uses it.

Rules (KIP-98, KIP-360, KIP-890; measured codes in docs/adr): taking ownership is InitProducerId without an epoch and
belongs to the driver alone. A task uses what it was given, and after an uncertain answer may bump only its own epoch,
which the broker refuses once a newer owner has fenced it. 47 and 90 are final unless that bump succeeds (the
transaction had merely timed out).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, Fenced
from srm_common.kafka.client.library import AddPartitionsToTxnRequest, EndTxnRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.producer_ids import FencedAfterRepeat, init_producer

_ADD_VERSION = 3
_END_VERSION, _END_VERSION_2 = 3, 5
#: Without a transaction, or before ``transaction.version`` 2; and with version 2. 10 and 11 have nothing that is used
#: here, and every broker of a cluster that is being upgraded knows 9.
IDEMPOTENT_PRODUCE_VERSION, _PRODUCE_VERSION_2 = 9, 12
#: After a commit the coordinator still writes markers; asking again this soon costs least. Where a leader is down they
#: take as long as the next election, so the pauses grow.
_CONCURRENT_PAUSE_SECONDS, _LONGEST_CONCURRENT_PAUSE_SECONDS = 0.003, 0.1
_MOVED_PAUSE_SECONDS = 0.05
SEQUENCE_MASK = 0x7FFFFFFF


class UncertainCommit(Exception):
    """It is unknown whether a transaction was committed; only the committed offsets show it."""


class Producer:
    """Sequences and transactions of one identity.

    Args:
        link: the target cluster.
        identity: what the driver handed out; None for an idempotent producer without transactions.
        transactions_v2: the target's finalized ``transaction.version`` is 2 or higher.
    """

    def __init__(
        self,
        link: ClusterLink,
        identity: ProducerIdentity | None,
        *,
        transactions_v2: bool,
        transaction_timeout_ms: int,
        retry_seconds: float,
    ) -> None:
        self._link = link
        self.transactional_id = None if identity is None else identity.transactional_id
        self.producer_id = -1 if identity is None else identity.producer_id
        self.epoch = -1 if identity is None else identity.epoch
        self._v2 = transactions_v2 and identity is not None
        self._timeout_ms = transaction_timeout_ms
        self._retry_seconds = retry_seconds
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._added: set[TopicPartition] = set()
        #: A transaction may be open that must not simply be ended.
        self._in_doubt = False
        #: A request to commit may still arrive, and commit the next transaction of this epoch.
        self._commit_on_its_way = False

    @property
    def transactional(self) -> bool:
        """Whether chunks are transactions."""
        return self.transactional_id is not None

    @property
    def identity(self) -> ProducerIdentity | None:
        """The identity for the process that continues after this one, None when it must not be used again.

        With transaction.version 2 each commit hands out a fresh epoch. Otherwise sequences of the epoch are used up,
        and starting at 0 again would look like a repetition: the broker answers with success and stores nothing.
        """
        if self.transactional_id is None or self._sequences or self._in_doubt:
            return None
        return ProducerIdentity(self.transactional_id, self.producer_id, self.epoch)

    def take(self, partition: TopicPartition, records: int) -> int:
        """The base sequence for the next ``records`` records of a partition."""
        sequence = self._sequences[partition]
        self._sequences[partition] = (sequence + records) & SEQUENCE_MASK
        return sequence

    async def start(self) -> None:
        """Get a producer id for an idempotent producer; nothing to do for a transactional one."""
        if not self.transactional:
            await self.renew()

    @property
    def produce_version(self) -> int:
        """The version in which data is sent."""
        return _PRODUCE_VERSION_2 if self._v2 else IDEMPOTENT_PRODUCE_VERSION

    @property
    def joins_by_produce(self) -> bool:
        """Whether a partition joins a transaction by its first Produce (``transaction.version`` 2). That one is refused
        with CONCURRENT_TRANSACTIONS while the transaction before is being completed."""
        return self._v2

    @property
    def aborts_by_request(self) -> bool:
        """Whether an open transaction must be aborted before the epoch can be bumped (``transaction.version`` < 2).

        Such a coordinator takes the bump of an open transaction for a new owner's, and fences the caller itself.
        """
        return self.transactional and not self._v2

    async def renew(self, *, answered: bool = False, deadline: float | None = None) -> None:
        """Start over after a failed chunk: an open transaction is aborted, sequences begin at 0.

        Args:
            answered: no request of the chunk can reach a broker any more. Only then may a coordinator of
                ``transaction.version`` < 2 be asked to abort: a batch that arrives after the marker would be stored,
                and committed with the next transaction. Otherwise this ends in ``Fenced``, which is safe: the driver
                fences and hands out a new epoch.
            deadline: for the whole call, in monotonic seconds; by default ``retry_seconds`` from now.

        Raises:
            Fenced: a newer owner exists, or the epoch cannot be bumped; final.
        """
        keeps = self.transactional
        deadline = self._deadline() if deadline is None else deadline
        if self.aborts_by_request and answered:
            await self._abort(deadline)
        self.producer_id, self.epoch = await init_producer(
            self._link,
            self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id if keeps else -1,
            epoch=self.epoch if keeps else -1,
            deadline=deadline,
        )
        self._commit_on_its_way = False
        self._sequences.clear()
        self._added.clear()

    async def end_empty(self, partitions: Iterable[TopicPartition], *, deadline: float) -> bool:
        """Abort an empty transaction over ``partitions``: its markers end whatever this producer has open there.

        Uses the requests of ``transaction.version`` 0, which every broker accepts: only they name partitions without
        writing to them. From the first of them on the transaction may be open, and the commit of other records would
        commit those partitions, too. So each is repeated with the same epoch until it is answered; coordinator and log
        take the repetitions for one request. Without an answer, this producer must not be used any more.

        Args:
            deadline: for the whole call, in monotonic seconds.

        Returns:
            Whether it happened; False where the coordinator refused the partitions, so that nothing was begun.

        Raises:
            Fenced: a newer owner exists.
            UncertainCommit: it may not have happened, or not completely; the slot must end.
            UnreachableCluster: it happened, but the epoch could not be renewed.
        """
        async with self._first_version():
            if not await self._begin(partitions, deadline):
                return False
            if not await self._abort(deadline):
                raise UncertainCommit(
                    f"{self.transactional_id}: there was no response to the abort of an empty transaction"
                )
        await self.renew(answered=True, deadline=deadline)
        return True

    async def commit_with(
        self, partitions: Iterable[TopicPartition], write: Callable[[], Awaitable[None]], *, deadline: float
    ) -> None:
        """Commit a transaction over ``partitions`` with what ``write`` produces to some of them: its markers commit
        whatever this producer has open in the others. Uses the same requests as :meth:`end_empty`.

        Raises:
            Fenced: a newer owner exists.
            UncertainCommit: all of it happened, or nothing; the slot must end.
            RetriableFault, UnreachableCluster: the same, from ``write`` and from the renewal of the epoch.
        """
        async with self._first_version():
            if not await self._begin(partitions, deadline):
                raise UncertainCommit(f"{self.transactional_id}: the coordinator refused the partitions")
            await write()
            await self.commit(deadline)
        await self.renew(deadline=deadline)

    @asynccontextmanager
    async def _first_version(self) -> AsyncIterator[None]:
        """Requests of ``transaction.version`` 0 inside. After an error, the producer stays in doubt."""
        newer, self._v2 = self._v2, False
        self._in_doubt = True
        try:
            yield
        finally:
            self._v2 = newer
        self._in_doubt = False

    async def _begin(self, partitions: Iterable[TopicPartition], deadline: float) -> bool:
        """Add ``partitions`` to a transaction; False where that was refused and certainly not carried out."""
        places = sorted(set(partitions))
        asked = 0
        while True:
            asked += 1
            try:
                refused = await self.add(places, deadline)
            except RetriableFault as error:
                fault = str(error)
                self._link.forget_coordinator(self.transactional_id or "")
            else:
                if not refused:
                    return True
                if asked == 1:
                    return False
                fault = codes.name(min(refused.values()))
            if time.monotonic() > deadline:
                raise UncertainCommit(
                    f"{self.transactional_id}: cannot tell whether a transaction over {places[0][0]}-{places[0][1]} "
                    f"was begun: {fault}"
                )
            await self._link.loop.sleep(_MOVED_PAUSE_SECONDS)
            await self._link.refresh()

    def _deadline(self) -> float:
        return time.monotonic() + self._retry_seconds

    async def _abort(self, deadline: float) -> bool:
        """Abort the open transaction; False when no definite answer came before ``deadline``."""
        asked, pause = False, _CONCURRENT_PAUSE_SECONDS
        while not asked or time.monotonic() < deadline:
            asked = True
            try:
                answer = await self._link.send(
                    await self._link.coordinator(self.transactional_id or ""), self._end(committed=False)
                )
            except RetriableFault:
                self._link.forget_coordinator(self.transactional_id or "")
                await self._link.loop.sleep(_MOVED_PAUSE_SECONDS)
                await self._link.refresh()
                continue
            code = answer.error_code
            if code in codes.COORDINATOR_MOVES:
                self._link.forget_coordinator(self.transactional_id or "")
                await self._link.loop.sleep(_MOVED_PAUSE_SECONDS)
            elif code == codes.CONCURRENT_TRANSACTIONS:
                pause = await self._wait_for_markers(pause)
            else:
                # Aborted; or there was none (INVALID_TXN_STATE); or the bump that follows shows what is wrong.
                return True
        return False

    async def _wait_for_markers(self, seconds: float) -> float:
        """Pause while the coordinator completes a transaction; returns the length of the next pause."""
        await self._link.loop.sleep(seconds)
        return min(2 * seconds, _LONGEST_CONCURRENT_PAUSE_SECONDS)

    def _end(self, *, committed: bool) -> Any:
        return EndTxnRequest(
            version=_END_VERSION_2 if self._v2 else _END_VERSION,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    async def add(
        self, partitions: Iterable[TopicPartition], deadline: float | None = None
    ) -> dict[TopicPartition, int]:
        """Add partitions to the transaction before their first Produce; returns the error codes of those refused.

        Args:
            deadline: how long a coordinator that is busy or moves is asked again, in monotonic seconds; by default
                ``retry_seconds`` from now.

        Raises:
            Fenced: the epoch is no longer ours.
            UnreachableCluster: the epoch could not be renewed.
            RetriableFault: the coordinator did not respond, or not for all; the chunk must be started over.
        """
        if not self.transactional or self._v2:
            return {}
        new = sorted(set(partitions) - self._added)
        if not new:
            return {}
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in new:
            by_topic[topic].append(partition)
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        deadline = self._deadline() if deadline is None else deadline
        if self._commit_on_its_way:
            await self.renew(deadline=deadline)
        pause = _CONCURRENT_PAUSE_SECONDS
        while True:
            node = await self._link.coordinator(self.transactional_id or "")
            answer = await self._link.send(
                node,
                AddPartitionsToTxnRequest(
                    version=_ADD_VERSION,
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.epoch,
                    v3_and_below_topics=[kind(name=t, partitions=p) for t, p in by_topic.items()],
                ),
            )
            results = {
                TopicPartition(topic.name, part.partition_index): part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            }
            if missing := [one for one in new if one not in results]:
                # Brokers mention all of them. One that was not added would get no marker.
                place = f"{missing[0].topic}-{missing[0].partition}"
                raise RetriableFault(f"{self.transactional_id}: the coordinator does not say whether it added {place}")
            refused = {one: code for one, code in results.items() if code}
            if not refused:
                self._added.update(new)
                return {}
            found = set(refused.values())
            if found & codes.FENCED:
                raise Fenced(
                    f"the producer {self.transactional_id} was fenced: {codes.name(min(found & codes.FENCED))}"
                )
            if found & codes.COORDINATOR_MOVES:
                self._link.forget_coordinator(self.transactional_id or "")
                await self._link.loop.sleep(_MOVED_PAUSE_SECONDS)
            elif found == {codes.CONCURRENT_TRANSACTIONS}:
                pause = await self._wait_for_markers(pause)
            else:
                return {one: code for one, code in refused.items() if code != codes.OPERATION_NOT_ATTEMPTED}
            if time.monotonic() > deadline:
                raise RetriableFault(f"the coordinator of {self.transactional_id} stays busy: {codes.name(min(found))}")

    async def commit(self, deadline: float | None = None) -> bool:
        """End the transaction with a commit. Every Produce of it must have been acknowledged.

        A request whose answer was lost is repeated with the same epoch, which the coordinator recognises. True when
        that was necessary. As the first one may still arrive, the next transaction has another epoch (KIP-890).

        Args:
            deadline: when to give up, in monotonic seconds; by default ``retry_seconds`` from now.

        Raises:
            UncertainCommit: no definite answer.
            ClusterError: the request was not sent.
        """
        if not self.transactional:
            return False
        deadline = self._deadline() if deadline is None else deadline
        asked, pause, sent = 0, _CONCURRENT_PAUSE_SECONDS, False
        while True:
            asked += 1
            try:
                node = await self._link.coordinator(self.transactional_id or "")
                sent = True
                answer = await self._link.send(node, self._end(committed=True))
            except ClusterError as error:
                if sent:
                    raise UncertainCommit(f"{self.transactional_id}: {error}") from error
                raise
            except RetriableFault as error:
                self._commit_on_its_way |= sent and not self._v2
                self._link.forget_coordinator(self.transactional_id or "")
                if time.monotonic() > deadline:
                    raise UncertainCommit(f"{self.transactional_id}: {error}") from error
                await self._link.loop.sleep(_MOVED_PAUSE_SECONDS)
                await self._link.refresh()
                continue
            code = answer.error_code
            if code == codes.NONE:
                break
            if code in codes.ENDED_ELSEWHERE and asked == 1:
                raise Fenced(f"the producer {self.transactional_id} was fenced: {codes.name(code)}")
            moves = code in codes.COORDINATOR_MOVES
            # For these a chunk is redone, but a commit is not: a coordinator that was down for longer than the
            # transaction's timeout aborts it when it comes back, and answers INVALID_TXN_STATE each time.
            final = code in codes.REDO_CHUNK or not codes.retriable(code)
            if final or time.monotonic() > deadline:
                raise UncertainCommit(f"{self.transactional_id}: {codes.name(code)}")
            if moves:
                self._link.forget_coordinator(self.transactional_id or "")
                await self._link.loop.sleep(_MOVED_PAUSE_SECONDS)
            else:
                pause = await self._wait_for_markers(pause)
        if self._v2:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self._sequences.clear()
            self.producer_id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
        self._added.clear()
        return asked > 1


__all__ = ["FencedAfterRepeat", "Producer", "UncertainCommit", "init_producer"]
