"""Decodes Protobuf messages to values by field number, and encodes fields.

As in Java's ``CodedInputStream`` and ``DynamicMessage``, the last value of a field wins, messages are merged, and a
field with a number or wire type that the schema does not have is unknown. Unknown fields are skipped: Connect has no
place for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from srm_common.records.connect.data.java_values import DataFault, Float32
from srm_common.records.connect.protobuf.descriptors import FieldType, MessageType

#: A message: values by field number; nested messages are of this type, too, repeated fields are lists. Numbers of 64
#: bits are Java's ``long``, of 32 bits its ``int`` unless the type is unsigned. Negative keys are those of oneofs.
Raw = dict[int, Any]
#: Reads a field into a message and returns the offset after it: (message, bytes, offset, end, depth).
_Take = Callable[[Raw, bytes, int, int, int], int]
_VARINT, _FIXED64, _SIZED, _GROUP, _END_GROUP, _FIXED32 = range(6)
#: ``CodedInputStream``'s limit for messages in messages.
_DEEPEST = 100
_CUT = "does not match its schema: it ends in the middle of a field"
_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


#: Converts the bits of a varint to a value, by the kind of the field.
_FROM_VARINT: Mapping[str, Callable[[int], Any]] = {
    "int32": lambda bits: _signed(bits, 32),
    "int64": lambda bits: _signed(bits, 64),
    "uint32": lambda bits: bits & _MASK32,
    "uint64": lambda bits: _signed(bits, 64),
    "sint32": lambda bits: _zigzag(bits & _MASK32),
    "sint64": lambda bits: _zigzag(bits & _MASK64),
    "bool": lambda bits: bits & _MASK64 != 0,
    "enum": lambda bits: _signed(bits, 32),
}
_TO_VARINT: Mapping[str, Callable[[Any], int]] = {
    "int32": lambda number: number & _MASK64,
    "int64": lambda number: number & _MASK64,
    "uint32": lambda number: number & _MASK32,
    "uint64": lambda number: number & _MASK64,
    "sint32": lambda number: (number << 1 ^ number >> 31) & _MASK32,
    "sint64": lambda number: (number << 1 ^ number >> 63) & _MASK64,
    "bool": int,
    "enum": lambda number: number & _MASK64,
}
_FIXED: Mapping[str, struct.Struct] = {
    "double": struct.Struct("<d"),
    "float": struct.Struct("<f"),
    "fixed32": struct.Struct("<I"),
    "fixed64": struct.Struct("<q"),
    "sfixed32": struct.Struct("<i"),
    "sfixed64": struct.Struct("<q"),
}


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned number of up to ten bytes, and the offset after it.

    Raises:
        DataFault: there is none.
    """
    found = shift = 0
    for place in range(at, min(at + 10, end)):
        byte = data[place]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, place + 1
        shift += 7
    raise DataFault("has a number of more than 64 bits" if end - at >= 10 else _CUT)


def varint_bytes(number: int) -> bytes:
    """The varint of a number that is not negative."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class MessageDecoder:
    """Reads messages of one type, and those nested in them.

    Args:
        message: the type.
        decoders: those of the types met so far.
    """

    def __init__(self, message: MessageType, decoders: dict[MessageType, MessageDecoder] | None = None) -> None:
        self._takes: dict[int, _Take] = {}
        self._decoders = {} if decoders is None else decoders
        self._decoders[message] = self
        for field in message.fields:
            for wire_type, take in self._field(field):
                alone = take if field.oneof is None else _alone(take, field.number, field.oneof)
                self._takes[field.number << 3 | wire_type] = alone

    def decode(self, data: bytes) -> Raw:
        """Raises :class:`DataFault` if the bytes are not such a message."""
        found: Raw = {}
        self.merge(found, data, 0, len(data), 0)
        return found

    def merge(self, into: Raw, data: bytes, at: int, end: int, depth: int) -> None:
        """Merge a part of the bytes into a message."""
        takes = self._takes
        while at < end:
            tag = data[at]
            if tag < 0x80:
                at += 1
            else:
                tag, at = varint(data, at, end)
                tag &= _MASK32
            take = takes.get(tag)
            at = _over(tag, data, at, end, depth) if take is None else take(into, data, at, end, depth)

    def _field(self, field: FieldType) -> list[tuple[int, _Take]]:
        if field.kind == "message":
            assert field.message is not None
            message_decoder = self._decoders.get(field.message)
            decoder = MessageDecoder(field.message, self._decoders) if message_decoder is None else message_decoder
            return [(_SIZED, _message(field, decoder))]
        if field.kind in ("string", "bytes"):
            return [(_SIZED, _text(field))]
        one = _scalar(field)
        wire_type = _wire_type(field.kind)
        return [(wire_type, one), (_SIZED, _packed(one))] if field.repeated else [(wire_type, one)]


def _wire_type(kind: str) -> int:
    fixed = _FIXED.get(kind)
    return _VARINT if fixed is None else _FIXED64 if fixed.size == 8 else _FIXED32


def _alone(take: _Take, number: int, oneof: int) -> _Take:
    """Of the fields of a oneof, only the last one is kept; its number is stored under the oneof's negative key."""
    chosen = -1 - oneof

    def taking(into: Raw, data: bytes, at: int, end: int, depth: int) -> int:
        at = take(into, data, at, end, depth)
        # An unknown number of a closed enum is an unknown field, which leaves the oneof as it was.
        if number in into:
            before = into.get(chosen, number)
            if before != number:
                into.pop(before, None)
            into[chosen] = number
        return at

    return taking


