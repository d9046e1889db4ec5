"""Records in batches of magic 2, and batches out of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from srm_common.wire.batches import codec
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Header,
    SourceBatch,
    parse_header,
    stamp,
)
from srm_common.wire.varints import Buffer, read_varint, write_varint

_ABORT, _COMMIT = 0, 1
#: The length of a null key or value.
_NULL = write_varint(-1)


class Record(NamedTuple):
    """One record of a log; times are in ms."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class StoredBatch(NamedTuple):
    """A batch as stored in the log, with the offsets and leader epoch assigned by the broker."""

    header: Header
    data: bytes

    @property
    def control(self) -> bool:
        return bool(self.header.attributes & CONTROL)

    @property
    def transactional(self) -> bool:
        return bool(self.header.attributes & TRANSACTIONAL)

    def source(self) -> SourceBatch:
        return SourceBatch(self.header, memoryview(self.data))


def stored(data: Buffer, base_offset: int, leader_epoch: int) -> StoredBatch:
    """``data`` with the two fields that a broker fills in; its checksum does not cover them."""
    filled = bytearray(data)
    filled[:8] = base_offset.to_bytes(8, "big")
    filled[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    return StoredBatch(parse_header(filled), bytes(filled))


def with_append_time(data: Buffer, now_ms: int) -> bytes:
    """The batch with the time at which the broker appends it in place of the timestamps of its records."""
    header = parse_header(data)._replace(max_timestamp=now_ms)
    header = header._replace(attributes=header.attributes | LOG_APPEND_TIME)
    changed = bytearray(HEADER.pack(*header)) + bytes(data[HEADER_SIZE:])
    changed[CRC_START - 4 : CRC_START] = crc32c(changed[CRC_START:]).to_bytes(4, "big")
    return bytes(changed)


def records_of(batch: StoredBatch) -> list[Record]:
    """The records of a batch, those of a marker included."""
    header = batch.header
    body = codec.decompress(header.attributes & CODEC_MASK, memoryview(batch.data)[HEADER_SIZE:])
    appended = header.attributes & LOG_APPEND_TIME
    found = []
    at = 0
    for _ in range(header.record_count):
        size, at = read_varint(body, at)
        end = at + size
        time, at = read_varint(body, at + 1)
        delta, at = read_varint(body, at)
        key, at = _bytes(body, at)
        value, at = _bytes(body, at)
        count, at = read_varint(body, at)
        headers: tuple[tuple[str, bytes | None], ...] = ()
        for _ in range(count):
            name, at = _bytes(body, at)
            text, at = _bytes(body, at)
            headers += (((name or b"").decode(), text),)
        timestamp = header.max_timestamp if appended else header.base_timestamp + time
        found.append(Record(header.base_offset + delta, timestamp, key, value, headers))
        at = end
    return found


def batch_of(records: Sequence[Record], *, like: Header | None = None) -> bytes:
    """An uncompressed batch; the offsets of the records count from ``like``'s, or from the first record's.

    ``like``: the header of the batch of which these records are left; its producer, sequence, epoch and last offset
    are kept.
    """
    base = like.base_offset if like is not None else records[0].offset
    first_ms = like.base_timestamp if like is not None else records[0].timestamp_ms
    body = b"".join(_record(record, base, first_ms) for record in records)
    delta = like.last_offset_delta if like is not None else records[-1].offset - base
    data = stamp(
        0 if like is None else like.attributes & ~CODEC_MASK,
        delta,
        first_ms,
        like.max_timestamp if like is not None else max(record.timestamp_ms for record in records),
        len(records),
        body,
        -1 if like is None else like.producer_id,
        -1 if like is None else like.producer_epoch,
        -1 if like is None else like.base_sequence,
    )
    return data + body


def marker(committed: bool, producer_id: int, epoch: int, now_ms: int, coordinator_epoch: int) -> bytes:
    """The control batch that ends a transaction (Kafka's ``EndTransactionMarker``)."""
    key = (0).to_bytes(2, "big") + (_COMMIT if committed else _ABORT).to_bytes(2, "big")
    value = (0).to_bytes(2, "big") + coordinator_epoch.to_bytes(4, "big")
    body = _record(Record(0, now_ms, key, value), 0, now_ms)
    attributes = CONTROL | TRANSACTIONAL
    header = Header(
        *(0, HEADER_SIZE - LENGTH_OVERHEAD + len(body), -1, 2, 0, attributes),
        *(0, now_ms, now_ms, producer_id, epoch, -1, 1),
    )
    data = bytearray(HEADER.pack(*header)) + body
    data[CRC_START - 4 : CRC_START] = crc32c(data[CRC_START:]).to_bytes(4, "big")
    return bytes(data)


def _record(record: Record, base: int, first_ms: int) -> bytes:
    offset, timestamp_ms, key, value, headers = record
    out = b"\x00" + write_varint(timestamp_ms - first_ms) + write_varint(offset - base) + _sized(key) + _sized(value)
    out += write_varint(len(headers))
    for name, text in headers:
        out += _sized(name.encode()) + _sized(text)
    return write_varint(len(out)) + out


def _sized(text: bytes | None) -> bytes:
    return _NULL if text is None else write_varint(len(text)) + text


def _bytes(body: Buffer, at: int) -> tuple[bytes | None, int]:
    size, at = read_varint(body, at)
    return (None, at) if size < 0 else (bytes(body[at : at + size]), at + size)
