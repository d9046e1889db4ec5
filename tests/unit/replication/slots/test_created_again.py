"""A topic or a copy that is deleted, and created again under the same name: its offsets mean something else."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.segments import generation_of
from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots import ranges, slot
from srm_common.replication.slots.fetching import Fetching
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import FakeCluster
from tests.kafka.engine import Background, Engine, wait_for_copies
from tests.kafka.records import delete_topic, eventually, mixed_records, produce

#: The last version of Fetch that names topics, which is all that brokers before 3.1 know.
_BY_NAME = 12


@pytest.fixture(params=[_BY_NAME, None], ids=["by name", "by id"])
def source(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    newest = {} if request.param is None else {"Fetch": request.param}
    with FakeCluster(name="source", newest=newest) as source:
        yield source


def create_again(source: FakeCluster, name: str) -> None:
    """With records where the first one had none."""
    source.create_topic(name)
    produce(source, name, 0, mixed_records(50, seed=1))


def refreshes(source: FakeCluster) -> int:
    """How often slots have asked for metadata."""
    return sum(call.api == "Metadata" and call.client_id.startswith("srm.slot-") for call in source.requests)


def generation(engine: Engine, name: str) -> int:
    with ClusterLink(engine.flow.source) as link:
        return generation_of(link.run(lambda: topic_ids(link, [name], 60))[name])


def test_nothing_of_the_new_topic_is_taken_for_what_follows(
    source: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(slot, "_STOP_SECONDS", 0.0)
    monkeypatch.setattr(ranges, "_SPREAD_SECONDS", 60.0)
    engine = Engine(source, target_kafka, name)
    engine.create(name)
    produce(source, name, 0, mixed_records(20))
    run = Background(engine, name, tail_until=time.time() + 3600, fetch_max_wait_ms=60_000)
    wait_for_copies(engine, name, 0, 20)
    asked = refreshes(source)
    delete_topic(source, name)
    if request.node.callspec.id == "by name":
        # One that is created at once may not be told from the first one by its name.
        eventually(lambda: refreshes(source) > asked, 60, "the slot does not look for the topic")
    create_again(source, name)
    (found,) = run.result().slots[0].ranges
    assert (found.position, found.copied.records, found.error_kind) == (20, 20, "PartitionError")
    assert found.error is not None
    assert f"the topic was deleted and created again at {engine.flow.name.source}" in found.error
    assert len(target_kafka.records(engine.copy_of(name), 0)) == 20


def test_nor_is_it_when_it_was_created_before_the_slot_began(
    source: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    """The driver has looked at the former one."""
    engine = Engine(source, target_kafka, name)
    engine.create(name)
    produce(source, name, 0, mixed_records(20))
    engine.copy(name)
    former = generation(engine, name)
    delete_topic(source, name)
    create_again(source, name)
    with Ownership.take(engine.flow, 1, 1) as owner:
        asked = CopyRange(name, engine.copy_of(name), 0, 20, 50, generation=former)
        (found,) = copy_slot(engine.job(), SlotTask(0, owner.identities[0], (asked,))).ranges
        assert (found.position, found.copied.records, found.error_kind) == (20, 0, "PartitionError")
        now = CopyRange(name, engine.copy_of(name), 0, 20, 50, generation=generation(engine, name))
        (found,) = copy_slot(engine.job(), SlotTask(0, owner.identities[0], (now,))).ranges
        assert (found.position, found.copied.records, found.error_kind) == (50, 30, None)


def test_brokers_that_know_ids_are_asked_by_them_from_the_first_request_on(
    target_kafka: FakeCluster, name: str
) -> None:
    """Whether one does is known once it is connected."""
    with FakeCluster(3, name="source") as source:
        engine = Engine(source, target_kafka, name)
        engine.create(name, 6)
        for partition in range(6):
            produce(source, name, partition, mixed_records(20, seed=partition))
        assert engine.copy(name).records == 120
        fetches = [call for call in source.requests if call.api == "Fetch" and call.client_id.startswith("srm.slot-")]
        assert {call.node for call in fetches} == {1, 2, 3}
        assert {call.version for call in fetches} == {_BY_NAME + 1}


def test_a_chunk_that_is_started_over_does_not_read_the_new_topic(
    target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot knows by then that there is another one."""
    with FakeCluster(name="source", newest={"Fetch": _BY_NAME}) as source:
        engine = Engine(source, target_kafka, name)
        engine.create(name)
        produce(source, name, 0, mixed_records(20))
        start = Fetching.start
        replaced = False

        async def start_and_replace(self: Fetching) -> None:
            nonlocal replaced
            if not replaced and self.busy and not self._in_flight:
                replaced = True
                delete_topic(source, name)
                create_again(source, name)
                await self._refresh()
            await start(self)

        monkeypatch.setattr(Fetching, "start", start_and_replace)
        target_kafka.refuse("EndTxn", Errors.InvalidTxnStateError.errno, times=1)
        (found,) = engine.copy(name).slots[0].ranges
        assert replaced
        assert (found.position, found.copied.records, found.error_kind) == (0, 0, "PartitionError")
        assert target_kafka.records(engine.copy_of(name), 0) == []


