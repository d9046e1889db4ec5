"""Small passes are copied by the driver, all others by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import ConfigError
from srm_common.replication.spark.driver_pass import DriverPassRunner, NeedsSpark
from srm_common.testing import FakeCluster
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.runs.run_journal import last_run
from tests.kafka.flows import flow_between, prepare, read, write
from tests.slot_worker import here

LIMIT = 100_000


class Elsewhere:
    """Stands for Spark: copies in this process and counts the passes that it was given."""

    def __init__(self) -> None:
        self.passes = 0

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        self.passes += 1
        return here(job, tasks)


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 2)
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    return flow


def test_only_what_is_known_to_be_small_does_without_spark(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
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
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
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


def test_plain_statements_do_without_spark(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, name: str
) -> None:
    write(source_kafka, name, [b"small"] * 10)
    replicate(flow, RunOptions("measured"), DriverPassRunner(LIMIT, Elsewhere()))
    write(source_kafka, name, [b"small", None] * 10)
    text = "SELECT CAST('*' AS BINARY) AS value FROM records WHERE value IS NOT NULL AND offset > 12"
    changed = replace(flow, statements=(Statement("transforms.sql", text),))
    assert replicate(changed, RunOptions("small"), DriverPassRunner(LIMIT, None)).records == 8
    copied = [seen.value for seen in read(target_kafka, f"{flow.name.source}.{name}", 0)]
    assert copied == [b"small"] * 10 + [b"*"] * 8


def test_a_function_that_only_workers_have_is_for_spark(
    flow: FlowSettings,
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with spark.submit.pyFiles, which Airflow's tasks do not have."""
    write(source_kafka, name, [b"small"] * 10)
    replicate(flow, RunOptions("measured"), DriverPassRunner(LIMIT, Elsewhere()))
    write(source_kafka, name, [b"small"] * 10)
    module = f"shop_{tmp_path.name}".replace("-", "_")
    changed = replace(flow, transforms_python=f"{module}:clean")
    with pytest.raises(NeedsSpark):
        replicate(changed, RunOptions("in Airflow"), DriverPassRunner(LIMIT, None))
    (tmp_path / f"{module}.py").write_text("def clean(records):\n    return records.slice(0, 4)\n")

    class Workers(Elsewhere):
        def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
            monkeypatch.syspath_prepend(str(tmp_path))
            return super().__call__(job, tasks)

    spark = Workers()
    assert replicate(changed, RunOptions("in Spark"), DriverPassRunner(LIMIT, spark)).records == 4
    assert spark.passes == 1
    # Where it is installed, too, small passes need no Spark.
    write(source_kafka, name, [b"small"] * 10)
    assert replicate(changed, RunOptions("in Airflow"), DriverPassRunner(LIMIT, None)).records == 4


def test_statements_are_for_spark_alone(flow: FlowSettings, source_kafka: FakeCluster, name: str) -> None:
    write(source_kafka, name, [b"small"] * 10)
    replicate(flow, RunOptions("measured"), DriverPassRunner(LIMIT, Elsewhere()))
    write(source_kafka, name, [b"small"] * 10)
    changed = replace(flow, statements=(Statement("transforms.sql", "SELECT upper(key) AS key FROM records"),))
    with pytest.raises(NeedsSpark):
        replicate(changed, RunOptions("small"), DriverPassRunner(LIMIT, None))
    # Not even by accident.
    with pytest.raises(ConfigError, match=r"has transforms\.sql, which only Spark can evaluate"):
        replicate(changed, RunOptions("elsewhere"), DriverPassRunner(LIMIT, Elsewhere()))
    assert replicate(flow, RunOptions("without"), DriverPassRunner(LIMIT, None)).records == 10
