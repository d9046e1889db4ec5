"""The Spark job through a real standalone master and two workers that have nothing installed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.replication.spark.worker_archive import pack_worker_archive
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.run_journal import last_run
from tests.kafka.flows import flow_between, prepare, properties_of, read, write
from tests.spark.standalone import SPARK_HOME, StandaloneSpark, temporary_environment

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with StandaloneSpark(tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the standard library only."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def submit(
    cluster: StandaloneSpark,
    python: Path,
    configuration: Path,
    flow: str,
    conf: Mapping[str, str],
    file: str = "replicate.py",
) -> subprocess.Popen[str]:
    """The job as an operator submits it; the driver runs in this interpreter. spark-submit passes all that the driver
    writes to standard output."""
    options = [item for key, value in conf.items() for item in ("--conf", f"{key}={value}")]
    spark_submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, *options]
    job = [str(ROOT / "spark_jobs" / file), "--flow", flow, "--config", str(configuration), "--run-id", "r"]
    submitted = subprocess.Popen(
        spark_submit + job,
        env={
            **os.environ,
            **temporary_environment(configuration.parent),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": str(python),
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    cluster.processes.append(submitted)
    return submitted


def output_of(job: subprocess.Popen[str]) -> str:
    try:
        return job.communicate(timeout=300)[0]
    finally:
        if job.poll() is None:
            job.kill()


def test_the_package_and_its_dependencies_reach_the_workers(
    cluster: StandaloneSpark,
    bare_python: Path,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
    tmp_path: Path,
) -> None:
    source_kafka.create_topic(name, 4)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    for partition in range(4):
        write(source_kafka, name, [b"%d" % number + os.urandom(300) for number in range(6000)], partition)
    configuration = configuration_file(properties_of(flow))
    archive = tmp_path / "workers.tar.gz"
    pack_worker_archive(archive)

    without = submit(cluster, bare_python, configuration, str(flow.name), {})
    output = output_of(without)
    assert without.returncode == 2, output
    (sentence,) = [line for line in output.splitlines() if line.startswith("srm: ")]
    assert sentence.startswith("srm: Spark workers cannot run the copy (ModuleNotFoundError")

    conf = {"spark.archives": f"{archive}#srm", "spark.executorEnv.PYTHONPATH": "srm"}
    done = submit(cluster, bare_python, configuration, str(flow.name), conf)
    output = output_of(done)
    assert done.returncode == 0, output + cluster.logs()[-3000:]
    record = last_run(flow)
    assert record is not None
    assert (record.records, record.backlog.most, record.failed_partitions) == (24000, 0, ())
    for partition in range(4):
        assert read(target_kafka, f"{flow.name.source}.{name}", partition) == read(source_kafka, name, partition)
    # Both workers had a slot.
    assert len(list(cluster.work_of_last_application())) == 2

    verified = submit(cluster, bare_python, configuration, str(flow.name), conf, "verify.py")
    output = output_of(verified)
    assert verified.returncode == 0, output + cluster.logs()[-3000:]
    assert "no difference in 4 partitions, 24000 records proved" in output


_SENDS = """
import sys
from dataclasses import replace
from srm_common.domain.cluster import ClusterSettings, JavaStore
from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.kafka.client.logins.shipped_files import shipped_contents
from srm_common.replication.spark.slot_work import not_copied
from srm_common.replication.spark.spark_conf import spark_settings
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_pass import SparkPassRunner

def tells(job, task, sql=None):
    contents = shipped_contents(job.source.truststore.location, job.source.files)
    return replace(not_copied(task), notes=(str(len(contents or b"")),))

