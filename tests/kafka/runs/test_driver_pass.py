"""Small passes are copied by the driver; for all others there is Spark."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.client.event_loop import interrupt
from srm_common.kafka.state.driver_presence import drivers
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.slots.slot import copy_slot
from srm_common.replication.spark.driver_pass import DriverPassRunner, NeedsSpark
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.runs.run_journal import last_run
from tests.kafka.flows import flow_between, prepare, read, write
from tests.kafka.markers import wait_until_readable

pytestmark = pytest.mark.kafka
LIMIT = 100_000


class Elsewhere:
    """Stands for Spark: copies in this process and counts the passes that it was given."""

    def __init__(self) -> None:
        self.passes = 0

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        self.passes += 1
        return [copy_slot(job, task) for task in tasks]


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 2)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    return flow


def test_only_what_is_known_to_be_small_does_without_spark(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    def equal() -> bool:
        return all(
            read(target_kafka, f"{flow.name.source}.{name}", partition) == read(source_kafka, name, partition)
            for partition in (0, 1)
        )

    spark = Elsewhere()
    write(source_kafka, name, [b"%0100d" % number for number in range(10)])
    with pytest.raises(NeedsSpark):
        replicate(flow, RunOptions("first"), DriverPassRunner(LIMIT, None))
    # As if nobody had tried.
    assert last_run(flow) is None
    assert read(target_kafka, f"{flow.name.source}.{name}", 0) == []
    assert replicate(flow, RunOptions("first"), DriverPassRunner(LIMIT, spark)).records == 10
    assert spark.passes == 1

    write(source_kafka, name, [b"%0100d" % number for number in range(20)], partition=1)
    assert replicate(flow, RunOptions("small"), DriverPassRunner(LIMIT, None)).records == 20
    write(source_kafka, name, [b"%0100d" % number for number in range(20)])
    assert replicate(flow, RunOptions("small, too"), DriverPassRunner(LIMIT, spark)).records == 20
    assert replicate(flow, RunOptions("idle"), DriverPassRunner(LIMIT, None)).records == 0
    assert spark.passes == 1
    assert equal()

    write(source_kafka, name, [b"%0100d" % number for number in range(2000)])
    with pytest.raises(NeedsSpark):
        replicate(flow, RunOptions("large"), DriverPassRunner(LIMIT, None))
    assert replicate(flow, RunOptions("large"), DriverPassRunner(LIMIT, spark)).records == 2000
    write(source_kafka, name, [b"a record"])
    replicate(flow, RunOptions("goes on reading", max_seconds=0.5), DriverPassRunner(LIMIT, spark))
    write(source_kafka, name, [b"a record"])
    replicate(flow, RunOptions("always"), DriverPassRunner(0, spark))
    assert spark.passes == 4
    assert equal()


def test_a_pass_that_turns_out_to_be_large_does_not_end_the_run(
    flow: FlowSettings,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(source_kafka, name, [b"small"] * 1000)
    replicate(flow, RunOptions("measured"), DriverPassRunner(LIMIT, Elsewhere()))
    write(source_kafka, name, [b"x" * 2000] * 1000)
    monkeypatch.setattr("srm_common.replication.spark.driver_pass._SECONDS", 1e-9)  # a pass ends after its first chunk
    changed = replace(flow, chunk_bytes=300_000, fetch_partition_bytes=100_000)
    runner = DriverPassRunner(LIMIT, None)
    record = replicate(changed, RunOptions("heavier than expected"), runner)
    assert record.records == 1000
    assert record.passes > 1
    copy = f"{flow.name.source}.{name}"
    assert read(target_kafka, copy, 0) == read(source_kafka, name, 0)


@contextlib.contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """As Airflow's task does when it is marked failed: the signal's handler asks for the end."""
    before = signal.signal(signal.SIGALRM, lambda *_: interrupt())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def ends(kafka: LocalKafka, topic: str, isolation: IsolationLevel) -> list[int]:
    places = {TopicPartition(topic, number): OffsetSpec.latest() for number in (0, 1)}  # type: ignore[no-untyped-call]
    found = kafka.admin().list_offsets(places, isolation_level=isolation)
    return [found[place].result(60).offset for place in places]


def test_a_run_that_is_told_to_end_in_its_midst_leaves_nothing_open(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """At any moment, most of which are within a task of the event loop."""
    dice, copy = random.Random(7), f"{flow.name.source}.{name}"
    many_turns = replace(flow, chunk_bytes=20_000, fetch_partition_bytes=4_000, fetch_bytes=16_000)
    write(source_kafka, name, [b"%0100d" % number for number in range(100)])
    replicate(many_turns, RunOptions("measured"), DriverPassRunner(LIMIT, Elsewhere()))
    stopped = 0
    for round_ in range(12):
        for partition in (0, 1):
            write(source_kafka, name, [b"%0100d" % number for number in range(3000)], partition)
        try:
            with interrupted_after(dice.uniform(0.2, 2.0)):
                replicate(many_turns, RunOptions(f"round-{round_}"), DriverPassRunner(1 << 30, None))
        except KeyboardInterrupt:
            stopped += 1
            record = last_run(flow)
            assert record is not None
            assert (record.run_id, record.state) == (f"round-{round_}", RunState.FAILED)
        # Nothing of it holds back readers, and nobody has to wait for it.
        wait_until_readable(target_kafka, copy, (0, 1))
        stable, all_ = (
            ends(target_kafka, copy, one) for one in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        assert stable == all_
        with FlowState(flow) as state:
            assert drivers(state.read_all()) == {}
    assert stopped
    replicate(flow, RunOptions("to the end"), DriverPassRunner(1 << 30, None))
    for partition in (0, 1):
        assert read(target_kafka, copy, partition) == read(source_kafka, name, partition)
