"""Protobuf's values, beside those of Google's runtime."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.connect.protobuf.values import ProtobufValues
from srm_common.records.connect.protobuf.wire import varint_bytes
from tests.unit.records.connect import protoc
from tests.unit.records.connect.proto_messages import DEFAULT, expected, messages, plain
from tests.unit.records.connect.proto_schemas import proto_texts


def values_of(text: str, options: ProtobufOptions = DEFAULT, place: bytes = b"\0") -> ProtobufValues:
    return ProtobufValues.of_text(text, [], Format(FormatKind.PROTOBUF, protobuf=options), place)


@given(st.data())
def test_what_google_writes_is_read_and_written_again(data: st.DataObject) -> None:
    text = data.draw(proto_texts(known=True))
    of = protoc.message_class(text, "m.Root")
    message = data.draw(messages(of))
    values = values_of(text)
    found = values.decode(message.SerializeToString())
    assert plain(found) == expected(message)
    again = values.encode(found)
    assert of.FromString(again) == message
    # Written by the numbers of the fields, as Google's do it; maps may come in another order.
    assert len(again) == message.ByteSize()
    if "map<" not in text:
        assert again == message.SerializeToString(deterministic=True)


@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_a_schema_that_is_made_holds_what_the_first_one_did(
    data: st.DataObject, names: bool, optional: bool, integers: bool
) -> None:
    """By the text that is registered, Google's runtime reads what was written."""
    options = ProtobufOptions(full_names=names, optional_for_nullables=optional, enums_as_integers=integers)
    text = data.draw(proto_texts(known=True))
    message = data.draw(messages(protoc.message_class(text, "m.Root")))
    values = values_of(text, options)
    found = values.decode(message.SerializeToString())
    made, new = ProtobufValues.of_schema(values.schema, Format(FormatKind.PROTOBUF, protobuf=options))
    written = new.encode(found)
    package = "m." if names else ""
    theirs = protoc.message_class(made, f"{package}Root").FromString(written)
    # And so do we: what is absent in proto3 without a label is zero then.
    read = values_of(made, options)
    assert plain(read.decode(theirs.SerializeToString())) == plain(read.decode(written))
    assert not UnknownFieldSet(theirs)
    assert without_zeros(plain(read.decode(written))) == without_zeros(plain(found))
    assert read.encode(read.decode(written)) == written


