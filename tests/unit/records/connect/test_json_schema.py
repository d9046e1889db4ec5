"""JSON Schema in Confluent's wire format; the vectors follow Confluent's ``JsonSchemaData`` by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.formats import Format, FormatKind, Side
from srm_common.errors import TransformFailed
from srm_common.records.connect.converters import NULL
from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.java_values import DataFault, Float32, Int8, Int16, Int32, JavaDate
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from srm_common.records.connect.json_schema.converter import JsonSchemaValues
from srm_common.records.connect.json_schema.values import UNION
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.records.connect.registry_values import Reference
from srm_common.records.transform import Transform
from srm_common.schema_registry.record_schemas import RegistrySchemas
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
from tests.examples import examples
from tests.unit.wire.built_batches import Record, source_batch

PLAIN = Format(FormatKind.JSON_SCHEMA)
STRING, INT64, FLOAT64 = Schema(Type.STRING), Schema(Type.INT64), Schema(Type.FLOAT64)
OPTIONAL = Schema(Type.STRING, optional=True)
ENUM = "io.confluent.connect.json.Enum"
MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}

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


def to_connect(schema: Any, format_: Format = PLAIN, references: Sequence[Reference] = ()) -> Schema:
    return JsonSchemaValues.of_text(json.dumps(schema), references, format_).schema


def struct(*fields: tuple[str, Schema], **more: Any) -> Schema:
    return Schema(Type.STRUCT, fields=fields, **more)


def array(of: Schema) -> Schema:
    return Schema(Type.ARRAY, value_schema=of)


def union(*branches: Schema, **more: Any) -> Schema:
    return struct(
        *((f"{UNION}.field.{at}", one.changed(optional=True)) for at, one in enumerate(branches)), name=UNION, **more
    )


def registry_of(local: LocalRegistry, alias: str) -> SchemaRegistry:
    cluster = ClusterSettings(alias, "", {}, {}, schema_registry=RegistrySettings((local.url,)))
    return SchemaRegistry(cluster, timeout_seconds=30)


def converter(source: LocalRegistry, target: LocalRegistry) -> RegistryConverter:
    schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
    return RegistryConverter("west.orders", Side.VALUE, PLAIN, schemas)


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + data


def test_a_record_of_all_kinds_keeps_id_and_bytes() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        source.register("other", '"int"')
        data = framed(source.register("orders-value", json.dumps(ORDER), kind="JSON"), VECTOR)
        one = converter(source, target)
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
        assert sum(path.startswith("/schemas/ids") for _, path in source.requests) == 1
        assert one.decode(None) == NULL
        assert one.encode(None, None) is None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "boolean"}, Schema(Type.BOOLEAN)),
        ({"type": "integer"}, INT64),
        ({"type": "number"}, FLOAT64),
        ({"minimum": 3}, FLOAT64),
        ({"maxLength": 3}, STRING),
        ({"type": "integer", "connect.type": "int8", "minimum": 0}, Schema(Type.INT8)),
        ({"type": "number", "connect.type": "float32"}, Schema(Type.FLOAT32)),
        ({"type": "string", "connect.type": "bytes"}, Schema(Type.BYTES)),
        ({"type": "string", "connect.type": "int8"}, STRING),
        (
            {"type": "number", "connect.type": "bytes", "title": DECIMAL, "connect.parameters": {"scale": "1"}},
            Schema(Type.BYTES, name=DECIMAL, parameters={"scale": "1"}),
        ),
        ({"type": "string", "title": "a.B", "description": "c", "connect.version": 3, "default": "d"},
         Schema(Type.STRING, name="a.B", doc="c", version=3, default="d")),
        ({"type": "integer", "connect.type": "int32", "title": DATE, "default": 2},
         Schema(Type.INT32, name=DATE, default=JavaDate(172_800_000))),
        ({"type": "string", "connect.type": "bytes", "default": "Zm9v"}, Schema(Type.BYTES, default=b"foo")),
        ({"enum": ["a", 1, None, True]},
         Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.a": "a", f"{ENUM}.1": "1", f"{ENUM}.<NULL>": "<NULL>",
                                         f"{ENUM}.true": "true"})),
        ({"const": "x"}, Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.x": "x"})),
        # Two groups of keywords are an allOf, which keeps neither title nor connect.type.
        ({"type": "string", "enum": ["a"], "title": "T"}, Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.a": "a"})),
        ({"type": "integer", "enum": [1], "connect.type": "int8"}, INT64),
        ({"type": "string", "const": "x"}, STRING),
        ({"type": "integer", "format": "date-time", "connect.type": "int32"}, INT64),
        ({"type": "integer", "format": "date-time", "connect.type": "int32", **MODERN}, Schema(Type.INT32)),
        ({"type": "string", "format": "date-time", "title": "T"}, Schema(Type.STRING, name="T")),
        # Null and one other are optional, and what stands beside them is forgotten.
        ({"oneOf": [{"type": "null"}, {"type": "string", "title": "T"}], "title": "U"},
         Schema(Type.STRING, optional=True, name="T")),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, OPTIONAL),
        ({"type": ["null", "string"], "maxLength": 3}, OPTIONAL),
        ({"type": ["null", "string"], "minimum": 3}, OPTIONAL),
        ({"oneOf": [{"type": "string"}]}, STRING),
        ({"type": ["integer"], "title": "T"}, INT64),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}], "description": "d"}, union(INT64, STRING, doc="d")),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "string"}]}, union(INT64, STRING, optional=True)),
        ({"type": "array", "items": {"type": "string"}}, array(STRING)),
        ({"items": {"type": "string"}}, array(STRING)),
        ({"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}},
         Schema(Type.MAP, key_schema=STRING, value_schema=INT64)),
        ({"type": "array", "connect.type": "map",
          "items": {"type": "object", "properties": {"key": {"type": "integer"}, "value": {"type": "string"}}}},
         Schema(Type.MAP, key_schema=INT64, value_schema=STRING)),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"], "title": "T"}, struct(("a", STRING), name="T")),
        # The order of Java's HashMap, and that of connect.index.
        ({"properties": {name: {"type": "string"} for name in ("zeta", "b", "a")}},
         struct(("zeta", STRING), ("a", STRING), ("b", STRING))),
        ({"properties": {name: {"type": "string", "connect.index": at} for at, name in enumerate(("zeta", "b", "a"))}},
         struct(("zeta", STRING), ("b", STRING), ("a", STRING))),
        # allOf of objects is one object without a name.
        ({"allOf": [{"properties": {"a": {"type": "string"}}}, {"$ref": "#/definitions/B"}], "title": "T",
          "definitions": {"B": {"properties": {"b": {"type": "string"}}}}}, struct(("a", STRING), ("b", STRING))),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"type": "null"}]},
         struct(("a", STRING))),
        ({"allOf": [{"type": "string"}, {"oneOf": [{"type": "null"}, {"type": "integer"}]}]},
         Schema(Type.INT64, optional=True)),
        ({"allOf": [{"$ref": "#/$defs/A"}, {"not": {}}], "$defs": {"A": {"type": "string"}}}, STRING),
        # References, and a definition that two fields have.
        ({"$ref": "#/$defs/A", "title": "T", "definitions": {"A": {"type": "string"}}}, STRING),
        ({"properties": {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#/definitions/A"}},
          "definitions": {"A": {"type": "object", "properties": {"x": {"type": "string"}}, "title": "A"}}},
         struct(("a", struct(("x", STRING), name="A")), ("b", struct(("x", STRING), name="A")))),
        ({"$ref": "#a", "definitions": {"A": {"$id": "#a", "type": "string"}}}, STRING),
        ({"$ref": "#a", "$defs": {"A": {"$anchor": "a", "type": "string"}}, **MODERN}, STRING),
        ({"$id": "http://x/y.json", "$ref": "z", "definitions": {"A": {"$id": "z", "type": "string"}}}, STRING),
        ({"$id": "http://x/y", "$ref": "#/definitions/a~1b%25", "definitions": {"a/b%": {"type": "string"}}}, STRING),
        # Since 2019-09 a reference stands beside others; before, it stands alone.
        ({"$ref": "#/$defs/A", "properties": {"b": {"type": "string"}},
          "$defs": {"A": {"properties": {"a": {"type": "string"}}}}}, struct(("a", STRING))),
        ({"$ref": "#/$defs/A", "properties": {"b": {"type": "string"}},
          "$defs": {"A": {"properties": {"a": {"type": "string"}}}}, **MODERN}, struct(("a", STRING), ("b", STRING))),
        # Draft 4 has no const, and calls the id id.
        ({"type": "string", "const": "x", "title": "T", **DRAFT_4}, Schema(Type.STRING, name="T")),
        ({"id": "http://x/y", "$ref": "z", "definitions": {"A": {"id": "z", "type": "string"}}, **DRAFT_4}, STRING),
    ],
)  # fmt: skip
def test_schemas_of_connect(schema: Any, expected: Schema) -> None:
    assert to_connect(schema) == expected


def test_properties_that_are_not_required() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}
    asked = Format(FormatKind.JSON_SCHEMA, optional_unless_required=True)
    assert to_connect(schema, asked) == struct(("a", OPTIONAL), ("b", STRING))
    assert to_connect({"allOf": [schema, {"required": ["a"]}]}, asked) == struct(("a", OPTIONAL), ("b", STRING))
    assert to_connect(schema) == struct(("a", STRING), ("b", STRING))


def test_a_field_without_an_index_keeps_its_place_beside_others() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string", "connect.index": 0}}}
    assert to_connect(schema) == struct(("a", STRING), ("b", STRING))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "with a part that allows any value, which is not supported here"),
        (True, "allows any value"),
        (False, "consists of not, if or false, for which Connect has no type"),
        (7, "neither an object nor a boolean"),
        ({"type": "null"}, "consists of null, for which Connect has no type"),
        ({"type": "text"}, "unknown type text"),
        ({"type": {}}, "a type is not a string"),
        ({"type": "array"}, "without one schema for all items"),
        ({"type": "array", "items": [{"type": "string"}]}, "without one schema for all items"),
        ({"type": "object", "connect.type": "map"}, "without one for its items, entries or branches"),
        ({"type": "integer", "connect.type": "int9"}, "connect.type is unknown"),
        ({"type": "integer", "connect.type": []}, "connect.type is unknown"),
        ({"type": "integer", "connect.version": "1"}, "connect.version is not an integer"),
        ({"type": "integer", "connect.parameters": {"a": 1}}, "connect.parameters are not an object of strings"),
        ({"type": "integer", "title": 1}, "title or description is not a string"),
        ({"properties": {"": {"type": "string"}}}, "a field of a struct has no name"),
        ({"properties": []}, "properties is not an object"),
        ({"required": "a"}, "required is not a list of names"),
        ({"oneOf": {}}, "oneOf is not a list"),
        ({"oneOf": [{"type": "null"}, {"type": "null"}]}, "branches, which Connect needs"),
        ({"$ref": 1}, r"\$ref is not a string"),
        ({"$ref": "#/definitions/A"}, "refers to #/definitions/A, which does not exist"),
        ({"$ref": "http://x/y.json"}, "refers to http://x/y.json, which is not among its references"),
        ({"$ref": "http://[x"}, "which is not among its references"),
        ({"$ref": "#"}, "contains itself, which is not supported here"),
        ({"properties": {"next": {"$ref": "#"}}}, "contains itself"),
        ({"type": "string", "default": None}, "has null for a required STRING"),
        ({"type": "string", "connect.type": "bytes", "default": "?"}, "not Base64"),
        ({"properties": {}, "default": {}}, "a struct cannot be the default"),
        ({"type": "string", "title": DECIMAL, "connect.type": "bytes", "default": "AA=="}, "no valid parameter scale"),
        ({"type": "string", "minimum": 1}, "combination of keywords has no Connect type"),
        (
            {
                "$ref": "#/$defs/0",
                "$defs": {
                    **{str(n): {"properties": {f: {"$ref": f"#/$defs/{n + 1}"} for f in "ab"}} for n in range(40)},
                    "40": {"type": "string"},
                },
            },
            "of more than 20000 parts",
        ),
    ],
)
def test_schemas_that_connect_has_not(schema: Any, reason: str) -> None:
    with pytest.raises(DataFault, match=reason):
        to_connect(schema)


@pytest.mark.parametrize("text", ["", "{", "NaN", "1" * 5000, "1e99999999999999999999", "[" * 100_000])
def test_schemas_that_are_not_json(text: str) -> None:
    with pytest.raises(DataFault, match=r"not JSON|nested too deeply"):
        JsonSchemaValues.of_text(text, (), PLAIN)


def test_references_by_name() -> None:
    money = {"type": "object", "properties": {"n": {"type": "number"}}, "definitions": {"C": {"enum": ["EUR"]}}}
    item = {"properties": {"price": {"$ref": "money.json"}, "in": {"$ref": "money.json#/$defs/C"}}, **MODERN}
    schema = {"$id": "http://x/order.json", "properties": {"item": {"$ref": "item.json"}}}
    references = (Reference("money.json", json.dumps(money)), Reference("item.json", json.dumps(item)))
    expected = {"price": struct(("n", FLOAT64)), "in": Schema(Type.STRING, parameters={ENUM: "", f"{ENUM}.EUR": "EUR"})}
    found = to_connect(schema, references=references).by_name["item"].schema
    assert {field.name: field.schema for field in found.fields} == expected
    with pytest.raises(DataFault, match=r"refers to money.json(#/.defs/C)?, which is not among"):
        to_connect(schema, references=references[1:])
    with pytest.raises(DataFault, match="has a schema that is not JSON"):
        to_connect(schema, references=(Reference("item.json", "?"),))


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
    found = JsonSchemaValues(schema, PLAIN).decode(data)
    assert (found, type(found)) == (expected, type(expected))


def test_branches_of_a_union() -> None:
    """The first simple one that fits, or the struct with the most fields in common."""
    inner = struct(("d", OPTIONAL), optional=True)
    one, other = struct(("a", OPTIONAL), ("b", OPTIONAL)), struct(("b", OPTIONAL), ("c", inner))
    schema = union(one, other, INT64, FLOAT64, array(INT64))
    values = JsonSchemaValues(schema, PLAIN)
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
    assert JsonSchemaValues(schema, PLAIN).encode(Struct(schema)) == b'{"b":null,"c":"d"}'
    with LocalRegistry() as registry:
        one = converter(registry, registry)
        assert one.encode(STRING, None) is None
        assert registry.requests == []
        assert one.encode(OPTIONAL, None) == framed(1, b"null")
        assert one.decode(framed(1, b"null")) == (OPTIONAL, None)


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
            converter(source, source).decode(data)


def test_schemas_that_are_made() -> None:
    schema = struct(
        ("a", Schema(Type.INT8, optional=True, doc="A.", default=Int8(3))),
        ("b", struct(("x", Schema(Type.BYTES)), name="X", optional=True)),
        ("c", union(INT64, OPTIONAL, optional=True)),
        ("d", Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"}, default=Decimal("1.50"))),
        name="T",
        version=2,
    )
    text, _ = JsonSchemaValues.of_schema(schema, Format(FormatKind.JSON_SCHEMA, closed_objects=True))
    null = {"type": "null"}
    assert json.loads(text) == {
        "type": "object",
        "title": "T",
        "connect.version": 2,
        "additionalProperties": False,
        "properties": {
            "a": {
                "oneOf": [null, {"type": "integer", "connect.type": "int8", "description": "A.", "default": 3}],
                "connect.index": 0,
            },
            "b": {
                "oneOf": [
                    null,
                    {
                        "type": "object",
                        "title": "X",
                        "additionalProperties": False,
                        "properties": {"x": {"type": "string", "connect.type": "bytes", "connect.index": 0}},
                    },
                ],
                "connect.index": 1,
            },
            "c": {
                "oneOf": [
                    null,
                    {"type": "integer", "connect.type": "int64", "connect.index": 0},
                    {"type": "string", "connect.index": 1},
                ],
                "connect.index": 2,
            },
            "d": {
                "type": "string",
                "connect.type": "bytes",
                "title": DECIMAL,
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "default": "AJY=",
                "connect.index": 3,
            },
        },
    }
    numeric = Format(FormatKind.JSON_SCHEMA, numeric_decimals=True)
    text, values = JsonSchemaValues.of_schema(schema.fields[3].schema, numeric)
    assert (json.loads(text)["type"], json.loads(text)["default"]) == ("number", 1.5)
    assert values.encode(Decimal("12.30")) == b"12.30"


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
    text, written = JsonSchemaValues.of_schema(schema, PLAIN)
    read = JsonSchemaValues.of_text(text, (), PLAIN)
    assert read.schema == schema
    value = data.draw(values)
    if value is not None or JsonSchemaValues.writes_null(schema):
        again = read.decode(written.encode(value))
        assert again == value
        assert read.encode(again) == written.encode(value)


KEYWORDS = (
    *("type", "properties", "items", "required", "additionalProperties", "oneOf", "anyOf", "allOf", "not", "enum"),
    *("const", "$ref", "$id", "id", "$schema", "$defs", "definitions", "$anchor", "title", "description", "default"),
    *("connect.type", "connect.index", "connect.version", "connect.parameters", "format", "minimum", "minLength", "if"),
    *("prefixItems", "a", "key", "value", ""),
)
WORDS = (
    *(
        "string",
        "integer",
        "number",
        "boolean",
        "null",
        "array",
        "object",
        "bytes",
        "map",
        "int8",
        "float32",
        "#",
        "#a",
    ),
    *(
        "#/$defs/a",
        "#/definitions/a",
        "#/properties/a",
        "a",
        "http://[",
        "urn:a",
        DECIMAL,
        DATE,
        TIME,
        TIMESTAMP,
        UNION,
    ),
    *(MODERN["$schema"], DRAFT_4["$schema"], "\ud800", "scale", "BNI="),
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 1 << 70) | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=25,
)


@settings(max_examples=examples(400))
@given(schema=ANY_JSON, references=st.lists(st.tuples(st.sampled_from(WORDS), ANY_JSON), max_size=2), value=ANY_JSON)
def test_any_json_is_a_schema_or_a_fault(schema: Any, references: list[tuple[str, Any]], value: Any) -> None:
    named = [Reference(name, json.dumps(one)) for name, one in references]
    try:
        values = JsonSchemaValues.of_text(json.dumps(schema), named, PLAIN)
    except DataFault:
        return
    text, again = JsonSchemaValues.of_schema(values.schema, PLAIN)
    json.loads(text)
    with suppress(DataFault):
        json.loads(again.encode(values.decode(json.dumps(value).encode())))


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as one:
        yield one


def chain_of(**settings: str) -> Any:
    kafka = "org.apache.kafka.connect.transforms."
    steps = {f"transforms.s.{key.replace('_', '.')}": value for key, value in settings.items()}
    steps["transforms.s.type"] = kafka + steps["transforms.s.type"]
    return parse_chain({"transforms": "s", "value.format": "json-schema", **steps})


def test_a_changed_schema_is_registered_once_for_the_copy() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER), kind="JSON")
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
        body = target.answer("GET", "/schemas/ids/2")
        assert body["schemaType"] == "JSON"
        made = json.loads(body["schema"])
        assert (made["title"], made["description"]) == ("Order", "An order.")
        assert made["properties"]["customer"] == {
            "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int32"}],
            "connect.index": 1,
        }
        assert values[0][5:] == (
            b'{"card":"4111","customer":42,"state":"PAID","price":"BNI=","day":1,"at":-2,"tags":{"x":null}}'
        )
        masked = Transform(
            chain_of(type="MaskField$Value", fields="card", replacement="****"), "west.orders", schemas=schemas
        )
        for left in masked.apply(batch).records.column("value").to_pylist():
            assert left[:5] == framed(number, b"")
            assert json.loads(left[5:]) == json.loads(VECTOR.replace(b"4111", b"****"))
        assert len(target.changes()) == 1


def test_a_registry_that_refuses_the_schema_stops_the_partition() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", json.dumps(ORDER), kind="JSON")
        target.fault = lambda method, path: (409, b'{"error_code": 409, "message": "is not compatible"}')
        one = converter(source, target)
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
    value = converter(registry, registry).decode(framed(number, b'{"i":{"n":1},"sum":2}')).value
    assert (value.get("i").get("n"), value.get("sum")) == (1.0, 2.0)
