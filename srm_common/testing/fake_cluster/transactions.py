"""Transactions of a cluster: producer ids and epochs, the partitions of a transaction, its end.

Rules: Kafka's ``TransactionCoordinator`` and ``TransactionMetadata`` (KIP-98, KIP-360, KIP-890). Markers are written
before an end is answered, unless ``marker_seconds`` delays them; brokers write them a moment later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from srm_common.testing.fake_cluster.groups import Committed, Groups
from srm_common.testing.fake_cluster.messages import Answer, Call, Refused
from srm_common.testing.fake_cluster.topics import TRANSACTIONS_TOPIC, Topics
from srm_common.testing.fake_cluster.transaction import (
    ABORTED,
    COMMITTED,
    EMPTY,
    ONGOING,
    PREPARED,
    Partition,
    Transaction,
)
from srm_common.wire.batches.batch import TRANSACTIONAL, parse_header

NOT_COORDINATOR, INVALID_REQUEST = 16, 42
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 47, 48, 49
INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, OPERATION_NOT_ATTEMPTED = 50, 51, 55
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
PRODUCER_FENCED, TRANSACTIONAL_ID_NOT_FOUND = 90, 105
_LAST_EPOCH = (1 << 15) - 2
_V2 = 2
#: A marker whose partition has no leader is sent again.
_MARKER_AGAIN_SECONDS = 0.1


class Transactions:
    """The transactions of a cluster.

    Args:
        later: calls a function after a number of seconds.
        marker_seconds: called at each end of a transaction; returns for how many seconds its markers are delayed.
        verifies: whether leaders ask the coordinator about batches, as brokers do since 3.6 (KIP-890).
    """

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        version: int,
        now_ms: Callable[[], int],
        changed: Callable[[], None],
        later: Callable[[float, Callable[[], None]], object],
        marker_seconds: Callable[[], float],
        *,
        verifies: bool,
    ) -> None:
        self._verifies = verifies
        self.known: dict[str, Transaction] = {}
        self.version = version
        self._topics, self._groups = topics, groups
        self._now_ms, self._changed = now_ms, changed
        self._later, self._marker_seconds = later, marker_seconds
        self._next_id = 1000
        topics.on_elect.append(self._moved)

    def handlers(self) -> dict[str, Any]:
        return {
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add_partitions,
            "AddOffsetsToTxn": self._add_offsets,
            "TxnOffsetCommit": self._commit_offsets,
            "EndTxn": self._end,
            "DescribeTransactions": self._describe,
            "ListTransactions": self._list,
        }

    # ---- for the other rooms

    def expire(self) -> None:
        """Abort transactions that are open for longer than they may be."""
        now = self._now_ms()
        for transaction in self.known.values():
            if transaction.state == ONGOING and now - transaction.started_ms > transaction.timeout_ms:
                self._fence(transaction)

    def pending(self, group: str) -> set[Partition]:
        """Partitions whose offsets a group commits with a transaction that is open."""
        ongoing = (transaction for transaction in self.known.values() if transaction.state == ONGOING)
        return {place for transaction in ongoing for place in transaction.offsets.get(group, ())}

    def check_produce(self, transactional_id: str | None, data: bytes, place: Partition, *, joins: bool) -> None:
        """Whether a batch belongs to an open transaction; with ``joins`` its partition becomes part of it.

        Raises:
            Refused: it does not.
        """
        if len(data) < 61:
            return
        header = parse_header(data)
        if not header.attributes & TRANSACTIONAL:
            return
        if transactional_id is None:
            raise Refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not (joins or self._verifies):
            return
        one = self.known.get(transactional_id or "")
        if one is None or one.producer_id != header.producer_id:
            raise Refused(INVALID_PRODUCER_ID_MAPPING)
        if one.epoch != header.producer_epoch:
            raise Refused(INVALID_PRODUCER_EPOCH)
        if joins and self.version >= _V2:
            self._begin(one)
            one.partitions.add(place)
        elif one.state != ONGOING or place not in one.partitions:
            raise Refused(INVALID_TXN_STATE)

    def _moved(self, topic: str, partition: int) -> None:
        """A new coordinator knows only what is in the log, which lacks the previous epoch (KIP-360)."""
        if topic != TRANSACTIONS_TOPIC:
            return
        for transaction in self.known.values():
            if self._topics.coordinating(transaction.name, topic) == partition:
                transaction.last_producer_id, transaction.last_epoch = -1, -1

    # ---- requests

    def _checked(self, call: Call, transactional_id: str) -> None:
        call.check(transactional_id)
        if self._topics.coordinator(transactional_id, TRANSACTIONS_TOPIC) != call.node:
            raise Refused(NOT_COORDINATOR)

    def _init(self, call: Call) -> Answer:
        body = call.body
        try:
            if body.transactional_id is None:
                call.check()
                return {"error_code": 0, "producer_id": self._new_id(), "producer_epoch": 0}
            self._checked(call, body.transactional_id)
            if not 0 < body.transaction_timeout_ms <= int(self._topics.configs.broker("transaction.max.timeout.ms")):
                raise Refused(INVALID_TRANSACTION_TIMEOUT)
            one = self._initialized(body)
        except Refused as refused:
            code = refused.code
            if code == PRODUCER_FENCED and call.version < 4:
                code = INVALID_PRODUCER_EPOCH
            return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
        return {"error_code": 0, "producer_id": one.producer_id, "producer_epoch": one.epoch}

    def _initialized(self, body: Any) -> Transaction:
        one = self.known.get(body.transactional_id)
        if one is None:
            one = Transaction(body.transactional_id, self._new_id(), -1, body.transaction_timeout_ms)
            self.known[one.name] = one
        elif body.producer_id >= 0:
            # The caller names what it has (KIP-360): the present epoch, or the one before, whose answer was lost.
            held = (body.producer_id, body.producer_epoch)
            if held not in ((one.producer_id, one.epoch), (one.last_producer_id, one.last_epoch)):
                raise Refused(PRODUCER_FENCED)
        if one.ending:
            raise Refused(CONCURRENT_TRANSACTIONS)
        if one.state == ONGOING:
            self._fence(one)
            raise Refused(CONCURRENT_TRANSACTIONS)
        one.timeout_ms = body.transaction_timeout_ms
        if (
            body.producer_id >= 0
            and one.epoch >= 0
            and (body.producer_id, body.producer_epoch) != (one.producer_id, one.epoch)
        ):
            return one
        asserts = body.producer_id >= 0
        self._bump(one, remember=asserts)
        one.state = EMPTY
        return one

    def _bump(self, one: Transaction, *, remember: bool) -> None:
        before = (one.producer_id, one.epoch)
        if one.epoch >= _LAST_EPOCH:
            one.producer_id, one.epoch = self._new_id(), -1
        one.epoch += 1
        one.last_producer_id, one.last_epoch = before if remember else (-1, -1)

    def _fence(self, one: Transaction) -> None:
        """Abort an open transaction under an epoch that its producer does not have."""
        held = one.epoch
        one.epoch += 1
        self._finish(one, committed=False, epoch=one.epoch)
        # Under version 2 the producer itself may go on: its next request names the epoch that it has.
        one.last_producer_id, one.last_epoch = (one.producer_id, held) if self.version >= _V2 else (-1, -1)

    def _begin(self, one: Transaction) -> None:
        """Raises Refused while the previous transaction is being ended."""
        if one.ending:
            raise Refused(CONCURRENT_TRANSACTIONS)
        if one.state != ONGOING:
            one.state, one.started_ms = ONGOING, self._now_ms()
            one.partitions.clear()
            one.offsets.clear()

    def _finish(self, one: Transaction, *, committed: bool, epoch: int) -> None:
        one.state = PREPARED[COMMITTED if committed else ABORTED]
        one.started_ms = -1
        places, producer_id, seconds = sorted(one.partitions), one.producer_id, self._marker_seconds()
        if seconds > 0:
            self._later(seconds, lambda: self._mark(one, places, producer_id, epoch, committed=committed))
        else:
            self._mark(one, places, producer_id, epoch, committed=committed, at_once=True)

    def _mark(
        self,
        one: Transaction,
        places: list[Partition],
        producer_id: int,
        epoch: int,
        *,
        committed: bool,
        at_once: bool = False,
    ) -> None:
        """Write the markers; ``at_once``: even in partitions without a leader."""
        left = []
        for place in places:
            try:
                partition = self._topics.partition(*place)
            except Refused:  # the topic was deleted
                continue
            if not (at_once or self._topics.led(*place)):
                left.append(place)
            else:
                partition.log.end_transaction(producer_id, epoch, committed=committed, now_ms=self._now_ms())
        if left:
            again = partial(self._mark, one, left, producer_id, epoch, committed=committed)
            self._later(_MARKER_AGAIN_SECONDS, again)
        else:
            if committed:
                for group, offsets in one.offsets.items():
                    self._groups.put(group, offsets)
            one.state = COMMITTED if committed else ABORTED
            one.partitions.clear()
            one.offsets.clear()
        self._changed()

    def _held(self, call: Call, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        """The transactional id, where the request comes from its present owner. Raises Refused."""
        self._checked(call, transactional_id)
        one = self.known.get(transactional_id)
        if one is None or one.producer_id != producer_id:
            raise Refused(INVALID_PRODUCER_ID_MAPPING)
        if one.epoch != epoch:
            raise Refused(PRODUCER_FENCED if call.version >= 2 else INVALID_PRODUCER_EPOCH)
        return one

    def _add_partitions(self, call: Call) -> Answer:
        body = call.body
        places = [(topic.name, number) for topic in body.v3_and_below_topics for number in topic.partitions]
        codes: dict[Partition, int] = {}
        try:
            one = self._held(
                call,
                body.v3_and_below_transactional_id,
                body.v3_and_below_producer_id,
                body.v3_and_below_producer_epoch,
            )
            for name, number in places:
                try:
                    call.check(name)
                    self._topics.partition(name, number)
                except Refused as refused:
                    codes[name, number] = refused.code
            if codes:
                codes = {place: codes.get(place, OPERATION_NOT_ATTEMPTED) for place in places}
            else:
                self._begin(one)
                one.partitions.update(places)
        except Refused as refused:
            codes = dict.fromkeys(places, refused.code)
        return {
            "results_by_topic_v3_and_below": [
                {
                    "name": topic.name,
                    "results_by_partition": [
                        {"partition_index": number, "partition_error_code": codes.get((topic.name, number), 0)}
                        for number in topic.partitions
                    ],
                }
                for topic in body.v3_and_below_topics
            ]
        }

    def _add_offsets(self, call: Call) -> Answer:
        body = call.body
        try:
            one = self._held(call, body.transactional_id, body.producer_id, body.producer_epoch)
            self._begin(one)
            one.offsets.setdefault(body.group_id, {})
        except Refused as refused:
            return {"error_code": refused.code}
        return {"error_code": 0}

    def _commit_offsets(self, call: Call) -> Answer:
        body = call.body

        def store(name: str, one: Any) -> None:
            transaction = self.known.get(body.transactional_id)
            if transaction is None or transaction.producer_id != body.producer_id:
                raise Refused(INVALID_PRODUCER_ID_MAPPING)
            if transaction.epoch != body.producer_epoch:
                raise Refused(INVALID_PRODUCER_EPOCH)
            if call.version >= 5 and self.version >= _V2:
                self._begin(transaction)
            elif transaction.state != ONGOING or body.group_id not in transaction.offsets:
                raise Refused(INVALID_TXN_STATE)
            self._topics.partition(name, one.partition_index)
            committed = Committed(one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "")
            transaction.offsets.setdefault(body.group_id, {})[name, one.partition_index] = committed

        return self._groups.store(call, body.group_id, body.generation_id, body.member_id, store)

    def _end(self, call: Call) -> Answer:
        body = call.body
        try:
            one = self._ended(call, body)
        except Refused as refused:
            return {"error_code": refused.code}
        return {"error_code": 0, "producer_id": one.producer_id, "producer_epoch": one.epoch}

    def _ended(self, call: Call, body: Any) -> Transaction:
        bumps = call.version >= 5 and self.version >= _V2
        wanted = COMMITTED if body.committed else ABORTED
        known = self.known.get(body.transactional_id)
        if bumps and known is not None and known.was_ended(body.producer_id, body.producer_epoch):
            self._checked(call, body.transactional_id)
            if known.state not in (wanted, PREPARED[wanted]):
                raise Refused(INVALID_TXN_STATE)
            if known.ending:
                raise Refused(CONCURRENT_TRANSACTIONS)
            return known  # asked for again
        one = self._held(call, body.transactional_id, body.producer_id, body.producer_epoch)
        if one.state == ONGOING:
            if bumps:
                self._finish(one, committed=body.committed, epoch=one.epoch + 1)
                self._bump(one, remember=True)
            else:
                self._finish(one, committed=body.committed, epoch=one.epoch)
            return one
        if one.ending:
            raise Refused(CONCURRENT_TRANSACTIONS if one.state == PREPARED[wanted] else INVALID_TXN_STATE)
        if bumps:
            if body.committed:
                raise Refused(INVALID_TXN_STATE)
            self._bump(one, remember=True)
            one.state = ABORTED
        elif one.state != wanted:
            raise Refused(INVALID_TXN_STATE)
        return one

    def _describe(self, call: Call) -> Answer:
        return {"transaction_states": [self._described(call, name) for name in call.body.transactional_ids]}

    def _described(self, call: Call, name: str) -> Answer:
        out: Answer = {"transactional_id": name, "transaction_state": "", "topics": []}
        try:
            self._checked(call, name)
        except Refused as refused:
            return out | {"error_code": refused.code}
        one = self.known.get(name)
        if one is None:
            return out | {"error_code": TRANSACTIONAL_ID_NOT_FOUND}
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(one.partitions):
            topics.setdefault(topic, []).append(number)
        return out | {
            "error_code": 0,
            "transaction_state": one.state,
            "transaction_timeout_ms": one.timeout_ms,
            "transaction_start_time_ms": one.started_ms,
            "producer_id": one.producer_id,
            "producer_epoch": one.epoch,
            "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
        }

    def _list(self, call: Call) -> Answer:
        body = call.body
        columns = "transactional_id", "producer_id", "transaction_state"
        return {
            "error_code": call.refused(),
            "unknown_state_filters": [],
            "transaction_states": [
                dict(zip(columns, (transaction.name, transaction.producer_id, transaction.state), strict=True))
                for transaction in self.known.values()
                if self._topics.coordinator(transaction.name, TRANSACTIONS_TOPIC) == call.node
                and (not body.state_filters or transaction.state in body.state_filters)
                and (not body.producer_id_filters or transaction.producer_id in body.producer_id_filters)
            ],
        }

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id
