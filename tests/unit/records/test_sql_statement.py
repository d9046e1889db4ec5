"""A statement's columns on their way to Spark and back, with a function that stands for Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.statements import Statement, StatementColumns
from srm_common.records.headers import HEADERS_TYPE
from srm_common.records.sql_statement import SqlStatement
from srm_common.records.transform import RecordFault, Transform
from srm_common.schema_registry.record_schemas import RegistrySchemas
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import SCHEMA, encoded_header

Columns = Mapping[str, pa.Array]
TIMES = [-1, 0, 1_795_417_285_470, -2]
FOUR = pa.record_batch(
    [
        pa.array([10, 11, 13, 14], pa.int64()),
        pa.array(TIMES, pa.int64()),
        pa.array([b"a", None, b"", b"d"], pa.binary()),
        pa.array([None, b"", b"v", b"w"], pa.binary()),
        pa.array([2, 0, 1, 0], pa.int32()),
        pa.array([encoded_header("h", None) + encoded_header("h", b"1"), b"", encoded_header("", b""), b""]),
    ],
    schema=SCHEMA,
)


def applied(
    reads: tuple[str, ...],
    changes: tuple[str, ...],
    spark: Callable[[Columns, int], pa.StructArray],
    nulls: tuple[str, ...] = (),
    header: tuple[str, bytes | None] | None = None,
) -> tuple[pa.RecordBatch, list[RecordFault]]:
    def evaluate(statement: int, columns: Columns, rows: int, what: str) -> pa.StructArray:
        assert statement == 3
        assert tuple(columns) == reads
        assert what.startswith("transforms.sql.x for offsets 10 to 1")
        assert what.endswith(" of orders-5")
        return spark(columns, rows)

    statement, columns = Statement("transforms.sql.x", "SELECT"), StatementColumns(reads, changes, nulls, header)
    step = SqlStatement(statement, 3, columns, TopicPartition("orders", 5), evaluate)
    return Transform((), "a.orders", [step]).apply(FOUR)


def kept(rows: int, **columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array([True] * rows), *columns.values()], ["kept", *columns])


def test_what_is_computed_as_it_was_is_as_it_was() -> None:
    names = ("headers", "key", "timestamp", "topic", "partition", "offset", "value")
    changes = ("headers", "key", "timestamp", "value")

    def same(columns: Columns, rows: int) -> pa.StructArray:
        times = columns["timestamp"]
        assert times.type == pa.timestamp("us", "UTC")
        assert times.view(pa.int64()).to_pylist() == [None, 0, TIMES[2] * 1000]
        assert columns["topic"].to_pylist() == ["orders"] * rows
        assert columns["partition"].to_pylist() == [5] * rows
        assert columns["offset"].to_pylist() == [10, 11, 13]
        return kept(rows, **{name: columns[name] for name in changes})

    def both(columns: Columns, rows: int) -> pa.StructArray:
        if rows == 3:
            return same(columns, rows)
        return kept(rows, **{name: columns[name] for name in changes})

    left, faults = applied(names, changes, both)
    assert left == FOUR.slice(0, 3)
    assert faults == [RecordFault(14, "sql.x", "returns a timestamp before 1970")]


def test_what_is_only_asked_for_nulls_goes_without_its_bytes() -> None:
    def spark(columns: Columns, rows: int) -> pa.StructArray:
        assert {name: column.type for name, column in columns.items()} == {
            "headers": HEADERS_TYPE, "key": pa.binary(), "value": pa.binary(),
        }  # fmt: skip
        assert columns["headers"].to_pylist() == [[]] * rows
        assert columns["key"].to_pylist() == [b"", None, b"", b""]
        assert columns["value"].to_pylist() == [None, b"", b"", b""]
        return pa.StructArray.from_arrays([columns["value"].is_valid()], ["kept"])

    names = ("headers", "key", "value")
    left, faults = applied(names, (), spark, names)
    assert left == FOUR.slice(1)
    assert not faults


@pytest.mark.parametrize("value", [b"x", b"", None])
def test_a_header_that_is_the_same_for_all_is_appended(value: bytes | None) -> None:
    def spark(columns: Columns, rows: int) -> pa.StructArray:
        return pa.StructArray.from_arrays([pa.array([False, True, True, True])], ["kept"])

    left, faults = applied((), (), spark, header=("\u00fc", value))
    assert not faults
    assert [column.equals(FOUR.column(at).slice(1)) for at, column in enumerate(left.columns[:4])] == [True] * 4
    assert left.schema == SCHEMA
    assert left.column("header_count").to_pylist() == [1, 2, 1]
    added = encoded_header("\u00fc", value)
    assert left.column("headers").to_pylist() == [raw + added for raw in FOUR.column("headers").to_pylist()[1:]]


def test_rows_are_kept_dropped_and_failed() -> None:
    def spark(columns: Columns, rows: int) -> pa.StructArray:
        which = pa.array([True, False, None, True] if rows == 4 else [True, False, True])
        values = pa.array([b"1", None, None, b"4"] if rows == 4 else [b"1", None, b"4"])
        return pa.StructArray.from_arrays([which, values], ["kept", "value"], mask=which.is_null())

    left, faults = applied((), ("value",), spark)
    assert (left["offset"].to_pylist(), left["value"].to_pylist()) == ([10, 14], [b"1", b"4"])
    assert left.drop_columns("value") == FOUR.take([0, 3]).drop_columns("value")
    assert faults == [RecordFault(13, "sql.x", "fails on this record")]


@pytest.mark.parametrize(
    ("header", "reason"),
    [(None, "returns a header without a name"), ({"key": None, "value": b"1"}, "returns a header without a name")],
)
def test_a_header_without_a_name_is_a_fault(header: object, reason: str) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    good = [{"key": "n", "value": None}]

    def spark(columns: Columns, rows: int) -> pa.StructArray:
        given = [good, [header], None, []] if rows == 4 else [good, None, []]
        return kept(rows, headers=pa.array(given, kind))

    left, faults = applied((), ("headers",), spark)
    assert left["header_count"].to_pylist() == [1, 0, 0]
    assert left["headers"].to_pylist() == [encoded_header("n", None), b"", b""]
    assert faults == [RecordFault(11, "sql.x", reason)]


ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "of", "type": ["null", "string"], "default": None},
            {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
        ],
    }
)


def test_avro_goes_to_spark_as_the_json_that_it_says() -> None:
    seen: list[Columns] = []

    def evaluate(statement: int, columns: Columns, rows: int, what: str) -> pa.StructArray:
        seen.append(columns)
        return kept(rows)

    with LocalRegistry() as registry:
        order = b"\0" + registry.register("orders-value", ORDER).to_bytes(4)
        nothing = b"\0" + registry.register("nothing-value", '["null", "int"]').to_bytes(4) + b"\0"
        values = [
            order + b"\x04\x04\xd2" + b"\x02\x04DE" + b"ab",
            order + b"\x04\x04\xd2" + b"\x00" + b"ab",
            nothing,
            None,
            b"{}",
            order + b"\x04",
            b"\0\0\0\0\x63\0",
        ]
        rows = len(values)
        records = pa.record_batch(
            [
                pa.array(range(rows), pa.int64()),
                pa.array([0] * rows, pa.int64()),
                pa.array([None] * rows, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array([0] * rows, pa.int32()),
                pa.array([b""] * rows),
            ],
            schema=SCHEMA,
        )
        source = ClusterSettings("e", "", {}, {}, schema_registry=RegistrySettings((registry.url,)))
        schemas = RegistrySchemas(SchemaRegistry(source, timeout_seconds=30), None)
        columns = StatementColumns(("avro", "value"), (), ("value",), parsed=("avro",))
        step = SqlStatement(
            Statement("transforms.sql", "SELECT"), 0, columns, TopicPartition("orders", 5), evaluate, schemas
        )
        left, faults = Transform((), "a.orders", [step]).apply(records)
    assert left == records.slice(0, 4)
    (sent,) = seen
    assert sent["avro"].to_pylist() == [
        '{"price":12.34,"of":"DE","raw":"YWI="}',
        '{"price":12.34,"of":null,"raw":"YWI="}',
        "null",
        None,
    ]
    assert sent["value"].to_pylist() == [b"", b"", b"", None]
    assert [(fault.offset, fault.step) for fault in faults] == [(4, "sql"), (5, "sql"), (6, "sql")]
    assert faults[0].reason.startswith("the value is not Avro of a schema registry: ")
    assert "schema id 99" in faults[2].reason