def without_zeros(value: Any) -> Any:
    """Symbols whose number is 0 end with A or ZERO."""
    if isinstance(value, str) and value.endswith(("_A", "_ZERO")):
        return ""
    if isinstance(value, dict):
        kept = {key: without_zeros(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one or isinstance(one, dict)}
    return [without_zeros(one) for one in value] if isinstance(value, list) else value


@given(proto_texts(known=True), st.binary(max_size=40))
def test_any_bytes_are_read_as_google_does_or_a_fault(text: str, data: bytes) -> None:
    values = values_of(text)
    try:
        found = values.decode(data)
    except DataFault:
        return
    again = values.encode(found)
    assert values.encode(values.decode(again)) == again


SYNTAX = 'syntax = "proto3"; message M { %s }'
PROTO2 = 'syntax = "proto2"; message M { %s }'


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        (SYNTAX % "int32 a = 1;", b"", {"a": 0}),
        (SYNTAX % "int32 a = 1;", b"\x08\x01\x08\x02", {"a": 2}),
        (SYNTAX % "int32 a = 1;", b"\x08\xff\xff\xff\xff\x0f", {"a": -1}),
        (SYNTAX % "int32 a = 1;", b"\x08\x80\x80\x80\x80\x10", {"a": 0}),
        (SYNTAX % "optional int32 a = 1;", b"", {"a": None}),
        (SYNTAX % "optional int32 a = 1;", b"\x08\x00", {"a": 0}),
        (SYNTAX % "uint32 a = 1;", b"\x08\xff\xff\xff\xff\x0f", {"a": 4294967295}),
        (SYNTAX % "uint64 a = 1;", b"\x08" + b"\xff" * 9 + b"\x01", {"a": -1}),
        (SYNTAX % "bool a = 1;", b"\x08\x80\x01", {"a": True}),
        (SYNTAX % "repeated int32 a = 1;", b"\x0a\x02\x01\x02\x08\x03", {"a": [1, 2, 3]}),
        (SYNTAX % "repeated int32 a = 1 [packed = false];", b"\x0a\x02\x01\x02\x08\x03", {"a": [1, 2, 3]}),
        # A field of another wire type, one that is not known, a group that is not, in one that is not.
        (SYNTAX % "int32 a = 1;", b"\x0d\0\0\0\0\x12\x01x\x1b\x23\x24\x08\x05\x1c\x08\x07", {"a": 7}),
        (SYNTAX % "M2 a = 1; message M2 { int32 b = 1; int32 c = 2; }", b"\x0a\x02\x08\x01\x0a\x02\x10\x02", None),
        (SYNTAX % "oneof o { int32 a = 1; int32 b = 2; }", b"\x08\x01\x10\x02", {"o_0": {"a": None, "b": 2}}),
        (SYNTAX % "enum E { A = 0; } E e = 1;", b"\x08\x05", {"e": "UNKNOWN_ENUM_VALUE_E_5"}),
        (SYNTAX % "enum E { A = 0; } E e = 1;", b"\x08\xff\xff\xff\xff\x0f", {"e": "UNKNOWN_ENUM_VALUE_E_-1"}),
        (
            PROTO2 % "enum E { A = 3; } oneof o { int32 a = 1; E e = 2; }",
            b"\x08\x07\x10\x05",
            {"o_0": {"a": 7, "e": None}},
        ),
        (PROTO2 % "enum E { A = 3; } optional E e = 1;", b"\x08\x05", {"e": None}),
        (PROTO2 % "enum E { A = 3; } repeated E e = 1;", b"\x08\x05\x08\x03", {"e": ["A"]}),
        (PROTO2 % "optional string s = 1 [default = 'x'];", b"", {"s": None}),
        (PROTO2 % "optional string s = 1;", b"\x0a\x01\xff", {"s": "\ufffd"}),
        (
            PROTO2 % "optional group G = 1 { optional int32 x = 1; } optional int32 a = 2;",
            b"\x0b\x08\x01\x0c\x10\x07",
            {"a": 7},
        ),
        (PROTO2 % "map<string, int32> m = 1;", b"\x0a\x00\x0a\x03\x0a\x01k", {"m": {"": 0, "k": 0}}),
        (SYNTAX % "map<string, N> m = 1; message N { int32 n = 1; }", b"\x0a\x00", {"m": {"": {"n": 0}}}),
    ],
)
def test_what_java_reads(text: str, data: bytes, value: Any) -> None:
    found = plain(values_of(text).decode(data))
    assert found == ({"a": {"b": 1, "c": 2}} if value is None else value)


