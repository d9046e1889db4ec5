"""Messages at random, as Google's runtime has them, and what Connect makes of them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from srm_common.domain.transforms.formats import Format, FormatKind, ProtobufOptions
from srm_common.records.connect.data.java_values import JavaDate
from srm_common.records.connect.data.schema import Struct
from srm_common.records.connect.protobuf.values import ProtobufValues

_BITS = {
    **dict.fromkeys(("INT32", "SINT32", "SFIXED32"), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys(("INT64", "SINT64", "SFIXED64"), (-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys(("UINT32", "FIXED32"), (0, (1 << 32) - 1)),
    **dict.fromkeys(("UINT64", "FIXED64"), (0, (1 << 64) - 1)),
}
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
DEFAULT = ProtobufOptions()
SYNTAX = 'syntax = "proto3"; message M { %s }'
PROTO2 = 'syntax = "proto2"; message M { %s }'
_EPOCH = datetime.date(1970, 1, 1)


def kind_of(field: Any) -> str:
    """The name of its type, in capitals."""
    names = {number: name for name, number in vars(type(field)).items() if name.startswith("TYPE_")}
    return str(names[field.type]).removeprefix("TYPE_")


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


@st.composite
def messages(draw: st.DrawFn, of: Any) -> Any:
    """A message of a class, with all that it requires."""
    message = of()
    _fill(draw, message)
    return message


def _fill(draw: st.DrawFn, message: Any, depth: int = 0) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
        message.nanos = draw(st.integers(0, 999)) * 1_000_000
        return
    if name == "google.type.Date":
        day = draw(st.dates(datetime.date(1582, 10, 15)))
        message.year, message.month, message.day = day.year, day.month, day.day
        return
    if name == "google.type.TimeOfDay":
        time = draw(st.times())
        message.hours, message.minutes, message.seconds = time.hour, time.minute, time.second
        message.nanos = time.microsecond // 1000 * 1_000_000
        return
    if name == "confluent.type.Decimal":
        number = draw(st.integers(-(10**20), 10**20))
        message.value = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)
        message.precision, message.scale = len(str(abs(number))), draw(st.integers(-3, 30))
        return
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and ((field.message_type is not None and depth > 1) or draw(st.booleans())):
            continue
        if is_map(field):
            for _ in range(draw(st.integers(0, 3))):
                value = field.message_type.fields_by_name["value"]
                entries = getattr(message, field.name)
                key = draw(_scalar(field.message_type.fields_by_name["key"]))
                if value.message_type is not None:
                    entries[key].Clear()
                    _fill(draw, entries[key], depth + 1)
                else:
                    entries[key] = draw(_scalar(value))
        elif field.is_repeated:
            for _ in range(draw(st.integers(0, 3))):
                if field.message_type is not None:
                    _fill(draw, getattr(message, field.name).add(), depth + 1)
                else:
                    getattr(message, field.name).append(draw(_scalar(field)))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            _fill(draw, getattr(message, field.name), depth + 1)
        else:
            setattr(message, field.name, draw(_scalar(field)))


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    kind = kind_of(field)
    if kind in _BITS:
        return st.integers(*_BITS[kind])
    if kind == "ENUM":
        return st.sampled_from(list(field.enum_type.values)).map(lambda one: one.number)
    if kind in ("DOUBLE", "FLOAT"):
        return st.floats(allow_nan=False, width=64 if kind == "DOUBLE" else 32)
    return {"BOOL": st.booleans(), "STRING": _TEXTS, "BYTES": st.binary(max_size=4)}[kind]


def expected(message: Any, options: ProtobufOptions = DEFAULT) -> Any:
    """What Connect's structs say, as dictionaries; worked out from Google's message alone."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        return JavaDate(message.seconds * 1000 + message.nanos // 1_000_000)
    if name == "google.type.Date":
        days = (datetime.date(message.year, message.month, message.day) - _EPOCH).days
        return JavaDate(days * 86_400_000)
    if name == "google.type.TimeOfDay":
        seconds = (message.hours * 60 + message.minutes) * 60 + message.seconds
        return JavaDate(seconds * 1000 + message.nanos // 1_000_000)
    if name == "confluent.type.Decimal":
        return Decimal(int.from_bytes(message.value, signed=True)).scaleb(-message.scale)
    found: dict[str, Any] = {}
    real = [one for one in message.DESCRIPTOR.oneofs if not (one.name.startswith("_") and len(one.fields) == 1)]
    for place, oneof in enumerate(real):
        chosen = message.WhichOneof(oneof.name)
        found[f"{oneof.name}_{place}"] = (
            None
            if chosen is None
            else {
                one.name: _one(one, getattr(message, chosen), options) if one.name == chosen else None
                for one in oneof.fields
            }
        )
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.containing_oneof in real:
            continue
        if is_map(field):
            entry = field.message_type.fields_by_name
            found[field.name] = {
                _one(entry["key"], key, options): _one(entry["value"], value[key], options) for key in value
            }
        elif field.is_repeated:
            found[field.name] = [_one(field, one, options) for one in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _one(field, value, options)
    return found


def _one(field: Any, value: Any, options: ProtobufOptions) -> Any:
    if field.message_type is not None:
        wraps = options.wrappers_for_nullables and field.message_type.full_name in WRAPPERS
        return _one(value.DESCRIPTOR.fields[0], value.value, options) if wraps else expected(value, options)
    kind = kind_of(field)
    if kind == "ENUM":
        return value if options.enums_as_integers else field.enum_type.values_by_number[value].name
    if kind in ("UINT64", "FIXED64"):
        return value - (1 << 64) if value >> 63 else value
    return value


WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def plain(value: Any) -> Any:
    """Structs as dictionaries."""
    if isinstance(value, Struct):
        return {field.name: plain(one) for field, one in zip(value.schema.fields, value.values, strict=True)}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value


def values_of(text: str, options: ProtobufOptions = DEFAULT, place: bytes = b"\0") -> ProtobufValues:
    return ProtobufValues.of_text(text, [], Format(FormatKind.PROTOBUF, protobuf=options), place)
