"""Decodes flexible protocol versions (KIP-482): unsigned varints, compact strings, tagged fields."""

from __future__ import annotations

from srm_common.wire.batch import Buffer


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


def read_compact_string(data: Buffer, at: int) -> tuple[str | None, int]:
    """A compact nullable string and the position after it."""
    size = data[at]
    if size < 128:
        at += 1
    else:
        size, at = read_uvarint(data, at)
    if not size:
        return None, at
    end = at + size - 1
    return str(data[at:end], "utf-8"), end


def skip_tags(data: Buffer, at: int) -> int:
    """The position after a set of tagged fields."""
    if not data[at]:
        return at + 1
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _tag, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
    return at
