"""Passes in a real Spark application, between real brokers."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, CopyRange, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.chain import Predicate, PredicateKind, Step, StepKind
from srm_common.errors import LostProcess, SparkFailed
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.replication.driver import passes
from srm_common.replication.spark.free_cores import waits_for_cores
from srm_common.replication.spark.slot_work import not_copied
from srm_common.replication.spark.spark_conf import local_master, patient_master, spark_settings
from srm_common.replication.spark.spark_pass import CLOSES_HOLES, SparkPassRunner
from srm_common.testing import FakeCluster, LocalKafka
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.engine import slot_connections
from tests.kafka.flows import flow_between, prepare, read, write
from tests.kafka.records import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 4)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    return flow


def run(flow: FlowSettings, spark: SparkContext, run_id: str = "r", **options: float) -> RunRecord:
    return replicate(flow, RunOptions(run_id, **options), SparkPassRunner(lambda: spark))  # type: ignore[arg-type]


def assert_equal(flow: FlowSettings, source: LocalKafka, target: LocalKafka, topic: str) -> None:
    for partition in range(4):
        assert read(target, f"{flow.name.source}.{topic}", partition) == read(source, topic, partition)


def values(count: int, size: int = 100) -> list[bytes | None]:
    return [b"%08d" % number + os.urandom(size) for number in range(count)]


def jobs(spark: SparkContext) -> int:
    return len(spark.statusTracker().getJobIdsForGroup(None))


def workers(spark: SparkContext) -> list[psutil.Process]:
    """The Python processes that run tasks: children of the daemon."""
    gateway = spark._gateway
    assert gateway is not None
    found = []
    for process in psutil.Process(gateway.proc.pid).children(recursive=True):
        # They may end while they are looked at.
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent is not None and "daemon" in " ".join(parent.cmdline()):
                found.append(process)
    return found


def test_two_slots_copy_and_an_idle_run_starts_no_stage(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    # Enough that it is worth a second slot, even before anybody knows how large the records are.
    for partition in range(4):
        write(source_kafka, name, values(6000, 300), partition)
    # Passes with statements have workers of another kind, which stay for a while.
    before, others = jobs(spark), set(workers(spark))
    record = run(flow, spark)
    assert (record.state, record.records, record.backlog.most, record.passes) == (RunState.DONE, 24000, 0, 1)
    assert jobs(spark) == before + 1
    assert len(set(workers(spark)) - others) <= 2
    assert_equal(flow, source_kafka, target_kafka, name)
    assert run(flow, spark).passes == 0
    assert jobs(spark) == before + 1


def test_workers_keep_their_connections_from_pass_to_pass(
    spark: SparkContext, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "PASS_SECONDS", 0.5)
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic(name)
        flow = flow_between(source, target, name)
        prepare(flow)
        ended = threading.Event()

        def write_on() -> None:
            while not ended.wait(0.05):
                source.write(name, [(None, b"value")])

        writing = threading.Thread(target=write_on)
        writing.start()
        try:
            record = run(flow, spark, max_seconds=8.0)
        finally:
            ended.set()
            writing.join()
        assert (record.state, record.retries) == (RunState.DONE, 0)
        # Each worker has its own: Spark hands out idle ones in turns.
        assert record.passes > spark.defaultParallelism
        assert all(1 <= slot_connections(one) < record.passes for one in (source, target))


def test_transforms_are_applied_where_slots_run(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    gone = Predicate("gone", PredicateKind.TOMBSTONE)
    steps = (Step("drop", StepKind.FILTER, (), gone), Step("origin", StepKind.INSERT_HEADER, ("origin", "a")))
    for partition in range(4):
        write(source_kafka, name, [None if number % 3 == 1 else b"%d" % number for number in range(900)], partition)
    record = run(replace(flow, transforms=steps), spark)
    assert (record.state, record.records, record.backlog.most) == (RunState.DONE, 4 * 600, 0)
    for partition in range(4):
        wanted = [
            replace(seen, headers=(*seen.headers, ("origin", b"a")))
            for seen in read(source_kafka, name, partition)
            if seen.value is not None
        ]
        assert read(target_kafka, f"{flow.name.source}.{name}", partition) == wanted


def test_two_flows_share_an_application(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    other = f"{name}-other"
    source_kafka.create_topic(other, 4)
    second = flow_between(source_kafka, target_kafka, other)
    prepare(second)
    first = replace(flow, topics_exclude=(".*other",))
    for partition in range(4):
        write(source_kafka, name, values(200), partition)
        write(source_kafka, other, values(300), partition)
    records: dict[str, RunRecord] = {}
    threads = [
        threading.Thread(target=lambda one=settings: records.update({str(one.name): run(one, spark)}))
        for settings in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [records[str(settings.name)].records for settings in (first, second)] == [800, 1200]
    assert_equal(first, source_kafka, target_kafka, name)
    assert_equal(second, source_kafka, target_kafka, other)


@pytest.mark.faults
def test_a_killed_worker_loses_and_doubles_nothing(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    # Small chunks, so that the pass lasts and is full of commits.
    flow = replace(flow, chunk_bytes=64 << 10, fetch_partition_bytes=32 << 10, fetch_bytes=128 << 10)
    for partition in range(4):
        write(source_kafka, name, values(4000, 1500), partition, batch_size=16_000)
    killed: list[int] = []

    def kill() -> None:
        copies = [TopicPartition(f"{flow.name.source}.{name}", partition) for partition in range(4)]
        deadline = time.monotonic() + 180
        with ClusterLink(flow.target) as link:
            # Not before something is committed.
            while time.monotonic() < deadline and not any(link.end_offsets(copies)[0].values()):
                time.sleep(0.01)
        for victim in workers(spark):
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
                killed.append(victim.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    record = run(flow, spark)
    killer.join()
    assert killed
    assert (record.state, record.backlog.most) == (RunState.DONE, 0)
    assert record.passes > 1, "the pass was over before the worker died"
    assert any("lost its worker" in note for note in record.notes)
    assert_equal(flow, source_kafka, target_kafka, name)


def odd(job: CopyJob, task: SlotTask) -> SlotResult:
    """A slot that meets what nobody foresaw."""
    raise RuntimeError("nobody foresaw this")


def test_an_unforeseen_fault_is_the_error_of_its_partitions(spark: SparkContext, flow: FlowSettings) -> None:
    job = CopyJob("a->b", "a", flow.source, flow.target, "o", 1, "s", 1)
    tasks = [SlotTask(slot, None, (CopyRange("t", "a.t", slot, 5, 9),)) for slot in range(2)]
    results = SparkPassRunner(lambda: spark, odd)(job, tasks)
    assert [result.slot for result in results] == [0, 1]
    for result in results:
        assert result.needs_new_epoch
        (one,) = result.ranges
        assert (one.position, one.error_kind) == (5, "SrmError")
        assert one.error is not None
        assert "RuntimeError at test_spark_pass.py" in one.error
        assert one.error.endswith("nobody foresaw this")


def tells_what_is_loaded(job: CopyJob, task: SlotTask) -> SlotResult:
    """Looks at what its process came with."""
    return replace(not_copied(task), notes=tuple({"numba", "pyarrow"}.intersection(sys.modules)))


def test_workers_of_flows_that_change_records_are_forked_with_what_that_needs(spark: SparkContext) -> None:
    nowhere = ClusterSettings("a", "localhost:9", {}, {})
    plain = CopyJob("a->b", "a", nowhere, nowhere, "o", 1, "s", 1)
    changing = replace(plain, transforms=(Step("drop", StepKind.DROP_HEADERS, ("h",)),))
    runner = SparkPassRunner(lambda: spark, tells_what_is_loaded)
    loaded = [set(runner(job, [SlotTask(0, None, ())])[0].notes) for job in (plain, changing, plain)]
    assert loaded == [set(), {"numba", "pyarrow"}, set()]


def test_workers_of_flows_with_many_holes_to_close_are_forked_with_the_loops(spark: SparkContext) -> None:
    nowhere = ClusterSettings("a", "localhost:9", {}, {})
    job = CopyJob("a->b", "a", nowhere, nowhere, "o", 1, "s", 1)
    part = CopyRange("t", "a.t", 0, 0, 200_000)
    loaded = []
    try:
        for ranges in (
            (part, replace(part, partition=1)),
            (replace(part, compacted=True),),
            (replace(part, compacted=True), replace(part, partition=1, compacted=True)),
        ):
            runner = SparkPassRunner(lambda: spark, tells_what_is_loaded)
            # What the first pass of an application has to do counts for all.
            loaded.append([set(runner(job, [SlotTask(0, None, given)])[0].notes) for given in (ranges, ())])
    finally:
        spark.environment.pop(CLOSES_HOLES, None)
    assert loaded == [[set(), set()], [set(), set()], [{"numba"}, {"numba"}]]


def dies(job: CopyJob, task: SlotTask) -> SlotResult:
    """A slot whose process is gone."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


