"""Keys and values that transforms read: JSON, Avro, Protobuf and JSON Schema, and the schemas of registries; literals
of headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from srm_common.domain.transforms.formats import Format, FormatKind, HeaderConverter
from srm_common.records.connect.avro.values import AvroValues
from srm_common.records.connect.converters import Converter
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.json_schema.converter import JsonSchemaValues
from srm_common.records.connect.protobuf.values import ProtobufValues
from srm_common.records.connect.registry_values import RegistryValues
from srm_common.records.connect.transforms.header_values import literal_bytes
from tests.fuzz.target import Target

_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "card", "type": "string"},
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
                "type": {"type": "array", "items": ["null", {"type": "record", "name": "I", "fields": []}]},
            },
        ],
    }
)
_AVRO_VALUE = b"\x084111\x02\x54\x02\x04\x0e\x01\xff\x04\x04\xd2\x02\x03\x02\x02x\x00\x00\x04\x00\x02\x00"
_PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  string card = 1;
  optional int32 cust = 2;
  enum State { NEW = 0; PAID = 1; }
  State state = 3;
  oneof either { int64 a = 4; bytes b = 5; Order within = 6; }
  map<string, double> tags = 7;
  repeated sint32 packed = 8;
  google.protobuf.Timestamp at = 9;
  reserved 20 to 30;
}
"""
_PROTO_VALUE = b"\x0a\x044111\x10\x05\x18\x01\x32\x06\x0a\x04self\x3a\x0c\x0a\x01x\x11\0\0\0\0\0\0\xf0\x3f"
_PROTO_VALUE += b"\x42\x03\1\2\3\x4a\x02\x08\x07"
_JSON_SCHEMA = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "title": "Order",
        "properties": {
            "card": {"type": "string"},
            "price": {"oneOf": [{"type": "null"}, {"type": "number"}]},
            "items": {"type": "array", "items": {"$ref": "#/definitions/item"}},
        },
        "required": ["card"],
        "definitions": {"item": {"type": "object", "properties": {"n": {"type": "integer", "connect.type": "int64"}}}},
    }
)
_JSON_VALUE = b'{"card": "4111", "price": 1.5, "items": [{"n": 7}]}'
_CONNECT = json.dumps(
    {
        "schema": {
            "type": "struct",
            "fields": [
                {"field": "a", "type": "int32"},
                {
                    "field": "b",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                },
                {
                    "field": "c",
                    "type": "map",
                    "keys": {"type": "string"},
                    "values": {"type": "double", "optional": True},
                },
            ],
        },
        "payload": {"a": 1, "b": "AQI=", "c": {"x": 1.5}},
    }
).encode()


def _values(kind: type[RegistryValues], of: FormatKind, text: str, place: bytes = b"") -> Callable[[bytes], None]:
    values = kind.of_text(text, (), Format(of), place)

    def read(data: bytes) -> None:
        found = values.decode(data)
        values.encode(found)

    return read


def _schemas(
    kind: type[RegistryValues], of: FormatKind, samples: Sequence[bytes], place: bytes = b""
) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        values = kind.of_text(data.decode("utf-8", "replace"), (), Format(of), place)
        for sample in samples:
            values.decode(sample)

    return read


def _converted(schemas: bool) -> Callable[[bytes], None]:
    converter = Converter(Format(FormatKind.JSON, schemas=schemas))

    def read(data: bytes) -> None:
        value = converter.decode(data)
        converter.encode(value.schema, value.value)

    return read


def _literal(data: bytes) -> None:
    """Whatever it is, there is a header for it."""
    text = data.decode("utf-8", "replace")
    for converter in HeaderConverter:
        literal_bytes.__wrapped__(text, converter)


_NAMED = (DataFault,)
_LITERALS = [b'{"a": 1.50, 2: [true, null]}', b'["12:30:15.250Z", 1e30]', b"2024-02-29T12:30:15.250Z", b"-007.50e-3"]
TARGETS = (
    Target("json", [_JSON_VALUE, b"[1.5e3, null, true]", "\ufeff{}".encode()], _converted(False), _NAMED),
    Target("connect-json", [_CONNECT], _converted(True), _NAMED),
    Target("avro", [_AVRO_VALUE], _values(AvroValues, FormatKind.AVRO, _AVRO), _NAMED),
    Target("avro-schema", [_AVRO.encode(), b'"string"'], _schemas(AvroValues, FormatKind.AVRO, [_AVRO_VALUE]), _NAMED),
    Target("protobuf", [_PROTO_VALUE], _values(ProtobufValues, FormatKind.PROTOBUF, _PROTO, b"\0"), _NAMED),
    Target(
        "protobuf-schema",
        [_PROTO.encode()],
        _schemas(ProtobufValues, FormatKind.PROTOBUF, [_PROTO_VALUE], b"\0"),
        _NAMED,
    ),
    Target("json-schema-value", [_JSON_VALUE], _values(JsonSchemaValues, FormatKind.JSON_SCHEMA, _JSON_SCHEMA), _NAMED),
    Target(
        "json-schema",
        [_JSON_SCHEMA.encode()],
        _schemas(JsonSchemaValues, FormatKind.JSON_SCHEMA, [_JSON_VALUE]),
        _NAMED,
    ),
    Target("literal", _LITERALS, _literal, ()),
)
