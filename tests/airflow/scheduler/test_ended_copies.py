"""Copies that are ended while they run: a killed Spark job, and tasks that a person marks as failed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.kafka.state import driver_presence
from srm_common.kafka.state.flow_state import FlowState
from srm_common.replication.driver.run_folder import PREFIX
from srm_common.settings_files.sources.secret_variables import FILE
from srm_common.testing import LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.java import temporary_folder
from srm_common.testing.local_airflow import LocalAirflow
from tests.airflow.scheduler.scheduled_flow import (
    DAG_ID,
    PASSWORD,
    copy_for_long,
    copying,
    read,
    run,
    settings,
    spark_processes,
    write,
)
from tests.faults.quotas import quota

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


def test_a_killed_spark_job_is_tried_again_without_loss_or_repeat(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    source, target = clusters
    write(source, topic, 1000)
    run_id = copy_for_long(airflow, topic, target)
    handed_over = set()
    for process in spark_processes(airflow, run_id):
        with contextlib.suppress(psutil.NoSuchProcess):
            # It has been there: the driver has reached the target.
            assert PASSWORD not in str((process.environ(), process.cmdline()))
            handed_over.add(Path(process.environ()[FILE]))
            process.kill()
    (file,) = handed_over
    assert not file.exists(), "the driver has read it"
    write(source, topic, 500, first=1000)
    assert airflow.wait_for_run(DAG_ID, run_id) == "success", airflow.task_states(DAG_ID, run_id)
    assert airflow.tasks(DAG_ID, run_id)["replicate"]["try_number"] == 2
    assert read(target, f"a.{topic}") == read(source, topic)


def test_marked_failed_while_running_ends_spark(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    source, target = clusters
    write(source, topic, 100)
    run_id = airflow.trigger(DAG_ID, {"topics": [topic], "run.max.seconds": 900})
    wait_until(copying(airflow, run_id, f"a.{topic}", target), 300, "copying")
    airflow.patch(f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/replicate", {"new_state": "failed"})
    wait_until(lambda: not spark_processes(airflow, run_id), 300, "the end of Spark")
    assert airflow.wait_for_run(DAG_ID, run_id) == "failed"
    states = airflow.task_states(DAG_ID, run_id)
    assert (states["replicate"], states["report_lag"], states["outcome"]) == ("failed", "success", "upstream_failed")
    (flow,) = airflow.get("/srm/api/v2/flows")["flows"]
    assert flow["health"]["state"] == "failing", flow["health"]
    folders = list(temporary_folder(airflow.log_path("scheduler")).glob(f"{PREFIX}*"))

    write(source, topic, 100, first=100)
    run_id, state = run(airflow)
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert not [folder for folder in folders if folder.exists()], "what the killed one had on the disk"
    assert read(target, f"a.{topic}") == read(source, topic)


def test_marked_failed_while_it_copies_without_spark_ends_the_task(
    airflow: LocalAirflow, clusters: tuple[LocalKafka, LocalKafka], topic: str
) -> None:
    """It leaves no transaction open and no sign of life, and the next run copies the rest."""
    source, target = clusters
    remote = f"a.{topic}"
    # How large its records are is known, then.
    write(source, topic, 1000)
    first, state = run(airflow, {"topics": [topic]})
    assert state == "success", airflow.task_states(DAG_ID, first)
    for start in range(1000, 301_000, 50_000):
        write(source, topic, 50_000, first=start)
    with (
        # Small chunks, so that there is something on the target long before the end, and a source that is slow.
        settings(airflow, "spark.min.bytes = 1000000000", "chunk.bytes = 100000"),
        quota(source, "consumer_byte_rate", 30_000, "srm.a.b.slot-0"),
    ):
        run_id = airflow.trigger(DAG_ID, {"topics": [topic]})
        wait_until(lambda: sum(map(len, read(target, remote).values())) > 1000, 600, "copying")
        assert airflow.task_states(DAG_ID, run_id)["replicate"] == "running"
        assert not spark_processes(airflow, run_id)
        (copier,) = drivers(target).values()
        process = psutil.Process(copier["pid"])
        airflow.patch(f"/api/v2/dags/{DAG_ID}/dagRuns/{run_id}/taskInstances/replicate", {"new_state": "failed"})
        wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 300, "its end")
    assert drivers(target) == {}
    wait_until(lambda: nothing_open(target, remote, "mm2-offsets.a.internal"), 300, "the end of its transaction")
    assert airflow.wait_for_run(DAG_ID, run_id) == "failed"
    assert 1000 < sum(map(len, read(target, remote).values())) < 301_000

    run_id, state = run(airflow, {"topics": [topic]})
    assert state == "success", airflow.task_states(DAG_ID, run_id)
    assert read(target, remote) == read(source, topic)


def drivers(target: LocalKafka) -> dict[str, Any]:
    """Signs of life of runs of the flow."""
    nowhere = ClusterSettings.plaintext("a", "127.0.0.1:1")
    flow = FlowSettings(FlowName("a", "b"), nowhere, ClusterSettings.plaintext("b", target.bootstrap_servers))
    with FlowState(flow) as state:
        return driver_presence.drivers(state.read_all())


def nothing_open(kafka: LocalKafka, *topics: str) -> bool:
    """Whether readers of committed records see as far as all others."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    known = kafka.admin().list_topics(timeout=60).topics
    places = {TopicPartition(topic, number): latest for topic in topics for number in known[topic].partitions}
    stable, ends = (
        [future.result(60).offset for future in kafka.admin().list_offsets(places, isolation_level=level).values()]
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    return stable == ends
