"""Small record batches of state topics: encodes our own, and decodes keys and values of any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from srm_common.errors import CorruptBatch
from srm_common.wire.batches import codec
from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME, Header, SourceBatch, verify
from srm_common.wire.batches.records import legacy_records
from srm_common.wire.varints import Buffer, read_varint, signed64, write_varint

Newest = dict[bytes, tuple[int, bytes | None]]
"""Key -> offset and value of its last record; None for a tombstone."""
Headers = Sequence[tuple[bytes, bytes]]
Entry = tuple[bytes, bytes | None] | tuple[bytes, bytes | None, Headers]
"""Key, value and headers of a record to be written."""

_NULL = write_varint(-1)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written to a state topic; ``value`` None is a tombstone, ``timestamp_ms`` None the time of
    writing."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()


class PlainRecord(NamedTuple):
    """A record without its time. A missing key reads as empty: state topics have none such. ``headers`` are from their
    number on, as :func:`read_headers` takes them."""

    offset: int
    key: bytes
    value: bytes | None
    headers: bytes = b""


def plain_records(entries: Sequence[Entry]) -> bytes:
    """Records of magic 2 with the batch's base timestamp, in order; a value of None is a tombstone."""
    out = bytearray()
    for number, (key, value, *headers) in enumerate(entries):
        record = b"".join(
            (
                b"\x00\x00",
                write_varint(number),
                write_varint(len(key)),
                key,
                *((_NULL,) if value is None else (write_varint(len(value)), value)),
                write_headers(headers[0]) if headers else b"\x00",
            )
        )
        out += write_varint(len(record))
        out += record
    return bytes(out)


def in_batches(entries: Sequence[Entry], most_bytes: int) -> Iterator[Sequence[Entry]]:
    """``entries`` in order, cut so that the records of each piece take at most ``most_bytes`` (a single one may take
    more)."""
    begin = size = 0
    for number, (key, value, *headers) in enumerate(entries):
        # Lengths and the number in the batch are varints; with the rest of a record no more than this.
        taken = len(key) + len(value or b"") + 24
        if headers:
            taken += sum(len(name) + len(text) + 10 for name, text in headers[0])
        if number > begin and size + taken > most_bytes:
            yield entries[begin:number]
            begin, size = number, 0
        size += taken
    if begin < len(entries):
        yield entries[begin:]


def read_plain_records(batch: SourceBatch) -> Iterator[PlainRecord]:
    """The records of a data batch of magic 2, in order.

    Raises:
        CorruptBatch: another magic, or the checksum or the compressed body is wrong.
    """
    magic = batch.header.magic
    if magic != 2:
        raise CorruptBatch(f"batch at offset {batch.header.base_offset} of a state topic has the magic {magic}, not 2")
    for (offset, key, value, headers), _ in _decoded(batch):
        yield PlainRecord(offset, key or b"", value, headers)


def _decoded(batch: SourceBatch) -> Iterator[tuple[tuple[int, bytes | None, bytes | None, bytes], int]]:
    """Of magic 2: offset, key, value and headers of each record, and its time after the batch's base (ms).

    Raises:
        CorruptBatch: the checksum or the body is wrong.
    """
    verify(batch)
    header = batch.header
    body = codec.decompress(header.attributes & CODEC_MASK, batch.data[HEADER_SIZE:])
    at = 0
    try:
        for _ in range(header.record_count):
            size, at = read_varint(body, at)
            end = at + size
            later, at = read_varint(body, at + 1)  # after the attributes
            delta, at = read_varint(body, at)
            key, at = _bytes(body, at)
            value, at = _bytes(body, at)
            if not at <= end <= len(body):
                raise IndexError
            yield (header.base_offset + delta, key, value, bytes(body[at:end])), later
            at = end
    except IndexError:
        at = -1
    if at != len(body):
        raise _incomplete(header)