def test_a_second_attempt_copies_nothing_and_says_so(spark: SparkContext, flow: FlowSettings) -> None:
    job = CopyJob("a->b", "a", flow.source, flow.target, "o", 1, "s", 1)
    (result,) = SparkPassRunner(lambda: spark, dies)(job, [SlotTask(0, None, (CopyRange("t", "a.t", 0, 5, 9),))])
    assert result.needs_new_epoch
    assert [(range_result.position, range_result.error) for range_result in result.ranges] == [(5, None)]


def test_no_tasks_start_nothing() -> None:
    def never() -> SparkContext:
        raise AssertionError("started")

    runner = SparkPassRunner(never)
    nothing: Sequence[SlotTask] = ()
    assert runner(None, nothing) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "patient"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://h:7077", "spark://h:7077"),
    ],
)
def test_local_masters_survive_a_lost_worker(given: str, patient: str) -> None:
    assert patient_master(given) == patient


def test_a_shared_cluster_gives_no_more_cores_than_slots() -> None:
    assert spark_settings("spark://h:7077", 3)["spark.cores.max"] == "3"
    assert "spark.cores.max" not in spark_settings(local_master(3), 3)


def impatient(flow: FlowSettings) -> CopyJob:
    """A job whose passes are cancelled after a few seconds."""
    return CopyJob(
        str(flow.name),
        "a",
        flow.source,
        flow.target,
        "offsets",
        1,
        "segments",
        1,
        pass_seconds=1.0,
        retry_timeout_seconds=0.2,
        request_timeout_ms=100,
        transaction_timeout_ms=100,
    )


