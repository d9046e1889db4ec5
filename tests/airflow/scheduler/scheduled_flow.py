"""The flow that the scheduler runs: its records on both sides, its runs, their processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from srm_common.testing import LocalKafka
from srm_common.testing.airflow_client import wait_until
from srm_common.testing.local_airflow import LocalAirflow

DAG_ID = "srm.a.b"
TASKS = {"refresh_topics", "replicate", "sync_checkpoints", "emit_heartbeat", "report_lag", "outcome"}
#: States of a flow that does what it is told to.
GOOD = ("running", "catching_up", "idle")
#: The lists of topics and groups, where they are edited while the flow runs.
VARIABLE = "srm_filters__a__b"
#: Of the connection by which tasks reach the target.
PASSWORD = "hush-hush"
Headers = list[tuple[str, bytes | None]]
Row = tuple[bytes | None, bytes | None, Headers, int]


def write(kafka: LocalKafka, topic: str, count: int, first: int = 0) -> None:
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 20,
        }
    )
    for number in range(first, first + count):
        producer.produce(topic, key=f"{number}", value=f"value {number}", headers=[("h", b"1"), ("h", None)])
    assert producer.flush(60) == 0


def read(kafka: LocalKafka, topic: str, partitions: int = 2) -> dict[int, list[Row]]:
    """What a read_committed consumer sees, by partition."""
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    rows: dict[int, list[Row]] = {number: [] for number in range(partitions)}
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in rows])
    left = set(rows)
    deadline = time.monotonic() + 180
    while left and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            left.discard(message.partition() or 0)
            continue
        headers: Any = message.headers() or []
        rows[message.partition() or 0].append((message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    assert not left
    return rows


def run(airflow: LocalAirflow, params: dict[str, Any] | None = None) -> tuple[str, str]:
    """(run id, final state)."""
    run_id = airflow.trigger(DAG_ID, params)
    return run_id, airflow.wait_for_run(DAG_ID, run_id)


@contextlib.contextmanager
def settings(airflow: LocalAirflow, *lines: str) -> Iterator[None]:
    """The file has these lines, too, while the block lasts; each try of a task reads it again."""
    file = Path(airflow.environment["SRM_CONFIG"])
    before = file.read_text()
    file.write_text("".join(f"{line}\n" for line in (before.rstrip(), *lines)))
    try:
        yield
    finally:
        file.write_text(before)


def spark_processes(airflow: LocalAirflow, run_id: str) -> list[psutil.Process]:
    """The JVM of a run, its driver and its Python workers; the workers' command lines are the same for all runs."""
    found = []
    for process in airflow.descendants():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if "airflow" not in command and (run_id in command or any("daemon" in word for word in command)):
                found.append(process)
    return found


def copy_for_long(airflow: LocalAirflow, topic: str, target: LocalKafka) -> str:
    """Trigger a run that copies one topic until it is ended, and return its id once it copies. What is started after it
    ends when all is copied, a second try as well."""
    with settings(airflow, "run.max.seconds = 900"):
        run_id = airflow.trigger(DAG_ID, {"topics": [topic]})
        wait_until(copying(airflow, run_id, f"a.{topic}", target), 300, "copying")
    return run_id


def copying(airflow: LocalAirflow, run_id: str, remote: str, target: LocalKafka) -> Callable[[], bool]:
    """True once Spark has copied something in this run and still runs."""

    def ask() -> bool:
        try:
            known = target.admin().list_topics(timeout=60).topics
        except KafkaException:  # a broker that is too busy to answer in time is asked again
            return False
        return remote in known and bool(spark_processes(airflow, run_id)) and any(read(target, remote).values())

    return ask
