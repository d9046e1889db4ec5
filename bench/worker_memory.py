"""What memory a slot's Python worker takes with transforms: ``python -m bench.worker_memory``.

Two brokers, Spark in this process, one slot with the default buffers that copies a topic of eight partitions, once
for each kind of transform. What it prints is the largest resident memory that the kernel has seen of any Python worker
that Spark's daemon forked (``VmHWM``), with pages that it shares with the daemon. The figures in docs/transforms.md are
the defaults'.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import psutil
from confluent_kafka import Producer

from bench.records import key_of, value_pool
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.statements import Statement
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import local_master, spark_settings
from srm_common.replication.spark.spark_pass import SparkPassRunner
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import raise_if_failed, replicate
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics

_PARTITIONS = 8
_PREFIX = "org.apache.kafka.connect.transforms"
_CHAIN = {
    "transforms": "sane,origin",
    "transforms.sane.type": f"{_PREFIX}.Filter",
    "transforms.sane.predicate": "test",
    "transforms.origin.type": f"{_PREFIX}.InsertHeader",
    "transforms.origin.header": "origin",
    "transforms.origin.value.literal": "east",
    "predicates": "test",
    "predicates.test.type": f"{_PREFIX}.predicates.RecordIsTombstone",
}
_SQL = "SELECT array_append(headers, named_struct('key', 'origin', 'value', value)) AS headers FROM records"
KINDS: dict[str, dict[str, Any]] = {
    "unopened": {},
    "Connect": {"transforms": parse_chain(_CHAIN)},
    "Python": {"transforms_python": "bench.worker_memory:as_it_is"},
    "SQL, plain": {"statements": (Statement("transforms.sql", "SELECT key FROM records WHERE value IS NOT NULL"),)},
    "SQL in Spark": {"statements": (Statement("transforms.sql", _SQL),)},
}


def as_it_is(records: Any) -> Any:
    """The user's function."""
    return records


def _highest_of_workers() -> int:
    """Of the Python workers that this process's Spark keeps for the next task: the kernel remembers their peaks."""
    peak_bytes = 0
    for process in psutil.Process().children(recursive=True):
        try:
            parent = process.parent()
            # The daemon's own parent is the JVM.
            if parent is not None and "daemon" in " ".join(parent.cmdline()):
                peak_bytes = max(peak_bytes, _peak_bytes(process.pid))
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    if not peak_bytes:
        raise RuntimeError("Spark has no Python worker left")
    return peak_bytes


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")), 0)


def _write(kafka: LocalKafka, topic: str, record_bytes: int, records: int) -> None:
    kafka.create_topic(topic, _PARTITIONS)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "compression.type": "lz4", "linger.ms": 20}
    producer = Producer({**settings, "queue.buffering.max.messages": 500_000})
    pool = value_pool(record_bytes, 1000)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, pool[number % 1000], key_of(number), partition=number // 500 % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def _copied(flow: FlowSettings) -> tuple[RunRecord, int]:
    """The run's record, and the peak of its worker: in an application of its own, as workers are kept for the next."""
    context = spark_context(lambda master: spark_settings(master, 1, app_name="memory"), local_master(1))
    try:
        record = replicate(flow, RunOptions("memory"), SparkPassRunner(lambda: context))
        raise_if_failed(record)
        return record, _highest_of_workers()
    finally:
        context.stop()


@click.command()
@click.option("--megabytes", default=200, help="Of each topic, without compression.")
def main(megabytes: int) -> None:
    """Copy and tell the peak of each kind as a line of JSON."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    with LocalKafka(name="source") as source, LocalKafka(name="target") as target:
        for record_bytes in (1000, 100):
            topic = f"records-{record_bytes}"
            _write(source, topic, record_bytes, megabytes * 1_000_000 // record_bytes)
            for number, (kind, settings) in enumerate(KINDS.items()):
                name = FlowName(f"s{record_bytes}-{number}", "t")
                ones = {key: -1 for key in FlowSettings.__dataclass_fields__ if key.endswith("replication_factor")}
                flow = replace(
                    FlowSettings(
                        name,
                        ClusterSettings.plaintext(name.source, source.bootstrap_servers),
                        ClusterSettings.plaintext(name.target, target.bootstrap_servers),
                    ),
                    topics=(topic,),
                    tasks_max=1,
                    **{**ones, **settings},
                )
                apply_plan(flow, plan_topics(flow))
                record, peak_bytes = _copied(flow)
                figures = {
                    "record_bytes": record_bytes,
                    "transforms": kind,
                    "records": record.records,
                    "peak_mb": round(peak_bytes / 1e6),
                }
                print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
