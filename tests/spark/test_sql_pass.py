"""Spark SQL over records: passes of flows with statements, in a real Spark application, between real brokers."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.translation import Translated
from srm_common.domain.runs.copying import CopyJob, CopyRange, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.statements import Statement
from srm_common.errors import ConfigError
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.replication.slots.range_transforms import SqlAccess
from srm_common.replication.spark.slot_work import not_copied
from srm_common.replication.spark.spark_pass import SparkPassRunner
from srm_common.testing import LocalKafka, LocalRegistry
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import Seen, flow_between, prepare, read, write
from tests.kafka.records import mixed_records, produce
from tests.kafka.translations import logs, translated
from tests.spark.test_spark_pass import workers

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NUMBER = "CAST(CAST(value AS STRING) AS INT)"


@pytest.fixture
def flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> FlowSettings:
    # Some of the records here are from 1970.
    source_kafka.create_topic(name, 2, config={"retention.ms": "-1"})
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    return flow


def run(flow: FlowSettings, spark: SparkContext, *statements: str | Statement) -> RunRecord:
    found = tuple(
        statement if isinstance(statement, Statement) else Statement("transforms.sql", statement)
        for statement in statements
    )
    return replicate(replace(flow, statements=found), RunOptions("r"), SparkPassRunner(lambda: spark))


def copies(flow: FlowSettings, target: LocalKafka, topic: str, partition: int = 0) -> list[Seen]:
    return read(target, f"{flow.name.source}.{topic}", partition)


def numbers(count: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(count)]


def values(records: Iterable[Seen]) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_are_dropped_and_changed_and_positions_translated(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    write(source_kafka, name, numbers(3000))
    write(source_kafka, name, numbers(10), 1)
    query = f"SELECT value || CAST('!' AS BINARY) AS value, key FROM records WHERE {NUMBER} % 3 = 0 AND partition = 0"
    record = run(flow, spark, query)
    assert (record.state, record.records, record.backlog.most) == (RunState.DONE, 1000, 0)
    wanted = [
        replace(seen, value=seen.value + b"!")
        for seen in read(source_kafka, name)
        if seen.value is not None and int(seen.value) % 3 == 0
    ]
    assert copies(flow, target_kafka, name) == wanted
    # All of these were dropped, and the partition is not behind: nothing is read again.
    assert copies(flow, target_kafka, name, 1) == []
    assert run(flow, spark, query).passes == 0
    # Each position leads to the next record that was kept.
    upstream, downstream = logs(source_kafka, name), logs(target_kafka, f"{flow.name.source}.{name}")
    for (_, position), answer in translated(flow, name, {0: upstream[0]}).items():
        assert isinstance(answer, Translated)
        assert answer.exact
        unread = sum(placed.offset >= position and placed.offset % 3 == 0 for placed in upstream[0])
        assert sum(placed.offset >= answer.offset for placed in downstream[0]) == unread


@pytest.mark.parametrize("more", ["", " AND offset % 1 = 0"], ids=["by the slot", "by Spark"])
def test_a_header_for_all_is_put_behind_those_that_are_there(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str, more: str
) -> None:
    produce(source_kafka, name, 0, mixed_records(2000))
    header = "named_struct('key', 'origin', 'value', CAST('east' AS BINARY))"
    query = f"SELECT array_append(headers, {header}) AS headers FROM records WHERE value IS NOT NULL{more}"
    record = run(flow, spark, query)
    assert record.state is RunState.DONE
    seen = [one for one in read(source_kafka, name) if one.value is not None]
    assert 0 < len(seen) < 2000
    assert any(one.headers for one in seen)
    assert copies(flow, target_kafka, name) == [
        replace(one, headers=(*one.headers, ("origin", b"east"))) for one in seen
    ]


@pytest.mark.parametrize("select", ["*", "partition", "timestamp, value, key, headers"])
def test_columns_that_are_left_out_or_stay_keep_their_bytes(
    flow: FlowSettings,
    spark: SparkContext,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    select: str,
) -> None:
    produce(source_kafka, name, 0, mixed_records(1500), compression_type="lz4")
    read_all = "size(headers) >= 0 AND (key IS NULL OR length(key) >= 0) AND topic = '" + name + "'"
    record = run(flow, spark, f"SELECT {select} FROM records WHERE {read_all}")
    assert (record.state, record.records) == (RunState.DONE, 1500)
    assert copies(flow, target_kafka, name) == read(source_kafka, name)


def test_awkward_records_survive_when_every_column_is_computed(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    produce(source_kafka, name, 0, mixed_records(1500, seed=3))
    record = run(
        flow,
        spark,
        "SELECT nullif(key, CAST('none' AS BINARY)) AS key, substr(value, 1) AS value, "
        "transform(headers, h -> named_struct('key', h.key, 'value', h.value)) AS headers, "
        "timestamp + INTERVAL 1 SECOND AS timestamp FROM records",
    )
    assert (record.state, record.records) == (RunState.DONE, 1500)
    wanted = [replace(seen, timestamp_ms=seen.timestamp_ms + 1000) for seen in read(source_kafka, name)]
    assert copies(flow, target_kafka, name) == wanted


def test_a_record_without_a_timestamp_and_one_of_1970(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    write(source_kafka, name, numbers(300))
    times = "CASE offset % 3 WHEN 0 THEN NULL WHEN 1 THEN timestamp_millis(0) ELSE timestamp END AS timestamp"
    assert run(flow, spark, f"SELECT {times} FROM records").state is RunState.DONE
    expected = [(-1, 0, placed.seen.timestamp_ms)[placed.offset % 3] for placed in logs(source_kafka, name)[0]]
    copied = logs(target_kafka, f"{flow.name.source}.{name}")[0]
    assert [placed.seen.timestamp_ms for placed in copied] == expected


def test_each_topic_has_its_statement(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    for other in ("masked", "none"):
        source_kafka.create_topic(f"{name}-{other}", 1)
        write(source_kafka, f"{name}-{other}", numbers(20))
    write(source_kafka, name, numbers(20))
    prepare(flow)
    masked = "SELECT CAST('*' AS BINARY) AS value, NULL AS key FROM records"
    statements = (
        Statement("transforms.sql.few", f"SELECT key FROM records WHERE {NUMBER} < 5", name),
        Statement("transforms.sql.masked", masked, ".*-masked"),
    )
    assert run(flow, spark, *statements).state is RunState.DONE
    assert values(copies(flow, target_kafka, name)) == numbers(5)
    assert [(copy.key, copy.value) for copy in copies(flow, target_kafka, f"{name}-masked")] == [(None, b"*")] * 20
    # A pass in which none of them has anything to do.
    write(source_kafka, f"{name}-none", numbers(20))
    record = run(flow, spark, *statements)
    assert (record.state, record.records) == (RunState.DONE, 20)
    assert copies(flow, target_kafka, f"{name}-none") == read(source_kafka, f"{name}-none")


def test_a_record_that_fails_stops_its_partition_and_the_others_go_on(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    write(source_kafka, name, [*numbers(700), b"no number", *numbers(5)])
    write(source_kafka, name, numbers(1200), 1)
    record = run(flow, spark, Statement("transforms.sql.odd", f"SELECT key FROM records WHERE {NUMBER} >= 0", name))
    assert record.state is RunState.FAILED
    (failed,) = record.failed_partitions
    assert failed.trouble == (f"{name}-0: partition {name}-0: offset 700, transforms.sql.odd: fails on this record")
    assert values(copies(flow, target_kafka, name)) == numbers(700)
    assert values(copies(flow, target_kafka, name, 1)) == numbers(1200)


def evaluate_one_value(job: CopyJob, task: SlotTask, sql: SqlAccess) -> SlotResult:
    """Instead of copying: the second slot has a value whose groups recurse too deep for Java's stack."""
    value = b"1-" * 300_000 if task.slot else b"12-3"
    found = sql.evaluate(
        0, {"value": pa.array([value], pa.binary())}, 1, "transforms.sql for offsets 7 to 7 of orders-1"
    )
    return not_copied(task, str(found.field("value").to_pylist()))


