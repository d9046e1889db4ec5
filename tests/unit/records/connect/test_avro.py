"""Avro in Confluent's wire format: what fastavro writes is read, and what is written fastavro reads."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.formats import Format, FormatKind, Side
from srm_common.errors import TransformFailed
from srm_common.records.connect.avro.schemas import UNION
from srm_common.records.connect.avro.values import AvroValues
from srm_common.records.connect.converters import NULL
from srm_common.records.connect.data.java_values import DataFault, Float32, Int32, JavaDate
from srm_common.records.connect.data.schema import DECIMAL, TIME, Schema, Struct, Type
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.records.connect.registry_values import SchemaText
from srm_common.records.transform import Transform
from srm_common.schema_registry.record_schemas import RegistrySchemas
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
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


def registry_of(local: LocalRegistry, alias: str) -> SchemaRegistry:
    cluster = ClusterSettings(alias, "", {}, {}, schema_registry=RegistrySettings((local.url,)))
    return SchemaRegistry(cluster, timeout_seconds=30)


def converter(source: LocalRegistry, target: LocalRegistry) -> RegistryConverter:
    schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
    return RegistryConverter("west.orders", Side.VALUE, Format(FormatKind.AVRO), schemas)


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + data


def test_a_record_of_all_kinds_keeps_id_and_bytes() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        source.register("other", '"int"')
        data = framed(source.register("orders-value", json.dumps(ORDER)), VECTOR)
        one = converter(source, target)
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
        assert sum(path.startswith("/schemas/ids") for _, path in source.requests) == 1
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
        (framed(1, b"\x02\xff"), "does not match its schema"),
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
            converter(source, target).decode(data)


BRANCHES: Sequence[tuple[Any, st.SearchStrategy[Any]]] = (
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text()),
    ("bytes", st.binary()),
    ({"type": "array", "items": "long"}, st.lists(st.integers(-5, 5), max_size=3)),
    ({"type": "map", "values": "string"}, st.dictionaries(st.text(), st.text(), max_size=1)),
)


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as one:
        yield one


@given(data=st.data())
def test_round_trips(registry: LocalRegistry, data: st.DataObject) -> None:
    fields: list[dict[str, Any]] = []
    record: dict[str, Any] = {}
    for place, (of, values) in enumerate(data.draw(st.lists(st.sampled_from(BRANCHES), max_size=6))):
        shape = data.draw(st.sampled_from([of, ["null", of], [of, "null"]]))
        fields.append({"name": f"f{place}", "type": shape})
        record[f"f{place}"] = data.draw(values if shape is of else st.none() | values)
    schema = {"type": "record", "name": "R", "fields": fields}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), record)
    before = framed(registry.register("s", json.dumps(schema)), written.getvalue())
    one = converter(registry, registry)
    of_connect, value = one.decode(before)
    assert one.encode(of_connect, value, before) == before
    # Without what it was, the schema is made anew.
    anew = one.encode(of_connect, value)
    assert anew is not None
    made = json.loads(registry.answer("GET", f"/schemas/ids/{int.from_bytes(anew[1:5])}")["schema"])
    assert fastavro.schemaless_reader(io.BytesIO(anew[5:]), made, None) == record


def chain_of(**settings: str) -> Any:
    kafka = "org.apache.kafka.connect.transforms."
    steps = {f"transforms.s.{key.replace('_', '.')}": value for key, value in settings.items()}
    steps["transforms.s.type"] = kafka + steps["transforms.s.type"]
    return parse_chain({"transforms": "s", "value.format": "avro", **steps})


def test_a_changed_schema_is_registered_once_for_the_copy() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER))
        target.register("other", '"int"')
        schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
        batch = decode([source_batch([Record(offset, 5, None, framed(number, VECTOR)) for offset in range(3)])])
        for partition in range(2):
            renamed = Transform(
                chain_of(type="ReplaceField$Value", renames="cust_id:customer", exclude="either,items,absent"),
                "west.orders",
                partition=partition,
                schemas=schemas,
            )
            left, faults = renamed.apply(batch)
            assert faults == []
            values = left.column("value").to_pylist()
            assert values == [values[0]] * 3
            assert values[0][:5] == framed(2, b"")
        assert target.changes() == [("POST", "/subjects/west.orders-value/versions")]
        made = json.loads(target.answer("GET", "/schemas/ids/2")["schema"])
        assert made["fields"][1] == {"name": "customer", "type": ["null", "int"], "default": None}
        assert (made["name"], made["namespace"], made["doc"]) == ("Order", "shop", "An order.")
        found: Any = fastavro.schemaless_reader(io.BytesIO(values[0][5:]), made, None)
        assert (found["card"], found["customer"], found["state"]) == ("4111", 42, "PAID")
        assert (found["price"], str(found["day"]), found["tags"]) == (Decimal("12.34"), "1970-01-02", {"x": None})

        # A field that is not there changes nothing, neither id nor bytes.
        same = Transform(chain_of(type="ReplaceField$Value", exclude="absent"), "west.orders", schemas=schemas)
        assert same.apply(batch).records.column("value").to_pylist() == [framed(number, VECTOR)] * 3
        masked = Transform(
            chain_of(type="MaskField$Value", fields="card", replacement="****"), "west.orders", schemas=schemas
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
        one = converter(source, target)
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
            converter(source, target).decode(framed(number, b""))


def test_a_registry_is_asked_once_about_a_schema_of_another_kind() -> None:
    """A topic may be full of its records."""
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("b", '{"type": "string"}', kind="JSON")
        one = converter(source, target)
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
        value = converter(source, target).decode(framed(number, b"\0\0\0\x3f")).value
        assert value.get("i").get("n") == Float32(0.5)


def test_a_chain_of_references_may_be_too_long() -> None:
    """Each refers to the next one: a registry takes that, and Python's stack does not."""
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("s0", '"string"')
        for place in range(1, 303):
            chained = [{"name": f"s{place - 1}", "subject": f"s{place - 1}", "version": 1}]
            number = source.register(f"s{place}", json.dumps({"type": "string", "n": place}), references=chained)
        with pytest.raises(TransformFailed, match=f"schema id {number} refers to more than 300 other schemas; no more"):
            converter(source, target).decode(framed(number, b"\x02"))


