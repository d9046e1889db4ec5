"""Protobuf in Confluent's wire format: registries, new schemas, and transforms."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions, Side
from srm_common.errors import TransformFailed
from srm_common.records.connect import registry_converter
from srm_common.records.connect.connect_records import ConnectRecords
from srm_common.records.connect.converters import NULL
from srm_common.records.connect.data.java_values import DataFault, Float32, Int8, Int32, JavaDate
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.connect.protobuf.definitions import from_connect
from srm_common.records.connect.protobuf.names import map_entry, map_field, scrub_name
from srm_common.records.connect.protobuf.values import ProtobufValues
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.records.connect.registry_values import SchemaText
from srm_common.records.transform import Transform
from srm_common.schema_registry.record_schemas import RegistrySchemas
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
from tests.unit.records.connect import protoc
from tests.unit.records.connect.proto_messages import plain
from tests.unit.records.connect.proto_schemas import proto_texts
from tests.unit.records.connect.test_avro import framed, registry_of
from tests.unit.wire.built_batches import Record, source_batch

FORMAT = Format(FormatKind.PROTOBUF)
ORDER = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "confluent/type/decimal.proto";
message Head { int32 version = 1; }
message Order {
  string card = 1;
  int32 cust_id = 2;
  State state = 3;
  oneof either { int64 big = 4; Item item = 5; }
  confluent.type.Decimal price = 6 [(confluent.field_meta) = { params: [ { value: "2", key: "scale" } ] }];
  google.protobuf.Timestamp at = 7;
  map<string, double> tags = 8;
  repeated Item items = 9;
  int32 tiny = 10 [(confluent.field_meta) = { params: [ { key: "connect.type", value: "int8" } ] }];
  uint32 count = 11;
  message Item { string name = 1; }
  enum State { NEW = 0; PAID = 1; }
}
"""
# Written by hand from Protobuf's specification.
VECTOR = (
    b"\x0a\x044111"
    b"\x10\x2a"
    b"\x18\x01"
    b"\x20\x07"
    b"\x32\x08\x0a\x02\x04\xd2\x10\x04\x18\x02"
    b"\x3a\x02\x08\x05"
    b"\x42\x0c\x0a\x01x\x11\x00\x00\x00\x00\x00\x00\xe0\x3f"
    b"\x4a\x00"
    b"\x50\x05"
    b"\x58\xff\xff\xff\xff\x0f"
)
#: The second message of the file.
PLACE = b"\x02\x02"
MADE = """syntax = "proto3";

import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";

message Order {
  string card = 1;
  int32 customer = 2;
  State state = 3;
  confluent.type.Decimal price = 6 [(confluent.field_meta) = {
    params: [
      {
        value: "2",
        key: "scale"
      }
    ]
  }];
  google.protobuf.Timestamp at = 7;
  repeated tagsEntry tags = 8;
  int32 tiny = 10 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "int8"
      }
    ]
  }];
  uint32 count = 11;

  oneof either {
    int64 big = 4;
    Item item = 5;
  }

  message Item {
    string name = 1;
  }
  message tagsEntry {
    string key = 1;
    double value = 2;
  }
  enum State {
    NEW = 0;
    PAID = 1;
  }
}
"""


def converter(source: LocalRegistry, target: LocalRegistry) -> RegistryConverter:
    schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
    return RegistryConverter("west.orders", Side.VALUE, FORMAT, schemas)


