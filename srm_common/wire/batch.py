"""Record batches of magic 2 as bytes: header, checksum, stamping for an unopened copy.

Layout and attribute bits: Kafka's ``DefaultRecordBatch``. A batch is a 61-byte header and a body (the records,
compressed as a whole when the codec bits are set). The CRC-32C covers everything from the attributes on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from srm_common.errors import CorruptBatch
from srm_common.wire.checksum import carried

Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = 61
#: Bytes before the field ``length`` counts: base offset and the length itself.
LENGTH_OVERHEAD = 12
MAGIC = 16
CRC_START = 21

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
#: The cleaner re-uses the base timestamp as delete horizon when this is set.
DELETE_HORIZON = 0x40

_tuple = tuple.__new__  # what the constructors of named tuples end in, at a fifth of their cost
_PREFIX = struct.Struct(">qiibI").pack
_STAMP = struct.Struct(">hiqqqhii").pack


class Header(NamedTuple):
    """The fixed fields of a batch; offsets are upstream offsets, timestamps milliseconds."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LENGTH_OVERHEAD

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last one, whether that record still exists or not."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def dense(self) -> bool:
        """Every offset of the batch has its record (no hole left by compaction)."""
        return self.record_count == self.last_offset_delta + 1


class Checked(NamedTuple):
    """The checksum that a batch came with, and that of the part of its header that it covers."""

    crc: int
    header_crc: int


class SourceBatch(NamedTuple):
    """A batch as it was fetched; ``data`` is the whole batch, a view into a receive buffer."""

    header: Header
    data: memoryview


def parse_header(data: Buffer, at: int = 0) -> Header:
    """The header at byte ``at``."""
    return Header._make(HEADER.unpack_from(data, at))


def split(records: memoryview) -> Iterator[SourceBatch]:
    """The complete batches of a fetch answer, in log order; the broker may cut the last one short.

    Raises:
        CorruptBatch: a length that no batch can have.
    """
    position, total = 0, len(records)
    unpack = HEADER.unpack_from
    while total - position > MAGIC:
        magic = records[position + MAGIC]
        if magic == 2:
            if total - position < HEADER_SIZE:
                return
            header, shortest = _tuple(Header, unpack(records, position)), HEADER_SIZE - LENGTH_OVERHEAD
        elif magic < 2:
            header, shortest = _legacy_header(records, position), _SHORTEST_LEGACY
        else:
            raise CorruptBatch(f"a batch has the unknown magic {magic}")
        length = header.length
        if length < shortest:
            raise CorruptBatch(f"batch at offset {header.base_offset} has the impossible length {length}")
        end = position + length + LENGTH_OVERHEAD
        if end > total:
            return
        yield _tuple(SourceBatch, (header, records[position:end]))
        position = end


_LEGACY = struct.Struct(">qiIb")
#: Checksum, magic, attributes, and the lengths of key and value.
_SHORTEST_LEGACY = 14


def _legacy_header(records: memoryview, at: int) -> Header:
    """What can be said of a magic 0 or 1 entry; a compressed one carries the offset of its last record (KIP-31)."""
    offset, length, crc, magic = _LEGACY.unpack_from(records, at)
    return Header(offset, length, -1, magic, crc, 0, 0, -1, -1, -1, -1, -1, 1)


def verify(batch: SourceBatch) -> None:
    """Check the batch's CRC-32C; magic 0 and 1 have a CRC-32 from the magic on.

    Raises:
        CorruptBatch: it does not match; the batch must not be copied.
    """
    legacy = batch.header.magic < 2
    actual = crc32(batch.data[MAGIC:]) if legacy else crc32c(batch.data[CRC_START:])
    if actual != batch.header.crc:
        raise CorruptBatch(
            f"batch at offset {batch.header.base_offset} fails its checksum "
            f"(stored {batch.header.crc:#010x}, computed {actual:#010x})"
        )


def stamp(
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
    body: Buffer,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    checked: Checked | None = None,
) -> bytes:
    """A fresh 61-byte header for ``body`` under our producer, checksum included.

    ``checked`` is of the batch that ``body`` came in: its checksum is derived instead of recomputed, so that the
    broker refuses a body that is not what was verified.

    The broker assigns the base offset and the leader epoch. Control and delete-horizon bits are always cleared: kept,
    the first is refused (INVALID_RECORD) and the second would make the target's cleaner take the base timestamp for
    a delete horizon.
    """
    signed = _STAMP(
        attributes & ~(CONTROL | DELETE_HORIZON),
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    if checked is None:
        crc = crc32c(body, crc32c(signed))
    else:
        crc = carried(checked.crc, checked.header_crc, crc32c(signed), len(body))
    return _PREFIX(0, HEADER_SIZE - LENGTH_OVERHEAD + len(body), -1, 2, crc) + signed


def control_type(batch: SourceBatch) -> int:
    """0 for an abort marker, 1 for a commit marker, other values for other control records, -1 for none (compacted).

    A control record's key is version int16 and type int16; the batch is never compressed (Kafka ``ControlRecordType``).
    """
    if not batch.header.record_count:
        return -1
    data = batch.data
    at = HEADER_SIZE
    _, at = read_varint(data, at)  # record length
    at += 1  # attributes
    _, at = read_varint(data, at)  # timestamp delta
    _, at = read_varint(data, at)  # offset delta
    _, at = read_varint(data, at)  # key length
    return int.from_bytes(data[at + 2 : at + 4], "big", signed=True)


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """A zig-zag varint at ``at`` and the position after it."""
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return (result >> 1) ^ -(result & 1), at
        shift += 7


def write_varint(value: int) -> bytes:
    """The zig-zag varint of a signed 64-bit integer."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_uvarint(value: int) -> bytes:
    """An unsigned varint, as compact lengths of flexible protocol versions use it."""
    if 128 <= value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if 1 << 14 <= value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
