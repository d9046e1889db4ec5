"""What Connect makes of Protobuf's schemas, by the settings of the converter."""

from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema, Type
from srm_common.records.connect.protobuf.values import ProtobufValues
from tests.unit.records.connect.proto_messages import DEFAULT, PROTO2, SYNTAX, plain, values_of


def field(text: str, options: ProtobufOptions = DEFAULT) -> Schema:
    return values_of(SYNTAX % text, options).schema.fields[0].schema


TAG = {"io.confluent.connect.protobuf.Tag": "1"}
KIND = "io.confluent.connect.protobuf.Type"
ENUM = "io.confluent.connect.protobuf.Enum"


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("int32 a = 1;", Schema(Type.INT32, optional=True, parameters=TAG)),
        ("sfixed32 a = 1;", Schema(Type.INT32, optional=True, parameters={KIND: "sfixed32"} | TAG)),
        ("uint32 a = 1;", Schema(Type.INT64, optional=True, parameters={KIND: "uint32"} | TAG)),
        ("float a = 1;", Schema(Type.FLOAT32, optional=True, parameters=TAG)),
        (
            "int32 a = 1 [(confluent.field_meta).params = {key: 'connect.type', value: 'int16'}];",
            Schema(Type.INT16, optional=True, parameters=TAG),
        ),
        (
            "E a = 1; enum E { A = 0; B = -2; }",
            Schema(
                Type.STRING,
                optional=True,
                name="E",
                parameters={ENUM: "E", f"{ENUM}.A": "0", f"{ENUM}.B": "-2"} | TAG,
            ),
        ),
        (
            "repeated bool a = 1;",
            Schema(Type.ARRAY, optional=True, parameters=TAG, value_schema=Schema(Type.BOOLEAN, optional=True)),
        ),
        (
            "map<string, bytes> my_tags = 1;",
            Schema(
                Type.MAP,
                optional=True,
                name="my_tags",
                parameters=TAG,
                key_schema=Schema(Type.STRING, optional=True, parameters=TAG),
                value_schema=Schema(Type.BYTES, optional=True, parameters={"io.confluent.connect.protobuf.Tag": "2"}),
            ),
        ),
    ],
)
def test_schemas_of_fields(text: str, schema: Schema) -> None:
    assert field(text) == schema