# ---- schemas and bytes that are not as they should be

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["int", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    *(
        "items",
        "values",
        "name",
        "namespace",
        "symbols",
        "size",
        "fields",
        "logicalType",
        "scale",
        "precision",
        "default",
    ),
    *("doc", "avro.x", *(f"connect.{name}" for name in ("name", "type", "version", "parameters", "default", "doc"))),
]


@st.composite
def odd_schemas(draw: st.DrawFn, depth: int = 0) -> Any:
    """What begins as a schema does, and goes on with anything."""
    kinds = ["record", "enum", "fixed", "array", "map", "union", "int", "long", "bytes", "string", "boolean"]
    kind = draw(st.sampled_from(kinds[6:] if depth == 2 else kinds))
    inner = odd_schemas(depth + 1)
    if kind == "union":
        return draw(st.lists(inner, max_size=3))
    node: dict[str, Any] = {"type": kind, "name": draw(st.sampled_from(["A", "B", "a.B", "ä"]))}
    if kind == "record":
        node["fields"] = [
            {"name": f"f{place}", "type": one} for place, one in enumerate(draw(st.lists(inner, max_size=3)))
        ]
    elif kind in ("array", "map"):
        node["items" if kind == "array" else "values"] = draw(inner)
    elif kind in ("enum", "fixed"):
        node |= {"symbols": ["X", "Y"]} if kind == "enum" else {"size": 2}
    odd = draw(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=2))
    return node | odd


