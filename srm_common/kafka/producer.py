"""A producer identity on the target: epochs, sequences, transactions. No batching, no retries of data: those belong to
the chunk that uses it.

Rules (KIP-98, KIP-360, KIP-890; measured codes in docs/adr): taking ownership is InitProducerId without an epoch and
belongs to the driver alone; a task spends what it was given, and after an uncertain answer may bump only its own
epoch, which a newer owner's fence makes the broker refuse. 47 and 90 are final unless that bump succeeds (the
transaction had merely timed out).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.errors import AccessDenied, ClusterError, ConfigError, Fenced, UnreachableCluster
from srm_common.kafka import codes
from srm_common.kafka.link import ClusterLink, Partition, RetriableFault

_INIT_VERSION, _ADD_VERSION = 4, 3
_END_VERSION, _END_VERSION_2 = 3, 5
#: 10 and 11 bring nothing that is used here; 9 is spoken by every broker of a cluster that is just being upgraded.
_PRODUCE_VERSION, _PRODUCE_VERSION_2 = 9, 12
#: After a commit the coordinator still writes markers; asking again this soon costs least.
_CONCURRENT_PAUSE_SECONDS = 0.003
_MOVED_PAUSE_SECONDS = 0.05
_SEQUENCE_MASK = 0x7FFFFFFF


class UncertainCommit(Exception):
    """Whether a transaction was committed is unknown; only reading the committed offsets tells."""


class FencedAfterRepeat(Fenced):
    """Refused, but the same request was sent before, and may have been carried out.

    A coordinator recognises the repetition of a bump, the next one after a move does not: the previous epoch is not
    in its log. So this may be the asker's own bump, whose answer was lost.
    """


async def init_producer(
    link: ClusterLink,
    transactional_id: str | None,
    *,
    transaction_timeout_ms: int,
    producer_id: int = -1,
    epoch: int = -1,
    deadline: float,
) -> tuple[int, int]:
    """InitProducerId until it is answered: (producer id, epoch).

    Without ``producer_id`` and ``epoch`` this takes ownership: an open transaction is aborted, older owners are
    refused from then on. With them it is the bump of KIP-360.

    Raises:
        Fenced: a newer owner exists; FencedAfterRepeat when it may be the asker itself.
        AccessDenied, ConfigError: a missing right; a transaction timeout above the broker's maximum.
        UnreachableCluster: no answer before ``deadline`` (monotonic seconds).
    """
    fault = "no answer"
    repeated = False
    while time.monotonic() < deadline:
        try:
            if transactional_id is None:
                node: Any = await link.any_node()
            else:
                node = await link.coordinator(transactional_id)
            answer = await link.send(
                node,
                InitProducerIdRequest(
                    version=_INIT_VERSION,
                    transactional_id=transactional_id,
                    transaction_timeout_ms=transaction_timeout_ms,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                ),
            )
        except RetriableFault as error:
            fault = str(error)
            repeated = True
            if transactional_id is not None:
                link.forget_coordinator(transactional_id)
            await link.loop.sleep(_MOVED_PAUSE_SECONDS)
            await link.refresh()
            continue
        code = answer.error_code
        if code == codes.NONE:
            return int(answer.producer_id), int(answer.producer_epoch)
        fault = codes.name(code)
        if code in codes.FENCED:
            kind = FencedAfterRepeat if repeated else Fenced
            raise kind(f"the producer {transactional_id} was fenced by a newer owner: {fault}")
        if code in codes.DENIED:
            raise AccessDenied(
                f"cluster {link.alias} does not allow the transactional id {transactional_id}: {fault}; "
                "grant DESCRIBE and WRITE on it"
            )
        if code == codes.INVALID_TRANSACTION_TIMEOUT:
            raise ConfigError(
                f"transaction.timeout.ms = {transaction_timeout_ms} is above transaction.max.timeout.ms "
                f"of cluster {link.alias}; lower it"
            )
        if code == codes.CONCURRENT_TRANSACTIONS:
            await link.loop.sleep(_CONCURRENT_PAUSE_SECONDS * 3)
        elif code in codes.COORDINATOR_MOVES or codes.retriable(code):
            repeated = True
            if transactional_id is not None:
                link.forget_coordinator(transactional_id)
            await link.loop.sleep(_MOVED_PAUSE_SECONDS)
        else:
            raise ClusterError(f"cluster {link.alias} refuses InitProducerId for {transactional_id}: {fault}")
    raise UnreachableCluster(
        f"cluster {link.alias} did not hand out a producer id for {transactional_id} in time: {fault}"
    )


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
        self._sequences: dict[Partition, int] = defaultdict(int)
        self._added: set[Partition] = set()
        self.produce_version = _PRODUCE_VERSION_2 if self._v2 else _PRODUCE_VERSION

    @property
    def transactional(self) -> bool:
        """Whether chunks are transactions."""
        return self.transactional_id is not None

    @property
    def identity(self) -> ProducerIdentity | None:
        """The identity for whoever goes on after this process, None when it must not be used again.

        Under transaction.version 2 each commit hands out a fresh epoch. Otherwise sequences of the epoch are spent,
        and starting at 0 again would be taken for a repetition: the broker answers with success and stores nothing.
        """
        if self.transactional_id is None or self._sequences:
            return None
        return ProducerIdentity(self.transactional_id, self.producer_id, self.epoch)

    def take(self, partition: Partition, records: int) -> int:
        """The base sequence for the next ``records`` records of a partition."""
        sequence = self._sequences[partition]
        self._sequences[partition] = (sequence + records) & _SEQUENCE_MASK
        return sequence

    async def start(self) -> None:
        """Get a producer id for an idempotent producer; nothing to do for a transactional one."""
        if not self.transactional:
            await self.renew()

    @property
    def aborts_by_request(self) -> bool:
        """Whether an open transaction must be aborted before the epoch can be bumped (``transaction.version`` < 2).

        Such a coordinator takes the bump of an open transaction for a new owner's: it fences the asker itself.
        """
        return self.transactional and not self._v2

    async def renew(self, *, answered: bool = False) -> None:
        """Start over after a failed chunk: an open transaction is aborted, sequences begin at 0.

        Args:
            answered: no request of the chunk can reach a broker any more. Only then may a coordinator of
                ``transaction.version`` < 2 be asked to abort: a batch that comes after the marker would be stored,
                and committed with the next transaction. Otherwise this ends in ``Fenced``, which is safe: the driver
                fences and hands out a new epoch.

        Raises:
            Fenced: a newer owner exists, or the epoch cannot be bumped; final.
        """
        keeps = self.transactional
        if self.aborts_by_request and answered:
            await self._abort()
        self.producer_id, self.epoch = await init_producer(
            self._link,
            self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id if keeps else -1,
            epoch=self.epoch if keeps else -1,
            deadline=time.monotonic() + self._retry_seconds,
        )
        self._sequences.clear()
        self._added.clear()

    async def end_empty(self, partitions: Iterable[Partition], *, committed: bool) -> None:
        """End an empty transaction over ``partitions``: its markers end whatever is open there of this producer.

        By the requests of ``transaction.version`` 0, which every broker takes: they alone name partitions without
        writing to them.

        Raises:
            Fenced: a newer owner exists.
            RetriableFault, UncertainCommit: it may not have happened.
        """
        newer, self._v2 = self._v2, False
        try:
            refused = await self.add(partitions)
            if refused:
                raise RetriableFault(codes.name(min(refused.values())))
            if committed:
                await self.commit()
            else:
                await self._abort()
        finally:
            self._v2 = newer
        await self.renew(answered=True)

    async def _abort(self) -> None:
        deadline = time.monotonic() + self._retry_seconds
        while time.monotonic() < deadline:
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
                await self._link.loop.sleep(_CONCURRENT_PAUSE_SECONDS)
            else:
                # Aborted; or there was none (INVALID_TXN_STATE); or the bump that follows tells what is wrong.
                return

    def _end(self, *, committed: bool) -> Any:
        return EndTxnRequest(
            version=_END_VERSION_2 if self._v2 else _END_VERSION,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    async def add(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Make partitions part of the transaction before their first Produce; error codes of those refused.

        Raises:
            Fenced: the epoch is not ours any more.
            RetriableFault: the coordinator did not answer; the chunk must be started over.
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
        deadline = time.monotonic() + self._retry_seconds
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
            refused = {
                (topic.name, part.partition_index): part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
                if part.partition_error_code
            }
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
                await self._link.loop.sleep(_CONCURRENT_PAUSE_SECONDS)
            else:
                return {one: code for one, code in refused.items() if code != codes.OPERATION_NOT_ATTEMPTED}
            if time.monotonic() > deadline:
                raise RetriableFault(f"the coordinator of {self.transactional_id} stays busy: {codes.name(min(found))}")

    async def commit(self) -> bool:
        """End the transaction with a commit. Every Produce of it must have been acknowledged.

        A lost answer is asked for again with the same epoch: the coordinator recognises the repetition. True when
        that was necessary.

        Raises:
            UncertainCommit: no definite answer.
        """
        if not self.transactional:
            return False
        deadline = time.monotonic() + self._retry_seconds
        asked = 0
        while True:
            asked += 1
            try:
                answer = await self._link.send(
                    await self._link.coordinator(self.transactional_id or ""), self._end(committed=True)
                )
            except RetriableFault as error:
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
            if not moves and code != codes.CONCURRENT_TRANSACTIONS and not codes.retriable(code):
                raise UncertainCommit(f"{self.transactional_id}: {codes.name(code)}")
            if time.monotonic() > deadline:
                raise UncertainCommit(f"{self.transactional_id}: {codes.name(code)}")
            if moves:
                self._link.forget_coordinator(self.transactional_id or "")
            await self._link.loop.sleep(_MOVED_PAUSE_SECONDS if moves else _CONCURRENT_PAUSE_SECONDS)
        if self._v2:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self._sequences.clear()
            self.producer_id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
        self._added.clear()
        return asked > 1


__all__ = ["FencedAfterRepeat", "Producer", "UncertainCommit", "init_producer"]
