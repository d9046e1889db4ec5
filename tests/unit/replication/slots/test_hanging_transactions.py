"""Hanging transactions whose records are in the offset map: which are committed with it as it is, and which are left
alone, since what they are cannot be told.

The target's brokers take transactional batches without asking the coordinator, as those before Kafka 3.6 did: a batch
for a partition that was never added to its transaction gets no marker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.fingerprints import Fingerprint
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.runs.copying import CopyRange, ProducerIdentity, SlotResult, SlotTask
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.frames import RawProduce
from srm_common.kafka.transactions import hanging_transactions
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.slot import copy_slot
from srm_common.replication.slots.state_batches import produce_state
from srm_common.testing import FakeCluster
from srm_common.wire.batches.batch import TRANSACTIONAL, stamp
from srm_common.wire.state.mm2 import copied_to_headers, partition_for, source_offset_key, source_offset_value
from srm_common.wire.state.plain_records import Entry, plain_records
from srm_common.wire.state.segments import encode_segment, segment_headers, segment_partition
from tests.kafka.engine import Engine

RECORDS = [(b"k", b"%d" % number) for number in range(3)]
LEADER_NOT_AVAILABLE = 5


def as_written(segment: Segment) -> Entry:
    return *encode_segment(segment), segment_headers(segment)


@dataclass
class Scene:
    """Partitions of three records each at the source; the first of each waits in the copy for a marker."""

    engine: Engine
    target: FakeCluster
    topic: str
    partitions: int
    link: ClusterLink
    identity: ProducerIdentity

    @property
    def copy(self) -> str:
        return self.engine.copy_of(self.topic)

    def producer(self) -> Producer:
        return Producer(
            self.link, self.identity, transactions_v2=False, transaction_timeout_ms=60_000, retry_seconds=60
        )

    def home(self, partition: int) -> TopicPartition:
        """Where the map of a partition lies."""
        state = self.engine.state
        number = segment_partition(self.topic, partition, state.segments_partitions)
        return TopicPartition(state.segments_topic, number)

    def leave_open(self, entry: Callable[[Segment], Entry | None] = as_written) -> None:
        """Source offset and map are committed."""
        state, alias = self.engine.state, self.engine.flow.name.source

        async def work() -> None:
            await self.link.open([self.copy, state.offsets_topic, state.segments_topic])
            producer = self.producer()
            entries: dict[TopicPartition, list[Entry]] = defaultdict(list)
            for partition in range(self.partitions):
                await self._send(producer, TopicPartition(self.copy, partition))
                key = source_offset_key(alias, self.topic, partition)
                offsets = TopicPartition(state.offsets_topic, partition_for(key, state.offsets_partitions))
                entries[offsets].append((key, source_offset_value(0), copied_to_headers(CopiedTo(1, 1), 1)))
                spans = (OffsetSpan(0, 1, 0, 1),)
                segment = Segment(self.topic, partition, 0, 1, 0, 1, spans, fingerprint=Fingerprint(5, 7))
                if (written := entry(segment)) is not None:
                    entries[self.home(partition)].append(written)
            assert await producer.add(list(entries)) == {}
            for home, some in entries.items():
                await produce_state(producer, self.link, home, some, 10_000)
            await producer.commit()
            await producer.renew(answered=True)
            self.identity = ProducerIdentity(self.identity.transactional_id, producer.producer_id, producer.epoch)

        self.link.run(work)

    async def _send(self, producer: Producer, place: TopicPartition) -> None:
        body = plain_records([RECORDS[0]])
        ids = producer.producer_id, producer.epoch, producer.take(place, 1)
        header = stamp(TRANSACTIONAL, 0, 1000, 1000, 1, body, *ids)
        request = RawProduce(9, producer.transactional_id, 10_000, {place[0]: [(place[1], (header, body))]})
        (part,) = (await self.link.send(self.link.leader(*place), request)).partitions
        assert (part.error_code, part.base_offset) == (0, 0)

    def go_on(self) -> SlotResult:
        """A slot copies what is behind the committed offsets."""
        ranges = tuple(
            CopyRange(self.topic, self.copy, partition, 1, len(RECORDS)) for partition in range(self.partitions)
        )
        return copy_slot(self.engine.job(), SlotTask(0, self.identity, ranges))

    def values(self, partition: int) -> list[bytes | None]:
        return [record.value for record in self.target.records(self.copy, partition)]


@pytest.fixture
def trusting() -> Iterator[FakeCluster]:
    with FakeCluster(name="target", verifies=False, features={"transaction.version": 0}) as kafka:
        yield kafka


@pytest.fixture
def scene_of(
    source_kafka: FakeCluster, trusting: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Scene]]:
    monkeypatch.setattr(hanging_transactions, "_MARKERS_SECONDS", 0.3)
    engine = Engine(source_kafka, trusting, name, retry_timeout_seconds=1.0)
    with ClusterLink(engine.flow.target) as link, Ownership.take(engine.flow, 1, 1) as owner:

        def scene(partitions: int) -> Scene:
            engine.create(name, partitions)
            for partition in range(partitions):
                source_kafka.write(name, RECORDS, partition)
            return Scene(engine, trusting, name, partitions, link, owner.identities[0])

        yield scene


def test_records_of_a_committed_map_are_committed_with_the_map_as_it_was(scene_of: Callable[[int], Scene]) -> None:
    scene = scene_of(1)
    scene.leave_open()
    home = scene.home(0)
    (before,) = scene.target.records(*home)
    result = scene.go_on()
    assert result.ranges[0].error is None
    assert scene.values(0) == [b"0", b"1", b"2"]
    after = [record for record in scene.target.records(*home) if record.key == before.key][-1]
    assert after.offset > before.offset
    # The fingerprint, too, by which the copy is verified.
    assert (after.value, after.headers) == (before.value, before.headers)
    assert before.headers


def test_records_are_not_aborted_where_their_map_cannot_be_read(scene_of: Callable[[int], Scene]) -> None:
    """As after a downgrade to a version that cannot read what a newer one has written."""
    scene = scene_of(2)

    def newer(segment: Segment) -> Entry:
        key, value, headers = as_written(segment)  # type: ignore[misc]
        return (bytes((9,)) + key[1:], value, headers) if segment.partition == 0 else (key, value, headers)

    scene.leave_open(newer)
    unknown, known = scene.go_on().ranges
    assert known.error is None
    assert scene.values(1) == [b"0", b"1", b"2"]
    assert unknown.error is not None
    assert "it is unknown whether it was committed (a segment's key has version 9" in unknown.error
    assert "docs/operations.md" in unknown.error
    # They wait for the operator.
    assert [record.value for record in scene.target.records(scene.copy, 0, committed=False)] == [b"0"]
    assert scene.values(0) == []


def test_records_are_not_aborted_where_their_map_is_lost(scene_of: Callable[[int], Scene]) -> None:
    """The source offset's record says that they were copied."""
    scene = scene_of(2)
    scene.leave_open(lambda segment: as_written(segment) if segment.partition else None)
    lost, kept = scene.go_on().ranges
    assert kept.error is None
    assert lost.error is not None
    assert "copied up to offset 1, which the offset map does not have" in lost.error
    assert [record.value for record in scene.target.records(scene.copy, 0, committed=False)] == [b"0"]
    assert scene.values(0) == []


