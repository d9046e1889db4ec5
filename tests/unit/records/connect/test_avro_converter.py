"""Avro in Confluent's wire format: registries, references, and transforms."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from srm_common.errors import TransformFailed
from srm_common.records.connect.converters import NULL
from srm_common.records.connect.data.java_values import DataFault, Float32, Int32, JavaDate
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.transform import Transform
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
from tests.unit.records.connect.registries import (
    AVRO,
    chain_of,
    changed_in_two_partitions,
    converter,
    framed,
    schemas_of,
)
from tests.unit.wire.built_batches import Record, source_batch

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "An order.",
    "fields": [
        {"name": "card", "type": "string", "doc": "Its number."},
        {"name": "cust_id", "type": ["null", "int"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "either", "type": ["null", "int", "long", "float", "double", "string", "bytes", "State"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "double"]}},
        {
            "name": "items",
            "type": {"type": "array", "items": ["null", {"type": "record", "name": "Item", "fields": []}]},
        },
    ],
}
# Written by hand from Avro's specification.
VECTOR = (
    b"\x084111"  # a string of 4
    b"\x02\x54"  # branch 1, 42
    b"\x02"  # the second symbol
    b"\x04\x0e"  # branch 2, a long, 7
    b"\x01\xff"
    b"\x04\x04\xd2"  # 2 bytes, 1234
    b"\x02"  # the second of January
    b"\x03"  # -2
    b"\x02\x02x\x00\x00"  # one entry, x, null
    b"\x04\x00\x02\x00"  # two elements, null and a record of nothing
)


def test_a_record_of_all_kinds_keeps_id_and_bytes() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        source.register("other", '"int"')
        data = framed(source.register("orders-value", json.dumps(ORDER)), VECTOR)
        one = converter(AVRO, source, target)
        schema, value = one.decode(data)
        assert schema is not None
        assert schema.name == "shop.Order"
        assert schema.parameters == {
            "io.confluent.connect.avro.record.doc": "An order.",
            "io.confluent.connect.avro.field.doc.card": "Its number.",
        }
        assert schema.by_name["cust_id"].schema == Schema(Type.INT32, optional=True)
        assert [field.name for field in schema.by_name["either"].schema.fields] == [
            *("int", "long", "float", "double", "string", "bytes", "State")
        ]
        found = {field.name: value.get(field.name) for field in schema.fields}
        assert found["either"].get("long") == 7
        assert type(found["cust_id"]) is Int32
        assert (found["card"], found["cust_id"], found["state"], found["hash"]) == ("4111", 42, "PAID", b"\x01\xff")
        assert (found["price"], found["day"], found["at"]) == (Decimal("12.34"), JavaDate(86_400_000), JavaDate(-2))
        assert found["tags"] == {"x": None}
        assert [type(item) for item in found["items"]] == [type(None), Struct]
        assert one.encode(schema, value, data) == data
        assert target.requests == []
        assert sum(path.startswith("/schemas/ids") for _, path in source.requests) == 2
        assert one.decode(None) == NULL
        assert one.encode(None, None) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with a zero"),
        (b"{}", "does not begin with a zero"),
        (b"\x01\0\0\0\x01\x02", "does not begin with a zero"),
        (framed(7, b"\x02"), "has the schema id 7, which the registry of the source does not know"),
        (framed(1, b""), "does not match its schema"),
        (framed(1, b"\x08ab"), "does not match its schema"),
        (framed(1, b"\x02\xff"), "has a string that is not UTF-8"),
        (framed(1, b"\x02ab"), "has 1 bytes after the end of its value"),
        (framed(2, b"\x02"), "has the schema id 2, which is JSON, not Avro .subject b.$"),
        (framed(3, b"\x00"), "contains itself, which is not supported here .schema id 3, subject c.$"),
        (framed(4, b"\x80\x80\x80\x80\x80\x80\x01"), "has a number of more than 32 bits"),
    ],
)
def test_what_is_not_avro(data: bytes, reason: str) -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        source.register("a", '"string"')
        source.register("b", '{"type": "string"}', kind="JSON")
        source.register("c", '{"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}')
        source.register("d", '"int"')
        with pytest.raises(DataFault, match=reason):
            converter(AVRO, source, target).decode(data)


def test_a_changed_schema_is_registered_once_for_the_copy() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER))
        target.register("other", '"int"')
        schemas = schemas_of(source, target)
        batch = decode([source_batch([Record(offset, 5, None, framed(number, VECTOR)) for offset in range(3)])])
        settings = {"renames": "cust_id:customer", "exclude": "either,items,absent"}
        value = changed_in_two_partitions(AVRO, batch, schemas, type="ReplaceField$Value", **settings)
        assert value[:5] == framed(2, b"")
        assert target.changes() == [("POST", "/subjects/west.orders-value/versions")]
        made = json.loads(target.answer("GET", "/schemas/ids/2")["schema"])
        assert made["fields"][1] == {"name": "customer", "type": ["null", "int"], "default": None}
        assert (made["name"], made["namespace"], made["doc"]) == ("Order", "shop", "An order.")
        found: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), made, None)
        assert (found["card"], found["customer"], found["state"]) == ("4111", 42, "PAID")
        assert (found["price"], str(found["day"]), found["tags"]) == (Decimal("12.34"), "1970-01-02", {"x": None})

        # A field that is not there changes nothing, neither id nor bytes.
        same = Transform(chain_of(AVRO, type="ReplaceField$Value", exclude="absent"), "west.orders", schemas=schemas)
        assert same.apply(batch).records.column("value").to_pylist() == [framed(number, VECTOR)] * 3
        masked = Transform(
            chain_of(AVRO, type="MaskField$Value", fields="card", replacement="****"), "west.orders", schemas=schemas
        )
        assert (
            masked.apply(batch).records.column("value").to_pylist()
            == [framed(number, VECTOR.replace(b"4111", b"****"))] * 3
        )
        assert len(target.changes()) == 1


def test_registries_that_do_not_answer_as_they_should_stop_the_partition() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER))
        target.fault = lambda method, path: (409, b'{"error_code": 409, "message": "is not compatible"}')
        one = converter(AVRO, source, target)
        schema, value = one.decode(framed(number, VECTOR))
        with pytest.raises(TransformFailed, match=r"of west.orders cannot be registered as west.orders-value: .*409"):
            one.encode(schema, value)
        source.fault = lambda method, path: (503, b"")
        with pytest.raises(TransformFailed, match="schema id 9 cannot be read: the schema registry of e"):
            one.decode(framed(9, b""))


def test_a_registry_that_does_not_tell_subjects_leaves_the_sentence_without_one() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("b", '{"type": "string"}', kind="JSON")
        source.fault = lambda method, path: (403, b"{}") if "/versions" in path else None
        with pytest.raises(DataFault, match=r"has the schema id 1, which is JSON, not Avro$"):
            converter(AVRO, source, target).decode(framed(number, b""))


def test_a_registry_is_asked_once_about_a_schema_of_another_kind() -> None:
    """A topic may be full of its records."""
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("b", '{"type": "string"}', kind="JSON")
        one = converter(AVRO, source, target)
        for value in (b"", b"\x02", b"\x04"):
            with pytest.raises(DataFault, match=r"which is JSON, not Avro .subject b.$"):
                one.decode(framed(number, value))
        assert sum("/versions" in path for _, path in source.requests) == 1


def test_references_are_read() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        source.register("item", '{"type": "record", "name": "a.Item", "fields": [{"name": "n", "type": "float"}]}')
        number = source.register(
            "order",
            '{"type": "record", "name": "O", "fields": [{"name": "i", "type": "a.Item"}]}',
            references=[{"name": "a.Item", "subject": "item", "version": 1}],
        )
        value = converter(AVRO, source, target).decode(framed(number, b"\0\0\0\x3f")).value
        assert value.get("i").get("n") == Float32(0.5)


def test_a_chain_of_references_may_be_too_long() -> None:
    """Each refers to the next one: a registry takes that, and Python's stack does not."""
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("s0", '"string"')
        for place in range(1, 303):
            chained = [{"name": f"s{place - 1}", "subject": f"s{place - 1}", "version": 1}]
            number = source.register(f"s{place}", json.dumps({"type": "string", "n": place}), references=chained)
        with pytest.raises(TransformFailed, match=f"schema id {number} refers to more than 300 other schemas; no more"):
            converter(AVRO, source, target).decode(framed(number, b"\x02"))