def test_a_record_of_all_kinds_keeps_id_and_bytes() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        data = framed(source.register("orders-value", ORDER, kind="PROTOBUF"), PLACE + VECTOR)
        one = converter(source, target)
        schema, value = one.decode(data)
        assert schema is not None
        assert (schema.name, schema.optional) == ("Order", False)
        found = plain(value)
        assert found == {
            "either_0": {"big": 7, "item": None},
            "card": "4111",
            "cust_id": 42,
            "state": "PAID",
            "price": Decimal("12.34"),
            "at": JavaDate(5000),
            "tags": {"x": 0.5},
            "items": [{"name": ""}],
            "tiny": 5,
            "count": 4294967295,
        }
        assert (type(found["cust_id"]), type(found["tiny"])) == (Int32, Int8)
        assert one.encode(schema, value, data) == data
        assert target.requests == []
        assert sum(path.startswith("/schemas/ids") for _, path in source.requests) == 1
        assert one.decode(None) == NULL
        assert one.encode(None, None) is None
        assert one.encode(schema, None) is None


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (b"\x00", "Head"),
        (b"\x02\x00", "Head"),
        (b"\x02\x02", "Order"),
        (b"\x04\x02\x00", "Item"),
        (b"\x02\x80\x00", "Head"),
    ],
)
def test_indexes_of_messages(place: bytes, name: str) -> None:
    with LocalRegistry() as source:
        data = framed(source.register("orders-value", ORDER, kind="PROTOBUF"), place)
        one = converter(source, source)
        schema, value = one.decode(data)
        assert schema is not None
        assert schema.name == name
        assert one.encode(schema, value, data) == data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not Protobuf of a schema registry: it does not begin with a zero"),
        (b"\x01\0\0\0\x01\x00", "does not begin with a zero"),
        (framed(1, b""), "it does not say which message of its schema it is"),
        (framed(1, b"\x04\x02"), "it does not say which message of its schema it is"),
        (framed(1, b"\x01\x00"), "it does not say which message of its schema it is"),
        (framed(1, b"\x80\x80\x80\x80\x80\x00"), "it does not say which message of its schema it is"),
        (framed(1, b"\x02\x04"), "without the message that the record's message indexes name .schema id 1"),
        (framed(1, b"\x02\x01"), "without the message that the record's message indexes name .schema id 1"),
        (framed(7, b"\x00"), "has the schema id 7, which the registry of the source does not know"),
        (framed(2, b"\x00"), "has the schema id 2, which is AVRO, not Protobuf"),
        (framed(3, b"\x00"), "'mess' in line 1 instead of a definition .schema id 3"),
        (framed(1, b"\x00\x08"), "ends in the middle of a field"),
    ],
)
def test_what_is_not_protobuf(data: bytes, reason: str) -> None:
    with LocalRegistry() as source:
        source.register("a", ORDER, kind="PROTOBUF")
        source.register("b", '"int"')
        source.register("c", "mess", kind="PROTOBUF")
        with pytest.raises(DataFault, match=reason):
            converter(source, source).decode(data)


def chain_of(**settings: str) -> Any:
    kafka = "org.apache.kafka.connect.transforms."
    steps = {f"transforms.s.{key.replace('_', '.')}": value for key, value in settings.items()}
    steps["transforms.s.type"] = kafka + steps["transforms.s.type"]
    return parse_chain({"transforms": "s", "value.format": "protobuf", **steps})


def test_a_changed_schema_is_registered_once_for_the_copy() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", ORDER, kind="PROTOBUF")
        target.register("other", '"int"')
        schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
        was = framed(number, PLACE + VECTOR)
        batch = decode([source_batch([Record(offset, 5, None, was) for offset in range(3)])])
        for partition in range(2):
            renamed = Transform(
                chain_of(type="ReplaceField$Value", renames="cust_id:customer", exclude="items,absent"),
                "west.orders",
                partition=partition,
                schemas=schemas,
            )
            left, faults = renamed.apply(batch)
            assert faults == []
            values = left.column("value").to_pylist()
            assert values == [values[0]] * 3
            assert values[0][:6] == framed(2, b"\x00")
        assert target.changes() == [("POST", "/subjects/west.orders-value/versions")]
        made = target.answer("GET", "/schemas/ids/2")
        assert made == {"schema": MADE, "schemaType": "PROTOBUF"}
        found = protoc.message_class(MADE, "Order").FromString(values[0][6:])
        assert (found.card, found.customer, found.state, found.big, found.count) == ("4111", 42, 1, 7, 4294967295)
        assert (found.price.value, found.price.scale, found.at.seconds) == (b"\x04\xd2", 2, 5)
        assert [(tag.key, tag.value) for tag in found.tags] == [("x", 0.5)]

        # A field that is not there changes nothing, neither id nor bytes.
        same = Transform(chain_of(type="ReplaceField$Value", exclude="absent"), "west.orders", schemas=schemas)
        assert same.apply(batch).records.column("value").to_pylist() == [was] * 3
        masked = Transform(
            chain_of(type="MaskField$Value", fields="card", replacement="****"), "west.orders", schemas=schemas
        )
        expected = was.replace(b"4111", b"****")
        assert masked.apply(batch).records.column("value").to_pylist() == [expected] * 3
        assert len(target.changes()) == 1


