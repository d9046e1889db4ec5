"""Runs of a flow between real brokers, with slots copied in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import pytest
from confluent_kafka import Producer

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.errors import FlowOwnedElsewhere, LostProcess
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.passes import Passes
from srm_common.testing import LocalKafka
from tests.kafka.flows import flow_between, read, write
from tests.kafka.markers import wait_until_readable
from tests.kafka.topic_pairs import Here, Pair, run, values

pytestmark = pytest.mark.kafka


class Clock:
    """A run's clock, which a test sets forward: a long run ends when all has happened, however long that takes."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead

    def go_on(self, seconds: float) -> None:
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("srm_common.usecases.runs.replicate.Passes", partial(Passes, clock=clock))
    return clock


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


@pytest.fixture
def pair(flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> Pair:
    return Pair(flow, source_kafka, target_kafka, name, 3)


def test_a_run_copies_what_is_there_and_the_next_what_came_since(pair: Pair) -> None:
    here = Here()
    for partition in range(3):
        write(pair.source, pair.topic, values(0, 500), partition)
    record = run(pair.flow, here)
    assert record.state is RunState.DONE
    assert record.records == 1500
    assert record.backlog.most == 0
    assert {
        (partition_record.partition, partition_record.position, partition_record.end, partition_record.error)
        for partition_record in record.partitions
    } == {(partition, 500, 500, None) for partition in range(3)}
    pair.assert_equal()
    write(pair.source, pair.topic, values(500, 510), 1)
    record = run(pair.flow, here)
    assert record.records == 10
    assert record.passes == 1
    pair.assert_equal()
    record = run(pair.flow, here)
    assert (record.records, record.passes, record.state) == (0, 0, RunState.DONE)
    assert len(here.passes) == 2
    with FlowState(pair.flow) as state:
        assert RunRecord.from_json(state.read("run") or {}) == record
        assert state.read("slots") == {"highest": 2}


def test_a_lost_worker_costs_a_fence_and_another_pass(pair: Pair) -> None:
    write(pair.source, pair.topic, values(0, 300))

    class Losing(Here):
        def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            results = super().__call__(job, tasks)
            if len(self.passes) == 1:
                # Copied and committed, but nobody heard of it.
                raise LostProcess("a worker died")
            return results

    losing = Losing()
    record = run(pair.flow, losing)
    assert record.state is RunState.DONE
    assert record.backlog.most == 0
    assert any("a worker died" in note for note in record.notes)
    pair.assert_equal()


def test_another_run_takes_the_flow_over(pair: Pair) -> None:
    write(pair.source, pair.topic, values(0, 300))

    class Overtaken(Here):
        def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            Ownership.take(pair.flow, 2, 2).abandon()
            return super().__call__(job, tasks)

    with pytest.raises(FlowOwnedElsewhere):
        run(pair.flow, Overtaken())
    assert read(pair.target, pair.copy) == []
    assert run(pair.flow).records == 300
    pair.assert_equal()


def test_an_aborted_tail_does_not_start_a_pass_each_time(pair: Pair) -> None:
    write(pair.source, pair.topic, values(0, 10))
    producer = Producer({"bootstrap.servers": pair.source.bootstrap_servers, "transactional.id": pair.topic})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(pair.topic, b"never seen", partition=0)
    producer.flush(60)
    producer.abort_transaction(120)
    wait_until_readable(pair.source, pair.topic, [0])
    here = Here()
    assert run(pair.flow, here).backlog.most == 0
    assert run(pair.flow, here).backlog.most == 0
    assert len(here.passes) == 1
    pair.assert_equal()