@pytest.mark.parametrize(
    ("text", "data", "reason"),
    [
        (SYNTAX % "int32 a = 1;", b"\x08", "ends in the middle of a field"),
        (SYNTAX % "int32 a = 1;", b"\x08\x80", "ends in the middle of a field"),
        (SYNTAX % "int32 a = 1;", b"\x08" + b"\x80" * 10 + b"\x01", "has a number of more than 64 bits"),
        (SYNTAX % "int32 a = 1;", b"\x00\x01", "has a field with the number 0"),
        (SYNTAX % "int32 a = 1;", b"\x0c", "has the end of a group that did not begin"),
        (SYNTAX % "int32 a = 1;", b"\x0e", "has an unknown wire type"),
        (SYNTAX % "int32 a = 1;", b"\x13\x10\x01", "ends in the middle of a field"),
        (SYNTAX % "int32 a = 1;", b"\x13" * 101, "has groups that are nested deeper than 100"),
        (SYNTAX % "string a = 1;", b"\x0a\x02x", "ends in the middle of a field"),
        (SYNTAX % "string a = 1;", b"\x0a\xff\xff\xff\xff\x0fx", "has a length of -1"),
        (SYNTAX % "string a = 1;", b"\x0a\x01\xff", "has bytes in the string a that are not UTF-8"),
        (SYNTAX % "repeated fixed32 a = 1;", b"\x0a\x03abc", "ends in the middle of a field"),
        (PROTO2 % "required int32 a = 1;", b"", "lacks the field a, which M requires"),
    ],
)
def test_what_java_refuses(text: str, data: bytes, reason: str) -> None:
    with pytest.raises(DataFault, match=reason):
        values_of(text).decode(data)


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


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        ("int32 precision = 2; bytes value = 1; int32 scale = 3;", b"\x0a\x02\x04\xd2\x18\x02", "12.34"),
        ("", b"\x0a\x02\x04\xd2\x10\x03\x18\x02", "12.3"),
        ("", b"\x0a\x02\x03\xe7\x10\x02\x18\x01", "1.0E+2"),
        ("", b"\x0a\x01\xff\x18\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "-1E+2"),
        ("", b"", "has a decimal without bytes"),
        ("", b"\x0a\x81\x80\x01" + b"\x7f" * 16385, "has a decimal of 131079 bits"),
        ("", b"\x0a\x01\x01\x10\xff\xff\xff\xff\x0f", "has a decimal with the precision -1"),
        ("", b"\x0a\x02\x03\xe7\x10\x01\x18\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01", "with the scale -214748365"),
    ],
)
def test_decimals_as_java_rounds_them(text: str, data: bytes, value: str) -> None:
    fields = "confluent.type.Decimal d = 1;"
    one = values_of(f'syntax = "proto3"; import "confluent/type/decimal.proto"; message M {{ {fields} }}')
    framed = b"\x0a" + varint_bytes(len(data))
    if value.startswith(("has", "with")):
        with pytest.raises(DataFault, match=value):
            one.decode(framed + data)
    else:
        assert str(one.decode(framed + data).get("d")) == value


@pytest.mark.parametrize(
    ("of", "file", "data", "reason"),
    [
        ("google.type.Date", "google/type/date", b"\x08\xc2\x0c\x10\x0a\x18\x0a", "not a day: 1602-10-10"),
        ("google.type.Date", "google/type/date", b"\x08\xae\x0c\x10\x0a\x18\x0a", "not a day: 1582-10-10"),
        ("google.type.Date", "google/type/date", b"\x08\xe7\x0f\x10\x02\x18\x1d", "not a day: 2023-2-29"),
        ("google.type.Date", "google/type/date", b"\x10\x02\x18\x01", "not a day: 0-2-1"),
        ("google.type.TimeOfDay", "google/type/timeofday", b"\x08\x18", "a google.type.TimeOfDay with 24 hours"),
        ("google.protobuf.Timestamp", "google/protobuf/timestamp", b"\x10\x80\x94\xeb\xdc\x03", "1000000000 nanos"),
    ],
)
def test_dates_that_are_none(of: str, file: str, data: bytes, reason: str) -> None:
    one = values_of(f'syntax = "proto3"; import "{file}.proto"; message M {{ {of} d = 1; }}')
    if reason.endswith("1602-10-10"):
        assert one.decode(b"\x0a" + bytes([len(data)]) + data).get("d").millis < 0
        return
    with pytest.raises(DataFault, match=reason):
        one.decode(b"\x0a" + bytes([len(data)]) + data)


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


TREE = """syntax = "proto3"; package t; message Node {
  string name = 1; Node next = 2; repeated Node children = 3; map<string, Node> by_name = 4;
  oneof either { Node left = 5; Other right = 6; } message Other { Node back = 1; int32 n = 2; } }"""