def test_a_value_that_overflows_javas_stack_is_told_and_ends_neither_spark_nor_other_slots(spark: SparkContext) -> None:
    text = r"SELECT regexp_replace(CAST(value AS STRING), '(\\d|-)+', '*') AS value FROM records"
    cluster = ClusterSettings.plaintext("a", "127.0.0.1:1")
    job = CopyJob("a->b", "a", cluster, cluster, "o", 1, "s", 1, statements=(Statement("transforms.sql", text),))
    tasks = [SlotTask(slot, None, (CopyRange("orders", "a.orders", slot, 5, 9),)) for slot in range(2)]
    runner = SparkPassRunner(lambda: spark, evaluate_one_value)
    for _ in range(2):
        one, other = runner(job, tasks)
        assert one.notes == ("[b'*']",)
        assert other.notes[0].startswith("slot 1 lost its worker, or the one beside it")
        assert other.notes[0].endswith("while that evaluated transforms.sql for offsets 7 to 7 of orders-1")


def test_a_type_error_behind_a_million_records(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, name: str
) -> None:
    million = 1_000_000
    write(
        source_kafka, name, itertools.chain(itertools.repeat(b"7", million), [b"seven", b"8"]), compression_type="lz4"
    )
    write(source_kafka, name, numbers(1000), 1)
    record = run(flow, spark, f"SELECT key FROM records WHERE {NUMBER} >= 0")
    (failed,) = record.failed_partitions
    assert failed.trouble == f"{name}-0: partition {name}-0: offset {million}, transforms.sql: fails on this record"
    assert (failed.position, failed.records) == (million, million)
    assert sum(partition.records for partition in record.partitions if partition.partition == 1) == 1000
    # All of the million is committed: nothing of it comes again.
    again = run(flow, spark, f"SELECT key FROM records WHERE {NUMBER} >= 0")
    assert (again.records, again.failed_partitions[0].position) == (0, million)
    assert run(flow, spark, "SELECT key FROM records WHERE value IS NOT NULL").records == 2
    copied = TopicPartition(f"{flow.name.source}.{name}", 0)
    with ClusterLink(flow.target) as link:
        assert link.end_offsets([copied])[0][copied] > million + 2, "markers, besides records"


