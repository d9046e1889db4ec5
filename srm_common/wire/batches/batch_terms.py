"""What a batch in a log adds to a fingerprint (:mod:`srm_common.domain.offsets.fingerprints`).

The checksum of a body follows from that of the batch as the one of a new header does: carried on to no header at all,
it is the body's alone.
"""

from __future__ import annotations

from crc32c import crc32c

from srm_common.domain.offsets.fingerprints import batch_term, offset_factor
from srm_common.domain.verification.copy_batch import BatchRow, CopyBatch
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    Packed,
    SourceBatch,
    carried,
)


def packed_term(packed: Packed) -> int:
    """Of a batch that is written; its body is read only where no checksum came with it."""
    attributes, base_timestamp, _, count, body, _, _, _, checked = packed
    crc = crc32c(body) if checked is None else carried(checked[0], checked[1], 0, len(body))
    return batch_term(crc, base_timestamp, count, attributes & CODEC_MASK)


def copy_batch(batch: SourceBatch) -> CopyBatch:
    """A batch of a copy, for a comparison with the offset map. One of magic 0 or 1, which no flow writes, has no term
    as one whose checksum is wrong."""
    header, data = batch
    (first, _, _, magic, crc, attributes, delta, base_timestamp, _, producer, epoch, _, count) = header
    size = len(data)
    header_crc = crc32c(data[CRC_START:HEADER_SIZE])
    if magic == 2 and crc32c(data[HEADER_SIZE:], header_crc) == crc:
        body_crc = carried(crc, header_crc, 0, size - HEADER_SIZE)
        term: int | None = batch_term(body_crc, base_timestamp, count, attributes & CODEC_MASK)
    else:
        term = None
    thinned = attributes & DELETE_HORIZON != 0
    return _tuple(CopyBatch, (first, first + delta + 1, count, term, (producer, epoch), size, thinned))


def batch_row(records: memoryview, position: int, end: int) -> BatchRow:
    """The batches from byte ``position`` on that follow one another up to the offset ``end``, added up: what they come
    to one by one, at half the cost. None of them has a hole, another producer or a wrong checksum."""
    total, start, unpack = len(records), position, HEADER.unpack_from
    at = producer = epoch = -1
    digest = content = 0
    terms: dict[int, int] = {}
    while total - position >= HEADER_SIZE:
        fields = unpack(records, position)
        (first, length, _, magic, crc, attributes, delta, base_timestamp, _, own, own_epoch, _, count) = fields
        if not terms:
            at, producer, epoch = first, own, own_epoch
        following, until = first + count, position + length + LENGTH_OVERHEAD
        if (
            first != at
            or following > end
            or count != delta + 1
            or count < 1
            or own != producer
            or own_epoch != epoch
            or attributes & _NOT_IN_A_ROW
            or magic != 2
            or not position + HEADER_SIZE <= until <= total
        ):
            break
        body = position + HEADER_SIZE
        header_crc = crc32c(records[position + CRC_START : body])
        if crc32c(records[body:until], header_crc) != crc:
            break
        term = batch_term(carried(crc, header_crc, 0, until - body), base_timestamp, count, attributes & CODEC_MASK)
        digest += term * offset_factor(first)
        content += term
        terms[term] = first
        at, position = following, until
    return BatchRow(at, (producer, epoch), position - start, digest, content, terms)


#: Markers, and what the log cleaner has written.
_NOT_IN_A_ROW = CONTROL | DELETE_HORIZON

_tuple = tuple.__new__  # what the constructors of named tuples end in, at a fifth of their cost
