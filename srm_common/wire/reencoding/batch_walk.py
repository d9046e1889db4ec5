"""The loop that takes a row of small batches apart: header, checksum and compression of each in one call.

Compiled as :mod:`srm_common.wire.reencoding.record_walk` is, and only used so: for plain Python the libraries in C are
quicker, as they are for large batches. It stops before whatever is unusual, which is left to them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srm_common.wire.batches.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    Header,
    Packed,
    SourceBatch,
    UpstreamRun,
)
from srm_common.wire.batches.codec import LZ4, NONE
from srm_common.wire.batches.records import ends_inside, packed_records, start_time
from srm_common.wire.reencoding.lz4_walk import little, unlz4
from srm_common.wire.reencoding.machine_code import crc32c, has_crc32c, put
from srm_common.wire.reencoding.record_walk import (
    BODY_APPEND_TIME,
    BODY_AT,
    BODY_DENSE,
    BODY_END,
    BODY_FIELDS,
    BODY_NEXT,
    BODY_OFFSET,
    BODY_RECORDS,
    BODY_SHIFT,
    LEAST_RECORD,
    MOST_GROWTH,
    Bytes,
    Ints,
    compiled,
    renumber,
)
from srm_common.wire.reencoding.small_batches import AFTER, END, FIRST, RECORDS, SCAN_FIELDS, START, SmallBatches
from srm_common.wire.varints import Buffer, signed64


#: CRC-32C (Castagnoli) eight bytes at a time: a table for each of them (Intel's slicing-by-8).
def _tables() -> Ints:
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = tables[0, before & 255] ^ before >> 8
    return tables


_CRC = _tables()
#: The sign of a number of 4 bytes.
_NEGATIVE = 1 << 31


@compiled
def big(data: Bytes, at: int, size: int) -> int:
    """A big-endian number; one of 8 bytes has a sign."""
    value = 0
    for byte in range(at, at + size):
        value = value << 8 | int(data[byte])
    return value


@compiled
def checksum(data: Bytes, at: int, end: int) -> int:
    """The CRC-32C of the bytes from ``at`` to ``end`` (exclusive)."""
    if has_crc32c():
        return crc32c(data, at, end)
    crc = 0xFFFFFFFF
    while end - at >= 8:
        low = crc ^ little(data, at)
        crc = (
            _CRC[7, low & 255]
            ^ _CRC[6, low >> 8 & 255]
            ^ _CRC[5, low >> 16 & 255]
            ^ _CRC[4, low >> 24]
            ^ _CRC[3, data[at + 4]]
            ^ _CRC[2, data[at + 5]]
            ^ _CRC[1, data[at + 6]]
            ^ _CRC[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = crc >> 8 ^ _CRC[0, (crc ^ int(data[at])) & 255]
        at += 1
    return crc ^ 0xFFFFFFFF


@compiled
def _content(codec: int, data: Bytes, at: int, end: int, out: Bytes, start: int) -> int:
    """Put the records of a body to ``start``; returns where they end, -1 where somebody else has to look at it."""
    if codec == NONE:
        if end - at > len(out) - start:
            return -1
        put(out, start, data, at, end - at)
        return start + end - at
    return unlz4(data, at, end, out, start) if codec == LZ4 else -1


@compiled
def unpack(
    data: Bytes, first_offset: int, stop: int, enough: int, out: Bytes, bodies: Ints
) -> tuple[int, int, int, int, int]:
    """Take a row of whole batches apart, up to one that makes ``enough`` bytes of records, or before the first that is
    not of magic 2, is not transactional or plain data, has another codec than those before it (uncompressed ones join),
    has another codec than LZ4, or may be damaged.

    Args:
        data: the batches, one after the other.
        first_offset, stop: wanted offsets; the last one exclusive.
        out: gets the records.
        bodies: gets a row for each batch, as :func:`~srm_common.wire.reencoding.record_walk.renumber` reads them.

    Returns how many batches were taken, their codec, and their base time, largest time and next offset.
    """
    taken = used = at = 0
    codec = NONE
    base_time = end_offset = 0
    max_time = -1
    while taken < len(bodies) and used < enough and len(data) - at >= HEADER_SIZE:
        size = big(data, at + 8, 4) + LENGTH_OVERHEAD
        if data[at + 16] != 2 or size < HEADER_SIZE or size > len(data) - at:
            break
        attributes = big(data, at + 21, 2)
        own = attributes & CODEC_MASK
        if attributes & CONTROL or (own != NONE and codec != NONE and own != codec):
            break
        if checksum(data, at + CRC_START, at + size) != big(data, at + 17, 4):
            break
        end = _content(own, data, at + HEADER_SIZE, at + size, out, used)
        if end < 0:
            break
        offset = big(data, at, 8)
        last_delta = big(data, at + 23, 4)
        if last_delta >= _NEGATIVE:
            break
        next_offset = offset + last_delta + 1
        records = big(data, at + 57, 4)
        if records * LEAST_RECORD > end - used:
            break
        time = big(data, at + 27, 8)
        latest = big(data, at + 35, 8)
        appended = attributes & LOG_APPEND_TIME != 0
        if appended:
            time = latest
        if taken == 0:
            base_time = time
        bodies[taken, BODY_AT] = used
        bodies[taken, BODY_END] = end
        bodies[taken, BODY_OFFSET] = offset
        bodies[taken, BODY_NEXT] = next_offset
        bodies[taken, BODY_SHIFT] = time - base_time
        bodies[taken, BODY_APPEND_TIME] = appended
        bodies[taken, BODY_DENSE] = records == next_offset - offset and first_offset <= offset and next_offset <= stop
        bodies[taken, BODY_RECORDS] = records
        max_time = max(max_time, latest)
        end_offset = next_offset
        codec = codec or own
        used = end
        at += size
        taken += 1
    return taken, codec, base_time, max_time, end_offset


@compiled
def scan(data: Bytes, numbers: Ints) -> tuple[int, int]:
    """Read the headers of all whole batches of an answer; the broker may cut the last one short.

    Args:
        numbers: gets a row for each, see :data:`srm_common.wire.reencoding.small_batches.SCAN_FIELDS`.

    Returns their number and their leader epoch; -1 for the number where one is not of magic 2 or has an impossible
    length, is in a transaction, a marker, or empty, or where offsets do not ascend or the epoch changes.
    """
    at = count = next_offset = epoch = 0
    while len(data) - at >= HEADER_SIZE:
        size = big(data, at + 8, 4) + LENGTH_OVERHEAD
        attributes = big(data, at + 21, 2)
        last_delta = big(data, at + 23, 4)
        records = big(data, at + 57, 4)
        if data[at + MAGIC] != 2 or size < HEADER_SIZE or size >= _NEGATIVE or attributes & (CONTROL | TRANSACTIONAL):
            return -1, 0
        if size > len(data) - at:
            return count, epoch
        offset = big(data, at, 8)
        own = big(data, at + 12, 4)
        if records == 0 or records >= _NEGATIVE or last_delta >= _NEGATIVE or count == len(numbers):
            return -1, 0
        if count > 0 and (own != epoch or offset < next_offset):
            return -1, 0
        epoch = own
        next_offset = offset + last_delta + 1
        numbers[count, START] = at
        numbers[count, END] = at + size
        numbers[count, FIRST] = offset
        numbers[count, AFTER] = next_offset
        numbers[count, RECORDS] = records
        at += size
        count += 1
    return (-1 if len(data) - at > MAGIC and data[at + MAGIC] != 2 else count), epoch


def small_batches(records: memoryview) -> SmallBatches | None:
    """The batches of an answer where :func:`scan` takes all of them."""
    data = np.frombuffer(records, np.uint8)
    data.flags.writeable = False  # or the loop is compiled for both kinds
    numbers = np.empty((len(data) // HEADER_SIZE, SCAN_FIELDS), np.int64)
    count, epoch = scan(data, numbers)
    if count <= 0:
        return None
    return SmallBatches(records, numbers[:count].copy(), epoch - (epoch >= _NEGATIVE) * 2 * _NEGATIVE)


#: What a row may hold beyond ``target_bytes``: its last batch.
_SLACK = 1 << 18
_NEVER = (1 << 63) - 1


class _Damaged(Exception):
    """A body under a right checksum ends inside a record: the number of the body, and of the record in it."""

    def __init__(self, body: int, record: int) -> None:
        super().__init__(body, record)
        self.body = body
        self.record = record


def merge_small(
    batches: Sequence[SourceBatch], first_offset: int, target_bytes: int, last_offset: int | None
) -> tuple[Packed | None, int]:
    """As :func:`srm_common.wire.reencoding.merging.merge_row`, but takes none of the batches where the first one is
    unusual or one is damaged: of those the plain loops speak."""
    stop = _NEVER if last_offset is None else last_offset
    # Such a row lies in one piece.
    whole = batches.data if isinstance(batches, SmallBatches) else b"".join([batch.data for batch in batches])
    data = np.frombuffer(whole, np.uint8)
    data.flags.writeable = False
    records = np.empty(target_bytes + _SLACK, np.uint8)
    bodies = np.empty((len(batches), BODY_FIELDS), np.int64)
    taken, codec, base_time, max_time, end = unpack(data, first_offset, stop, target_bytes, records, bodies)
    if not taken:
        return None, 0
    try:
        out, count, runs = _renumbered(records, bodies[:taken], first_offset, stop)
    except _Damaged:
        return None, 0
    packed = packed_records(codec, base_time, max_time, count, out, runs, min(end, stop)) if count else None
    return packed, taken


def renumber_bodies(
    bodies: Sequence[tuple[Header, Buffer]], first_offset: int, last_offset: int | None, base_timestamp: int
) -> tuple[Buffer, int, list[UpstreamRun]]:
    """As :data:`srm_common.wire.reencoding.merging.Renumber` says.

    Raises:
        CorruptBatch: a body that cannot be walked.
    """
    stop = _NEVER if last_offset is None else last_offset
    rows = np.empty((len(bodies), BODY_FIELDS), np.int64)
    at = 0
    for row, (header, body) in zip(rows, bodies, strict=True):
        if not 0 <= header.record_count * LEAST_RECORD <= len(body):
            raise ends_inside(header, 0)
        row[BODY_AT], row[BODY_END] = at, at + len(body)
        row[BODY_OFFSET], row[BODY_NEXT] = header.base_offset, header.next_offset
        row[BODY_SHIFT] = signed64(start_time(header) - base_timestamp)
        row[BODY_APPEND_TIME] = header.attributes & LOG_APPEND_TIME
        row[BODY_DENSE] = header.dense and first_offset <= header.base_offset and header.next_offset <= stop
        row[BODY_RECORDS] = header.record_count
        at += len(body)
    data = np.frombuffer(bodies[0][1] if len(bodies) == 1 else b"".join([body for _, body in bodies]), np.uint8)
    try:
        return _renumbered(data, rows, first_offset, stop)
    except _Damaged as error:
        raise ends_inside(bodies[error.body][0], error.record) from error


def _renumbered(data: Bytes, rows: Ints, first_offset: int, stop: int) -> tuple[Buffer, int, list[UpstreamRun]]:
    most = int(rows[:, BODY_RECORDS].sum())
    length = int((rows[:, BODY_END] - rows[:, BODY_AT]).sum())
    out = np.empty(length + most * MOST_GROWTH, np.uint8)
    runs = np.empty((most, 2), np.int64)
    data.flags.writeable = False  # or the loop is compiled for both kinds
    size, count, used = renumber(data, rows, first_offset, stop, out, runs)
    if size < 0:
        raise _Damaged(-size - 1, count)
    return out[:size].data, count, [(start, length, length) for start, length in runs[:used].tolist()]