def timed_records(batch: SourceBatch) -> Iterator[tuple[int, bytes | None, bytes | None, int]]:
    """Offset, key, value and timestamp (ms) of the records of a data batch of any magic, in order.

    Raises:
        CorruptBatch: the checksum or the body is wrong.
    """
    header = batch.header
    if header.magic < 2:
        verify(batch)
        for legacy_record in legacy_records(batch):
            key, at = _bytes(legacy_record.tail, 0)
            yield legacy_record.offset, key, _bytes(legacy_record.tail, at)[0], legacy_record.timestamp
        return
    appended = bool(header.attributes & LOG_APPEND_TIME)
    for record, delta in _decoded(batch):
        stamp = header.max_timestamp if appended else signed64(header.base_timestamp + delta)
        yield record[0], record[1], record[2], stamp


def write_headers(headers: Headers) -> bytes:
    """Headers of a record of magic 2, from their number on."""
    parts = [write_varint(len(headers))]
    for name, value in headers:
        parts += (write_varint(len(name)), name, write_varint(len(value)), value)
    return b"".join(parts)


def read_headers(body: Buffer) -> dict[bytes, bytes]:
    """The headers of a record of magic 2, from their number on; those without a value are left out. Empty for none.

    Raises:
        CorruptBatch: they do not end with the bytes.
    """
    found: dict[bytes, bytes] = {}
    try:
        count, at = read_varint(body, 0) if len(body) else (0, 0)
        for _ in range(count):
            name, at = _bytes(body, at)
            value, at = _bytes(body, at)
            if name is not None and value is not None:
                found[name] = value
    except IndexError:
        at = -1
    if at != len(body):
        raise CorruptBatch("the headers of a record do not end with the record")
    return found


def newest_of_each_key(batch: SourceBatch, found: Newest, headers: dict[bytes, bytes] | None = None) -> None:
    """Put the records of a data batch into ``found``, later ones over earlier ones; those without a key are left out.

    As :func:`read_plain_records`, and of any magic, but at a microsecond a record: the log of a busy flow's state holds
    hundreds of thousands of them for a few keys.

    Args:
        headers: gets the headers of the same records by key, as :func:`read_headers` takes them.

    Raises:
        CorruptBatch: the checksum or the body is wrong.
    """
    verify(batch)
    header = batch.header
    if header.magic < 2:
        _newest_of_legacy(batch, found, headers)
        return
    body = bytes(codec.decompress(header.attributes & CODEC_MASK, batch.data[HEADER_SIZE:]))
    base = header.base_offset
    at, total = 0, len(body)
    try:
        for _ in range(header.record_count):
            size = body[at]
            at += 1
            if size > 127:
                size, at = read_varint(body, at - 1)
                size <<= 1
            end = at + (size >> 1)
            if size & 1 or not at < end <= total:
                raise IndexError
            at += 1  # attributes
            while body[at] > 127:  # time
                at += 1
            delta = body[at + 1]
            at += 2
            if delta > 127:
                delta, at = read_varint(body, at - 1)
                delta <<= 1
            size = body[at]
            at += 1
            if size > 127:
                size, at = read_varint(body, at - 1)
                size = -1 if size < 0 else size << 1
            if not size & 1:
                key_end = at + (size >> 1)
                length, start = read_varint(body, key_end)
                key = body[at:key_end]
                if start + length > end:
                    raise IndexError
                found[key] = (base + (delta >> 1), None if length < 0 else body[start : start + length])
                if headers is not None:
                    headers[key] = body[start + length if length > 0 else start : end]
            at = end
    except IndexError:
        at = -1
    if at != total:
        raise _incomplete(header)


def _newest_of_legacy(batch: SourceBatch, found: Newest, headers: dict[bytes, bytes] | None) -> None:
    for record in legacy_records(batch):
        key, at = _bytes(record.tail, 0)
        if key is not None:
            found[key] = record.offset, _bytes(record.tail, at)[0]
            if headers is not None:
                headers[key] = b""


def _incomplete(header: Header) -> CorruptBatch:
    return CorruptBatch(f"batch at offset {header.base_offset} does not end with its last record")


def _bytes(body: Buffer, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    if size < 0:
        return None, at
    if at + size > len(body):
        raise IndexError
    return bytes(body[at : at + size]), at + size