def test_logical_types_and_wrappers() -> None:
    text = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "confluent/type/decimal.proto";
    import "google/protobuf/wrappers.proto"; message M {
      google.protobuf.Timestamp at = 1;
      confluent.type.Decimal price = 2 [(confluent.field_meta) = { params: [
        { value: "9", key: "precision" }, { value: "2", key: "scale" } ]}];
      google.protobuf.UInt32Value count = 3; oneof o { google.protobuf.StringValue s = 4; int32 i = 5; } }"""
    schemas = values_of(text).schema.by_name
    at, price = schemas["at"].schema, schemas["price"].schema
    assert (at.name, at.version, at.type) == ("org.apache.kafka.connect.data.Timestamp", 1, Type.INT64)
    assert (price.name, price.version) == ("org.apache.kafka.connect.data.Decimal", 1)
    assert price.parameters == {
        "scale": "2",
        "connect.decimal.precision": "9",
        "io.confluent.connect.protobuf.Tag": "2",
    }
    assert schemas["count"].schema.type is Type.STRUCT
    wrapped = values_of(text, ProtobufOptions(wrappers_for_nullables=True))
    count = wrapped.schema.by_name["count"].schema
    assert (count.type, count.optional) == (Type.INT64, True)
    union = wrapped.schema.by_name["o_0"].schema
    assert union.by_name["s"].schema.parameters == {
        "io.confluent.connect.protobuf.Wrapper": "true",
        "io.confluent.connect.protobuf.Tag": "4",
    }
    data = b"\x1a\x02\x08\x07\x22\x00"
    found = wrapped.decode(data)
    assert plain(found) == {"at": None, "price": None, "count": 7, "o_0": {"s": "", "i": None}}
    assert wrapped.encode(found) == data
    made, new = ProtobufValues.of_schema(
        wrapped.schema, Format(FormatKind.PROTOBUF, protobuf=ProtobufOptions(wrappers_for_nullables=True))
    )
    assert "google.protobuf.StringValue s = 4;" in made
    assert "int32 i = 5;" in made
    assert new.decode(new.encode(found)) == found


@pytest.mark.parametrize(
    ("options", "text", "data", "value"),
    [
        (ProtobufOptions(union_indexes=False), "oneof o { int32 a = 1; }", b"\x08\x00", {"o": {"a": 0}}),
        (ProtobufOptions(flat_unions=True), "oneof o { int32 a = 1; int32 b = 2; }", b"\x08\x00", {"a": 0, "b": None}),
        (ProtobufOptions(enums_as_integers=True), "E e = 1; enum E { A = 0; }", b"\x08\x05", {"e": 5}),
        (ProtobufOptions(structs_for_nulls=True), "N n = 1; message N { int32 x = 1; }", b"", {"n": {"x": 0}}),
        (ProtobufOptions(structs_for_nulls=True), "optional int32 n = 1;", b"", {"n": 0}),
    ],
)
def test_settings_of_the_converter(options: ProtobufOptions, text: str, data: bytes, value: Any) -> None:
    values = values_of(SYNTAX % text, options)
    found = values.decode(data)
    assert plain(found) == value
    assert values.decode(values.encode(found)) == found


def test_optional_in_proto2_and_for_nullables() -> None:
    text = PROTO2 % "optional int32 a = 1 [default = 5]; required int32 b = 2;"
    assert plain(values_of(text).decode(b"\x10\x01")) == {"a": None, "b": 1}
    plainly = values_of(text, ProtobufOptions(optional_in_proto2=False))
    assert plain(plainly.decode(b"\x10\x01")) == {"a": 5, "b": 1}
    nullable = values_of(text, ProtobufOptions(optional_for_nullables=True)).schema
    assert [one.schema.optional for one in nullable.fields] == [True, False]


def test_names_with_their_packages() -> None:
    text = 'syntax = "proto3"; package a.b; message M { N n = 1; message N { oneof o { E e = 1; } } enum E { A = 0; } }'
    schema = values_of(text, ProtobufOptions(full_names=True)).schema
    inner = schema.by_name["n"].schema
    union = inner.by_name["o_0"].schema
    names = (schema.name, inner.name, union.name, union.by_name["e"].schema.name)
    assert names == ("a.b.M", "a.b.M.N", "io.confluent.connect.protobuf.Union.a.b.M.N.o", "a.b.M.E")


def test_a_wrapper_as_a_whole_value() -> None:
    text = 'syntax = "proto3"; package google.protobuf; message Int64Value { int64 value = 1; }'
    one = values_of(text)
    assert (one.schema, one.decode(b"\x08\x05"), one.decode(b"")) == (Schema(Type.INT64), 5, 0)
    assert (one.encode(5), one.encode(0)) == (b"\x08\x05", b"")
    told = ProtobufOptions(wrappers_as_primitives=False)
    assert plain(values_of(text, told).decode(b"\x08\x05")) == {"value": 5}
    # What is no struct is written as a wrapper all the same.
    _, made = ProtobufValues.of_schema(Schema(Type.FLOAT64), Format(FormatKind.PROTOBUF, protobuf=told))
    assert (made.place, made.encode(0.5)) == (b"\0", b"\x09\0\0\0\0\0\0\xe0\x3f")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            SYNTAX % "M0 a = 1; M0 b = 2;"
            + "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(20))
            + "message M20 { }",
            "has a schema of more than 20000 parts",
        ),
        (
            'syntax = "proto3"; package google.type; message M { Date d = 1; } message Date { string year = 1; }',
            "whose google.type.Date is not the one that Protobuf defines",
        ),
        (SYNTAX % "int32 o_0 = 1; oneof o { int32 a = 2; }", "a struct cannot have two fields named 'o_0'"),
    ],
)
def test_schemas_that_connect_has_not(text: str, reason: str) -> None:
    with pytest.raises(DataFault, match=reason):
        values_of(text)
