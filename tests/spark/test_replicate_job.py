"""spark_jobs/replicate.py as an operator starts it, with a local master."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from srm_common.domain.amount import Amount
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.transactions.active_writers import active_writers
from srm_common.replication.spark.spark_application import JVM_GONE
from srm_common.replication.spark.spark_conf import LAUNCH_SETTINGS, spark_settings
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import LocalKafka, ReservedPort
from srm_common.usecases.runs.run_journal import last_run
from tests.kafka.flows import flow_between, prepare, properties_of, read, write
from tests.spark.standalone import SPARK_HOME

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 2)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    return flow


def start(configuration: Path, flow: str, *arguments: str) -> subprocess.Popen[str]:
    return submitted("replicate.py", configuration, flow, *arguments)


def submitted(file: str, configuration: Path, flow: str, *arguments: str) -> subprocess.Popen[str]:
    """A job of ``spark_jobs``, as ``spark-submit`` starts it."""
    # What a killed one leaves goes with the test.
    temporary = configuration.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    ours = spark_settings("local[2]", 2, temporary=temporary)
    options = [item for key in LAUNCH_SETTINGS for item in ("--conf", f"{key}={ours[key]}")]
    return subprocess.Popen(
        [
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", *options),
            *(str(ROOT / "spark_jobs" / file), "--flow", flow, "--config", str(configuration)),
            *("--run-id", "r", *arguments),
        ],
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(configuration: Path, flow: str, *arguments: str) -> tuple[int, str]:
    job = start(configuration, flow, *arguments)
    output, _ = job.communicate(timeout=300)
    return job.returncode, output


def sentence(output: str) -> str:
    (found,) = [line.removeprefix("srm: ") for line in output.splitlines() if line.startswith("srm: ")]
    return found


def test_it_copies_and_a_second_time_finds_nothing(
    flow: FlowSettings,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
    tmp_path: Path,
) -> None:
    write(source_kafka, name, [b"v%d" % number for number in range(1000)])
    history = f"sqlite:///{tmp_path}/metrics.db"
    configuration = configuration_file(properties_of(flow) | {"metrics.database.url": history})
    code, output = run(configuration, str(flow.name))
    assert code == 0, output
    assert "1000 records" in output
    # What the task's log shows is for people: no Spark chatter.
    assert len(output.splitlines()) < 25, output
    assert read(target_kafka, f"{flow.name.source}.{name}") == read(source_kafka, name)
    assert MetricsStore(history).flows() == []
    code, output = run(configuration, str(flow.name), "--report")
    assert code == 0, output
    (row,) = MetricsStore(history).flows()
    assert (row.history.lag, row.last_run.run_id, row.partitions) == (Amount(0, 0, 2), "r", 2)
    assert "0 records" in output
    assert "in 0 passes" in output


def test_failures_are_one_sentence_and_an_exit_code(
    flow: FlowSettings, configuration_file: Callable[..., Path], source_kafka: LocalKafka, name: str
) -> None:
    configuration = configuration_file(properties_of(flow))
    code, output = run(configuration, "nowhere->target")
    assert code == 2
    assert "nowhere" in sentence(output)
    port = ReservedPort()
    try:
        silent = properties_of(flow) | {
            f"{flow.name.source}.bootstrap.servers": port.address,
            f"{flow.name}.admin.timeout.ms": 3000,
        }
        code, output = run(configuration_file(silent, "silent.properties"), str(flow.name))
    finally:
        port.release()
    assert code == 3, output
    assert flow.name.source in sentence(output)


def test_told_to_stop_it_fences_writes_its_record_and_ends(
    flow: FlowSettings,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
) -> None:
    write(source_kafka, name, [b"v%d" % number for number in range(1000)])
    job = start(configuration_file(properties_of(flow)), str(flow.name), "--max-seconds", "300")
    try:
        wait_for_a_commit(flow, name)
        driver = driver_of(job)
        driver.send_signal(signal.SIGTERM)
        output, _ = job.communicate(timeout=300)
    finally:
        if job.poll() is None:
            job.kill()
    assert job.returncode == 130, output
    assert "was stopped" in sentence(output)
    record = last_run(flow)
    assert record is not None
    assert (record.state, record.error) == (RunState.FAILED, "the run was stopped before its end")
    assert_nothing_is_open(flow, name)


def test_it_ends_when_its_jvm_is_killed(
    flow: FlowSettings, source_kafka: LocalKafka, name: str, configuration_file: Callable[..., Path]
) -> None:
    write(source_kafka, name, [b"v%d" % number for number in range(1000)])
    job = start(configuration_file(properties_of(flow)), str(flow.name), "--max-seconds", "300")
    try:
        wait_for_a_commit(flow, name)
        family = psutil.Process(job.pid).children(recursive=True)
        job.kill()
        # More to copy, so that it notices.
        write(source_kafka, name, [b"w%d" % number for number in range(1000)])
        _, alive = psutil.wait_procs(family, timeout=180)
        assert not [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    finally:
        job.kill()
        job.communicate(timeout=300)
    record = last_run(flow)
    assert record is not None
    assert record.state is RunState.FAILED
    assert "JVM is gone" in str(record.error)
    assert_nothing_is_open(flow, name)


def test_it_ends_without_its_jvm_when_there_is_nothing_to_copy(
    flow: FlowSettings, source_kafka: LocalKafka, name: str, configuration_file: Callable[..., Path]
) -> None:
    """Nothing asks Spark for anything then."""
    write(source_kafka, name, [b"v%d" % number for number in range(100)])
    job = start(configuration_file(properties_of(flow)), str(flow.name), "--max-seconds", "900")
    try:
        wait_for_a_commit(flow, name)
        family = psutil.Process(job.pid).children(recursive=True)
        job.kill()
        _, alive = psutil.wait_procs(family, timeout=300)
        assert not [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    finally:
        job.kill()
        job.communicate(timeout=300)
    record = last_run(flow)
    assert record is not None
    assert (record.state, record.error) == (RunState.FAILED, JVM_GONE)
    assert_nothing_is_open(flow, name)


def wait_for_a_commit(flow: FlowSettings, topic: str) -> None:
    copies = [TopicPartition(f"{flow.name.source}.{topic}", 0)]
    deadline = time.monotonic() + 180
    with ClusterLink(flow.target) as link:
        while not link.end_offsets(copies)[0][copies[0]]:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def assert_nothing_is_open(flow: FlowSettings, topic: str) -> None:
    assert active_writers(flow) == []
    # Markers of what was ended are on their way for a moment.
    copies = [TopicPartition(f"{flow.name.source}.{topic}", partition) for partition in range(2)]
    deadline = time.monotonic() + 180
    with ClusterLink(flow.target) as link:
        while True:
            stable, high = (link.end_offsets(copies, committed=committed)[0] for committed in (True, False))
            if stable == high:
                return
            assert time.monotonic() < deadline, (stable, high)
            time.sleep(0.1)


def driver_of(job: subprocess.Popen[str], file: str = "replicate.py") -> psutil.Process:
    """The Python process that runs the job under spark-submit."""
    (driver,) = [
        child
        for child in psutil.Process(job.pid).children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and file in " ".join(child.cmdline())
    ]
    return driver
