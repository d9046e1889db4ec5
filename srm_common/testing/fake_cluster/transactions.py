"""Transactions of a cluster: producer ids and epochs, the partitions of a transaction, its end.

Rules: Kafka's ``TransactionCoordinator`` and ``TransactionMetadata`` (KIP-98, KIP-360, KIP-890). Markers are written
before an end is answered, where brokers write them a moment later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from srm_common.testing.fake_cluster.groups import Committed, Groups
from srm_common.testing.fake_cluster.messages import Answer, Call, Refused
from srm_common.testing.fake_cluster.topics import TRANSACTIONS_TOPIC, Topics
from srm_common.wire.batch import TRANSACTIONAL, parse_header

NOT_COORDINATOR, INVALID_REQUEST = 16, 42
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 47, 48, 49
INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, OPERATION_NOT_ATTEMPTED = 50, 51, 55
PRODUCER_FENCED, TRANSACTIONAL_ID_NOT_FOUND = 90, 105
_LAST_EPOCH = (1 << 15) - 2
_V2 = 2
_EMPTY, _ONGOING, _COMMITTED, _ABORTED = "Empty", "Ongoing", "CompleteCommit", "CompleteAbort"

Partition = tuple[str, int]


@dataclass
class Transaction:
    """What the coordinator knows of a transactional id. ``last_epoch`` is the one before, with which a producer may
    repeat itself; -1 for none."""

    name: str
    producer_id: int
    epoch: int
    timeout_ms: int
    last_epoch: int = -1
    last_producer_id: int = -1
    state: str = _EMPTY
    partitions: set[Partition] = field(default_factory=set)
    #: Offsets to be committed with it, by group.
    offsets: dict[str, dict[Partition, Committed]] = field(default_factory=dict)
    started_ms: int = -1


class Transactions:
    def __init__(
        self, topics: Topics, groups: Groups, version: int, now_ms: Callable[[], int], changed: Callable[[], None]
    ) -> None:
        self.known: dict[str, Transaction] = {}
        self.version = version
        self._topics, self._groups = topics, groups
        self._now_ms, self._changed = now_ms, changed
        self._next_id = 1000

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
        for one in self.known.values():
            if one.state == _ONGOING and now - one.started_ms > one.timeout_ms:
                self._fence(one)

    def pending(self, group: str) -> set[Partition]:
        """Partitions whose offsets a group commits with a transaction that is open."""
        return {place for one in self.known.values() if one.state == _ONGOING for place in one.offsets.get(group, ())}

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
        one = self.known.get(transactional_id or "")
        if one is None or one.producer_id != header.producer_id:
            raise Refused(INVALID_PRODUCER_ID_MAPPING)
        if one.epoch != header.producer_epoch:
            raise Refused(INVALID_PRODUCER_EPOCH)
        if joins and self.version >= _V2:
            self._begin(one)
            one.partitions.add(place)
        elif one.state != _ONGOING or place not in one.partitions:
            raise Refused(INVALID_TXN_STATE)

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
            # The asker names what it holds (KIP-360): the present epoch, or the one before, whose answer was lost.
            held = (body.producer_id, body.producer_epoch)
            if held not in ((one.producer_id, one.epoch), (one.last_producer_id, one.last_epoch)):
                raise Refused(PRODUCER_FENCED)
        if one.state == _ONGOING:
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
        one.state = _EMPTY
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
        # Under version 2 the producer itself may go on: its next question names the epoch that it holds.
        one.last_producer_id, one.last_epoch = (one.producer_id, held) if self.version >= _V2 else (-1, -1)

    def _begin(self, one: Transaction) -> None:
        if one.state != _ONGOING:
            one.state, one.started_ms = _ONGOING, self._now_ms()
            one.partitions.clear()
            one.offsets.clear()

    def _finish(self, one: Transaction, *, committed: bool, epoch: int) -> None:
        now = self._now_ms()
        for name, number in sorted(one.partitions):
            try:
                log = self._topics.partition(name, number).log
            except Refused:  # the topic was deleted
                continue
            log.end_transaction(one.producer_id, epoch, committed=committed, now_ms=now)
        if committed:
            for group, offsets in one.offsets.items():
                self._groups.put(group, offsets)
        one.state = _COMMITTED if committed else _ABORTED
        one.partitions.clear()
        one.offsets.clear()
        one.started_ms = -1
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
            elif transaction.state != _ONGOING or body.group_id not in transaction.offsets:
                raise Refused(INVALID_TXN_STATE)
            self._topics.partition(name, one.partition_index)
            found = Committed(one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "")
            transaction.offsets.setdefault(body.group_id, {})[name, one.partition_index] = found

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
        wanted = _COMMITTED if body.committed else _ABORTED
        known = self.known.get(body.transactional_id)
        if (
            bumps
            and known is not None
            and (known.last_producer_id, known.last_epoch) == (body.producer_id, body.producer_epoch)
            and known.state in (_COMMITTED, _ABORTED)
        ):
            self._checked(call, body.transactional_id)
            if known.state != wanted:
                raise Refused(INVALID_TXN_STATE)
            return known  # asked for again
        one = self._held(call, body.transactional_id, body.producer_id, body.producer_epoch)
        if one.state == _ONGOING:
            if bumps:
                self._finish(one, committed=body.committed, epoch=one.epoch + 1)
                self._bump(one, remember=True)
            else:
                self._finish(one, committed=body.committed, epoch=one.epoch)
            return one
        if bumps:
            if body.committed:
                raise Refused(INVALID_TXN_STATE)
            self._bump(one, remember=True)
            one.state = _ABORTED
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
        return {
            "error_code": call.refused(),
            "unknown_state_filters": [],
            "transaction_states": [
                {"transactional_id": one.name, "producer_id": one.producer_id, "transaction_state": one.state}
                for one in self.known.values()
                if self._topics.coordinator(one.name, TRANSACTIONS_TOPIC) == call.node
                and (not body.state_filters or one.state in body.state_filters)
                and (not body.producer_id_filters or one.producer_id in body.producer_id_filters)
            ],
        }

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id
