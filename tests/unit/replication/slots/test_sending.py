"""Produce requests in flight, and what is known of them when the next one is to follow."""

from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import Fenced
from srm_common.kafka.client import codes
from srm_common.kafka.client.event_loop import EventLoop
from srm_common.kafka.client.signal import Signal
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.slots.sending import ChunkFailed, Outgoing, Sending
from srm_common.wire.produce import ProduceAnswer, StoredPartition

LEADER, PLACE = 1, TopicPartition("a.orders", 0)
_CLUSTER = ClusterSettings.plaintext("b", "127.0.0.1:1")


class Refusing:
    """A link whose only broker refuses every batch."""

    settings = _CLUSTER
    alias = "b"

    def __init__(self, code: int) -> None:
        self._code = code

    def connection(self, node: int) -> Refusing:
        assert node == LEADER
        return self

    def send_request(self, request: Any, reply: Any) -> None:
        reply.success(ProduceAnswer(0, [StoredPartition(*PLACE, self._code, -1, None)]))


@pytest.mark.parametrize(
    ("code", "error"), [(codes.PRODUCER_FENCED, Fenced), (codes.UNKNOWN_TOPIC_OR_PARTITION, ChunkFailed)]
)
def test_a_failure_that_was_heard_of_before_is_not_waited_for(code: int, error: type[Exception]) -> None:
    """The slot may have been woken by the refusal while it waited for something else."""
    loop = EventLoop()
    signal = Signal(loop)
    link: Any = Refusing(code)
    producer = Producer(
        link, ProducerIdentity("x", 1, 0), transactions_v2=True, transaction_timeout_ms=60_000, retry_seconds=60.0
    )
    job = CopyJob("a->b", "a", _CLUSTER, _CLUSTER, "offsets", 25, "segments", 25)
    sending = Sending(job, link, producer, signal)

    async def work() -> None:
        task = loop.current_task()
        loop.call_later(10.0, lambda: loop.throw(task, AssertionError("it waits for what has failed")))
        await sending.room(LEADER, [PLACE], 100)
        await sending.post(LEADER, [Outgoing(PLACE, (), None, b"head", b"body")], 100, None)
        await signal.wait()
        # Its partition counts as one that the transaction has yet to open.
        assert sending.idle
        await sending.room(LEADER, [PLACE], 100)

    try:
        with pytest.raises(error):
            loop.run(work)
    finally:
        loop.close()
