"""Takes records apart one by one and puts them together again: where a batch is too large for the target, or old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    Header,
    Packed,
    SourceBatch,
    UpstreamRun,
    split,
    verify,
)
from srm_common.wire.batches.codec import NONE, compress, decompress
from srm_common.wire.varints import Buffer, read_varint, signed64, write_varint

#: Above this share of a batch's bytes, its offset map is kept as one sparse run instead of many dense ones; a chunk's
#: segment is held to the same share once more, so that a few runs of a small batch may stay.
MAP_SHARE, MAP_LEAST_BYTES = 0.005, 256
_BYTES_PER_RUN = 4


def start_time(header: Header) -> int:
    """What the times of a batch's records count from, where each of them is what a consumer sees."""
    return header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp


def ends_inside(header: Header, record: int) -> CorruptBatch:
    """What to say of a body that ends inside a record."""
    return CorruptBatch(f"batch at offset {header.base_offset} ends inside record {record} of {header.record_count}")


def packed_records(
    codec: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    records: Buffer,
    runs: list[UpstreamRun],
    upstream_end: int,
) -> Packed:
    """A batch of records that were written one after the other, to be compressed."""
    body = compress(codec, records)
    return Packed(
        codec, base_timestamp, max_timestamp, count, body, coarsened(runs, count, len(body)), upstream_end, True
    )


def coarsened(runs: list[UpstreamRun], count: int, size: int) -> tuple[UpstreamRun, ...]:
    """Runs of a batch of ``size`` bytes as its map keeps them: neighbours as one, and all as one where they would take
    too much of it."""
    joined: list[UpstreamRun] = []
    for start, length, records in runs:
        if joined and joined[-1][0] + joined[-1][1] == start:
            before = joined[-1]
            joined[-1] = (before[0], before[1] + length, before[2] + records)
        else:
            joined.append((start, length, records))
    return few(joined, count, size)


def few(runs: list[UpstreamRun], count: int, size: int) -> tuple[UpstreamRun, ...]:
    """As :func:`coarsened`, of runs of which no two are neighbours."""
    if len(runs) > 1 and are_many(len(runs), size):
        first, last = runs[0], runs[-1]
        return ((first[0], last[0] + last[1] - first[0], count),)
    return tuple(runs)


def are_many(runs: int, size: int) -> bool:
    """Whether so many runs would take too many bytes, relative to a batch of ``size`` bytes."""
    return runs * _BYTES_PER_RUN > max(size * MAP_SHARE, MAP_LEAST_BYTES)


class LooseRecord(NamedTuple):
    """One decoded record: ``tail`` is everything from the key length on, as in the batch."""

    offset: int
    timestamp: int
    attributes: int
    tail: bytes


def rebatch(
    batch: SourceBatch,
    first_offset: int,
    limit: int,
    last_offset: int | None = None,
    codec: int | None = None,
    level: int | None = None,
) -> Iterator[Packed]:
    """Batches of at most ``limit`` bytes each, for a source batch that is larger than the target takes; ``codec`` None:
    its own.

    Raises:
        RecordTooLarge: one record alone is larger. Everything before it was yielded.
    """
    header = batch.header
    records = [
        record
        for record in (legacy_records(batch) if header.magic < 2 else loose_records(batch))
        if record.offset >= first_offset and (last_offset is None or record.offset < last_offset)
    ]
    if not records:
        return
    end = header.next_offset if last_offset is None else min(header.next_offset, last_offset)
    if codec is None:
        codec = NONE if header.magic < 2 else header.attributes & CODEC_MASK
    for packed in _pack_within(records, codec, limit, level):
        at_end = header.magic >= 2 and packed.upstream_end > records[-1].offset
        yield packed._replace(upstream_end=end) if at_end else packed


def loose_records(batch: SourceBatch) -> list[LooseRecord]:
    """The records of a magic 2 batch, with the timestamps a consumer would see."""
    header = batch.header
    body = bytes(decompress(header.attributes & CODEC_MASK, batch.data[HEADER_SIZE:]))
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    records: list[LooseRecord] = []
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varint(body, at)
            end = at + length
            attributes = body[at]
            time_delta, at = read_varint(body, at + 1)
            offset_delta, at = read_varint(body, at)
            if not at <= end <= len(body) or not 0 <= offset_delta <= header.last_offset_delta:
                raise IndexError
            timestamp = signed64(header.base_timestamp + time_delta) if append_time is None else append_time
            records.append(LooseRecord(header.base_offset + offset_delta, timestamp, attributes, body[at:end]))
            at = end
        if at != len(body):
            raise IndexError
    except IndexError as error:
        raise CorruptBatch(f"batch at offset {header.base_offset} does not end with its last record") from error
    return records