# ---- copies


def create_copy_again(engine: Engine, target: FakeCluster, name: str) -> None:
    delete_topic(target, engine.copy_of(name))
    target.create_topic(engine.copy_of(name))


@pytest.mark.parametrize("exactly_once", [True, False])
def test_nothing_is_committed_to_a_copy_that_was_created_again_before_the_slot_began(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    exactly_once: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver has looked at the former one; brokers may also be late, so it takes a moment to be believed."""
    monkeypatch.setattr(ranges, "_SPREAD_SECONDS", 0.1)
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(50))
    engine.copy(name, ends={(name, 0): 20}, exactly_once=exactly_once)
    with ClusterLink(engine.flow.target) as link:
        copy = engine.copy_of(name)
        former = generation_of(link.run(lambda: topic_ids(link, [copy], 60))[copy])
    create_copy_again(engine, target_kafka, name)
    with Ownership.take(engine.flow, 1, 1) as owner:
        asked = CopyRange(name, copy, 0, 20, 50, copy_generation=former)
        job = engine.job(exactly_once=exactly_once)
        (found,) = copy_slot(job, SlotTask(0, owner.identities[0] if exactly_once else None, (asked,))).ranges
    assert (found.position, found.copied.records, found.error_kind) == (20, 0, "NoSuchPartition")
    assert f"topic {copy} at target was deleted and created again while it was written to" in str(found.error)
    assert target_kafka.records(copy, 0) == []


@pytest.mark.parametrize("exactly_once", [True, False])
def test_nothing_is_committed_to_a_copy_that_is_created_again_between_two_chunks(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    exactly_once: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a log that was cut, no metadata tell, but its batch lies before what is committed. Others go on."""
    other = f"{name}-other"
    engine = Engine(source_kafka, target_kafka, name)
    for topic in (name, other):
        engine.create(topic)
        produce(source_kafka, topic, 0, mixed_records(400), batch_num_messages=10)
    commit, committed = Producer.commit, 0

    async def commit_and_replace(self: Producer) -> bool:
        nonlocal committed
        repeated = await commit(self)
        if not committed and (committed := engine.committed().get((name, 0), 0)):
            create_copy_again(engine, target_kafka, name)
        return repeated

    monkeypatch.setattr(Producer, "commit", commit_and_replace)
    outcome = engine.copy(name, other, exactly_once=exactly_once, chunk_bytes=2000, fetch_partition_bytes=2000)
    hurt, whole = outcome.ranges[name, 0], outcome.ranges[other, 0]
    assert 0 < committed < 400
    assert (hurt.position, hurt.error_kind) == (committed, "DataLost")
    assert "continues at offset 0, although this run has committed it up to offset" in str(hurt.error)
    assert engine.committed()[name, 0] == committed
    assert (whole.position, whole.error) == (400, None)
    if exactly_once:
        assert target_kafka.records(engine.copy_of(name), 0) == []
        assert engine.check(other) == 400


def test_a_copy_that_is_created_again_in_the_first_chunk_is_looked_up_before_the_commit(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it ends before what earlier runs have committed may also be decided already: then its id is the same."""
    monkeypatch.setattr(ranges, "_SPREAD_SECONDS", 0.1)
    engine = Engine(source_kafka, target_kafka, name)
    engine.create(name)
    produce(source_kafka, name, 0, mixed_records(50))
    with ClusterLink(engine.flow.target) as link:
        copy = engine.copy_of(name)
        former = generation_of(link.run(lambda: topic_ids(link, [copy], 60))[copy])
    asked = CopyRange(name, copy, 0, 20, 50, copied_to=CopiedTo(20, 1000))
    add, replaced = Producer.add, False

    async def replace_and_add(self: Producer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        nonlocal replaced
        if not replaced:
            replaced = True
            create_copy_again(engine, target_kafka, name)
        return await add(self, partitions)

    with monkeypatch.context() as patch, Ownership.take(engine.flow, 1, 1) as owner:
        patch.setattr(Producer, "add", replace_and_add)
        of_former = replace(asked, copy_generation=former)
        (found,) = copy_slot(engine.job(), SlotTask(0, owner.identities[0], (of_former,))).ranges
    assert replaced
    assert (found.position, found.copied.records, found.error_kind) == (20, 0, "NoSuchPartition")
    assert target_kafka.records(copy, 0) == []
    with Ownership.take(engine.flow, 1, 1) as owner:
        (found,) = copy_slot(engine.job(), SlotTask(0, owner.identities[0], (asked,))).ranges
    assert (found.position, found.copied.records, found.error) == (50, 30, None)
