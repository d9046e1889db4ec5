"""A source topic, or a copy, that is deleted, and created again under the same name."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest

from srm_common.domain.flow.settings import OnDataLoss
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.replication.slots import ranges
from srm_common.testing import FakeCluster
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare
from tests.kafka.records import delete_topic
from tests.slot_worker import here

NONE = uuid.UUID(int=0)


def values(word: str, count: int) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


def test_between_the_look_of_the_driver_and_the_pass_of_its_slots(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    def write(records: list[bytes]) -> None:
        source_kafka.write(name, [(None, value) for value in records])

    def too_late(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        delete_topic(source_kafka, name)
        source_kafka.create_topic(name)
        write(values("new", 50))
        return here(job, tasks)

    source_kafka.create_topic(name)
    write(values("old", 20))
    flow = flow_between(source_kafka, target_kafka, name, on_data_loss=OnDataLoss.SKIP)
    prepare(flow)
    assert replicate(flow, RunOptions("first"), here).records == 20
    write(values("lost", 5))

    record = replicate(flow, RunOptions("second"), too_late)
    assert (record.state, record.records) == (RunState.FAILED, 0)
    (failed,) = record.failed_partitions
    assert "the topic was deleted and created again" in str(failed.trouble)

    prepare(flow)
    record = replicate(flow, RunOptions("third"), here)
    assert (record.state, record.records) == (RunState.DONE, 50)
    copied = [one.value for one in target_kafka.records(f"{flow.name.source}.{name}", 0)]
    assert copied == values("old", 20) + values("new", 50)


def test_a_copy_between_the_look_of_the_driver_and_the_pass_of_its_slots(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next refresh decides by ``on.target.loss``, and nothing is in the new one."""
    monkeypatch.setattr(ranges, "_SPREAD_SECONDS", 0.1)
    flow = flow_between(source_kafka, target_kafka, name, on_target_loss=OnDataLoss.RESET)
    copy = f"{flow.name.source}.{name}"

    def too_late(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        delete_topic(target_kafka, copy)
        target_kafka.create_topic(copy)
        return here(job, tasks)

    source_kafka.create_topic(name)
    source_kafka.write(name, [(None, value) for value in values("old", 20)])
    prepare(flow)
    assert replicate(flow, RunOptions("first"), here).records == 20
    source_kafka.write(name, [(None, value) for value in values("new", 5)])

    record = replicate(flow, RunOptions("second"), too_late)
    assert (record.state, record.records) == (RunState.FAILED, 0)
    (failed,) = record.failed_partitions
    assert "was deleted and created again while it was written to" in str(failed.trouble)

    prepare(flow)
    record = replicate(flow, RunOptions("third"), here)
    assert (record.state, record.records) == (RunState.DONE, 25)
    assert [one.value for one in target_kafka.records(copy, 0)] == values("old", 20) + values("new", 5)


def test_a_slot_is_told_which_copy_is_meant_and_what_this_run_has_committed_to_it(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    """What earlier runs have committed may be gone, as decided by ``on.target.loss``: that is no bound."""
    told: list[tuple[int, int]] = []

    def ten_at_a_time(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        (task,) = tasks
        (asked,) = task.ranges
        told.append((asked.copy_generation, asked.copy_end))
        return here(job, [replace(task, ranges=(replace(asked, end=asked.start + 10),))])

    source_kafka.create_topic(name)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    for run in ("first", "second"):
        source_kafka.write(name, [(None, value) for value in values(run, 20)])
        assert replicate(flow, RunOptions(run), ten_at_a_time).records == 20
    # A marker follows each transaction.
    assert [end for _, end in told] == [0, 10, 0, 32]
    assert len({generation for generation, _ in told}) == 1
    assert told[0][0]


def test_with_as_many_records_as_the_former_one(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    for word in ("old", "new"):
        source_kafka.create_topic(name, 2)
        for partition in range(2):
            source_kafka.write(name, [(None, value) for value in values(word, 20)], partition)
        if word == "old":
            prepare(flow)
            assert replicate(flow, RunOptions("first"), here).records == 40
            delete_topic(source_kafka, name)
    record = replicate(flow, RunOptions("second"), here)
    assert (record.state, record.records) == (RunState.FAILED, 0)
    assert ["created again" in str(one.trouble) for one in record.failed_partitions] == [True, True]
    flow = replace(flow, on_data_loss=OnDataLoss.SKIP)
    assert replicate(flow, RunOptions("third"), here).records == 40
    for partition in range(2):
        copied = [one.value for one in target_kafka.records(f"{flow.name.source}.{name}", partition)]
        assert copied == values("old", 20) + values("new", 20)


def test_a_topic_that_gets_an_id_or_loses_it_for_a_while_is_the_same_one(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    """Brokers have ids by ``inter.broker.protocol.version`` (KIP-516), and while it is raised some have them."""
    flow = flow_between(source_kafka, target_kafka, name)
    source_kafka.create_topic(name, 2)
    copy = f"{flow.name.source}.{name}"
    prepare(flow)
    its, of_its_copy = source_kafka.set_topic_id(name, NONE), target_kafka.set_topic_id(copy, NONE)
    for number, ids in enumerate(
        [(NONE, NONE), (NONE, of_its_copy), (its, of_its_copy), (NONE, NONE), (its, of_its_copy)]
    ):
        source_kafka.set_topic_id(name, ids[0])
        target_kafka.set_topic_id(copy, ids[1])
        for partition in range(2):
            source_kafka.write(name, [(None, value) for value in values(f"round {number}", 20)], partition)
        prepare(flow)
        record = replicate(flow, RunOptions(f"run {number}"), here)
        assert (record.state, record.records) == (RunState.DONE, 40), record
    assert [len(target_kafka.records(copy, partition)) for partition in range(2)] == [100, 100]