def test_a_pass_that_does_not_end_is_cancelled(flow: FlowSettings, spark: SparkContext) -> None:
    """A worker that stands still, as one would that waits inside a library for what never comes."""
    job = impatient(flow)
    tasks = [SlotTask(0, None, (CopyRange("t", "a.t", 0, 5, 9),))]

    def stands_still(job: CopyJob, task: SlotTask) -> SlotResult:
        time.sleep(3600)
        raise AssertionError("it was not ended")

    with pytest.raises(LostProcess, match="a pass of 1 slots had not ended"):
        SparkPassRunner(lambda: spark, stands_still)(job, tasks)

    def ends(job: CopyJob, task: SlotTask) -> SlotResult:
        return SlotResult(task.slot, ())

    (result,) = SparkPassRunner(lambda: spark, ends)(job, tasks)
    assert result.slot == 0


def test_a_pass_that_spark_has_no_cores_for_says_so(
    flow: FlowSettings, spark: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many slots it has."""

    def hold(_: object) -> list[int]:
        time.sleep(3600)
        return []

    def hold_all_cores() -> None:
        # It is cancelled with the pass.
        with contextlib.suppress(Exception):
            spark.parallelize(range(2), 2).mapPartitions(hold).collect()

    holding = threading.Thread(target=hold_all_cores)
    holding.start()
    java: Any = spark._jsc

    def running(wanted: int) -> bool:
        found: int = sum(one.numRunningTasks() for one in java.sc().statusTracker().getExecutorInfos())
        return found == wanted

    eventually(lambda: running(2), 300, "the cores are not held")
    monkeypatch.setattr("srm_common.replication.spark.spark_pass.START_SECONDS", 3.0)
    assert not waits_for_cores(spark, 2)
    tasks = [SlotTask(slot, None, (CopyRange("t", "a.t", slot, 5, 9),)) for slot in range(8)]
    told = (
        r"has started none of the 8 slots of a pass within 3 s: local\[2,4\] has no free cores .* spark\.driver\.host$"
    )
    with pytest.raises(SparkFailed, match=told):
        SparkPassRunner(lambda: spark)(replace(impatient(flow), retry_timeout_seconds=60.0), tasks)
    holding.join()
    # For the next test.
    eventually(lambda: running(0), 300, "the cores are still held")
