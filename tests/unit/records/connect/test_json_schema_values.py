"""Values of JSON Schema, as Confluent's ``JsonSchemaData`` reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.java_values import DataFault, Float32, Int8, Int16, Int32, JavaDate
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from srm_common.records.connect.json_schema.converter import JsonSchemaValues
from srm_common.testing import LocalRegistry
from tests.unit.records.connect.connect_schemas import ENUM, FLOAT64, INT64, OPTIONAL, STRING, array, struct, union
from tests.unit.records.connect.registries import JSON_SCHEMA, converter, framed


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        (STRING, b'"a"', "a"),
        (STRING, b"7", None),
        (INT64, b'"7"', 0),
        (INT64, b"1.9", 1),
        (Schema(Type.INT8), b"300", Int8(44)),
        (Schema(Type.BOOLEAN), b'"true"', False),
        (Schema(Type.BYTES), b'"Zm9v"', b"foo"),
        (Schema(Type.STRING, default="d"), b"null", "d"),
        (OPTIONAL, b"null", None),
        (Schema(Type.BYTES, name=DECIMAL, parameters={"scale": "2"}), b'"BNI="', Decimal("12.34")),
        (Schema(Type.BYTES, name=DECIMAL, parameters={"scale": "2"}), b"12.340", Decimal("12.340")),
        (Schema(Type.MAP, key_schema=STRING, value_schema=INT64), b'{"a":1}', HashMap({"a": 1})),
        (Schema(Type.MAP, key_schema=INT64, value_schema=OPTIONAL), b'[{"key":1,"value":"a"}]', HashMap({1: "a"})),
        (array(INT64), b"[1,2] and more", [1, 2]),
    ],
)
def test_values_that_are_read(schema: Schema, data: bytes, expected: Any) -> None:
    found = JsonSchemaValues(schema, JSON_SCHEMA).decode(data)
    assert (found, type(found)) == (expected, type(expected))


def test_branches_of_a_union() -> None:
    """The first simple one that fits, or the struct with the most fields in common."""
    inner = struct(("d", OPTIONAL), optional=True)
    one, other = struct(("a", OPTIONAL), ("b", OPTIONAL)), struct(("b", OPTIONAL), ("c", inner))
    schema = union(one, other, INT64, FLOAT64, array(INT64))
    values = JsonSchemaValues(schema, JSON_SCHEMA)
    cases = (
        ('{"b":"x"}', 0, '{"a":null,"b":"x"}'),
        ('{"b":"x","c":{"d":"y"}}', 1, '{"b":"x","c":{"d":"y"}}'),
        ("7", 2, "7"),
        ("7.5", 3, "7.5"),
        ("[7]", 4, "[7]"),
    )
    for text, place, again in cases:
        found = values.decode(text.encode())
        assert [at for at, value in enumerate(found.values) if value is not None] == [place]
        assert values.encode(found) == again.encode()
    for text in ("true", '"x"', "{}"):
        with pytest.raises(DataFault, match="fits none of the schemas of a oneOf"):
            values.decode(text.encode())
    with pytest.raises(DataFault, match="no schema of a oneOf has a value"):
        values.encode(Struct(schema))


def test_null_is_written_where_the_schema_has_it() -> None:
    schema = struct(("a", STRING), ("b", OPTIONAL), ("c", Schema(Type.STRING, default="d")))
    assert JsonSchemaValues(schema, JSON_SCHEMA).encode(Struct(schema)) == b'{"b":null,"c":"d"}'
    with LocalRegistry() as registry:
        one = converter(JSON_SCHEMA, registry, registry)
        assert one.encode(STRING, None) is None
        assert registry.requests == []
        assert one.encode(OPTIONAL, None) == framed(1, b"null")
        assert one.decode(framed(1, b"null")) == (OPTIONAL, None)


#: Numbers of JSON are decimals in Java, which have no negative zero.
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
Drawn = tuple[Schema, "st.SearchStrategy[Any]"]
LEAVES: Sequence[Drawn] = (
    (Schema(Type.BOOLEAN), st.booleans()),
    (Schema(Type.INT8), st.integers(-128, 127).map(Int8)),
    (Schema(Type.INT16), st.integers(-(1 << 15), (1 << 15) - 1).map(Int16)),
    (Schema(Type.INT32), st.integers(-(1 << 31), (1 << 31) - 1).map(Int32)),
    (INT64, st.integers(-(1 << 63), (1 << 63) - 1)),
    (Schema(Type.FLOAT32), FLOATS.map(Float32)),
    (FLOAT64, FLOATS | st.floats(min_value=1e-300, allow_infinity=False)),
    (STRING, st.text()),
    (Schema(Type.BYTES), st.binary()),
    (
        Schema(Type.BYTES, name=DECIMAL, parameters={"scale": "2"}),
        st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-2)),
    ),
    (
        Schema(Type.INT32, name=DATE, version=1),
        st.integers(-(1 << 20), 1 << 20).map(lambda n: JavaDate(n * 86_400_000)),
    ),
    (Schema(Type.INT32, name=TIME), st.integers(0, 86_400_000).map(JavaDate)),
    (Schema(Type.INT64, name=TIMESTAMP), st.integers(-(1 << 60), 1 << 60).map(JavaDate)),
    (Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.a": "a"}), st.just("a")),
)


def _struct_value(schema: Schema, values: Sequence[Any]) -> Struct:
    made = Struct(schema)
    for one, value in zip(schema.fields, values, strict=True):
        made.put(one.name, value)
    return made


def _union_value(schema: Schema, value: Any) -> Struct:
    made = Struct(schema)
    made.put(schema.fields[(int, str, bool).index(type(value))].name, value)
    return made


@st.composite
def drawn(draw: st.DrawFn, depth: int = 2) -> Drawn:
    shape = draw(
        st.sampled_from(("leaf", "leaf", "array", "map", "entries", "struct", "union") if depth else ("leaf",))
    )
    schema, values = draw(st.sampled_from(LEAVES))
    if shape == "array":
        item, items = draw(drawn(depth - 1))
        schema, values = array(item), st.lists(items, max_size=2)
    elif shape in ("map", "entries"):
        keys, texts = (STRING, st.text()) if shape == "map" else (INT64, st.integers(0, 9))
        item, items = draw(drawn(depth - 1))
        schema = Schema(Type.MAP, key_schema=keys, value_schema=item)
        values = st.dictionaries(texts, items, max_size=2).map(HashMap)
    elif shape == "struct":
        names = draw(st.lists(st.text(min_size=1), max_size=3, unique=True))
        fields = [draw(drawn(depth - 1)) for _ in names]
        schema = made = struct(*((name, of) for name, (of, _) in zip(names, fields, strict=True)))
        values = st.tuples(*(one for _, one in fields)).map(lambda chosen: _struct_value(made, chosen))
    elif shape == "union":
        schema = either = union(INT64, STRING, Schema(Type.BOOLEAN))
        branch = st.integers(0, 9) | st.text() | st.booleans()
        values = branch.map(lambda value: _union_value(either, value))
    if schema.name is None:
        schema_name = draw(st.none() | st.text(min_size=1))
        doc = draw(st.none() | st.text())
        if shape not in ("struct", "union"):
            schema = schema.changed(name=schema_name if schema_name not in (DECIMAL, DATE) else None, doc=doc)
    if shape not in ("struct", "union") and draw(st.booleans()):
        schema = schema.changed(optional=True)
        values = st.none() | values
    return schema, values


@given(data=st.data())
def test_round_trips(data: st.DataObject) -> None:
    schema, values = data.draw(drawn())
    text, written = JsonSchemaValues.of_schema(schema, JSON_SCHEMA)
    read = JsonSchemaValues.of_text(text, (), JSON_SCHEMA)
    assert read.schema == schema
    value = data.draw(values)
    if value is not None or JsonSchemaValues.writes_null(schema):
        again = read.decode(written.encode(value))
        assert again == value
        assert read.encode(again) == written.encode(value)