def test_values_are_parsed_once_for_the_statements_that_read_them(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(f"{name}-plain", 1)
    prepare(flow)
    orders: list[bytes | None] = [b'{"country": "%s", "n": %d}' % (b"DE" if n % 3 else b"FR", n) for n in range(900)]
    write(source_kafka, name, [*orders, None])
    write(source_kafka, name, [*orders[:400], b'{"country":', *orders], 1)
    write(source_kafka, f"{name}-plain", [b"no JSON", None])
    statements = (
        Statement(
            "transforms.sql.orders",
            "SELECT to_json(variant_get(json, '$.n')) AS value FROM records "
            "WHERE json IS NULL OR variant_get(json, '$.country', 'string') = 'DE'",
            name,
        ),
        Statement("transforms.sql.plain", "SELECT upper(CAST(value AS STRING)) AS value FROM records", ".*-plain"),
    )
    record = run(flow, spark, *statements)
    numbers_of = [b"%d" % n for n in range(900) if n % 3]
    assert values(copies(flow, target_kafka, name)) == [*numbers_of, None]
    assert values(copies(flow, target_kafka, name, 1)) == numbers_of[: 400 - 134]
    assert values(copies(flow, target_kafka, f"{name}-plain")) == [b"NO JSON", None]
    (failed,) = record.failed_partitions
    assert failed.trouble == (
        f"{name}-1: partition {name}-1: offset 400, transforms.sql.orders: "
        "fails on this record, or its value is not JSON"
    )


def test_values_are_read_by_the_schemas_of_the_registry(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "n", "type": "int"}, {"name": "of", "type": "string"}],
    }
    query = "SELECT key FROM records WHERE avro IS NULL OR variant_get(avro, '$.of', 'string') = 'DE'"
    with LocalRegistry() as registry:
        source = replace(flow.source, schema_registry=RegistrySettings((registry.url,)))
        # The same id is another schema in the default context.
        assert registry.register("elsewhere-value", '"long"') == 1
        number = registry.register(f":.east:{name}-value", json.dumps(order))
        assert number == 1
        # Numbers are in zigzag.
        kept = [b"\0" + number.to_bytes(4) + bytes([2 * n, 4]) + (b"FR" if n % 3 else b"DE") for n in range(60)]
        write(source_kafka, name, [*kept, None])
        write(source_kafka, name, [kept[0], kept[1], b"no Avro", kept[3]], 1)
        record = run(replace(flow, source=source), spark, query)
    assert values(copies(flow, target_kafka, name)) == [*kept[::3], None]
    assert values(copies(flow, target_kafka, name, 1)) == [kept[0]]
    (failed,) = record.failed_partitions
    assert failed.trouble is not None
    assert failed.trouble.startswith(
        f"{name}-1: partition {name}-1: offset 2, transforms.sql: the value is not Avro of a schema registry: "
    )


