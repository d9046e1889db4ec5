"""What cannot be copied gives one clear sentence for its own partition, and the others continue."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots import chunk
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import FakeCluster, ReservedPort
from srm_common.wire.batches.batch import Checked, stamp
from tests.kafka.bit_flips import BitFlips, first_offset
from tests.kafka.engine import Background, Engine
from tests.kafka.records import delete_topic, log_batches, mixed_records, produce


@pytest.fixture
def engine(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Engine:
    return Engine(source_kafka, target_kafka, "badinput", retry_timeout_seconds=1.0)


def sentence(text: str | None) -> str:
    """Asserts that an error is one line for a person: no trace, no class name, no empty end."""
    assert text
    print(text)
    assert "\n" not in text
    assert "Traceback" not in text
    assert "Error(" not in text
    return text


@pytest.fixture
def nowhere() -> Iterator[str]:
    port = ReservedPort()
    yield port.address
    port.release()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_slot_cannot_reach_a_cluster(engine: Engine, name: str, nowhere: str, side: str) -> None:
    engine.create(name, 2)
    produce(engine.source, name, 0, mixed_records(10))
    far = ClusterSettings.plaintext("far", nowhere)
    job = engine.job()
    job = replace(job, source=far) if side == "source" else replace(job, target=far)
    ranges = tuple(CopyRange(name, engine.copy_of(name), partition, 0, 10) for partition in range(2))
    with Ownership.take(engine.flow, 1, 1) as owner:
        result = copy_slot(job, SlotTask(0, owner.identities[0], ranges))
    for range_result in result.ranges:
        assert (range_result.position, range_result.error_kind) == (0, "UnreachableCluster")
        assert f"cluster 'far' ({nowhere}) is not reachable: no broker answered" in sentence(range_result.error)


def test_the_driver_cannot_reach_the_target(engine: Engine, nowhere: str) -> None:
    flow = replace(engine.flow, target=ClusterSettings.plaintext("far", nowhere))
    with pytest.raises(UnreachableCluster, match=rf"cluster 'far' \({nowhere}\) is not reachable"):
        Ownership.take(flow, 1, 1, timeout_seconds=1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_deleted_during_a_pass(engine: Engine, name: str, side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, stays = f"{name}-gone", f"{name}-stays"
    for topic in (gone, stays):
        engine.create(topic)
        produce(engine.source, topic, 0, mixed_records(4000, 1, 500), batch_size=5000)
    in_its_midst, deleted = threading.Event(), threading.Event()
    commit = Producer.commit

    async def commit_and_stand_still(self: Producer) -> bool:
        done = await commit(self)
        if not deleted.is_set() and engine.committed().get((gone, 0), 0) > 0:
            in_its_midst.set()
            assert deleted.wait(180)
        return done

    monkeypatch.setattr(Producer, "commit", commit_and_stand_still)
    # Small fetches and chunks: there are many commits.
    copy = Background(engine, gone, stays, fetch_partition_bytes=6000, chunk_bytes=20_000)
    try:
        assert in_its_midst.wait(180), "nothing was committed"
        if side == "source":
            delete_topic(engine.source, gone)
        else:
            delete_topic(engine.target, engine.copy_of(gone))
    finally:
        deleted.set()
    outcome = copy.result()
    assert outcome.ranges[stays, 0].position == 4000
    assert engine.check(stays) == 4000
    broken = outcome.ranges[gone, 0]
    assert 0 < broken.position < 4000
    text = sentence(broken.error)
    assert (gone if side == "source" else engine.copy_of(gone)) in text
    assert f"at {engine.flow.name.source if side == 'source' else 'target'}" in text
    assert "does not exist, or was deleted" in text
    assert broken.error_kind == "NoSuchPartition"


def test_a_topic_that_never_was(engine: Engine, name: str) -> None:
    engine.create(name)
    produce(engine.source, name, 0, mixed_records(10))
    missing = f"{name}-missing"
    with Ownership.take(engine.flow, 1, 1) as owner:
        ranges = (
            CopyRange(name, engine.copy_of(name), 0, 0, 10),
            CopyRange(missing, engine.copy_of(missing), 0, 0, 10),
            CopyRange(name, engine.copy_of(name), 7, 0, 10),
        )
        result = copy_slot(engine.job(), SlotTask(0, owner.identities[0], ranges))
    good, *bad = result.ranges
    assert (good.position, good.error) == (10, None)
    for one, place in zip(bad, (f"{missing}-0", f"{name}-7"), strict=True):
        assert (one.position, one.copied.records) == (0, 0)
        assert f"partition {place}" in sentence(one.error)
        assert "does not exist" in str(one.error)
        assert one.error_kind == "NoSuchPartition"


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("topic", ["offsets", "segments"])
@pytest.mark.parametrize(
    ("code", "kind", "means"),
    [
        (codes.TOPIC_AUTHORIZATION_FAILED, "AccessDenied", "needs the permission Write on topic"),
        (codes.INVALID_TIMESTAMP, "ClusterError", "refuses records for their time"),
        (codes.MESSAGE_TOO_LARGE, "RecordTooLarge", "is too small for what has to be written there"),
    ],
)
def test_the_flows_own_records_are_refused(
    engine: Engine,
    target_kafka: FakeCluster,
    name: str,
    code: int,
    kind: str,
    means: str,
    topic: str,
    exactly_once: bool,
) -> None:
    """Each range whose records were among them stops where it was; nothing is written a second time for it."""
    engine.create(name, 2)
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(10))
    engine.copy(name, exactly_once=exactly_once)
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(10))
    written = engine.state.offsets_topic if topic == "offsets" else engine.state.segments_topic
    with target_kafka.refuse("Produce", code, when=written):
        outcome = engine.copy(name, exactly_once=exactly_once)
    for partition in range(2):
        hurt = outcome.ranges[name, partition]
        assert (hurt.position, hurt.copied.records, hurt.error_kind) == (10, 0, kind)
        assert means in sentence(hurt.error)
        assert written in str(hurt.error)
    (slot,) = outcome.slots
    assert slot.retries == 1
    again = engine.copy(name, exactly_once=exactly_once)
    assert not again.errors
    if exactly_once:
        assert engine.check(name) == 40
    elif topic == "offsets":
        assert again.records == 20
        copies = target_kafka.records(engine.copy_of(name), 0)
        assert len(copies) == 30, "at least once: what was acknowledged, and never committed, is copied again"


def test_others_commit_when_the_flows_own_records_of_one_range_are_refused(
    engine: Engine, target_kafka: FakeCluster, name: str
) -> None:
    """Without transactions, what the target has of them already is kept."""
    topics = [f"{name}-{number}" for number in range(6)]
    for topic in topics:
        engine.create(topic)
        produce(engine.source, topic, 0, mixed_records(10))
    with target_kafka.refuse("Produce", codes.MESSAGE_TOO_LARGE, when=engine.state.segments_topic, times=1):
        outcome = engine.copy(*topics, exactly_once=False)
    hurt = [one for one in outcome.ranges.values() if one.error is not None]
    whole = [one for one in outcome.ranges.values() if one.error is None]
    assert {(one.position, one.error_kind) for one in hurt} == {(0, "RecordTooLarge")}
    assert {(one.position, one.copied.records) for one in whole} == {(10, 10)}
    assert hurt
    assert whole
    for one in whole:
        assert len(target_kafka.records(one.downstream_topic, 0)) == 10
    assert not engine.copy(*topics, exactly_once=False).errors


def test_records_deleted_at_the_source(engine: Engine, name: str) -> None:
    engine.create(name, 2)
    for partition in range(2):
        produce(engine.source, name, partition, mixed_records(50))
    place = TopicPartition(name, 0, 30)
    engine.source.admin().delete_records([place])[place].result(60)
    outcome = engine.copy(name)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (50, None)
    assert (hurt.position, hurt.copied.records, hurt.error_kind) == (0, 0, "DataLost")
    assert "the copied position is 0); the next run applies on.data.loss" in sentence(hurt.error)


@pytest.mark.parametrize("times", [1, 10])
def test_a_bit_that_flips_between_verification_and_sending(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name, 2)
    for partition in range(2):
        produce(
            source_kafka,
            name,
            partition,
            mixed_records(1000, seed=partition),
            compression_type="lz4",
            batch_num_messages=100,
        )
    batches = log_batches(source_kafka, name)
    assert len(batches) >= 10
    victim = batches[4].header
    flips = 0

    def stamp_after_a_flip(*header: Any) -> bytes:
        nonlocal flips
        body, checked = header[5], header[-1]
        if isinstance(checked, Checked) and checked.crc == victim.crc:
            if flips < times:
                body[len(body) // 2] ^= 0x20
            flips += 1
        return stamp(*header)

    with monkeypatch.context() as patch:
        patch.setattr(chunk, "stamp", stamp_after_a_flip)
        outcome = engine.copy(name)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (1000, None)
    assert flips == 2, "a batch is read again once, not until a time-out"
    if times == 1:
        assert (hurt.position, hurt.error) == (1000, None)
    else:
        assert (hurt.position, hurt.error_kind) == (victim.base_offset, "CorruptBatch")
        assert f"partition {name}-0: the batch at offset {victim.base_offset} was read" in sentence(hurt.error)
        engine.copy(name)
    assert engine.check(name) == 2000


@pytest.mark.parametrize("version", [0, 2])
def test_bits_of_every_batch_flip(
    source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Several batches of a partition are refused in one chunk."""
    with FakeCluster(features={"transaction.version": version}, name="target") as target:
        engine = Engine(source_kafka, target, name, retry_timeout_seconds=60.0)
        engine.create(name, 2)
        for partition in range(2):
            produce(source_kafka, name, partition, mixed_records(1000, seed=partition), batch_num_messages=100)
        with monkeypatch.context() as patch:
            flips = BitFlips(patch, lambda batch: batch.partition == (engine.copy_of(name), 0))
            outcome = engine.copy(name)
        hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
        assert (whole.position, whole.error) == (1000, None)
        assert (hurt.position, hurt.error_kind) == (0, "CorruptBatch")
        assert f"partition {name}-0: the batch at offset 0 was read and verified twice" in sentence(hurt.error)
        assert max(Counter(flips.sent).values()) == 2, "a batch is read again once, not until a time-out"
        engine.copy(name)
        assert engine.check(name) == 2000


