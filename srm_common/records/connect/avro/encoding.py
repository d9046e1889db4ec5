"""Checks whether bytes are a value of a schema in Avro's binary encoding, by the rules of Java's ``BinaryDecoder``.

fastavro accepts more: branch indexes that count back from the end, numbers of any length, blocks of any size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from srm_common.records.connect.data.java_values import DataFault

#: Checks the value at an offset of the bytes; returns the offset after it.
Check = Callable[[bytes, int], int]
#: The most items of no bytes, such as records without fields, in one value: a few bytes could claim any number.
MOST_EMPTY_ITEMS = 1 << 20
#: Bytes of the longest number, by ``BinaryDecoder.readInt`` and ``readLong``.
_INT_BYTES, _LONG_BYTES = 5, 10
_SIZES = {"null": 0, "float": 4, "double": 8}
_END = "does not match its schema"


class AvroEncoding:
    """The binary encoding of one schema. Not thread-safe.

    Args:
        wire: the schema as JSON, without names that refer to earlier definitions.
    """

    def __init__(self, wire: Any) -> None:
        self._check = self._of(wire)
        self._empty = 0

    def check(self, data: bytes) -> None:
        """Raises :class:`DataFault` for bytes that do not begin with a value of the schema."""
        self._empty = 0
        self._check(data, 0)

    def _of(self, wire: Any) -> Check:
        if isinstance(wire, list):
            return _union([self._of(one) for one in wire])
        kind = wire if isinstance(wire, str) else wire["type"]
        match kind:
            case "int":
                return lambda data, at: _number(data, at, _INT_BYTES)[1]
            case "long":
                return lambda data, at: _number(data, at, _LONG_BYTES)[1]
            case "boolean":
                return _boolean
            case "bytes" | "string":
                return _sized
            case "record":
                return _record([self._of(one["type"]) for one in wire["fields"]])
            case "array":
                return self._blocks(self._of(wire["items"]), _least(wire["items"]))
            case "map":
                values = self._of(wire["values"])
                return self._blocks(lambda data, at: values(data, _sized(data, at)), 1 + _least(wire["values"]))
        size = wire["size"] if kind == "fixed" else _SIZES[kind]
        return lambda data, at: _behind(data, at, size)

    def _blocks(self, item: Check, least: int) -> Check:
        def check(data: bytes, at: int) -> int:
            while True:
                count, at = _number(data, at, _LONG_BYTES)
                if count == 0:
                    return at
                if count < 0:  # the block's size follows; Java ignores it, too
                    count, at = -count, _number(data, at, _LONG_BYTES)[1]
                if least == 0:
                    self._empty += count
                    if self._empty > MOST_EMPTY_ITEMS:
                        raise DataFault(
                            f"has {self._empty} items that take no bytes; at most {MOST_EMPTY_ITEMS} are read"
                        )
                    continue
                if count * least > len(data) - at:
                    raise DataFault(_END)
                for _ in range(count):
                    at = item(data, at)

        return check


def _least(wire: Any) -> int:
    """The fewest bytes that a value takes."""
    if isinstance(wire, list):
        return 1
    kind = wire if isinstance(wire, str) else wire["type"]
    if kind == "record":
        return sum(_least(one["type"]) for one in wire["fields"])
    size: int = wire["size"] if kind == "fixed" else _SIZES.get(kind, 1)
    return size


def _number(data: bytes, at: int, most: int) -> tuple[int, int]:
    found = shift = 0
    for place in range(at, at + most):
        if place >= len(data):
            raise DataFault(_END)
        byte = data[place]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), place + 1
        shift += 7
    raise DataFault(f"has a number of more than {32 if most == _INT_BYTES else 64} bits")


def _behind(data: bytes, at: int, size: int) -> int:
    if size > len(data) - at:
        raise DataFault(_END)
    return at + size


def _boolean(data: bytes, at: int) -> int:
    behind = _behind(data, at, 1)
    if data[at] > 1:
        raise DataFault(f"has {data[at]} for a boolean, which is 0 or 1")
    return behind


def _sized(data: bytes, at: int) -> int:
    size, at = _number(data, at, _LONG_BYTES)
    if size < 0:
        raise DataFault(f"has a length of {size}")
    return _behind(data, at, size)


def _union(branches: list[Check]) -> Check:
    def check(data: bytes, at: int) -> int:
        place, at = _number(data, at, _INT_BYTES)
        if not 0 <= place < len(branches):
            raise DataFault(f"has branch {place} of a union, which has {len(branches)}")
        return branches[place](data, at)

    return check


def _record(fields: list[Check]) -> Check:
    def check(data: bytes, at: int) -> int:
        for field in fields:
            at = field(data, at)
        return at

    return check
