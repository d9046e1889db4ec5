"""Values of Avro: what fastavro writes is read, what is written fastavro reads, and what Java refuses is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Side
from srm_common.records.connect.avro.schemas import UNION
from srm_common.records.connect.avro.values import AvroValues
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import DECIMAL, TIME, Schema, Struct, Type
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.testing import LocalRegistry
from tests.unit.records.connect.registries import AVRO, OneSchema, converter, framed, registry_of

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
    one = converter(AVRO, registry, registry)
    of_connect, value = one.decode(before)
    assert one.encode(of_connect, value, before) == before
    # Without the bytes that it was read from, it is written by a schema of its own.
    written_again = one.encode(of_connect, value)
    assert written_again is not None
    made = json.loads(registry.answer("GET", f"/schemas/ids/{int.from_bytes(written_again[1:5])}")["schema"])
    assert fastavro.schemaless_reader(io.BytesIO(written_again[5:]), made, None) == record


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
    of = RegistryConverter("orders", Side.VALUE, AVRO, OneSchema("AVRO", json.dumps(schema)))
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
        of = converter(AVRO, local, local)
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
        ("string", b"\x06J\xf6g", "has a string that is not UTF-8"),
    ],
)
def test_values_that_are_refused(schema: Any, data: bytes, text: str) -> None:
    with LocalRegistry() as local:
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(schema))
        with pytest.raises(DataFault, match=text):
            converter(AVRO, local, local).decode(framed(number, data))


def test_decimals_are_as_long_as_bytes_allow() -> None:
    """Python refuses the text of integers of more than 4300 digits."""
    with LocalRegistry() as local:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9000, "scale": 2}
        number = registry_of(local, "e").add("s", "AVRO", json.dumps(decimal))
        of = converter(AVRO, local, local)
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
            converter(AVRO, local, local).decode(framed(number, data))


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
        assert converter(AVRO, local, local).decode(framed(number, data)).value == value


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
        AvroValues.of_schema(schema, AVRO)[1].encode(value)


@pytest.mark.parametrize(
    ("avro", "data"),
    [
        ({"type": "int", "connect.name": DECIMAL, "connect.parameters": {"scale": "2"}}, b"\x02"),
        ({"type": "double", "connect.name": TIME}, bytes(8)),
    ],
)
def test_values_that_are_not_what_connect_is_told_fail_their_record_alone(avro: Any, data: bytes) -> None:
    values = AvroValues.of_text(json.dumps(avro), (), AVRO)
    with pytest.raises(DataFault, match=r"^does not match its schema, Schema"):
        values.decode(data)
