"""Encodes a response straight from the mapping that a handler answered with, by the fields of kafka-python's schema.

The library's own way, an object for each struct and all its defaults, was four fifths of the CPU of a test on fake
clusters: each Metadata response lists every topic, and each connection asks for all APIs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

Put = Callable[[bytes], object]
#: Puts a value's bytes.
_Encode = Callable[[Any, Put], None]
#: Puts the bytes of a part of a struct, whose mapping it is given.
_Part = Callable[[Mapping[str, Any], Put], None]

#: ``struct``'s letters for Kafka's types of one size.
_FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d"}
_INT16, _INT32 = struct.Struct(">h").pack, struct.Struct(">i").pack
_ABSENT, _PRESENT, _NO_TAGS = b"\xff", b"\x01", b"\x00"
_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


#: Encodes an answer, piece by piece.
Encoder = Callable[[Mapping[str, Any], Put], None]


@cache
def response_encoder(kind: Any, version: int) -> Encoder:
    """What encodes the body of a response.

    Args:
        kind: the response's class in kafka-python. Fields that an answer leaves out have the schema's default.

    Returns:
        A function of the answer and of what takes the bytes, piece by piece. It raises ValueError, which names the
        fields, for those that the schema does not have.
    """
    return _struct(kind.__name__, tuple(kind.fields.values()), version, flexible=kind.flexible_version_q(version))


def unsigned_varint(value: int) -> bytes:
    """In groups of seven bits, the lowest first."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _struct(name: str, fields: Sequence[Any], version: int, *, flexible: bool, in_tag: bool = False) -> _Encode:
    """``in_tag``: the struct is within a tagged field, and has none of its own."""
    known = frozenset(field.name for field in fields)
    present = [field for field in fields if field.for_version_q(version)]
    parts: list[_Part] = []
    run: list[Any] = []
    for field in present:
        if field.tagged_field_q(version):
            continue
        if field.type_str in _FIXED:
            run.append(field)
            continue
        if run:
            parts.append(_fixed(run))
            run = []
        parts.append(_part(field, _value(field, version, flexible=flexible, in_tag=in_tag)))
    if run:
        parts.append(_fixed(run))
    if flexible:
        tagged = [] if in_tag else [field for field in present if field.tagged_field_q(version)]
        parts.append(_tags(tagged, version) if tagged else _no_tags)

    def encode(values: Mapping[str, Any], put: Put) -> None:
        if not values.keys() <= known:
            raise ValueError(f"{name} has no field {', '.join(sorted(values.keys() - known))}")
        for part in parts:
            part(values, put)

    return encode


def _fixed(run: Sequence[Any]) -> _Part:
    """Fields of one size that follow one another."""
    pack = struct.Struct(">" + "".join(_FIXED[field.type_str] for field in run)).pack
    names = [(field.name, field.default) for field in run]
    if len(run) == 1:
        return _part(run[0], _packed(pack))
    there = itemgetter(*[name for name, _ in names])

    def part(values: Mapping[str, Any], put: Put) -> None:
        try:
            found = there(values)
        except KeyError:
            found = [values.get(name, default) for name, default in names]
        put(pack(*found))

    return part


def _packed(pack: Callable[[Any], bytes]) -> _Encode:
    def fixed(value: Any, put: Put) -> None:
        put(pack(value))

    return fixed


def _part(field: Any, encode: _Encode) -> _Part:
    name, default = field.name, field.default

    def part(values: Mapping[str, Any], put: Put) -> None:
        encode(values.get(name, default), put)

    return part


def _no_tags(values: Mapping[str, Any], put: Put) -> None:
    put(_NO_TAGS)


def _tags(fields: Sequence[Any], version: int) -> _Part:
    """Tagged fields (KIP-482): those that differ from their default."""
    known = [(field, _value(field, version, flexible=True, in_tag=True)) for field in fields]

    def part(values: Mapping[str, Any], put: Put) -> None:
        there = [one for one in known if values.get(one[0].name, one[0].default) != one[0].default]
        put(unsigned_varint(len(there)))
        for field, encode in there:
            pieces: list[bytes] = []
            encode(values[field.name], pieces.append)
            content = b"".join(pieces)
            put(unsigned_varint(field.tag) + unsigned_varint(len(content)))
            put(content)

    return part


def _value(field: Any, version: int, *, flexible: bool, in_tag: bool) -> _Encode:
    """What encodes a field's value: a string, bytes, an array, a struct, or another type of the library's."""
    if field.is_struct_array():
        item = _struct(field.type_str, tuple(field.fields.values()), version, flexible=flexible, in_tag=in_tag)
        return _array(item, flexible)
    if field.is_array():
        return _array(_simple(field.array_of, flexible), flexible)
    if not field.is_struct():
        return _simple(field, flexible)
    content = _struct(field.type_str, tuple(field.fields.values()), version, flexible=flexible, in_tag=in_tag)
    if not field.nullable_for_version_q(version):
        return content

    def nullable(value: Any, put: Put) -> None:  # KIP-893
        if value is None:
            put(_ABSENT)
        else:
            put(_PRESENT)
            content(value, put)

    return nullable


def _array(encode: _Encode, flexible: bool) -> _Encode:
    count, absent = _counts(_INT32, flexible)

    def array(values: Any, put: Put) -> None:
        if values is None:
            put(absent)
            return
        put(count(len(values)))
        for value in values:
            encode(value, put)

    return array


def _simple(field: Any, flexible: bool) -> _Encode:
    letter = _FIXED.get(field.type_str)
    if letter is not None:
        return _packed(struct.Struct(">" + letter).pack)
    if field.type_str not in ("string", "bytes", "records"):

        def other(value: Any, put: Put) -> None:
            put(field.encode(value, compact=flexible))

        return other
    count, absent = _counts(_INT16 if field.type_str == "string" else _INT32, flexible)

    def counted(value: Any, put: Put) -> None:
        if value is None:
            put(absent)
            return
        content = value.encode() if isinstance(value, str) else value
        put(count(len(content)))
        put(content)

    return counted


def _counts(pack: Callable[[int], bytes], flexible: bool) -> tuple[Callable[[int], bytes], bytes]:
    """What writes a length, and the encoded null."""
    if flexible:
        return lambda length: unsigned_varint(length + 1), _NO_TAGS
    return pack, pack(-1)
