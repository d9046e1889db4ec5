"""Requests about partitions: Produce, Fetch, offsets, leader epochs, DeleteRecords, producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from srm_common.testing.fake_cluster.log import MESSAGE_TOO_LARGE, PartitionLog
from srm_common.testing.fake_cluster.messages import REFUSED_BY_TEST, Answer, Call, Refused
from srm_common.testing.fake_cluster.service import Waiting
from srm_common.testing.fake_cluster.topics import UNKNOWN_TOPIC_ID, PartitionState, Topics
from srm_common.testing.fake_cluster.transactions import Transactions

_OFFSET_OUT_OF_RANGE = 1
_INVALID_REQUIRED_ACKS, _INVALID_TIMESTAMP, _NOT_ENOUGH_REPLICAS = 21, 32, 19
_LATEST, _EARLIEST, _NEWEST, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_COMMITTED = 1
#: The first version of Fetch with ids of topics.
_FETCH_BY_ID = 13


class RecordRequests:
    def __init__(
        self, topics: Topics, transactions: Transactions, now_ms: Callable[[], int], changed: Callable[[], None]
    ) -> None:
        self._topics, self._transactions = topics, transactions
        self._now_ms, self._changed = now_ms, changed

    def handlers(self) -> dict[str, Any]:
        return {
            "Produce": self._produce,
            "Fetch": self._fetch,
            "ListOffsets": self._list_offsets,
            "OffsetForLeaderEpoch": self._epoch_ends,
            "DeleteRecords": self._delete_records,
            "DescribeProducers": self._describe_producers,
        }

    # ---- Produce

    def _produce(self, call: Call) -> Answer | None:
        responses = [
            {
                "name": topic.name,
                "partition_responses": [self._store(call, topic.name, one) for one in topic.partition_data],
            }
            for topic in call.body.topic_data
        ]
        self._changed()
        return {"responses": responses} if call.body.acks else None

    def _store(self, call: Call, name: str, part: Any) -> Answer:
        out: Answer = {"index": part.index, "base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1}
        try:
            call.check(name)
            if call.body.acks not in (-1, 0, 1):
                raise Refused(_INVALID_REQUIRED_ACKS)
            partition = self._topics.led_by(call.node, name, part.index)
            topic = self._topics.topics[name]
            in_sync = sum(node in self._topics.alive for node in partition.replicas)
            # A topic with fewer replicas than that needs all of them (KIP-966).
            wanted = min(int(self._topics.setting(topic, "min.insync.replicas")), len(partition.replicas))
            if call.body.acks == -1 and in_sync < wanted:
                raise Refused(_NOT_ENOUGH_REPLICAS)
            data = bytes(part.records or b"")
            if len(data) > int(self._topics.setting(topic, "max.message.bytes")):
                raise Refused(MESSAGE_TOO_LARGE, "The record is larger than the server will accept.")
            self._transactions.check_produce(
                call.body.transactional_id, data, (name, part.index), joins=call.version >= 12
            )
            append_time = self._topics.setting(topic, "message.timestamp.type") == "LogAppendTime"
            now = self._now_ms()
            batch = partition.log.append(
                data,
                now,
                append_time=append_time,
                compacted="compact" in self._topics.setting(topic, "cleanup.policy"),
            )
            code = call.refusal_after(call.api, name)
            if code:
                raise Refused(code, REFUSED_BY_TEST)
        except Refused as refused:
            return out | {"error_code": refused.code, "error_message": refused.message}
        return out | {
            "error_code": 0,
            "base_offset": batch.header.base_offset,
            "log_append_time_ms": now if append_time else -1,
            "log_start_offset": partition.log.start,
        }

    # ---- Fetch

    def _fetch(self, call: Call) -> Answer | Waiting:
        body = call.body
        if body.session_id:  # never given out
            return {"error_code": 70, "session_id": 0, "responses": []}

        def attempt(final: bool) -> Answer | None:
            responses, size, failed = self._read(call)
            if final or failed or size >= body.min_bytes:
                return {"error_code": 0, "session_id": 0, "responses": responses}
            return None

        return Waiting(body.max_wait_ms / 1000, attempt)

    def _read(self, call: Call) -> tuple[list[Answer], int, bool]:
        left, size, failed = call.body.max_bytes, 0, False
        responses = []
        for topic in call.body.topics:
            parts = []
            name = topic.topic if call.version < _FETCH_BY_ID else self._topics.name_of(topic.topic_id)
            for partition in topic.partitions:
                found = self._read_one(call, name, partition, left, first=not size)
                records = len(found["records"] or b"")
                left, size = max(left - records, 0), size + records
                failed = failed or bool(found["error_code"]) or "diverging_epoch" in found
                parts.append(found)
            responses.append({"topic": topic.topic, "topic_id": topic.topic_id, "partitions": parts})
        return responses, size, failed

    def _read_one(self, call: Call, name: str | None, one: Any, left: int, *, first: bool) -> Answer:
        out: Answer = {
            "partition_index": one.partition,
            "high_watermark": -1,
            "aborted_transactions": None,
            "records": b"",
        }
        committed = call.body.isolation_level == _COMMITTED
        try:
            if name is None:
                raise Refused(UNKNOWN_TOPIC_ID)
            call.check(name)
            log = self._topics.led_by(call.node, name, one.partition, one.current_leader_epoch, or_followed=True).log
            out |= {"high_watermark": log.end, "last_stable_offset": log.stable, "log_start_offset": log.start}
            if one.last_fetched_epoch >= 0:
                epoch, end = log.epoch_end(one.last_fetched_epoch)
                if (epoch, end) == (-1, -1):
                    raise Refused(_OFFSET_OUT_OF_RANGE)
                if epoch < one.last_fetched_epoch or end < one.fetch_offset:
                    return out | {"error_code": 0, "diverging_epoch": {"epoch": epoch, "end_offset": end}}
            upper = log.stable if committed else log.end
            records = b""
            if first or left:
                records = log.fetch(one.fetch_offset, min(left, one.partition_max_bytes), upper, at_least_one=first)
        except Refused as refused:
            if refused.code == _OFFSET_OUT_OF_RANGE and "log_start_offset" in out:
                out |= {"high_watermark": -1, "last_stable_offset": -1}
            return out | {"error_code": refused.code, "log_start_offset": -1}
        if committed:
            aborted = log.aborted_between(one.fetch_offset, upper)
            out["aborted_transactions"] = [
                {"producer_id": one.producer_id, "first_offset": one.first} for one in aborted
            ]
        return out | {"error_code": 0, "records": records}

    # ---- offsets

    def _each(
        self,
        call: Call,
        number: str,
        work: Callable[[str, Any], Answer],
        failed: Callable[[Any, Refused], Answer],
        key: str,
    ) -> list[Answer]:
        out = []
        for topic in call.body.topics:
            name = getattr(topic, key)
            parts = []
            for partition in topic.partitions:
                try:
                    call.check(name)
                    parts.append({number: getattr(partition, number), "error_code": 0, **work(name, partition)})
                except Refused as refused:
                    parts.append(
                        {number: getattr(partition, number), "error_code": refused.code, **failed(partition, refused)}
                    )
            out.append({key: name, "partitions": parts})
        return out

    def _list_offsets(self, call: Call) -> Answer:
        def look(name: str, one: Any) -> Answer:
            log = self._topics.led_by(call.node, name, one.partition_index, one.current_leader_epoch).log
            timestamp, offset = self._listed(log, one.timestamp, committed=call.body.isolation_level == _COMMITTED)
            epoch = -1 if offset < 0 else log.epoch if one.timestamp == _LATEST else log.epoch_of(offset)
            return {"timestamp": timestamp, "offset": offset, "leader_epoch": epoch}

        return {"topics": self._each(call, "partition_index", look, lambda one, refused: {}, "name")}

    @staticmethod
    def _listed(log: PartitionLog, timestamp: int, *, committed: bool) -> tuple[int, int]:
        end = log.stable if committed else log.end
        if timestamp == _LATEST:
            return -1, end
        if timestamp == _EARLIEST:
            return -1, log.start
        if timestamp == _EARLIEST_LOCAL:
            return -1, log.local_start
        if timestamp == _LATEST_TIERED:
            return -1, log.local_start - 1 if log.local_start > log.start else -1
        if timestamp < _LATEST_TIERED:
            return -1, -1
        record = log.newest() if timestamp == _NEWEST else log.at_time(timestamp, end)
        return (-1, -1) if record is None else (record.timestamp_ms, record.offset)

    def _epoch_ends(self, call: Call) -> Answer:
        def look(name: str, one: Any) -> Answer:
            log = self._topics.led_by(call.node, name, one.partition, one.current_leader_epoch).log
            epoch, end = log.epoch_end(one.leader_epoch)
            return {"leader_epoch": epoch, "end_offset": end}

        return {"topics": self._each(call, "partition", look, lambda one, refused: {}, "topic")}

    def _delete_records(self, call: Call) -> Answer:
        def delete(name: str, one: Any) -> Answer:
            log = self._topics.led_by(call.node, name, one.partition_index).log
            log.delete_before(log.end if one.offset == -1 else one.offset)
            self._changed()
            return {"low_watermark": log.start}

        return {
            "topics": self._each(call, "partition_index", delete, lambda one, refused: {"low_watermark": -1}, "name")
        }

    def _describe_producers(self, call: Call) -> Answer:
        topics = []
        for topic in call.body.topics:
            parts = []
            for number in topic.partition_indexes:
                try:
                    call.check(topic.name)
                    state = self._topics.led_by(call.node, topic.name, number)
                    parts.append({"partition_index": number, "error_code": 0, "active_producers": _producers(state)})
                except Refused as refused:
                    parts.append({"partition_index": number, "error_code": refused.code, "active_producers": []})
            topics.append({"name": topic.name, "partitions": parts})
        return {"topics": topics}


def _producers(partition: PartitionState) -> list[Answer]:
    return [
        {
            "producer_id": producer,
            "producer_epoch": state.epoch,
            "last_sequence": state.last_sequence,
            "last_timestamp": state.last_timestamp_ms,
            "coordinator_epoch": state.coordinator_epoch,
            "current_txn_start_offset": state.open_since,
        }
        for producer, state in partition.log.producers.items()
    ]