def test_a_map_that_cannot_be_read_now_stops_its_own_partitions_only(scene_of: Callable[[int], Scene]) -> None:
    scene = scene_of(2)
    scene.partitions = 1
    scene.leave_open()
    scene.partitions = 2
    with scene.target.refuse("ListOffsets", LEADER_NOT_AVAILABLE, when=scene.home(0).topic):
        first, second = scene.go_on().ranges
    assert second.error is None
    assert second.position == len(RECORDS)
    assert first.position == 1
    assert first.error is not None
    assert f"partition {scene.copy}-0 at target is not written to" in first.error
    assert f"{scene.home(0).topic}-{scene.home(0).partition}" in first.error
    assert scene.go_on().ranges[0].error is None
    assert scene.values(0) == [b"0", b"1", b"2"]


def test_each_partition_of_the_map_is_read_once_however_many_copies_wait(scene_of: Callable[[int], Scene]) -> None:
    scene = scene_of(60)
    scene.leave_open()
    homes = Counter(scene.home(partition).partition for partition in range(scene.partitions))
    assert max(homes.values()) > 2
    scene.target.forget_requests()
    assert [one.error for one in scene.go_on().ranges] == [None] * scene.partitions
    reads = Counter(
        part.partition
        for request in scene.target.asked("Fetch")
        for topic in request.topics
        if topic.topic == scene.engine.state.segments_topic
        for part in topic.partitions
    )
    assert reads.keys() == homes.keys()
    # Were a response to come late, it would be asked for once more.
    assert max(reads.values()) <= 2
    assert all(scene.values(partition) == [b"0", b"1", b"2"] for partition in range(scene.partitions))


def test_state_records_go_in_batches_that_brokers_take(scene_of: Callable[[int], Scene]) -> None:
    scene = scene_of(1)
    home = scene.home(0)

    async def work() -> None:
        await scene.link.open([home.topic])
        producer = scene.producer()
        assert await producer.add([home]) == {}
        entries: list[Entry] = [(b"%d" % number, b"v" * 300_000) for number in range(5)]
        await produce_state(producer, scene.link, home, entries, 10_000)
        await producer.commit()

    scene.link.run(work)
    assert [record.key for record in scene.target.records(*home)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_large_state_record_is_made_smaller(scene_of: Callable[[int], Scene]) -> None:
    scene = scene_of(1)
    home = scene.home(0)
    value = b"".join(b'{"topic":"t-%d"}' % number for number in range(200_000))

    async def work() -> None:
        await scene.link.open([home.topic])
        producer = scene.producer()
        assert await producer.add([home]) == {}
        await produce_state(producer, scene.link, home, [(b"large", value), (b"small", b"v")], 10_000)
        await producer.commit()

    scene.link.run(work)
    assert [(record.key, record.value) for record in scene.target.records(*home)] == [
        (b"large", value),
        (b"small", b"v"),
    ]
