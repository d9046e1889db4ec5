"""A source topic that is deleted, and created again under the same name: its offsets mean something else."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from srm_common.domain.offsets.segments import generation_of
from srm_common.domain.runs.copying import CopyRange, SlotTask
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots import slot
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
    assert (found.position, found.copied.records, found.error_kind) == (20, 20, "DataLost")
    assert found.error is not None
    assert f"partition {name}-0: the topic was deleted and created again at {engine.flow.name.source}" in found.error
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
        assert (found.position, found.copied.records, found.error_kind) == (20, 0, "DataLost")
        now = CopyRange(name, engine.copy_of(name), 0, 20, 50, generation=generation(engine, name))
        (found,) = copy_slot(engine.job(), SlotTask(0, owner.identities[0], (now,))).ranges
        assert (found.position, found.copied.records, found.error_kind) == (50, 30, None)
