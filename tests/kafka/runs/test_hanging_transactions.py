"""Transactions of our own producer that no coordinator will end: ended rightly, or left alone and told of.

A broker that does not verify transactions takes a transactional batch for a partition which was never added, and no
marker will ever come: just what a coordinator leaves behind that skipped its markers.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context

import pytest

from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.runs.copying import CopyJob, CopyRange, ProducerIdentity, SlotTask
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.transactions import hanging_transactions
from srm_common.kafka.transactions.hanging_transactions import left_open
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.hanging_transactions import Copy, EndedTransactions, end_hanging_transactions
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.wire.batches.batch import TRANSACTIONAL, stamp
from srm_common.wire.state.mm2 import partition_for, source_offset_key, source_offset_value
from srm_common.wire.state.plain_records import plain_records
from srm_common.wire.state.segments import encode_segment, segment_partition
from tests.faults.live_groups import run_once
from tests.faults.lossy_proxy import ADD_PARTITIONS, DESCRIBE_PRODUCERS, END_TXN, LIST_OFFSETS, LossyProxy
from tests.kafka.engine import Engine
from tests.kafka.flows import Seen
from tests.kafka.records import mixed_records, produce, read_all

RECORDS = 50
#: The first record of each partition at the source.
FIRST = Seen(b"k", b"v", (), int(time.time() * 1000))
TRUSTING = {"transaction.partition.verification.enable": "false"}


@pytest.fixture(scope="module", params=["0", "2"], ids=["transaction.version=0", "transaction.version=2"])
def proxied(broker_jvm: BrokerJvm, request: pytest.FixtureRequest) -> Iterator[tuple[LocalKafka, LossyProxy]]:
    """Takes transactional batches without asking the coordinator, as brokers before 3.6 did."""
    proxy = LossyProxy()
    settings = {**TRUSTING, "advertised.listeners": f"CLIENT://{proxy.address}"}
    kafka = LocalKafka(
        name="trusting", settings=settings, features={"transaction.version": request.param}, jvm=broker_jvm
    )
    with proxy.before(kafka.bootstrap_servers), kafka:
        yield kafka, proxy


@pytest.fixture
def target(proxied: tuple[LocalKafka, LossyProxy]) -> LocalKafka:
    return proxied[0]


@pytest.fixture
def proxy(proxied: tuple[LocalKafka, LossyProxy]) -> LossyProxy:
    """In front of the target; loses nothing unless it is told to."""
    return proxied[1]


@dataclass
class Scene:
    """Two partitions with records at the source, and a slot that may write their copies."""

    engine: Engine
    topic: str
    identity: ProducerIdentity
    link: ClusterLink
    other: ProducerIdentity
    owner: Ownership

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.engine.copy_of(self.topic), 0)

    def producer(self, *, v2: bool = False) -> Producer:
        return Producer(self.link, self.identity, transactions_v2=v2, transaction_timeout_ms=60_000, retry_seconds=60)

    async def send(self, producer: Producer, place: TopicPartition, body: bytes, count: int) -> int:
        """Produce a transactional batch as it is; its base offset."""
        now = FIRST.timestamp_ms
        header = stamp(
            attributes=TRANSACTIONAL,
            last_offset_delta=count - 1,
            base_timestamp=now,
            max_timestamp=now,
            record_count=count,
            body=body,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.take(place, count),
        )
        request = RawProduce(9, producer.transactional_id, 10_000, {place[0]: [(place[1], (header, body))]})
        answer = await self.link.send(self.link.leader(*place), request)
        (part,) = answer.partitions
        assert part.error_code == 0
        return int(part.base_offset)

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        async def go() -> None:
            state = self.engine.state
            await self.link.open([self.place[0], state.offsets_topic, state.segments_topic])
            await work()

        self.link.run(go)

    def held(self) -> set[TopicPartition]:
        """Copies that readers wait in."""
        partitions: set[TopicPartition] = set()

        async def work() -> None:
            partitions.update(
                await hanging_transactions.blocked_partitions(
                    self.link, {TopicPartition(self.place[0], number) for number in range(2)}
                )
            )

        self.run(work)
        return partitions

    def wait_held(self, expected: set[TopicPartition]) -> None:
        """Until just these hold back readers: markers are written some time after a commit is answered."""
        deadline = time.monotonic() + 180
        while (partitions := self.held()) != expected:
            assert time.monotonic() < deadline, f"{partitions} hold back readers, not {expected}"
            time.sleep(0.05)

    def copy(self, start: int) -> tuple[str | None, str | None]:
        """Copy both partitions, the first from ``start``; what each came to."""
        ranges = tuple(
            CopyRange(self.topic, self.place[0], partition, begin, RECORDS) for partition, begin in ((0, start), (1, 0))
        )
        result = copy_slot(self.engine.job(), SlotTask(0, self.identity, ranges))
        assert result.ranges[1].position == RECORDS
        return result.ranges[0].error, result.ranges[1].error


@pytest.fixture
def scene(source_kafka: LocalKafka, target: LocalKafka, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(hanging_transactions, "_MARKERS_SECONDS", 0.3)
    engine = Engine(source_kafka, target, name)
    engine.create(name, 2)
    for partition in range(2):
        produce(source_kafka, name, partition, [FIRST, *mixed_records(RECORDS - 1)])
    owner = Ownership.take(engine.flow, 2, 2)
    try:
        with ClusterLink(engine.flow.target) as link:
            yield Scene(engine, name, owner.identities[0], link, owner.identities[1], owner)
    finally:
        owner.abandon()


def _equal(scene: Scene, target: LocalKafka) -> bool:
    there, here = read_all(scene.engine.source, scene.topic), read_all(target, scene.place[0])
    return all([placed.seen for placed in there[part]] == [placed.seen for placed in here[part]] for part in range(2))


def _leave_open(scene: Scene) -> None:
    """Records in no map, which are to be aborted."""

    async def work() -> None:
        await scene.send(scene.producer(), scene.place, plain_records([(b"k", b"v")] * 3), 3)

    scene.run(work)


@pytest.mark.parametrize("kind", [LIST_OFFSETS, DESCRIBE_PRODUCERS, ADD_PARTITIONS, END_TXN])
def test_lost_answers_do_not_make_aborted_records_count(
    scene: Scene, target: LocalKafka, proxy: LossyProxy, kind: int
) -> None:
    """They are found, and the transaction that is to end them is begun and ended, though the slot does not hear of it
    at first."""
    _leave_open(scene)
    proxy.lose_answers(kind)
    lost = proxy.lost[kind]
    assert scene.copy(0) == (None, None)
    assert proxy.lost[kind] == lost + 1
    assert _equal(scene, target)


def test_a_slot_in_doubt_ends_and_commits_nothing(scene: Scene, target: LocalKafka, proxy: LossyProxy) -> None:
    _leave_open(scene)
    proxy.lose_share(ADD_PARTITIONS, 1.0)
    ranges = tuple(CopyRange(scene.topic, scene.place[0], partition, 0, RECORDS) for partition in range(2))
    job = replace(scene.engine.job(), retry_timeout_seconds=1.0)
    result = copy_slot(job, SlotTask(0, scene.identity, ranges))
    proxy.calm()
    assert result.needs_new_epoch
    assert result.identity is None
    assert [range_result.position for range_result in result.ranges] == [0, 0]
    assert any(f"{scene.place[0]}-0 from offset 0 on" in note and "cannot tell how" in note for note in result.notes)
    # As the driver goes on: it fences, reads what is committed, and deals out new epochs.
    scene.owner.refence()
    scene.identity = scene.owner.identities[0]
    assert scene.copy(0) == (None, None)
    assert _equal(scene, target)


def test_found_only_where_it_is_ours(scene: Scene) -> None:
    async def work() -> None:
        producer = scene.producer()
        await scene.send(producer, scene.place, plain_records([(b"k", b"v")]), 1)
        assert await left_open(scene.link, [scene.place], producer.producer_id, 0.2) == {scene.place: 0}
        assert await left_open(scene.link, [scene.place], producer.producer_id + 1, 0.2) == {}

    scene.run(work)


def test_records_that_are_in_no_map_are_aborted(scene: Scene, target: LocalKafka) -> None:
    _leave_open(scene)
    assert scene.copy(0) == (None, None)
    assert _equal(scene, target)


def test_records_of_a_committed_map_are_committed(scene: Scene, target: LocalKafka) -> None:
    """The first record was copied; offset and map were committed, but the marker never came to the copy."""
    _copied_without_marker(scene, extra=0)
    assert scene.copy(1) == (None, None)
    assert _equal(scene, target)


#: With which request of the two transactions that bring a commit the slot dies, whether it is carried out, and whether
#: the record that was waiting is copied again.
DEATHS = {
    "before-the-first-is-committed": (END_TXN, 1, False, False),
    "between-the-two": (ADD_PARTITIONS, 2, False, True),
    "right-after-the-partition-was-added": (ADD_PARTITIONS, 2, True, True),
    "before-the-second-is-committed": (END_TXN, 2, False, True),
    "right-after-the-second-is-committed": (END_TXN, 2, True, False),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_slot_may_die_while_it_brings_a_commit(
    scene: Scene, target: LocalKafka, proxy: LossyProxy, death: str
) -> None:
    """The next run aborts what the slot had begun; the records count or are copied again, and nothing stays open."""
    _copied_without_marker(scene, extra=0)
    job = scene.engine.job()
    ranges = tuple(CopyRange(scene.topic, scene.place[0], part, 1 - part, RECORDS) for part in range(2))
    slot = get_context("spawn").Process(target=_impatient_slot, args=(job, SlotTask(0, scene.identity, ranges)))
    kind, number, answered, again = DEATHS[death]
    proxy.at(kind, number, slot.kill, answered=answered)
    slot.start()
    slot.join(180)
    assert slot.exitcode == -signal.SIGKILL
    if again:
        engine = scene.engine
        stands = read_source_offsets(engine.flow, engine.state, stable_within_seconds=None)
        # Not "no position", for which a rule of the flow may say the end.
        assert stands[TopicPartition(scene.topic, 0)] == 0
    scene.owner.abandon()
    record = run_once(scene.engine.flow)
    assert (record.error, [partition.error for partition in record.partitions]) == (None, [None, None])
    assert record.records == 2 * RECORDS - (not again)
    assert scene.engine.check(scene.topic) == 2 * RECORDS
    scene.wait_held(set())


def _impatient_slot(job: CopyJob, task: SlotTask) -> None:
    hanging_transactions._MARKERS_SECONDS = 0.3
    copy_slot(job, task)


def test_what_cannot_be_told_is_left_alone(scene: Scene, target: LocalKafka) -> None:
    """Committed records, and behind them some that nobody committed."""
    _copied_without_marker(scene, extra=2)
    error, other = scene.copy(1)
    assert other is None
    assert error is not None
    assert "was never ended in" in error
    assert "docs/operations.md" in error
    assert read_all(target, scene.place[0], held=True)[0] == []


def test_a_copy_that_nobody_writes_to_is_freed_by_the_driver(scene: Scene, target: LocalKafka) -> None:
    """Left open by a slot that the partition is not dealt to any more."""
    assert scene.copy(0) == (None, None)

    async def leave_open() -> None:
        scene.identity, kept = scene.other, scene.identity
        await scene.send(scene.producer(), scene.place, plain_records([(b"k", b"v")] * 3), 3)
        scene.identity = kept

    scene.run(leave_open)
    copies = [Copy(TopicPartition(scene.topic, number), TopicPartition(scene.place[0], number)) for number in range(2)]
    scene.wait_held({scene.place})
    freed = end_hanging_transactions(scene.engine.job(), [scene.other], copies)
    assert freed == EndedTransactions(found_any=True)
    scene.wait_held(set())
    assert end_hanging_transactions(scene.engine.job(), [scene.other], copies) == EndedTransactions()
    assert _equal(scene, target)


def test_what_the_driver_cannot_tell_is_said(scene: Scene) -> None:
    _copied_without_marker(scene, extra=2)
    copies = [Copy(TopicPartition(scene.topic, 0), scene.place)]
    (fault,) = end_hanging_transactions(scene.engine.job(), [scene.identity], copies).faults
    assert f"{scene.place[0]}-0" in fault
    assert "docs/operations.md" in fault
    scene.wait_held({scene.place})


def _copied_without_marker(scene: Scene, extra: int) -> None:
    state, alias = scene.engine.state, scene.engine.flow.name.source

    async def work() -> None:
        producer = scene.producer()
        base = await scene.send(producer, scene.place, plain_records([(b"k", b"v")]), 1)
        for _ in range(extra):
            await scene.send(producer, scene.place, plain_records([(b"x", b"y")]), 1)
        key = source_offset_key(alias, scene.topic, 0)
        offsets = TopicPartition(state.offsets_topic, partition_for(key, state.offsets_partitions))
        segment = Segment(scene.topic, 0, 0, 1, base, base + 1, (OffsetSpan(0, 1, base, 1),))
        segments = TopicPartition(state.segments_topic, segment_partition(scene.topic, 0, state.segments_partitions))
        assert await producer.add([offsets, segments]) == {}
        await scene.send(producer, offsets, plain_records([(key, source_offset_value(0))]), 1)
        await scene.send(producer, segments, plain_records([encode_segment(segment)]), 1)
        await producer.commit()

    scene.run(work)
    # The commit above was one of transaction.version 0: sequences of the epoch are spent.
    scene.identity = _renewed(scene)


def _renewed(scene: Scene) -> ProducerIdentity:
    producer = scene.producer()

    async def go() -> None:
        await producer.renew(answered=True)

    scene.link.run(go)
    return ProducerIdentity(scene.identity.transactional_id, producer.producer_id, producer.epoch)
