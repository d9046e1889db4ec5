"""Re-encodes batches that cannot be copied unopened: holes, start offsets inside a batch, append times, merging.

The fast path walks the varints of each record and copies everything from the key on as one slice; no record becomes
a Python object. It renumbers offset deltas to 0..n-1 (a copied hole would be refused, and a header patched to hide
one poisons an uncompressed target partition) and shifts timestamp deltas where batches with different base times
are merged. A LogAppendTime batch becomes CreateTime with every record at the append time, which is what a consumer
of the source sees.

The slow path takes single records apart. It serves batches larger than the target takes, and magic 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    Header,
    Packed,
    SourceBatch,
    UpstreamRun,
    read_varint,
    split,
    verify,
    write_varint,
)
from srm_common.wire.codec import NONE, compress, decompress

#: Above this share of a batch's bytes, its offset map is kept as one sparse run instead of many dense ones; a chunk's
#: segment is held to the same share once more, so that a few runs of a small batch may stay.
MAP_SHARE, MAP_LEAST_BYTES = 0.005, 256
_BYTES_PER_RUN = 4
_VARINTS = [write_varint(value) for value in range(1 << 15)]


def merge(
    batches: Sequence[SourceBatch], first_offset: int, target_bytes: int, last_offset: int | None = None
) -> tuple[Packed | None, int]:
    """One new batch from the first of ``batches``, and how many of them it took.

    Stops after the batch that brings the uncompressed size to ``target_bytes``, and before one with another codec;
    uncompressed ones join (producers leave batches uncompressed that would not shrink). Records before
    ``first_offset`` and from ``last_offset`` (exclusive) on are left out; None when nothing remains.

    Raises:
        CorruptBatch: a body that cannot be walked.
    """
    codec = NONE
    pieces: list[bytes] = []
    runs: list[UpstreamRun] = []
    base_timestamp = _start_time(batches[0].header)
    max_timestamp = -1
    size = count = taken = 0
    end = first_offset
    for batch in batches:
        header = batch.header
        own = header.attributes & CODEC_MASK
        if taken and (size >= target_bytes or (own and codec and own != codec)):
            break
        codec = codec or own
        body = bytes(decompress(own, batch.data[HEADER_SIZE:]))
        try:
            count, grown = _walk(body, header, first_offset, last_offset, base_timestamp, count, pieces, runs)
        except IndexError as error:
            raise CorruptBatch(
                f"batch at offset {header.base_offset} ends inside record {count} of {header.record_count}"
            ) from error
        size += grown
        taken += 1
        max_timestamp = max(max_timestamp, header.max_timestamp)
        end = header.next_offset
    if not count:
        return None, taken
    body_out = compress(codec, b"".join(pieces))
    return (
        Packed(
            codec,
            base_timestamp,
            max_timestamp,
            count,
            body_out,
            _coarsened(runs, count, len(body_out)),
            end if last_offset is None else min(end, last_offset),
            True,
        ),
        taken,
    )


def _start_time(header: Header) -> int:
    return header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp


def _walk(
    body: bytes,
    header: Header,
    first_offset: int,
    last_offset: int | None,
    base_timestamp: int,
    count: int,
    pieces: list[bytes],
    runs: list[UpstreamRun],
) -> tuple[int, int]:
    """Append the wanted records of one body to ``pieces``; returns the new count and the bytes added.

    A record is: length, attributes (1 byte), timestamp delta, offset delta, key, value, headers; all but the
    attributes start with varints (Kafka's ``DefaultRecord``).
    """
    varints, known, put = _VARINTS, len(_VARINTS), pieces.extend
    base_offset = header.base_offset
    append_time = header.attributes & LOG_APPEND_TIME
    shift = (header.max_timestamp if append_time else header.base_timestamp) - base_timestamp
    fixed_time = write_varint(shift) if append_time else b""
    trims = first_offset > base_offset or (last_offset is not None and last_offset < header.next_offset)
    stop = header.next_offset if last_offset is None else last_offset
    run_start = run_next = -1
    at = grown = 0
    if header.dense and not trims:
        run_start, run_next = base_offset, header.next_offset
    tracks = run_start < 0
    for _ in range(header.record_count):
        length = body[at]
        at += 1
        if length > 127:
            shift_bits, length = 7, length & 127
            while True:
                byte = body[at]
                at += 1
                length |= (byte & 127) << shift_bits
                if byte < 128:
                    break
                shift_bits += 7
        end = at + (length >> 1)
        time_at = at + 1
        delta_at = time_at
        while body[delta_at] > 127:
            delta_at += 1
        delta_at += 1
        rest = delta_at
        if tracks:
            delta = body[rest]
            rest += 1
            if delta > 127:
                shift_bits, delta = 7, delta & 127
                while True:
                    byte = body[rest]
                    rest += 1
                    delta |= (byte & 127) << shift_bits
                    if byte < 128:
                        break
                    shift_bits += 7
            offset = base_offset + (delta >> 1)
            if offset < first_offset or offset >= stop:
                at = end
                continue
            if offset != run_next:
                if run_start >= 0:
                    runs.append((run_start, run_next - run_start, run_next - run_start))
                run_start = offset
            run_next = offset + 1
        else:
            while body[rest] > 127:
                rest += 1
            rest += 1
        number = varints[count] if count < known else write_varint(count)
        if append_time:
            head = body[at:time_at] + fixed_time
        elif shift:
            raw = body[time_at]
            time = ((raw >> 1) ^ -(raw & 1) if raw < 128 else read_varint(body, time_at)[0]) + shift
            head = body[at:time_at] + (varints[time] if 0 <= time < known else write_varint(time))
        else:
            head = body[at:delta_at]
        new_length = len(head) + len(number) + end - rest
        prefix = varints[new_length] if new_length < known else write_varint(new_length)
        put((prefix, head, number, body[rest:end]))
        grown += len(prefix) + new_length
        count += 1
        at = end
    if at != len(body):
        raise IndexError
    if run_start >= 0 and run_next > run_start:
        runs.append((run_start, run_next - run_start, run_next - run_start))
    return count, grown


def _coarsened(runs: list[UpstreamRun], count: int, size: int) -> tuple[UpstreamRun, ...]:
    joined: list[UpstreamRun] = []
    for start, length, records in runs:
        if joined and joined[-1][0] + joined[-1][1] == start:
            before = joined[-1]
            joined[-1] = (before[0], before[1] + length, before[2] + records)
        else:
            joined.append((start, length, records))
    if len(joined) > 1 and len(joined) * _BYTES_PER_RUN > max(size * MAP_SHARE, MAP_LEAST_BYTES):
        first, last = joined[0], joined[-1]
        return ((first[0], last[0] + last[1] - first[0], count),)
    return tuple(joined)


class LooseRecord(NamedTuple):
    """One record taken apart: ``tail`` is everything from the key length on, as it lies in the batch."""

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
    found: list[LooseRecord] = []
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varint(body, at)
            end = at + length
            attributes = body[at]
            time_delta, at = read_varint(body, at + 1)
            offset_delta, at = read_varint(body, at)
            timestamp = header.base_timestamp + time_delta if append_time is None else append_time
            found.append(LooseRecord(header.base_offset + offset_delta, timestamp, attributes, body[at:end]))
            at = end
        if at != len(body):
            raise IndexError
    except IndexError as error:
        raise CorruptBatch(f"batch at offset {header.base_offset} does not end with its last record") from error
    return found


def pack(records: Sequence[LooseRecord], codec: int, level: int | None = None) -> Packed:
    """One batch of the given records, in their order."""
    base = records[0].timestamp
    out: list[bytes] = []
    runs: list[UpstreamRun] = []
    for number, record in enumerate(records):
        head = bytes((record.attributes,)) + write_varint(record.timestamp - base) + write_varint(number)
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
        _coarsened(runs, len(records), len(body)),
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
    yield from _legacy_entry(entry, None)


_LEGACY_LOG_APPEND = 0x08


def _legacy_entry(entry: memoryview, append_time: int | None) -> list[LooseRecord]:
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
    if value is None:
        raise CorruptBatch(f"compressed message set at offset {offset} has no content")
    inner = memoryview(bytes(decompress(codec, value)))
    stamp = timestamp if magic == 1 and attributes & _LEGACY_LOG_APPEND else None
    records: list[LooseRecord] = []
    left = len(inner)
    for one in split(inner):
        verify(one)
        records.extend(_legacy_entry(one.data, stamp))
        left -= len(one.data)
    if left:
        raise CorruptBatch(f"compressed message set at offset {offset} ends inside a message")
    if magic == 1 and records:
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
