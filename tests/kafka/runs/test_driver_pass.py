"""Runs that are interrupted at any moment."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.client.connections.event_loop import interrupt
from srm_common.kafka.state.driver_presence import drivers
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.spark.driver_pass import DriverPassRunner
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.runs.run_journal import last_run
from tests.kafka.flows import flow_between, prepare, read, write
from tests.kafka.markers import wait_until_readable
from tests.slot_worker import here

pytestmark = pytest.mark.kafka
LIMIT = 100_000


class Elsewhere:
    """Stands for Spark: copies in this process and counts the passes that it was given."""

    def __init__(self) -> None:
        self.passes = 0

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        self.passes += 1
        return here(job, tasks)


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 2)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    return flow


class Interrupted:
    """Copies in this process, and is told to end at some moment of that, as Airflow's task is when it is marked failed.

    The signal's handler asks for the end.
    """

    def __init__(self) -> None:
        self._copy = DriverPassRunner(1 << 30, None)
        self._dice = random.Random(7)
        self._seconds = 1.0

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        before = signal.signal(signal.SIGALRM, lambda *_: interrupt())
        signal.setitimer(signal.ITIMER_REAL, self._dice.uniform(0.001, self._seconds))
        began = time.monotonic()
        try:
            results = self._copy(job, tasks)
            self._seconds = time.monotonic() - began
            return results
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def ends(kafka: LocalKafka, topic: str, isolation: IsolationLevel) -> list[int]:
    places = {TopicPartition(topic, number): OffsetSpec.latest() for number in (0, 1)}  # type: ignore[no-untyped-call]
    futures = kafka.admin().list_offsets(places, isolation_level=isolation)
    return [futures[place].result(60).offset for place in places]


def test_a_run_that_is_told_to_end_in_its_midst_leaves_nothing_open(
    flow: FlowSettings, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    """At any moment of its copying, most of which are within a task of the event loop."""
    copy = f"{flow.name.source}.{name}"
    many_turns = replace(flow, chunk_bytes=20_000, fetch_partition_bytes=4_000, fetch_bytes=16_000)
    write(source_kafka, name, [b"%0100d" % number for number in range(100)])
    replicate(many_turns, RunOptions("measured"), DriverPassRunner(0, here))
    interrupted = Interrupted()
    stopped = round_ = 0
    while stopped < 6:
        round_ += 1
        for partition in (0, 1):
            write(source_kafka, name, [b"%0100d" % number for number in range(1500)], partition)
        try:
            replicate(many_turns, RunOptions(f"round-{round_}"), interrupted)
        except KeyboardInterrupt:
            stopped += 1
            record = last_run(flow)
            assert record is not None
            assert (record.run_id, record.state) == (f"round-{round_}", RunState.FAILED)
        # None of its transactions holds back readers.
        wait_until_readable(target_kafka, copy, (0, 1))
        stable, all_ = (
            ends(target_kafka, copy, level)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        assert stable == all_
        with FlowState(flow) as state:
            assert drivers(state.read_all()) == {}
    replicate(flow, RunOptions("to the end"), DriverPassRunner(1 << 30, None))
    for partition in (0, 1):
        assert read(target_kafka, copy, partition) == read(source_kafka, name, partition)