def _scalar(field: FieldType) -> _Take:
    number, repeated, fixed = field.number, field.repeated, _FIXED.get(field.kind)
    known = field.enum.symbols if field.enum is not None and field.closed else None
    if fixed is not None:
        unpack, size, single = fixed.unpack_from, fixed.size, field.kind == "float"

        def take_fixed(into: Raw, data: bytes, at: int, end: int, depth: int) -> int:
            if size > end - at:
                raise DataFault(_CUT)
            found = unpack(data, at)[0]
            if single:
                found = Float32(found)
            if repeated:
                into.setdefault(number, []).append(found)
            else:
                into[number] = found
            return at + size

        return take_fixed
    convert = _FROM_VARINT[field.kind]

    def take(into: Raw, data: bytes, at: int, end: int, depth: int) -> int:
        bits, at = varint(data, at, end)
        found = convert(bits)
        if known is not None and found not in known:
            return at  # an unknown field, by the rule for closed enums
        if repeated:
            into.setdefault(number, []).append(found)
        else:
            into[number] = found
        return at

    return take


def _size(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where a length-delimited value begins and ends."""
    size, at = varint(data, at, end)
    size = _signed(size, 32)
    if size < 0:
        raise DataFault(f"has a length of {size}")
    if size > end - at:
        raise DataFault(_CUT)
    return at, at + size


def _packed(one: _Take) -> _Take:
    def take(into: Raw, data: bytes, at: int, end: int, depth: int) -> int:
        at, behind = _size(data, at, end)
        while at < behind:
            at = one(into, data, at, behind, depth)
        return behind

    return take


def _text(field: FieldType) -> _Take:
    number, repeated, name = field.number, field.repeated, field.name
    text, errors = field.kind == "string", "strict" if field.strict else "replace"

    def take(into: Raw, data: bytes, at: int, end: int, depth: int) -> int:
        at, behind = _size(data, at, end)
        found: Any = data[at:behind]
        if text:
            try:
                found = found.decode("utf-8", errors)
            except UnicodeDecodeError:
                raise DataFault(f"has bytes in the string {name} that are not UTF-8") from None
        if repeated:
            into.setdefault(number, []).append(found)
        else:
            into[number] = found
        return behind

    return take


def _message(field: FieldType, decoder: MessageDecoder) -> _Take:
    number, repeated = field.number, field.repeated

    def take(into: Raw, data: bytes, at: int, end: int, depth: int) -> int:
        at, behind = _size(data, at, end)
        if depth >= _DEEPEST:
            raise DataFault(f"has messages that are nested deeper than {_DEEPEST}")
        if repeated:
            found: Raw = {}
            into.setdefault(number, []).append(found)
        else:
            found = into.setdefault(number, {})
        decoder.merge(found, data, at, behind, depth + 1)
        return behind

    return take


def _over(tag: int, data: bytes, at: int, end: int, depth: int) -> int:
    """The offset after an unknown field."""
    number, wire_type = tag >> 3, tag & 7
    if number == 0:
        raise DataFault("has a field with the number 0")
    if wire_type == _VARINT:
        return varint(data, at, end)[1]
    if wire_type == _SIZED:
        return _size(data, at, end)[1]
    if wire_type in (_FIXED32, _FIXED64):
        size = 4 if wire_type == _FIXED32 else 8
        if size > end - at:
            raise DataFault(_CUT)
        return at + size
    if wire_type != _GROUP:
        raise DataFault(
            "has the end of a group that did not begin" if wire_type == _END_GROUP else "has an unknown wire type"
        )
    if depth >= _DEEPEST:
        raise DataFault(f"has groups that are nested deeper than {_DEEPEST}")
    while True:
        inner, at = varint(data, at, end)
        inner &= _MASK32
        if inner == number << 3 | _END_GROUP:
            return at
        at = _over(inner, data, at, end, depth + 1)


def field_bytes(field: FieldType, raw: Any) -> bytes:
    """A field with its tag; ``raw`` is as :class:`MessageDecoder` returns it, except that messages are bytes."""
    tag = field.number << 3
    if not field.repeated:
        return varint_bytes(tag | _type(field)) + value_bytes(field, raw)
    if field.packed:
        packed = b"".join([value_bytes(field, one) for one in raw])
        return varint_bytes(tag | _SIZED) + varint_bytes(len(packed)) + packed
    start = varint_bytes(tag | _type(field))
    return b"".join([start + value_bytes(field, one) for one in raw])


def _type(field: FieldType) -> int:
    return _SIZED if field.kind in ("message", "string", "bytes") else _wire_type(field.kind)


def value_bytes(field: FieldType, raw: Any) -> bytes:
    """A value without its tag."""
    kind = field.kind
    if kind in _TO_VARINT:
        return varint_bytes(_TO_VARINT[kind](raw))
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed.pack(raw)
    data: bytes = raw.encode("utf-8", "replace") if kind == "string" else raw
    return varint_bytes(len(data)) + data