@pytest.mark.parametrize(
    ("settings", "text", "place", "value"),
    [
        # Confluent's would number the new field 1, which card has.
        (
            {"type": "InsertField$Value", "static_field": "source", "static_value": "east"},
            "  string source = 2;\n",
            b"\x00",
            b"\x12\x04east",
        ),
        ({"type": "ExtractField$Value", "field": "count"}, "message Int64Value {\n", b"\x02\x04", b"\x08\x2a"),
        ({"type": "ExtractField$Value", "field": "card"}, "message StringValue {\n", b"\x02\x0e", b"\x0a\x044111"),
        (
            {"type": "HoistField$Value", "field": "order"},
            "message ConnectDefault1 {\n",
            b"\x00",
            b"\x0a\x08\x0a\x044111\x38\x2a",
        ),
    ],
)
def test_other_steps(settings: dict[str, str], text: str, place: bytes, value: bytes) -> None:
    order = 'syntax = "proto3"; package a; message Order { string card = 1; int64 count = 7; }'
    with LocalRegistry() as source, LocalRegistry() as target:
        data = framed(source.register("orders-value", order, kind="PROTOBUF"), b"\x00\x0a\x044111\x38\x2a")
        schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
        step = Transform(chain_of(**settings), "west.orders", schemas=schemas)
        batch = decode([source_batch([Record(0, 5, None, data)])])
        left, faults = step.apply(batch)
        assert faults == []
        (found,) = left.column("value").to_pylist()
        assert text in target.answer("GET", "/schemas/ids/1")["schema"]
        assert found[:5] == framed(1, b"")
        assert found[5 : 5 + len(place)] == place
        assert value in found[5 + len(place) :]


def test_flat_messages() -> None:
    """Fields of one message have the numbers of those of the other: Confluent's fails then."""
    order = 'syntax = "proto3"; message Order { Item item = 1; Item other = 2; message Item { int32 n = 1; } }'
    with LocalRegistry() as source, LocalRegistry() as target:
        data = framed(source.register("orders-value", order, kind="PROTOBUF"), b"\x00\x0a\x02\x08\x05\x12\x02\x08\x06")
        schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
        step = Transform(chain_of(type="Flatten$Value", delimiter="_"), "west.orders", schemas=schemas)
        left, faults = step.apply(decode([source_batch([Record(0, 5, None, data)])]))
        assert faults == []
        made = target.answer("GET", "/schemas/ids/1")["schema"]
        found = protoc.message_class(made, "Order").FromString(left.column("value").to_pylist()[0][6:])
        assert (found.item_n, found.other_n) == (5, 6)


