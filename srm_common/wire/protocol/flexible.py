"""Decodes flexible protocol versions (KIP-482): unsigned varints, compact strings, tagged fields."""

from __future__ import annotations

from srm_common.wire.varints import Buffer, read_uvarint


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