def test_tolerated_failures_go_to_the_dead_letter_topic(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    dead = f"dead-{name}"
    target_kafka.create_topic(dead, 1)
    tolerant = replace(
        flow,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
        errors_deadletterqueue_context_headers_enable=True,
    )
    write(source_kafka, name, [*numbers(700), b"no number", *numbers(5)])
    record = run(tolerant, spark, f"SELECT key FROM records WHERE {NUMBER} >= 0")
    assert (record.state, record.records) == (RunState.DONE, 705)
    assert values(copies(flow, target_kafka, name)) == [*numbers(700), *numbers(5)]
    (letter,) = read(target_kafka, dead)
    assert letter.value == b"no number"
    told = dict(letter.headers)
    assert told["__connect.errors.offset"] == b"700"
    assert told["__connect.errors.class.name"] == b"transforms.sql"
    assert told["__connect.errors.exception.message"] == b"transforms.sql: fails on this record"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT key FROM records ORDER BY key", "transforms.sql cannot be carried out: it sorts"),
        ("SELECT nothing FROM records", "`nothing` cannot be resolved"),
        ("SELECT key FROM records WHERE (", "Syntax error"),
        ("SELECT 1 AS key", "it does not read records"),
    ],
)
def test_a_statement_is_refused_before_anything_is_copied(
    flow: FlowSettings,
    spark: SparkContext,
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    query: str,
    reason: str,
) -> None:
    write(source_kafka, name, numbers(5))
    with pytest.raises(ConfigError, match=reason):
        run(flow, spark, query)
    assert copies(flow, target_kafka, name) == []
    assert run(flow, spark, "SELECT key FROM records").records == 5


@pytest.mark.faults
def test_killed_workers_and_relays_lose_and_double_nothing(
    flow: FlowSettings, spark: SparkContext, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    # Small chunks, so that the pass lasts and is full of commits.
    flow = replace(flow, chunk_bytes=64 << 10, fetch_partition_bytes=32 << 10, fetch_bytes=128 << 10)
    for partition in range(2):
        write(
            source_kafka, name, [b"%d" % number + b" " * 1000 for number in range(6000)], partition, batch_size=16_000
        )
    killed: list[int] = []
    dice = random.Random(7)
    copied = [TopicPartition(f"{flow.name.source}.{name}", partition) for partition in range(2)]

    def kill() -> None:
        deadline = time.monotonic() + 180
        with ClusterLink(flow.target) as link:
            for least in (1, 3000):
                # Not before something is committed.
                while time.monotonic() < deadline and sum(link.end_offsets(copied)[0].values()) < least:
                    time.sleep(0.01)
                victims = workers(spark)
                # Of each slot the worker that copies, or the relay beside it, or both.
                for victim in dice.sample(victims, max(1, len(victims) // 2)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        victim.send_signal(signal.SIGKILL)
                        killed.append(victim.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    record = run(flow, spark, f"SELECT trim(CAST(value AS STRING)) AS value FROM records WHERE {NUMBER} % 2 = 0")
    killer.join()
    assert killed
    assert (record.state, record.backlog.most) == (RunState.DONE, 0)
    assert record.passes > 1, "the pass was over before a worker died"
    for partition in range(2):
        assert values(copies(flow, target_kafka, name, partition)) == [b"%d" % n for n in range(0, 6000, 2)]
