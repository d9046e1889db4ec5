"""spark_jobs/verify.py as an operator starts it, with a local master; and its tasks in an application of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import StateKey
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.differences import Findings
from srm_common.domain.verification.summary import VerificationSummary
from srm_common.domain.verification.tasks import (
    TaskResult,
    VerificationJob,
    VerificationPart,
    VerificationTask,
)
from srm_common.domain.verification.verification import Against, PartitionVerified, Verdict, VerificationScope
from srm_common.replication.spark.spark_verification import SparkVerification
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.verification.kept_verification import results_in, summary_in, verify_and_keep
from srm_common.usecases.verification.shared_verification import SharedVerification, verify_task
from tests.flow_settings import small_flow
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.slot_worker import here
from tests.spark.test_replicate_job import driver_of, sentence, submitted

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARTITIONS = 8


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    """A flow that has copied a topic, in three runs."""
    source_kafka.create_topic(name, PARTITIONS)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    for number in range(3):
        for partition in range(PARTITIONS):
            write(source_kafka, name, [b"%d %d" % (number, n) * 50 for n in range(50)], partition)
        record = replicate(flow, RunOptions(f"r{number}"), here)
        assert not record.error
    return flow


def as_if_large(flow: FlowSettings) -> None:
    """So that each partition is cut into tasks of its own."""
    with FlowClusters(flow) as clusters:
        clusters.state.write(StateKey.SIZES, {topic: 64 << 20 for topic in [flow.topics[0].removesuffix(".*")]})


def kept(flow: FlowSettings) -> tuple[VerificationSummary | None, dict[TopicPartition, PartitionVerified]]:
    with FlowClusters(flow) as clusters:
        known = clusters.state.read_all(StateKey.VERIFICATION, prefix=StateKey.VERIFIED)
    return summary_in(known), {
        verified.place: verified for topic in results_in(known).values() for verified in topic.values()
    }


def start(configuration: Path, flow: FlowSettings, *arguments: str) -> subprocess.Popen[str]:
    return submitted("verify.py", configuration, str(flow.name), *arguments)


def run(configuration: Path, flow: FlowSettings, *arguments: str) -> tuple[int, str]:
    job = start(configuration, flow, *arguments)
    output, _ = job.communicate(timeout=300)
    return job.returncode, output


def test_two_slots_prove_a_flow_and_name_a_planted_difference(
    flow: FlowSettings, target_kafka: LocalKafka, name: str, configuration_file: Callable[..., Path]
) -> None:
    as_if_large(flow)
    configuration = configuration_file(properties_of(flow) | {f"{flow.name}.tasks.max": 2})
    code, output = run(configuration, flow)
    assert code == 0, output
    assert f"{flow.name}: no difference in 8 partitions, 1200 records proved" in output
    assert len(output.splitlines()) < 25, output
    summary, results = kept(flow)
    assert summary is not None
    assert (summary.proved, summary.records, len(results)) == (True, 1200, PARTITIONS)

    copy = f"{flow.name.source}.{name}"
    write(target_kafka, copy, [b"not ours"], 5)
    code, output = run(configuration, flow, "--topics", name)
    assert code == 1, output
    assert f"the first: {copy}-5, offset " in sentence(output)
    assert "records that the flow did not write" in sentence(output)
    assert f"{copy}-5: different" in output
    assert kept(flow)[1][TopicPartition(name, 5)].verdict is Verdict.DIFFERENT
    code, output = run(configuration, flow, "--against", "source", "--topics-exclude", name)
    assert (code, "nothing was compared" in output) == (0, True), output


def test_little_is_compared_without_a_worker_and_faults_are_one_sentence(
    flow: FlowSettings, configuration_file: Callable[..., Path]
) -> None:
    configuration = configuration_file(properties_of(flow))
    code, output = run(configuration, flow)
    assert code == 0, output
    assert "1200 records proved" in output
    code, output = run(configuration, replace(flow, name=replace(flow.name, source="nowhere")))
    assert code == 2, output
    assert "nowhere" in sentence(output)
    code, output = run(configuration, flow, "--topics", "a(")
    assert (code, "topics of this run: 'a(' is not a usable expression" in sentence(output)) == (2, True)


def test_told_to_stop_it_keeps_what_was_compared_and_is_resumed(
    flow: FlowSettings, configuration_file: Callable[..., Path]
) -> None:
    with FlowClusters(flow) as clusters:
        before = verify_and_keep(clusters)
    as_if_large(flow)
    configuration = configuration_file(properties_of(flow) | {f"{flow.name}.tasks.max": 2})
    job = start(configuration, flow)
    try:
        deadline = time.monotonic() + 180
        while (summary := kept(flow)[0]) is None or summary.started_ms <= before.ended_ms:
            assert time.monotonic() < deadline
            assert job.poll() is None
            time.sleep(0.2)
        driver_of(job, "verify.py").send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=300)
    finally:
        if job.poll() is None:
            job.kill()
    assert job.returncode == 130, output
    assert "--resume" in sentence(output)
    stopped, results = kept(flow)
    assert stopped is not None
    assert stopped.ended_ms is None
    assert set(stopped.counts) == {Verdict.PROVED}, "what was cancelled is no fault"
    done = {place: one.checked_ms for place, one in results.items() if one.checked_ms >= stopped.started_ms}
    code, output = run(configuration, flow, "--resume")
    assert code == 0, output
    ended, results = kept(flow)
    assert ended is not None
    assert ended.ended_ms is not None
    assert ended.started_ms == stopped.started_ms
    assert all(results[place].checked_ms == moment for place, moment in done.items())
    assert all(result.checked_ms >= ended.started_ms for result in results.values())


# ---- tasks


NOWHERE = ClusterSettings.plaintext("a", "127.0.0.1:1")
JOB = VerificationJob(small_flow(NOWHERE, NOWHERE, ".*"), VerificationScope(), Against.MAP)


def tasks(count: int) -> list[VerificationTask]:
    return [
        VerificationTask(number, (VerificationPart(TopicPartition("t", number), "a.t", 1),)) for number in range(count)
    ]


def proved(task: VerificationTask) -> TaskResult:
    return TaskResult(task.number, tuple(replace(part.failed(""), fault=None) for part in task.parts))


def dies_at_first(job: VerificationJob, task: VerificationTask) -> TaskResult:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    if task.number == 1 and not context.attemptNumber():
        os.kill(os.getpid(), signal.SIGKILL)
    return proved(task)


def always_dies(job: VerificationJob, task: VerificationTask) -> TaskResult:
    if task.number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return proved(task)


def odd(job: VerificationJob, task: VerificationTask) -> TaskResult:
    raise RuntimeError("nobody foresaw this")


def test_a_killed_workers_task_is_done_again_and_counts_once(spark: SparkContext) -> None:
    results = list(SparkVerification(lambda: spark, dies_at_first, 2)(JOB, tasks(4)))
    assert sorted(result.number for result in results) == [0, 1, 2, 3]
    assert all(result.results[0].fault is None for result in results)


def test_a_task_whose_workers_die_takes_no_others_with_it(spark: SparkContext) -> None:
    results = {
        result.number: result.results[0] for result in SparkVerification(lambda: spark, always_dies, 2)(JOB, tasks(4))
    }
    assert {number for number, one in results.items() if one.fault is None} == {0, 2, 3}
    assert "Spark gave up the comparison" in str(results[1].fault)


def test_what_nobody_foresaw_is_a_fault_of_the_partitions(spark: SparkContext) -> None:
    (result,) = SparkVerification(lambda: spark, odd, 2)(JOB, tasks(1))
    assert "RuntimeError at test_verify_job.py" in str(result.results[0].fault)
    assert result.results[0].findings == Findings()


def test_no_more_tasks_are_begun_when_it_is_to_stop(spark: SparkContext) -> None:
    stopping = threading.Event()
    results = SparkVerification(lambda: spark, lambda job, task: proved(task), 1, stopping)(JOB, tasks(50))
    next(results)
    stopping.set()
    with pytest.raises(KeyboardInterrupt):
        next(results)


def test_real_tasks_of_two_slots_find_what_one_process_finds(
    flow: FlowSettings, spark: SparkContext, target_kafka: LocalKafka, name: str
) -> None:
    write(target_kafka, f"{flow.name.source}.{name}", [b"not ours"], 3)
    as_if_large(flow)
    for against in Against:
        with FlowClusters(flow) as clusters:
            alone = verify_and_keep(clusters, against=against)
            runner = SparkVerification(lambda: spark, verify_task, 2)
            verification = verify_and_keep(clusters, against=against, share=SharedVerification(runner, 0))
        assert [partition.findings for partition in verification.partitions] == [
            partition.findings for partition in alone.partitions
        ]
        assert [verified.partition for verified in verification.different] == [3]