@pytest.mark.parametrize("version", [0, 2])
def test_bits_flip_in_another_batch_each_time(
    source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """None of them is refused twice, and all is copied."""
    with FakeCluster(features={"transaction.version": version}, name="target") as target:
        engine = Engine(source_kafka, target, name, retry_timeout_seconds=60.0)
        engine.create(name)
        produce(source_kafka, name, 0, mixed_records(1000), batch_num_messages=100)
        left = [600, 300, 0]
        assert set(left) < {log_batch.header.base_offset for log_batch in log_batches(source_kafka, name)}
        with monkeypatch.context() as patch:
            flips = BitFlips(patch, lambda batch: first_offset(batch) in left[-1:] and left.pop() >= 0)
            outcome = engine.copy(name)
        assert [offset for _, offset in flips.sent] == [0, 300, 600]
        assert not outcome.errors
        assert engine.check(name) == 1000


@pytest.mark.parametrize("times", [1, 10])
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("topic", ["offsets", "segments"])
def test_a_bit_of_the_flows_own_records_flips(
    source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch, topic: str, version: int, times: int
) -> None:
    with FakeCluster(features={"transaction.version": version}, name="target") as target:
        engine = Engine(source_kafka, target, name, retry_timeout_seconds=60.0)
        engine.create(name, 2)
        for partition in range(2):
            produce(source_kafka, name, partition, mixed_records(100, seed=partition))
        written = engine.state.offsets_topic if topic == "offsets" else engine.state.segments_topic
        with monkeypatch.context() as patch:
            flips = BitFlips(patch, lambda batch: batch.partition.topic == written and len(flips.sent) < times)
            outcome = engine.copy(name)
        if times == 1:
            assert not outcome.errors
        else:
            assert max(Counter(flips.sent).values()) == 2, "a chunk is written again once, not until a time-out"
            for partition in range(2):
                hurt = outcome.ranges[name, partition]
                assert (hurt.position, hurt.error_kind) == (0, "CorruptBatch")
                text = sentence(hurt.error)
                assert f"partition {name}-{partition}: the chunk from offset 0 on was written twice" in text
                assert f"partition {written}-" in text
            engine.copy(name)
        assert engine.check(name) == 200


def test_bits_of_every_batch_flip_without_transactions(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit between the two times that the batch is sent."""
    engine = Engine(source_kafka, target_kafka, name, retry_timeout_seconds=60.0)
    engine.create(name, 2)
    for partition in range(2):
        produce(source_kafka, name, partition, mixed_records(1000, seed=partition), batch_num_messages=100)
    with monkeypatch.context() as patch:
        flips = BitFlips(patch, lambda batch: batch.partition == (engine.copy_of(name), 0))
        outcome = engine.copy(name, exactly_once=False, chunk_bytes=2000, fetch_partition_bytes=2000)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[name, 1]
    assert (whole.position, whole.error) == (1000, None)
    assert (hurt.position, hurt.error_kind) == (0, "CorruptBatch")
    assert max(Counter(flips.sent).values()) == 2, "a batch is read again once, not until a time-out"
