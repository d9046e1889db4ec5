"""Small record batches of state topics: the body of one of our own, and the keys and values of any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from srm_common.errors import CorruptBatch
from srm_common.wire import codec
from srm_common.wire.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    Buffer,
    SourceBatch,
    read_varint,
    verify,
    write_varint,
)

_NULL = write_varint(-1)


class PlainRecord(NamedTuple):
    """A record without its headers and time. A missing key reads as empty: state topics have none such."""

    offset: int
    key: bytes
    value: bytes | None


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


def read_plain_records(batch: SourceBatch) -> Iterator[PlainRecord]:
    """The records of a data batch of magic 2, in order.

    Raises:
        CorruptBatch: another magic, or the checksum or the compressed body is wrong.
    """
    verify(batch)
    header = batch.header
    if header.magic != 2:
        raise CorruptBatch(f"batch at offset {header.base_offset} of a state topic has the magic {header.magic}, not 2")
    body = codec.decompress(header.attributes & CODEC_MASK, batch.data[HEADER_SIZE:])
    at = 0
    for _ in range(header.record_count):
        size, at = read_varint(body, at)
        end = at + size
        _, at = read_varint(body, at + 1)  # attributes, then the time
        delta, at = read_varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        yield PlainRecord(header.base_offset + delta, key or b"", value)
        at = end


def _bytes(body: Buffer, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    return (None, at) if size < 0 else (bytes(body[at : at + size]), at + size)