def test_messages_in_themselves() -> None:
    order = 'syntax = "proto3"; message Order { string card = 1; Order next = 2; }'
    with LocalRegistry() as source, LocalRegistry() as target:
        data = framed(source.register("orders-value", order, kind="PROTOBUF"), b"\x00\x0a\x044111\x12\x03\x0a\x01x")
        schemas = RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))
        batch = decode([source_batch([Record(0, 5, None, data)])])

        def applied(**settings: str) -> Any:
            return Transform(chain_of(**settings), "west.orders", schemas=schemas).apply(batch)

        masked, faults = applied(type="MaskField$Value", fields="card", replacement="****")
        assert (masked.column("value").to_pylist(), faults) == ([data.replace(b"4111", b"****")], [])
        renamed, faults = applied(type="InsertField$Value", static_field="source", static_value="east")
        assert (renamed.column("value").to_pylist()[0][5:], faults) == (data[5:] + b"\x1a\x04east", [])
        assert "  Order next = 2;\n" in target.answer("GET", "/schemas/ids/1")["schema"]
        # The message inside still has the field, but its schema is that of the one around.
        _, faults = applied(type="ReplaceField$Value", exclude="card")
        assert [fault.reason.endswith("cannot be written: Order has no field card") for fault in faults] == [True]
        _, faults = applied(type="Flatten$Value", delimiter="_")
        assert [fault.reason.endswith("the value is nested too deeply") for fault in faults] == [True]
        assert json.loads(ConnectRecords("t", 0, schemas).json_text(Side.VALUE, FORMAT, data)) == {
            "card": "4111",
            "next": {"card": "x", "next": None},
        }


def test_registries_that_do_not_answer_as_they_should_stop_the_partition() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", ORDER, kind="PROTOBUF")
        target.fault = lambda method, path: (409, b'{"error_code": 409, "message": "is not compatible"}')
        one = converter(source, target)
        schema, value = one.decode(framed(number, PLACE + VECTOR))
        with pytest.raises(TransformFailed, match=r"of west.orders cannot be registered as west.orders-value: .*409"):
            one.encode(schema, value)


def test_references_are_read() -> None:
    with LocalRegistry() as source:
        source.register("far", 'syntax = "proto3"; package f; message Far { float n = 1; }', kind="PROTOBUF")
        source.register(
            "item",
            'syntax = "proto3"; import public "f/far.proto"; message Item { f.Far far = 1; }',
            kind="PROTOBUF",
            references=[{"name": "f/far.proto", "subject": "far", "version": 1}],
        )
        number = source.register(
            "order",
            'syntax = "proto2"; import "item.proto"; message Order { optional Item item = 1; optional f.Far far = 2; }',
            kind="PROTOBUF",
            references=[{"name": "item.proto", "subject": "item", "version": 1}],
        )
        wrapper = source.register(
            "whole",
            'syntax = "proto3"; import public "item.proto";',
            kind="PROTOBUF",
            references=[{"name": "item.proto", "subject": "item", "version": 1}],
        )
        far = b"\x0a\x05\x0d\0\0\0\x3f"
        value = converter(source, source).decode(framed(number, b"\0\x0a\x07" + far + b"\x12" + far[1:])).value
        assert plain(value) == {"item": {"far": {"n": Float32(0.5)}}, "far": {"n": Float32(0.5)}}
        # A file that only imports another one stands for it.
        assert plain(converter(source, source).decode(framed(wrapper, b"\0" + far)).value) == {"far": {"n": 0.5}}


def struct_of(*fields: tuple[str, Schema], name: str | None = "a.M") -> Schema:
    return Schema(Type.STRUCT, name=name, fields=fields)


TAG = "io.confluent.connect.protobuf.Tag"
STRING = Schema(Type.STRING)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (Schema(Type.ARRAY, value_schema=STRING), "Protobuf has no message for Schema.ARRAY. as a whole value"),
        (
            Schema(Type.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1),
            "Protobuf has no message for Schema.org.apache.kafka.connect.data.Timestamp:INT64.",
        ),
        (
            struct_of(("l", Schema(Type.ARRAY, value_schema=Schema(Type.ARRAY, value_schema=STRING)))),
            "l is a list of lists or maps, which Protobuf does not have",
        ),
        (struct_of(("a b", STRING)), "'a b' is not a valid Protobuf name; set scrub.invalid.names of the converter"),
        (struct_of(("a = 1; int32 b", STRING)), "'a = 1; int32 b' is not a valid Protobuf name"),
        (struct_of(("a", STRING), name="x-y.M"), "'x-y' is not a valid Protobuf name"),
        (
            struct_of(("a", STRING.changed(parameters={TAG: "536870912"}))),
            r"it has a schema whose field a.M.a has the number 536870912",
        ),
        (struct_of(("a", STRING.changed(parameters={TAG: "0x"}))), "'0x' in its schema is not a valid Protobuf number"),
        (
            struct_of(("a", struct_of(("x", STRING), name="N")), ("b", struct_of(("y", STRING), name="N"))),
            r"cannot be written: a.M.N has no field y",
        ),
    ],
)
def test_schemas_that_protobuf_has_not(schema: Schema, reason: str) -> None:
    with LocalRegistry() as target:
        one = converter(target, target)
        with pytest.raises(DataFault, match=reason):
            one.encode(schema, Struct(schema) if schema.type is Type.STRUCT else 5)
        assert target.changes() == []


