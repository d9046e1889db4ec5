"""Transforms of messages of Protobuf, and what becomes of their schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srm_common.domain.transforms.formats import Side
from srm_common.records.connect.connect_records import ConnectRecords
from srm_common.records.transform import Transform
from srm_common.testing import LocalRegistry
from srm_common.wire.reencoding.columns import decode
from tests.unit.records.connect import protoc
from tests.unit.records.connect.registries import PROTOBUF, chain_of, framed, schemas_of
from tests.unit.wire.built_batches import Record, source_batch


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
        schemas = schemas_of(source, target)
        step = Transform(chain_of(PROTOBUF, **settings), "west.orders", schemas=schemas)
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
        schemas = schemas_of(source, target)
        step = Transform(chain_of(PROTOBUF, type="Flatten$Value", delimiter="_"), "west.orders", schemas=schemas)
        left, faults = step.apply(decode([source_batch([Record(0, 5, None, data)])]))
        assert faults == []
        made = target.answer("GET", "/schemas/ids/1")["schema"]
        found = protoc.message_class(made, "Order").FromString(left.column("value").to_pylist()[0][6:])
        assert (found.item_n, found.other_n) == (5, 6)


def test_messages_in_themselves() -> None:
    order = 'syntax = "proto3"; message Order { string card = 1; Order next = 2; }'
    with LocalRegistry() as source, LocalRegistry() as target:
        data = framed(source.register("orders-value", order, kind="PROTOBUF"), b"\x00\x0a\x044111\x12\x03\x0a\x01x")
        schemas = schemas_of(source, target)
        batch = decode([source_batch([Record(0, 5, None, data)])])

        def applied(**settings: str) -> Any:
            return Transform(chain_of(PROTOBUF, **settings), "west.orders", schemas=schemas).apply(batch)

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
        assert json.loads(ConnectRecords("t", 0, schemas).json_text(Side.VALUE, PROTOBUF, data)) == {
            "card": "4111",
            "next": {"card": "x", "next": None},
        }
