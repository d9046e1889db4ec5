"""The body of a small record batch of our own: keys and values, uncompressed, without headers."""

from __future__ import annotations

from collections.abc import Sequence

from srm_common.wire.batch import write_varint

_NULL = write_varint(-1)


def plain_records(entries: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """Records of magic 2 with the batch's base timestamp, in order; a value of None is a tombstone."""
    out = bytearray()
    for number, (key, value) in enumerate(entries):
        record = b"".join(
            (
                b"\x00\x00",
                write_varint(number),
                write_varint(len(key)),
                key,
                *((_NULL,) if value is None else (write_varint(len(value)), value)),
                b"\x00",
            )
        )
        out += write_varint(len(record))
        out += record
    return bytes(out)