def test_numbers_of_fields_without_one() -> None:
    """Those that others have are left out, and those that are Protobuf's own."""
    tagged, high = STRING.changed(parameters={TAG: "2"}), STRING.changed(parameters={TAG: "5"})
    fields = [("a", STRING), ("b", tagged), ("c", STRING), ("d", tagged), ("e", STRING), ("f", high)]
    made = from_connect(struct_of(*fields), ProtobufOptions()).text
    numbers = [line.strip("string; ") for line in made.splitlines() if "=" in line]
    assert numbers[1:] == ["a = 1", "b = 2", "c = 3", "d = 4", "e = 6", "f = 5"]


@pytest.mark.parametrize("package", ["com.google", "io.confluent", "google.com"])
def test_packages_that_are_called_as_those_of_others(package: str) -> None:
    """protoc looks names up from the innermost package outwards."""
    fields = [
        ("at", Schema(Type.INT64, name="org.apache.kafka.connect.data.Timestamp", version=1)),
        ("price", Schema(Type.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})),
        ("small", Schema(Type.INT8)),
        ("maybe", Schema(Type.STRING, optional=True)),
    ]
    options = ProtobufOptions(wrappers_for_nullables=True)
    made = from_connect(struct_of(*fields, name=f"{package}.M"), options).text
    assert protoc.message_class(made, f"{package}.M")
    one = ProtobufValues.of_text(made, [], Format(FormatKind.PROTOBUF, protobuf=options))
    assert [field.schema.type for field in one.schema.fields] == [Type.INT64, Type.BYTES, Type.INT8, Type.STRING]


def test_names() -> None:
    assert [map_entry(name) for name in ("tags", "my_tags", "MY_tags")] == ["tagsEntry", "MyTagsEntry", "MyTagsEntry"]
    assert [map_field(name) for name in ("TagsEntry", "a.MyTagsEntry", "Tags")] == ["tags", "a.my_tags", "Tags"]
    scrubbed = {name: scrub_name(name) for name in ("ok_1", "", "a b", "1a", "_a", "a-b", "ä", "a*~")}
    assert scrubbed == {
        "ok_1": "ok_1",
        "": "",
        "a b": "a_b",
        "1a": "x1a",
        "_a": "x_a",
        "a-b": "a_b",
        "ä": "_C3_A4",
        "a*~": "a__7E",
    }


class One:
    """A registry with one schema, which takes all others."""

    read_from: Literal["source", "target"] = "source"

    def __init__(self, text: str) -> None:
        self._text = text

    def schema(self, number: int) -> SchemaText:
        return SchemaText("PROTOBUF", self._text)

    def subject(self, number: int) -> str | None:
        return None

    def registered(self, subject: str, topic: str, kind: str, schema: str) -> int:
        return 2


class Counting(One):
    """And counts what it is asked for."""

    asked = 0

    def schema(self, number: int) -> SchemaText:
        self.asked += 1
        return super().schema(number)


def test_a_schema_that_cannot_be_used_is_read_once() -> None:
    """All of its records fail, each with the reason."""
    registry = Counting("message M { N m = 1; }")
    of = RegistryConverter("orders", Side.VALUE, FORMAT, registry)
    for _ in range(3):
        with pytest.raises(DataFault, match=r"is of N, which is neither defined nor imported .schema id 1"):
            of.decode(framed(1, b"\0"))
    assert registry.asked == 1