@given(st.data())
def test_messages_in_themselves(data: st.DataObject) -> None:
    """As Confluent's converter has them; new schemas, too, which it writes only where a message is its own field."""
    of = protoc.message_class(TREE, "t.Node")
    message = data.draw(messages(of))
    values = values_of(TREE)
    found = values.decode(message.SerializeToString())
    assert plain(found) == expected(message)
    assert of.FromString(values.encode(found)) == message
    again = values_of(TREE)
    assert again.schema == values.schema
    assert again.encode(found) == values.encode(found)
    made, new = ProtobufValues.of_schema(values.schema, Format(FormatKind.PROTOBUF))
    theirs = protoc.message_class(made, "Node").FromString(new.encode(found))
    assert plain(new.decode(theirs.SerializeToString())) == plain(found)
    other = values_of(TREE.replace("int32 n", "int64 n"))
    assert other.schema != values.schema
    assert hash(values.schema) == hash(again.schema)


def test_googles_structs() -> None:
    text = 'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Struct s = 1; }'
    of = protoc.message_class(text, "M")
    message = of()
    message.s.update({"a": [1.5, None, {"b": "x"}], "c": True})
    values = values_of(text)
    found = values.decode(message.SerializeToString())
    assert plain(found.get("s").get("fields")["c"]) == {
        "kind_0": {
            **dict.fromkeys(("null_value", "number_value", "string_value", "struct_value", "list_value")),
            "bool_value": True,
        }
    }
    assert of.FromString(values.encode(found)) == message


def test_a_few_bytes_do_not_become_any_number_of_fields() -> None:
    fields = "".join(f"int32 f{n} = {n};" for n in range(1, 1001))
    one = values_of(SYNTAX % f"repeated N n = 1; message N {{ {fields} }}")
    assert len(one.decode(b"\x0a\x00" * 4000).get("n")) == 4000
    with pytest.raises(DataFault, match="has messages with more than 4194304 fields in total"):
        one.decode(b"\x0a\x00" * 5000)


@pytest.mark.parametrize("kind", ["uint32", "fixed32"])
def test_longs_lose_their_upper_bits_where_protobuf_has_32(kind: str) -> None:
    one = values_of(SYNTAX % f"{kind} a = 1;")
    struct = Struct(one.schema)
    for value, left in ((-1, (1 << 32) - 1), ((1 << 32) + 7, 7)):
        struct.values[0] = value
        assert one.decode(one.encode(struct)).get("a") == left


def test_a_oneof_of_any_size() -> None:
    """What it takes grows with the number of its fields, not with its square."""
    fields = "".join(f"int32 f{n} = {n};" for n in range(1, 19_001))
    one = values_of(SYNTAX % f"oneof o {{ {fields} }}")
    found = one.decode(b"\x08\x01\x10\x02\x18\x03\x10\x04").get("o_0")
    assert {field.name: value for field, value in zip(found.schema.fields, found.values, strict=True) if value} == {
        "f2": 4
    }


def test_values_that_the_schema_does_not_take() -> None:
    one = values_of(PROTO2 % "required int32 a = 1; optional E e = 2; repeated int32 l = 3; enum E { A = 3; }")
    struct = Struct(one.schema)
    with pytest.raises(DataFault, match="cannot be written: it lacks the field a, which M requires"):
        one.encode(struct)
    struct.values[0] = "x"
    with pytest.raises(DataFault, match=r"it has a java.lang.String for Schema"):
        one.encode(struct)
    struct.values = [one.decode(b"\x08\x01").get("a"), "B", None]
    with pytest.raises(DataFault, match=r"it has a string that is not a symbol of the enum M.E"):
        one.encode(struct)
    struct.values[1] = "UNKNOWN_ENUM_VALUE_E_5"
    with pytest.raises(DataFault, match=r"the enum M.E has no symbol with the number 5"):
        one.encode(struct)
    struct.values[1:] = [None, [None]]
    with pytest.raises(DataFault, match="the list l has a null, which Protobuf does not allow"):
        one.encode(struct)
    with pytest.raises(DataFault, match="it has a null for Schema"):
        one.encode(None)