@given(JSON | odd_schemas(), st.binary(max_size=12))
def test_any_schema_and_any_bytes_are_read_or_a_fault_of_the_record(schema: Any, data: bytes) -> None:
    class One:
        read_from: Literal["source", "target"] = "source"

        def schema(self, number: int) -> SchemaText:
            return SchemaText("AVRO", json.dumps(schema))

        def subject(self, number: int) -> str | None:
            return None

        def registered(self, subject: str, topic: str, kind: str, schema: str) -> int:
            return 2

    of = RegistryConverter("orders", Side.VALUE, Format(FormatKind.AVRO), One())
    try:
        value = of.decode(framed(1, data))
    except DataFault:
        return
    again = of.encode(*value, framed(1, data))
    assert again is None or of.encode(*of.decode(again), again) == again


def test_symbols_of_an_enum_may_be_any_text() -> None:
    schema = {"type": "enum", "name": "E", "symbols": ["grün", "rot und blau", ""]}
    with LocalRegistry() as local:
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(schema))
        of = converter(local, local)
        value = of.decode(framed(number, b"\x02"))
        assert value.value == "rot und blau"
        assert of.encode(*value, framed(number, b"\x02")) == framed(number, b"\x02")
        for data, text in (
            (b"\x01", "has symbol -1 of the enum E, which has 3"),
            (b"\x06", "has symbol 3 of the enum E"),
        ):
            with pytest.raises(DataFault, match=text):
                of.decode(framed(number, data))


@pytest.mark.parametrize(
    ("schema", "data", "text"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x00", "a decimal without bytes"),
        ({"type": "int", "logicalType": "date"}, b"\x80\x80\x80\x80\x80\x01", "a number of more than 32 bits"),
        ({"type": "int"}, b"\xfe\xff\xff\xff\x7f", "a number of more than 32 bits"),
    ],
)
def test_numbers_that_java_refuses(schema: Any, data: bytes, text: str) -> None:
    with LocalRegistry() as local:
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(schema))
        with pytest.raises(DataFault, match=text):
            converter(local, local).decode(framed(number, data))


def test_decimals_are_as_long_as_bytes_allow() -> None:
    """Python refuses the text of integers of more than 4300 digits."""
    with LocalRegistry() as local:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9000, "scale": 2}
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(decimal))
        of = converter(local, local)
        data = framed(number, b"\xc0\x38" + b"\x7f" * 3616)
        value = of.decode(data)
        assert value.value == Decimal((0, Decimal(int.from_bytes(b"\x7f" * 3616)).as_tuple().digits, -2))
        assert of.encode(*value, data) == data
        with pytest.raises(DataFault, match="has a decimal of 131079 bits; at most 131072 are read"):
            of.decode(framed(number, b"\x82\x80\x02" + b"\x7f" * 16385))


EMPTY = {"type": "array", "items": {"type": "record", "name": "Q", "fields": []}}
MILLION = b"\x80\x80\x80\x01"  # 1 << 20


@pytest.mark.parametrize(
    ("schema", "data", "text"),
    [
        ("int", b"\x82\x80\x80\x80\x80\x00", "a number of more than 32 bits"),
        ("long", b"\x80" * 10 + b"\x00", "a number of more than 64 bits"),
        (["null", "int"], b"\x01\x02", "has branch -1 of a union, which has 2"),
        (["null", "int", "string"], b"\x06", "has branch 3 of a union, which has 3"),
        ("boolean", b"\x05", "has 5 for a boolean"),
        ("string", b"\x05abc", "has a length of -3"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7fa", "does not match its schema"),
        ({"type": "array", "items": "int"}, b"\x80\x80\x80\x80\x80\x40\0\0", "does not match its schema"),
        ({"type": "map", "values": "int"}, b"\x80\x80\x80\x80\x80\x40\0\0", "does not match its schema"),
        (EMPTY, b"\x80\x80\x80\x80\x80\x40\0", "has 1099511627776 items that take no bytes"),
        (EMPTY, b"\xff\xff\xff\xff\xff\x3f\0\0", "has 1099511627776 items that take no bytes"),
        ({"type": "array", "items": EMPTY}, b"\x04" + (MILLION + b"\0") * 2 + b"\0", "items that take no bytes"),
    ],
)
def test_bytes_that_java_refuses(schema: Any, data: bytes, text: str) -> None:
    with LocalRegistry() as local:
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(schema))
        with pytest.raises(DataFault, match=text):
            converter(local, local).decode(framed(number, data))


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ("int", b"\x82\x80\x80\x80\x00", 1),
        ("long", b"\xff" * 9 + b"\x01", -(1 << 63)),
        ({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x02\x06\x00", [1, 2, 3]),
    ],
)
def test_numbers_and_blocks_that_java_takes(schema: Any, data: bytes, value: Any) -> None:
    """Numbers with leading zeros, and a block with its size before another one."""
    with LocalRegistry() as local:
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(schema))
        assert converter(local, local).decode(framed(number, data)).value == value


