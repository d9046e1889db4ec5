"""Decides for each fetched batch: copy unopened, re-encode, merge, split or reject.

| batch | becomes |
|---|---|
| magic 2, dense, CreateTime, inside the wanted offsets, not above the target's limit | unopened |
| holes, LogAppendTime, or reaching over the wanted offsets | re-encoded |
| larger than the target's ``max.message.bytes`` | re-batched; a single record that is too large is an error |
| a row of tiny ones | merged, since each Produce carries one batch per partition |
| magic 0 or 1 | converted to magic 2 |
| checksum wrong | an error, never copied |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.errors import CorruptBatch, SrmError
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    Packed,
    SourceBatch,
    parse_header,
    unopened,
    verify,
)
from srm_common.wire.batches.codec import LZ4, compress, decompress, library_level
from srm_common.wire.batches.records import rebatch
from srm_common.wire.reencoding.merging import close_row, merge_row, rewrite, small_batches
from srm_common.wire.reencoding.small_batches import SmallBatches

#: A row of batches is merged when its batches are smaller than this on average, in bytes and in records: otherwise
#: walking the records costs more than the requests saved.
TINY_BYTES, TINY_RECORDS = 4096, 40
#: So many batches of the size of the first one have to be in an answer, that one loop over all of them is worth it.
_LEAST_ROW = 16
#: What merged batches grow to (uncompressed), unless the target's limit is lower.
MERGED_BYTES = 128 << 10


def repack(
    batches: Sequence[SourceBatch], first_offset: int, end_offset: int, max_message_bytes: int
) -> Iterator[Packed]:
    """The batches to produce for a row of visible source batches of one partition, in log order.

    ``first_offset`` (inclusive) and ``end_offset`` (exclusive) bound the wanted upstream offsets.

    Raises:
        CorruptBatch: a checksum or layout is wrong. Everything before it was yielded.
        RecordTooLarge: a single record is above ``max_message_bytes``. Everything before it was yielded.
    """
    tiny = _tiny(batches)
    target = min(MERGED_BYTES, max_message_bytes - HEADER_SIZE)
    row_of_holes = batches if isinstance(batches, SmallBatches) and not tiny else None
    dense_ones = () if row_of_holes is None else row_of_holes.dense()
    at = 0
    while at < len(batches):
        if row_of_holes is not None and not dense_ones[at]:
            closed = close_row(row_of_holes, at, first_offset, end_offset, max_message_bytes)
            if closed:
                yield from closed
                at += len(closed)
                continue
        batch = batches[at]
        header, data = batch
        if not tiny and len(data) <= max_message_bytes and header.magic == 2:
            start, count = header.base_offset, header.record_count
            dense = count == header.last_offset_delta + 1
            inside = start >= first_offset and start + count <= end_offset
            if dense and inside and not header.attributes & LOG_APPEND_TIME:
                yield unopened(batch)
                at += 1
                continue
        if header.magic < 2:
            verify(batch)
            yield from rebatch(batch, first_offset, max_message_bytes, end_offset)
            at += 1
            continue
        row: Sequence[SourceBatch] = (batch,)
        if tiny:
            row = _row(batches, at)
            packed, taken = merge_row(row, first_offset, target, end_offset)
        else:
            verify(batch)
            packed, taken = rewrite(batch, first_offset, end_offset), 1
        if packed is not None and packed.size > max_message_bytes:
            for source_batch in row[:taken]:
                yield from rebatch(source_batch, first_offset, max_message_bytes, end_offset)
        elif packed is not None:
            yield packed
        at += taken


def in_a_row(records: memoryview) -> SmallBatches | None:
    """The batches of an answer that seem to be small, or to have holes in LZ4, by the first one; None for others, or
    where some need a look.

    Objects for each of larger batches cost little beside what is done with them.
    """
    size = int.from_bytes(records[8:12], "big")
    small = size < TINY_BYTES and size * _LEAST_ROW <= len(records)
    return small_batches(records) if small or _has_holes(records) else None


def _has_holes(records: memoryview) -> bool:
    """Whether the first batch is in LZ4 and has holes."""
    if len(records) < HEADER_SIZE:
        return False
    header = parse_header(records)
    return header.magic == 2 and header.attributes & (CODEC_MASK | LOG_APPEND_TIME) == LZ4 and not header.dense


def _tiny(batches: Sequence[SourceBatch]) -> bool:
    count = len(batches)
    if isinstance(batches, SmallBatches):
        return count > 1 and len(batches.data) < TINY_BYTES * count and batches.record_count < TINY_RECORDS * count
    return (
        count > 1
        and sum([len(batch.data) for batch in batches]) < TINY_BYTES * count
        and sum([batch.header.record_count for batch in batches]) < TINY_RECORDS * count
    )


def _row(batches: Sequence[SourceBatch], start: int) -> Sequence[SourceBatch]:
    """The batches from ``start`` on that may be merged: those of magic 2, and no more than make one."""
    if isinstance(batches, SmallBatches):
        return batches.row(start, MERGED_BYTES)
    size = 0
    end = start
    while end < len(batches) and size < MERGED_BYTES and batches[end].header.magic >= 2:
        size += len(batches[end].data)
        end += 1
    return batches[start:end]


# Batches in another codec than their producer's, where a flow asks for one (``producer.compression.type``).
#
# What :mod:`srm_common.wire.reencoding.repack` makes of them is compressed again as a whole. The records in it stay as
# they are, byte for byte: deltas of offsets and times, keys, values, headers; so do the batch's times and its number of
# records.


_NO_LIMIT = (1 << 31) - 1


def recompress(
    batches: Sequence[SourceBatch],
    first_offset: int,
    end_offset: int,
    max_message_bytes: int,
    compression: Compression,
) -> Iterator[Packed]:
    """As :func:`srm_common.wire.reencoding.repack.repack`, all in one codec; what has it already continues as it is. A
    batch that is larger than ``max_message_bytes`` in that codec is divided.

    Raises:
        CorruptBatch: as there, or a body that is not what its codec says. Everything before it was yielded.
        RecordTooLarge: a single record is above ``max_message_bytes`` in that codec. Everything before it was yielded.
    """
    codec = COMPRESSION_TYPES.index(compression.codec)
    level = library_level(codec, compression.level)
    done, at = first_offset, 0
    # The limit is on what will be written, not on what was read.
    for packed in repack(batches, first_offset, end_offset, _NO_LIMIT):
        own = packed.attributes & CODEC_MASK
        end = packed.upstream_end
        if own != codec:
            try:
                body = compress(codec, decompress(own, packed.body), level)
            except CorruptBatch as error:
                raise CorruptBatch(f"batch at offset {packed.runs[0][0]}: {error}") from error
            attributes = packed.attributes & ~CODEC_MASK | codec
            packed = packed._replace(attributes=attributes, body=body, reencoded=True, checked=None)
        if packed.size <= max_message_bytes:
            yield packed
        else:
            # From the batches that it was made of: a row of tiny ones is one by now.
            while batches[at].header.next_offset <= done:
                at += 1
            yield from _up_to(_divided(batches[at:], done, max_message_bytes, end, codec, level), end)
        done = end


def _divided(
    batches: Sequence[SourceBatch], first_offset: int, limit: int, end_offset: int, codec: int, level: int | None
) -> Iterator[Packed]:
    for batch in batches:
        yield from rebatch(batch, first_offset, limit, end_offset, codec, level)
        if batch.header.next_offset >= end_offset:
            return


def _up_to(parts: Iterator[Packed], end_offset: int) -> Iterator[Packed]:
    """``parts``, the last of which ends at ``end_offset``: the last batches may have had nothing but holes."""
    last: Packed | None = None
    try:
        for part in parts:
            if last is not None:
                yield last
            last = part
    except SrmError:
        if last is not None:
            yield last
        raise
    if last is not None:
        yield last._replace(upstream_end=end_offset)
