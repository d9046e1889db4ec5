"""Variable-length integers of Kafka's protocol and records, as ``ByteUtils`` reads and writes them."""

from __future__ import annotations

#: What is decoded here and around.
Buffer = bytes | bytearray | memoryview

#: Of a varint of 64 bits (Kafka's ``ByteUtils.readVarlong``).
MOST_VARINT_BYTES = 10
#: Varints of one byte.
_ONE_BYTE = [bytes((value,)) for value in range(128)]
_MASK64, _SIGN64 = (1 << 64) - 1, 1 << 63


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """A zig-zag varint of 64 bits at ``at`` and the position after it.

    Raises:
        IndexError: the data end within it, or it has more than 64 bits.
    """
    byte = data[at]
    if byte < 128:  # as nearly all are
        return (byte >> 1) ^ -(byte & 1), at + 1
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            if shift > 56 and byte > 1:
                raise IndexError
            return (result >> 1) ^ -(result & 1), at
        shift += 7
        if shift > 63:
            raise IndexError


def write_varint(value: int) -> bytes:
    """The zig-zag varint of a signed 64-bit integer."""
    value = (value << 1) ^ (value >> 63)
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: Buffer, at: int) -> tuple[int, int]:
    """An unsigned varint of 32 bits at ``at`` and the position after it.

    Raises:
        IndexError: the data end within it.
        ValueError: it does not end with its fifth byte (Kafka's ``ByteUtils.readUnsignedVarint``).
    """
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7
        if shift > 28:
            raise ValueError("a number of an answer takes more than 5 bytes")


def write_uvarint(value: int) -> bytes:
    """An unsigned varint, as compact lengths of flexible protocol versions use it."""
    if value < 128:
        return value.to_bytes(1, "big")
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed64(value: int) -> int:
    """A sum or a difference of times as Java has it, where it exceeds 64 bits: readers add in the same way."""
    return value if -_SIGN64 <= value < _SIGN64 else ((value + _SIGN64) & _MASK64) - _SIGN64
