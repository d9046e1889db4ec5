"""Batches in another codec than their producer's, where a flow asks for one (``producer.compression.type``).

What :mod:`srm_common.wire.repack` makes of them is compressed again as a whole. The records in it stay as they are,
byte for byte: deltas of offsets and times, keys, values, headers; so do the batch's times and its number of records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.errors import CorruptBatch, SrmError
from srm_common.wire.batch import CODEC_MASK, SourceBatch
from srm_common.wire.codec import compress, decompress, library_level
from srm_common.wire.packed import Packed
from srm_common.wire.reencode import rebatch
from srm_common.wire.repack import repack

_NO_LIMIT = (1 << 31) - 1


def recompress(
    batches: Sequence[SourceBatch],
    first_offset: int,
    end_offset: int,
    max_message_bytes: int,
    compression: Compression,
) -> Iterator[Packed]:
    """As :func:`srm_common.wire.repack.repack`, all in one codec; what has it already goes on as it is. A batch that is
    larger than ``max_message_bytes`` in that codec is divided.

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