@pytest.mark.parametrize(
    "references",
    [[5], [{"subject": "a", "version": None}], [{"subject": "a", "version": "x"}], [{"version": 1}], "abc"],
)
def test_references_that_are_none(references: Any) -> None:
    with LocalRegistry() as local:
        answer = json.dumps({"schema": '"int"', "references": references}).encode()
        local.fault = lambda method, path: (200, answer) if "/ids/" in path else None
        schemas = RegistrySchemas(registry_of(local, "e"), None)
        with pytest.raises(TransformFailed, match="schema id 1 has references without subject and version"):
            schemas.schema(1)


def test_a_registry_that_did_not_respond_is_asked_again_later() -> None:
    """Otherwise each of a slot's partitions would wait for as long as the first."""
    with LocalRegistry() as local:
        number = registry_of(local, "e").add("s", "AVRO", '"int"')
        now = 1_000.0
        schemas = RegistrySchemas(registry_of(local, "e"), registry_of(local, "w"), clock=lambda: now)
        asked: list[str] = []

        def lost(method: str, path: str) -> tuple[int, bytes]:
            asked.append(path)
            raise ConnectionError

        local.fault = lost
        times = []
        for _ in range(3):
            with pytest.raises(TransformFailed, match=f"schema id {number} cannot be read: .* did not respond"):
                schemas.schema(number)
            times.append(len(asked))
        assert times[0] == times[2]
        for _ in range(3):
            with pytest.raises(TransformFailed, match="cannot be registered as t-value"):
                schemas.registered("t-value", "t", "AVRO", '"int"')
            times.append(len(asked))
        assert times[2] < times[3] == times[5]
        local.fault = lambda method, path: None
        now += 11
        assert schemas.schema(number) is not None
        assert schemas.registered("s", "t", "AVRO", '"int"') == number


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema(Type.BYTES, name=DECIMAL), Decimal(5)),
        (Schema(Type.BYTES, name=DECIMAL, parameters={"scale": "two"}), Decimal(5)),
        (Schema(Type.BYTES, name=DECIMAL, parameters={"scale": "0", "connect.decimal.precision": ""}), Decimal(5)),
        (Schema(Type.ARRAY, name=UNION, value_schema=Schema(Type.STRING)), ["a"]),
        (Schema(Type.STRUCT, name=UNION, fields=[("a", Schema(Type.STRING))]), None),
    ],
)
def test_schemas_of_envelopes_that_are_none_of_avro_fail_their_record_alone(schema: Schema, value: Any) -> None:
    """As with ValueToKey, from JSON with schemas to a key in Avro: those of JSON are what its producer wrote."""
    if value is None:
        value = Struct(schema)
        value.put("a", "x")
    with pytest.raises(DataFault, match=r"^cannot be written: "):
        AvroValues.of_schema(schema, Format(FormatKind.AVRO))[1].encode(value)


@pytest.mark.parametrize(
    ("avro", "data"),
    [
        ({"type": "int", "connect.name": DECIMAL, "connect.parameters": {"scale": "2"}}, b"\x02"),
        ({"type": "double", "connect.name": TIME}, bytes(8)),
    ],
)
def test_values_that_are_not_what_connect_is_told_fail_their_record_alone(avro: Any, data: bytes) -> None:
    values = AvroValues.of_text(json.dumps(avro), (), Format(FormatKind.AVRO))
    with pytest.raises(DataFault, match=r"^does not match its schema, Schema"):
        values.decode(data)
