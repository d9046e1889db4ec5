"""Protobuf in Confluent's wire format: registries, references, and transforms."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Side
from srm_common.errors import TransformFailed
from srm_common.records.connect import registry_converter
from srm_common.records.connect.converters import NULL
from srm_common.records.connect.data.java_values import DataFault, Float32, Int8, Int32, JavaDate
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.records.connect.registry_values import SchemaText
from srm_common.records.transform import Transform
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
from tests.unit.records.connect import protoc
from tests.unit.records.connect.proto_messages import plain
from tests.unit.records.connect.proto_schemas import proto_texts
from tests.unit.records.connect.registries import (
    PROTOBUF,
    OneSchema,
    attempt,
    chain_of,
    changed_in_two_partitions,
    converter,
    framed,
    schemas_of,
)
from tests.unit.wire.built_batches import Record, source_batch

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


def test_a_record_of_all_kinds_keeps_id_and_bytes() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        data = framed(source.register("orders-value", ORDER, kind="PROTOBUF"), PLACE + VECTOR)
        one = converter(PROTOBUF, source, target)
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
        assert sum(path.startswith("/schemas/ids") for _, path in source.requests) == 2
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
        one = converter(PROTOBUF, source, source)
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
            converter(PROTOBUF, source, source).decode(data)


def test_a_changed_schema_is_registered_once_for_the_copy() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", ORDER, kind="PROTOBUF")
        target.register("other", '"int"')
        schemas = schemas_of(source, target)
        was = framed(number, PLACE + VECTOR)
        batch = decode([source_batch([Record(offset, 5, None, was) for offset in range(3)])])
        settings = {"renames": "cust_id:customer", "exclude": "items,absent"}
        value = changed_in_two_partitions(PROTOBUF, batch, schemas, type="ReplaceField$Value", **settings)
        assert value[:6] == framed(2, b"\x00")
        assert target.changes() == [("POST", "/subjects/west.orders-value/versions")]
        made = target.answer("GET", "/schemas/ids/2")
        assert made == {"schema": MADE, "schemaType": "PROTOBUF"}
        found = protoc.message_class(MADE, "Order").FromString(value[6:])
        assert (found.card, found.customer, found.state, found.big, found.count) == ("4111", 42, 1, 7, 4294967295)
        assert (found.price.value, found.price.scale, found.at.seconds) == (b"\x04\xd2", 2, 5)
        assert [(tag.key, tag.value) for tag in found.tags] == [("x", 0.5)]

        # A field that is not there changes nothing, neither id nor bytes.
        same = Transform(
            chain_of(PROTOBUF, type="ReplaceField$Value", exclude="absent"), "west.orders", schemas=schemas
        )
        assert same.apply(batch).records.column("value").to_pylist() == [was] * 3
        masked = Transform(
            chain_of(PROTOBUF, type="MaskField$Value", fields="card", replacement="****"),
            "west.orders",
            schemas=schemas,
        )
        expected = was.replace(b"4111", b"****")
        assert masked.apply(batch).records.column("value").to_pylist() == [expected] * 3
        assert len(target.changes()) == 1


def test_registries_that_do_not_answer_as_they_should_stop_the_partition() -> None:
    with LocalRegistry() as source, LocalRegistry() as target:
        number = source.register("orders-value", ORDER, kind="PROTOBUF")
        target.fault = lambda method, path: (409, b'{"error_code": 409, "message": "is not compatible"}')
        one = converter(PROTOBUF, source, target)
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
        value = (
            converter(PROTOBUF, source, source).decode(framed(number, b"\0\x0a\x07" + far + b"\x12" + far[1:])).value
        )
        assert plain(value) == {"item": {"far": {"n": Float32(0.5)}}, "far": {"n": Float32(0.5)}}
        # A file that only imports another one stands for it.
        assert plain(converter(PROTOBUF, source, source).decode(framed(wrapper, b"\0" + far)).value) == {
            "far": {"n": 0.5}
        }


class Counting(OneSchema):
    """Counts how often it is asked for its schema."""

    asked = 0

    def schema(self, number: int, topic: str, side: Side) -> SchemaText:
        self.asked += 1
        return super().schema(number, topic, side)


def test_a_schema_that_cannot_be_used_is_read_once() -> None:
    """All of its records fail, each with the reason."""
    registry = Counting("PROTOBUF", "message M { N m = 1; }")
    of = RegistryConverter("orders", Side.VALUE, PROTOBUF, registry)
    for _ in range(3):
        with pytest.raises(DataFault, match=r"is of N, which is neither defined nor imported .schema id 1"):
            of.decode(framed(1, b"\0"))
    assert registry.asked == 1


def test_large_schemas_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_converter, "_CACHED_PARTS", 5)
    registry = Counting("PROTOBUF", "message M { optional int32 a = 1; optional int32 b = 2; }")
    of = RegistryConverter("orders", Side.VALUE, PROTOBUF, registry)
    for number, asked in ((1, 1), (2, 2), (1, 2), (2, 2), (3, 3), (3, 3), (1, 4)):
        assert of.decode(framed(number, b"\0\x08\x05")).value.get("a") == 5
        assert registry.asked == asked


@given(proto_texts(known=True), st.binary(max_size=12), st.randoms(use_true_random=False))
def test_any_schema_and_any_bytes_are_read_or_a_fault_of_the_record(
    text: str, data: bytes, dice: random.Random
) -> None:
    """Schemas whose texts have lost or doubled a piece, too."""
    if dice.random() < 0.5:
        at = dice.randrange(len(text))
        text = text[:at] + text[at + dice.randrange(8) - 4 :]
    of = RegistryConverter("orders", Side.VALUE, PROTOBUF, OneSchema("PROTOBUF", text))
    try:
        value = of.decode(framed(1, data))
    except DataFault:
        return
    again = of.encode(*value, framed(1, data))
    assert again is None or of.encode(*of.decode(again), again) == again
    attempt(of, *value)