def test_large_schemas_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_converter, "_CACHED_PARTS", 5)
    registry = Counting("message M { optional int32 a = 1; optional int32 b = 2; }")
    of = RegistryConverter("orders", Side.VALUE, FORMAT, registry)
    for number, asked in ((1, 1), (2, 2), (1, 2), (2, 2), (3, 3), (3, 3), (1, 4)):
        assert of.decode(framed(number, b"\0\x08\x05")).value.get("a") == 5
        assert registry.asked == asked


def attempt(of: RegistryConverter, schema: Schema | None, value: Any) -> bytes | None:
    """What is written by a new schema; None if the fault says that it cannot be."""
    try:
        return of.encode(schema, value)
    except DataFault as error:
        if not str(error).startswith("cannot be written"):
            raise
        return None


@given(proto_texts(known=True), st.binary(max_size=12), st.randoms(use_true_random=False))
def test_any_schema_and_any_bytes_are_read_or_a_fault_of_the_record(
    text: str, data: bytes, dice: random.Random
) -> None:
    """Schemas whose texts have lost or doubled a piece, too."""
    if dice.random() < 0.5:
        at = dice.randrange(len(text))
        text = text[:at] + text[at + dice.randrange(8) - 4 :]
    of = RegistryConverter("orders", Side.VALUE, FORMAT, One(text))
    try:
        value = of.decode(framed(1, data))
    except DataFault:
        return
    again = of.encode(*value, framed(1, data))
    assert again is None or of.encode(*of.decode(again), again) == again
    attempt(of, *value)


_TYPES = st.sampled_from([one for one in Type if one not in (Type.STRUCT, Type.ARRAY, Type.MAP)])
_NAMES = st.sampled_from(["a", "b_c", "M", "x y", "", "é", "message", None])
_PARAMETERS = st.none() | st.dictionaries(
    st.sampled_from([f"io.confluent.connect.protobuf.{one}" for one in ("Tag", "Type", "Enum", "Enum.A", "Enum.é")]),
    st.sampled_from(["0", "1", "2", "-1", "x", "sint32", "E", ""]),
    max_size=3,
)


@st.composite
def connect_schemas(draw: st.DrawFn, depth: int = 0) -> Schema:
    """Any schema of Connect."""
    parts: dict[str, Any] = {"optional": draw(st.booleans()), "name": draw(_NAMES), "parameters": draw(_PARAMETERS)}
    if depth == 0 or (depth < 3 and draw(st.booleans())):
        inner = connect_schemas(depth + 1)
        match draw(st.sampled_from([Type.STRUCT, Type.ARRAY, Type.MAP])):
            case Type.STRUCT:
                names = draw(st.lists(_NAMES.filter(bool), unique=True, max_size=3))
                if draw(st.booleans()):
                    parts["name"] = "io.confluent.connect.protobuf.Union.u"
                return Schema(Type.STRUCT, **parts, fields=[(str(name), draw(inner)) for name in names])
            case Type.ARRAY:
                return Schema(Type.ARRAY, **parts, value_schema=draw(inner))
            case _:
                return Schema(Type.MAP, **parts, key_schema=draw(inner), value_schema=draw(inner))
    return Schema(draw(_TYPES), **parts)


@given(connect_schemas(), st.booleans(), st.booleans(), st.booleans())
def test_any_schema_of_connect_is_made_or_a_fault(schema: Schema, scrub: bool, optional: bool, wrappers: bool) -> None:
    """And protoc reads what is made."""
    options = ProtobufOptions(
        scrub_names=scrub, optional_for_nullables=optional, wrappers_for_nullables=wrappers and not optional
    )
    of = RegistryConverter("orders", Side.VALUE, Format(FormatKind.PROTOBUF, protobuf=options), One(""))
    value: Any = Struct(schema) if schema.type is Type.STRUCT else []
    if attempt(of, schema, value) is not None:
        assert protoc.compiled(from_connect(schema, options).text) is not None
