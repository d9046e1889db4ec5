"""Schemas of JSON Schema and those of Connect, made of each other, by the example of Confluent's ``JsonSchemaData``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Format, FormatKind
from srm_common.records.connect.data.java_values import DataFault, Int8, JavaDate
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from srm_common.records.connect.json_schema.converter import JsonSchemaValues
from srm_common.records.connect.json_schema.values import UNION
from srm_common.records.connect.registry_values import Reference
from tests.examples import examples
from tests.unit.records.connect.connect_schemas import ENUM, FLOAT64, INT64, OPTIONAL, STRING, array, struct, union
from tests.unit.records.connect.registries import JSON_SCHEMA

MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


def to_connect(schema: Any, format_: Format = JSON_SCHEMA, references: Sequence[Reference] = ()) -> Schema:
    return JsonSchemaValues.of_text(json.dumps(schema), references, format_).schema


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
        JsonSchemaValues.of_text(text, (), JSON_SCHEMA)


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
        values = JsonSchemaValues.of_text(json.dumps(schema), named, JSON_SCHEMA)
    except DataFault:
        return
    text, again = JsonSchemaValues.of_schema(values.schema, JSON_SCHEMA)
    json.loads(text)
    with suppress(DataFault):
        json.loads(again.encode(values.decode(json.dumps(value).encode())))
