"""JSON Schema in Confluent's wire format: registries, references, and transforms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from srm_common.errors import TransformFailed
from srm_common.records.connect.converters import NULL
from srm_common.records.connect.data.java_values import DataFault, Int32, JavaDate
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP
from srm_common.records.connect.json_schema.values import UNION
from srm_common.records.transform import Transform
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
from tests.unit.records.connect.registries import (
    JSON_SCHEMA,
    chain_of,
    changed_in_two_partitions,
    converter,
    framed,
    schemas_of,
)
from tests.unit.wire.built_batches import Record, source_batch

ORDER = {
    "type": "object",
    "title": "Order",
    "description": "An order.",
    "properties": {
        "at": {
            "type": "integer",
            "title": TIMESTAMP,
            "connect.version": 1,
            "connect.type": "int64",
            "connect.index": 6,
        },
        "card": {"type": "string", "connect.index": 0},
        "cust_id": {"oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}], "connect.index": 1},
        "day": {"type": "integer", "title": DATE, "connect.version": 1, "connect.type": "int32", "connect.index": 5},
        "either": {"oneOf": [{"type": "null"}, {"type": "integer"}, {"type": "string"}], "connect.index": 3},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
        "price": {
            "type": "string",
            "title": DECIMAL,
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": {"scale": "2"},
            "connect.index": 4,
        },
        "state": {"enum": ["NEW", "PAID"], "connect.index": 2},
        "tags": {
            "type": "object",
            "connect.type": "map",
            "additionalProperties": {"oneOf": [{"type": "null"}, {"type": "number", "connect.type": "float32"}]},
            "connect.index": 8,
        },
    },
}
VECTOR = (
    b'{"card":"4111","cust_id":42,"state":"PAID","either":7,"price":"BNI=","day":1,"at":-2,"items":[{"n":1.0}],'
    b'"tags":{"x":null}}'
)


def test_a_record_of_all_kinds_keeps_id_and_bytes() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        source.register("other", '"int"')
        data = framed(source.register("orders-value", json.dumps(ORDER), kind="JSON"), VECTOR)
        one = converter(JSON_SCHEMA, source, target)
        schema, value = one.decode(data)
        assert schema is not None
        assert (schema.name, schema.doc, schema.version) == ("Order", "An order.", None)
        # Without an index, items gets the place that its turn in Java's HashMap gives it.
        names = [field.name for field in schema.fields]
        assert [name for name in names if name != "items"] == [
            *("card", "cust_id", "state", "either", "price", "day", "at", "tags")
        ]
        found = {field.name: value.get(field.name) for field in schema.fields}
        assert (found["card"], found["cust_id"], found["state"]) == ("4111", 42, "PAID")
        assert type(found["cust_id"]) is Int32
        assert found["either"].get(f"{UNION}.field.0") == 7
        assert (found["price"], found["day"], found["at"]) == (Decimal("12.34"), JavaDate(86_400_000), JavaDate(-2))
        assert found["tags"] == {"x": None}
        assert type(found["items"][0].get("n")) is float
        encoded = one.encode(schema, value, data)
        assert encoded is not None
        assert encoded[:5] == data[:5]
        assert json.loads(encoded[5:]) == json.loads(VECTOR)
        assert target.requests == []
        assert sum(path.startswith("/schemas/ids") for _, path in source.requests) == 2
        assert one.decode(None) == NULL
        assert one.encode(None, None) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{}", "is not JSON Schema of a schema registry: it does not begin with a zero"),
        (framed(7, b"{}"), "has the schema id 7, which the registry of the source does not know"),
        (framed(1, b""), "has nothing after its schema id"),
        (framed(1, b"{"), "is not JSON"),
        (framed(1, b"[]"), "has a list where the schema has an object"),
        (framed(1, b'{"a":null}'), "has null for a required BYTES"),
        (framed(1, b'{"a":7}'), "has a number where the schema has bytes"),
        (framed(1, b'{"a":"?"}'), "has text that is not Base64"),
        (framed(2, b'"a"'), "has the schema id 2, which is AVRO, not JSON Schema"),
        (framed(3, b"{}"), "contains itself, which is not supported here .schema id 3"),
        (framed(4, b'[{"key":1}]'), "something other than objects of key and value"),
        (framed(5, b"1.5"), "something other than an integer where the schema has a Date"),
        (framed(6, b"86400001"), "milliseconds of a day"),
    ],
)
def test_what_is_not_json_of_its_schema(data: bytes, reason: str) -> None:
    entry = {"type": "object", "properties": {"key": {"type": "integer"}, "value": {"type": "string"}}}
    with LocalRegistry() as source:
        schemas: tuple[Any, ...] = (
            {"type": "object", "properties": {"a": {"type": "string", "connect.type": "bytes"}}},
            None,
            {"properties": {"next": {"$ref": "#"}}},
            {"type": "array", "connect.type": "map", "items": entry},
            {"type": "integer", "title": DATE, "connect.type": "int32"},
            {"type": "integer", "title": TIME, "connect.type": "int32"},
        )
        for at, schema in enumerate(schemas):
            text, kind = ('"string"', "AVRO") if schema is None else (json.dumps(schema), "JSON")
            assert source.register(f"s{at}", text, kind=kind) == at + 1
        with pytest.raises(DataFault, match=reason):
            converter(JSON_SCHEMA, source, source).decode(data)


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as one:
        yield one


def test_a_changed_schema_is_registered_once_for_the_copy() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER), kind="JSON")
        target.register("other", '"int"')
        schemas = schemas_of(source, target)
        batch = decode([source_batch([Record(offset, 5, None, framed(number, VECTOR)) for offset in range(3)])])
        settings = {"renames": "cust_id:customer", "exclude": "either,items,absent"}
        value = changed_in_two_partitions(JSON_SCHEMA, batch, schemas, type="ReplaceField$Value", **settings)
        assert value[:5] == framed(2, b"")
        assert target.changes() == [("POST", "/subjects/west.orders-value/versions")]
        body = target.answer("GET", "/schemas/ids/2")
        assert body["schemaType"] == "JSON"
        made = json.loads(body["schema"])
        assert (made["title"], made["description"]) == ("Order", "An order.")
        assert made["properties"]["customer"] == {
            "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}],
            "connect.index": 1,
        }
        assert value[5:] == (
            b'{"card":"4111","customer":42,"state":"PAID","price":"BNI=","day":1,"at":-2,"tags":{"x":null}}'
        )
        masked = Transform(
            chain_of(JSON_SCHEMA, type="MaskField$Value", fields="card", replacement="****"),
            "west.orders",
            schemas=schemas,
        )
        for left in masked.apply(batch).records.column("value").to_pylist():
            assert left[:5] == framed(number, b"")
            assert json.loads(left[5:]) == json.loads(VECTOR.replace(b"4111", b"****"))
        assert len(target.changes()) == 1


def test_a_registry_that_refuses_the_schema_stops_the_partition() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER), kind="JSON")
        target.fault = lambda method, path: (409, b'{"error_code": 409, "message": "is not compatible"}')
        one = converter(JSON_SCHEMA, source, target)
        schema, value = one.decode(framed(number, VECTOR))
        with pytest.raises(TransformFailed, match=r"of west.orders cannot be registered as west.orders-value: .*409"):
            one.encode(schema, value)


def test_references_are_read_by_the_names_that_a_schema_gives_them(registry: LocalRegistry) -> None:
    registry.register("money", '{"type": "number"}', kind="JSON")
    refers = {"subject": "money", "version": 1}
    registry.register(
        "item",
        '{"properties": {"n": {"$ref": "money.json"}}}',
        kind="JSON",
        references=[{"name": "money.json", **refers}],
    )
    number = registry.register(
        "order",
        '{"properties": {"i": {"$ref": "item.json"}, "sum": {"$ref": "sum.json"}}}',
        kind="JSON",
        references=[{"name": "item.json", "subject": "item", "version": 1}, {"name": "sum.json", **refers}],
    )
    value = converter(JSON_SCHEMA, registry, registry).decode(framed(number, b'{"i":{"n":1},"sum":2}')).value
    assert (value.get("i").get("n"), value.get("sum")) == (1.0, 2.0)