def pack(records: Sequence[LooseRecord], codec: int, level: int | None = None) -> Packed:
    """One batch of the given records, in their order."""
    base = records[0].timestamp
    out: list[bytes] = []
    runs: list[UpstreamRun] = []
    for number, record in enumerate(records):
        head = bytes((record.attributes,)) + write_varint(signed64(record.timestamp - base)) + write_varint(number)
        out.append(write_varint(len(head) + len(record.tail)))
        out.append(head)
        out.append(record.tail)
        runs.append((record.offset, 1, 1))
    body = compress(codec, b"".join(out), level)
    return Packed(
        codec,
        base,
        max(record.timestamp for record in records),
        len(records),
        body,
        coarsened(runs, len(records), len(body)),
        records[-1].offset + 1,
        True,
    )


def _pack_within(records: list[LooseRecord], codec: int, limit: int, level: int | None) -> Iterator[Packed]:
    whole = pack(records, codec, level)
    if whole.size <= limit:
        yield whole
        return
    if len(records) == 1:
        raise RecordTooLarge(
            f"the record at offset {records[0].offset} needs {whole.size} bytes, "
            f"but the target topic's max.message.bytes is {limit}"
        )
    half = len(records) // 2
    yield from _pack_within(records[:half], codec, limit, level)
    yield from _pack_within(records[half:], codec, limit, level)


def legacy_records(batch: SourceBatch) -> Iterable[LooseRecord]:
    """The records of a magic 0 or 1 entry, wrapped (compressed) or not (KIP-31, KIP-32)."""
    entry = batch.data
    yield from _legacy_entry(entry)


_LEGACY_LOG_APPEND = 0x08


def _legacy_entry(entry: memoryview, append_time: int | None = None, *, inside: bool = False) -> list[LooseRecord]:
    offset = int.from_bytes(entry[:8], "big", signed=True)
    magic, attributes = entry[MAGIC], entry[MAGIC + 1]
    at = MAGIC + 2
    timestamp = -1
    if magic == 1:
        timestamp = int.from_bytes(entry[at : at + 8], "big", signed=True)
        at += 8
    key, at = _legacy_bytes(entry, at)
    value, at = _legacy_bytes(entry, at)
    codec = attributes & CODEC_MASK
    if append_time is not None:
        timestamp = append_time
    if not codec:
        return [LooseRecord(offset, timestamp, 0, _tail(key, value))]
    if inside:  # Kafka refuses that, too; there are frames that hold themselves
        raise CorruptBatch(f"compressed message set at offset {offset} is in another one")
    if value is None:
        raise CorruptBatch(f"compressed message set at offset {offset} has no content")
    inner = memoryview(bytes(decompress(codec, value)))
    stamp = timestamp if magic == 1 and attributes & _LEGACY_LOG_APPEND else None
    records: list[LooseRecord] = []
    left = len(inner)
    for batch in split(inner):
        verify(batch)
        if batch.header.magic > 1:
            raise CorruptBatch(f"compressed message set at offset {offset} has a batch of magic 2 in it")
        records.extend(_legacy_entry(batch.data, stamp, inside=True))
        left -= len(batch.data)
    if left:
        raise CorruptBatch(f"compressed message set at offset {offset} ends inside a message")
    if not records:
        raise CorruptBatch(f"compressed message set at offset {offset} has no messages")
    if magic == 1:
        # Inner offsets are relative; the wrapper carries the absolute offset of the last one (KIP-31).
        base = offset - records[-1].offset
        records = [record._replace(offset=base + record.offset) for record in records]
    return records


def _legacy_bytes(entry: memoryview, at: int) -> tuple[memoryview | None, int]:
    size = int.from_bytes(entry[at : at + 4], "big", signed=True)
    at += 4
    if size < 0:
        return None, at
    if at + size > len(entry):
        raise CorruptBatch(f"message at offset {int.from_bytes(entry[:8], 'big')} ends inside its key or value")
    return entry[at : at + size], at + size


def _tail(key: memoryview | None, value: memoryview | None) -> bytes:
    out = bytearray()
    for part in (key, value):
        out += write_varint(-1 if part is None else len(part))
        out += part or b""
    out += write_varint(0)
    return bytes(out)
