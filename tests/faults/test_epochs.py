"""What a slot's producer may do by itself after a failed chunk, by the target's way to end transactions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import ListTransactionsRequest
from kafka.protocol.producer import EndTxnRequest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import Fenced
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.transactions.producer import Producer, UncertainCommit, init_producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.testing import LocalKafka
from srm_common.wire.batches.batch import TRANSACTIONAL, stamp

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

_SECONDS = 180.0
# One record: length, attributes, timestamp delta, offset delta, no key, one byte of value, no headers.
_BODY = bytes([14, 0, 0, 0, 1, 2, 65, 0])


@pytest.fixture(scope="module", params=["0", "2"], ids=["transaction.version=0", "transaction.version=2"])
def kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with LocalKafka(features={"transaction.version": request.param}, settings=settings) as one:
        one.create_topic("t")
        yield one


class Bench:
    """A slot's producer with an open transaction, and the means to write with it."""

    def __init__(self, link: ClusterLink, identity: ProducerIdentity, version: int, timeout_ms: int) -> None:
        self.link = link
        self.version = version
        self.producer = Producer(
            link, identity, transactions_v2=version >= 2, transaction_timeout_ms=timeout_ms, retry_seconds=_SECONDS
        )

    async def write(self, epoch: int | None = None, sequence: int | None = None) -> int:
        """Produce one record; the error code."""
        producer = self.producer
        await producer.add([TopicPartition("t", 0)])
        now = int(time.time() * 1000)
        header = stamp(
            attributes=TRANSACTIONAL,
            last_offset_delta=0,
            base_timestamp=now,
            max_timestamp=now,
            record_count=1,
            body=_BODY,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch if epoch is None else epoch,
            base_sequence=producer.take(TopicPartition("t", 0), 1) if sequence is None else sequence,
        )
        request = RawProduce(producer.produce_version, producer.transactional_id, 5000, {"t": [(0, (header, _BODY))]})
        answer = await self.link.send(self.link.leader("t", 0), request)
        return int(answer.partitions[0].error_code)

    async def until_timed_out(self) -> None:
        """Return when the coordinator has aborted the open transaction."""
        request: Any = ListTransactionsRequest(version=0, state_filters=["CompleteAbort"], producer_id_filters=[])
        deadline = time.monotonic() + _SECONDS
        while True:
            answer = await self.link.send(await self.link.any_node(), request)
            if self.producer.transactional_id in {state.transactional_id for state in answer.transaction_states}:
                return
            assert time.monotonic() < deadline, "the transaction does not time out"
            await self.link.loop.sleep(0.1)


def _with_producer(
    kafka: LocalKafka, name: str, work: Callable[[Bench], Awaitable[None]], timeout_ms: int = 60_000
) -> None:
    """``timeout_ms``: of transactions; none that may not time out does on a slow machine."""
    cluster = ClusterSettings.plaintext("t", kafka.bootstrap_servers)
    flow = replace(FlowSettings(FlowName(name, "t"), cluster, cluster), transaction_timeout_ms=timeout_ms)
    owner = Ownership.take(flow, 1, 1)
    with ClusterLink(cluster) as link:

        async def go() -> None:
            await link.open({"t"})
            version = await link.finalized_feature("transaction.version")
            await work(Bench(link, owner.identities[0], version, timeout_ms))

        link.run(go)
    owner.release()


def test_answered_chunk_is_started_over_under_a_new_epoch(kafka: LocalKafka, name: str) -> None:
    async def work(bench: Bench) -> None:
        assert await bench.write() == codes.NONE
        old = bench.producer.epoch
        await bench.producer.renew(answered=True)
        assert bench.producer.epoch > old
        assert await bench.write() == codes.NONE
        assert await bench.write(epoch=old, sequence=1) in {*codes.FENCED, codes.INVALID_TXN_STATE}
        await bench.producer.commit()

    _with_producer(kafka, name, work)


def test_unanswered_chunk_needs_the_driver_where_a_late_batch_could_be_stored(kafka: LocalKafka, name: str) -> None:
    """``transaction.version`` 0: a batch that arrives after the abort marker would be committed with the next one."""

    async def work(bench: Bench) -> None:
        assert await bench.write() == codes.NONE
        if bench.version < 2:
            with pytest.raises(Fenced):
                await bench.producer.renew(answered=False)
        else:
            old = bench.producer.epoch
            await bench.producer.renew(answered=False)
            assert await bench.write(epoch=old, sequence=1) in codes.FENCED
            assert await bench.write() == codes.NONE

    _with_producer(kafka, name, work)


def test_timed_out_transaction_is_never_committed(kafka: LocalKafka, name: str) -> None:
    async def work(bench: Bench) -> None:
        assert await bench.write() == codes.NONE
        await bench.until_timed_out()
        with pytest.raises(Fenced):
            await bench.producer.commit()
        if bench.version < 2:
            with pytest.raises(Fenced):
                await bench.producer.renew(answered=True)
        else:
            await bench.producer.renew()
            assert await bench.write() == codes.NONE

    _with_producer(kafka, name, work, timeout_ms=3000)


def test_lost_commit_that_meets_a_timed_out_transaction_is_in_doubt_at_once(
    kafka: LocalKafka, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking again and again would bring the same answer until the patience is over."""

    async def work(bench: Bench) -> None:
        assert await bench.write() == codes.NONE
        original = bench.link.send
        sent: list[object] = []

        async def send(node: object, request: object) -> object:
            if not isinstance(request, EndTxnRequest):
                return await original(node, request)
            sent.append(request)
            if len(sent) == 1:
                await bench.until_timed_out()
                raise RetriableFault("the connection was lost")
            return await original(node, request)

        monkeypatch.setattr(bench.link, "send", send)
        with pytest.raises(UncertainCommit):
            await bench.producer.commit(time.monotonic() + 5)
        assert len(sent) == 2

    _with_producer(kafka, name, work, timeout_ms=3000)


def test_a_newer_owner_refuses_everything(kafka: LocalKafka, name: str) -> None:
    async def work(bench: Bench) -> None:
        producer = bench.producer
        assert await bench.write() == codes.NONE
        deadline = time.monotonic() + _SECONDS
        await init_producer(bench.link, producer.transactional_id, transaction_timeout_ms=60_000, deadline=deadline)
        if bench.version >= 2:
            assert await bench.write() in codes.FENCED
        with pytest.raises(Fenced):
            await producer.commit()
        for answered in (True, False):
            with pytest.raises(Fenced):
                await producer.renew(answered=answered)

    _with_producer(kafka, name, work)