source = replace(ClusterSettings.plaintext("a", "127.0.0.1:1"), truststore=JavaStore("only-here.jks"))
context = spark_context(lambda master: spark_settings(master, 1), sys.argv[1])
job = CopyJob("a->b", "a", source, source, "o", 1, "s", 1)
(result,) = SparkPassRunner(lambda: context, tells)(job, [SlotTask(0, None, ())])
print(*result.notes)
"""


def test_files_of_the_driver_reach_the_workers_and_are_left_nowhere(cluster: StandaloneSpark, tmp_path: Path) -> None:
    """A relative path leads to it only from the driver's folder."""
    secret = os.urandom(64)
    here, events, conf = (tmp_path / name for name in ("here", "events", "conf"))
    for folder in (here, events, conf):
        folder.mkdir()
    (here / "only-here.jks").write_bytes(secret)
    (conf / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {events.as_uri()}\nspark.executorEnv.PYTHONPATH {ROOT}\n"
    )
    before = time.time()
    done = subprocess.run(
        [sys.executable, "-c", _SENDS, cluster.master],
        env={
            **os.environ,
            **temporary_environment(tmp_path),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        },
        cwd=here,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.splitlines()[-1:] == [str(len(secret))], done.stderr[-3000:]
    assert any(events.iterdir()), "Spark has kept an event log"
    written = [path for folder in (tmp_path, cluster.directory) for path in folder.rglob("*") if path.is_file()]
    found = [path for path in written if path.stat().st_mtime >= before and secret in path.read_bytes()]
    assert found == []


@pytest.mark.soak  # packing and unpacking take more than a minute
def test_transforms_and_statements_run_on_workers_with_the_larger_archive(
    cluster: StandaloneSpark,
    bare_python: Path,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
    tmp_path: Path,
) -> None:
    source_kafka.create_topic(name, 2)
    for partition in range(2):
        write(source_kafka, name, [b'{"n":%d,"card":"4711"}' % number for number in range(2000)], partition)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    mask = {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "card",
        "value.format": "json",
        "transforms.sql": "SELECT value FROM records WHERE CAST(value AS STRING) NOT LIKE '%7,%'",
    }
    keys = {f"{flow.name}.{key}": value for key, value in mask.items()}
    configuration = configuration_file(properties_of(flow) | keys)
    archive = tmp_path / "workers.tar.gz"
    pack_worker_archive(archive, transforms=True)
    conf = {"spark.archives": f"{archive}#srm", "spark.executorEnv.PYTHONPATH": "srm"}
    done = submit(cluster, bare_python, configuration, str(flow.name), conf)
    output = output_of(done)
    assert done.returncode == 0, output + cluster.logs()[-3000:]
    record = last_run(flow)
    assert record is not None
    assert (record.records, record.failed_partitions) == (3600, ())
    assert [partition_record.dropped_records for partition_record in record.partitions] == [200, 200]
    expected = [b'{"n":%d,"card":""}' % number for number in range(2000) if number % 10 != 7]
    for partition in range(2):
        assert [seen.value for seen in read(target_kafka, f"{flow.name.source}.{name}", partition)] == expected


@pytest.mark.faults
def test_a_killed_executor_loses_and_doubles_nothing(
    cluster: StandaloneSpark,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
) -> None:
    source_kafka.create_topic(name, 4)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    for partition in range(4):
        write(
            source_kafka,
            name,
            [b"%d" % number + os.urandom(700) for number in range(8000)],
            partition,
            batch_size=16_000,
        )
    # Small chunks, so that the pass lasts and is full of commits.
    chunks = {"chunk.bytes": 65536, "fetch.partition.bytes": 32768, "fetch.bytes": 131072}
    configuration = configuration_file(
        properties_of(flow) | {f"{flow.name}.{key}": value for key, value in chunks.items()}
    )
    # "Installed" on the workers: this interpreter, and the package where it is.
    conf = {"spark.executorEnv.PYTHONPATH": str(ROOT)}
    job = submit(cluster, Path(sys.executable), configuration, str(flow.name), conf)
    copies = [TopicPartition(f"{flow.name.source}.{name}", partition) for partition in range(4)]
    deadline = time.monotonic() + 180
    with ClusterLink(flow.target) as link:
        while not any(link.end_offsets(copies)[0].values()):
            assert time.monotonic() < deadline
            assert job.poll() is None, output_of(job)
            time.sleep(0.01)
    victims = cluster.executors()
    victims[0].kill()
    output = output_of(job)
    assert job.returncode == 0, output + cluster.logs()[-3000:]
    record = last_run(flow)
    assert record is not None
    assert record.backlog.most == 0
    assert any("lost its worker" in note for note in record.notes), output
    for partition in range(4):
        assert read(target_kafka, f"{flow.name.source}.{name}", partition) == read(source_kafka, name, partition)
