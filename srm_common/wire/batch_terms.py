"""What a batch in a log adds to a fingerprint (:mod:`srm_common.domain.offsets.fingerprints`).

The checksum of a body follows from that of the batch as the one of a new header does: carried on to no header at all,
it is the body's alone.
"""

from __future__ import annotations

from crc32c import crc32c

from srm_common.domain.offsets.copy_comparison import CopyBatch
from srm_common.domain.offsets.fingerprints import batch_term
from srm_common.wire.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
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


_tuple = tuple.__new__  # what the constructors of named tuples end in, at a fifth of their cost
