"""Values of Protobuf, beside those of Google's runtime."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Struct
from srm_common.records.connect.protobuf.values import ProtobufValues
from srm_common.records.connect.protobuf.wire import varint_bytes
from tests.unit.records.connect import protoc
from tests.unit.records.connect.proto_messages import PROTO2, SYNTAX, expected, messages, plain, values_of
from tests.unit.records.connect.proto_schemas import proto_texts


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


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        ("int32 precision = 2; bytes value = 1; int32 scale = 3;", b"\x0a\x02\x04\xd2\x18\x02", "12.34"),
        ("", b"\x0a\x02\x04\xd2\x10\x03\x18\x02", "12.3"),
        ("", b"\x0a\x02\x03\xe7\x10\x02\x18\x01", "1.0E+2"),
        ("", b"\x0a\x01\xff\x18\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "-1E+2"),
        ("", b"", "has a decimal without bytes"),
        ("", b"\x0a\x81\x80\x01" + b"\x7f" * 16385, "has a decimal of 131079 bits"),
        ("", b"\x0a\x01\x01\x10\xff\xff\xff\xff\x0f", "has a decimal with a negative precision"),
        (
            "",
            b"\x0a\x02\x03\xe7\x10\x01\x18\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01",
            "has a decimal whose scale is out of range",
        ),
    ],
)
def test_decimals_as_java_rounds_them(text: str, data: bytes, value: str) -> None:
    fields = "confluent.type.Decimal d = 1;"
    one = values_of(f'syntax = "proto3"; import "confluent/type/decimal.proto"; message M {{ {fields} }}')
    framed = b"\x0a" + varint_bytes(len(data))
    if value.startswith(("has", "whose")):
        with pytest.raises(DataFault, match=value):
            one.decode(framed + data)
    else:
        assert str(one.decode(framed + data).get("d")) == value


@pytest.mark.parametrize(
    ("of", "file", "data", "reason"),
    [
        ("google.type.Date", "google/type/date", b"\x08\xc2\x0c\x10\x0a\x18\x0a", ""),
        ("google.type.Date", "google/type/date", b"\x08\xae\x0c\x10\x0a\x18\x0a", "that is not a day"),
        ("google.type.Date", "google/type/date", b"\x08\xe7\x0f\x10\x02\x18\x1d", "that is not a day"),
        ("google.type.Date", "google/type/date", b"\x10\x02\x18\x01", "that is not a day"),
        (
            "google.type.TimeOfDay",
            "google/type/timeofday",
            b"\x08\x18",
            "a google.type.TimeOfDay whose hours are out of range",
        ),
        (
            "google.protobuf.Timestamp",
            "google/protobuf/timestamp",
            b"\x10\x80\x94\xeb\xdc\x03",
            "its seconds or nanos are out of range",
        ),
    ],
)
def test_dates_that_are_none(of: str, file: str, data: bytes, reason: str) -> None:
    one = values_of(f'syntax = "proto3"; import "{file}.proto"; message M {{ {of} d = 1; }}')
    if not reason:
        assert one.decode(b"\x0a" + bytes([len(data)]) + data).get("d").millis < 0
        return
    with pytest.raises(DataFault, match=reason):
        one.decode(b"\x0a" + bytes([len(data)]) + data)


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
