"""What a batch in a log adds to a fingerprint (:mod:`srm_common.domain.offsets.fingerprints`).

The checksum of a body follows from that of the batch as the one of a new header does: carried on to no header at all,
it is the body's alone.
"""

from __future__ import annotations

from crc32c import crc32c

from srm_common.domain.offsets.copy_comparison import CopyBatch
from srm_common.domain.offsets.fingerprints import batch_term
from srm_common.errors import CorruptBatch
from srm_common.wire.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    Packed,
    SourceBatch,
    carried,
    verify,
)


def packed_term(packed: Packed) -> int:
    """Of a batch that is written; its body is read only where no checksum came with it."""
    attributes, base_timestamp, _, count, body, _, _, _, checked = packed
    crc = crc32c(body) if checked is None else carried(checked[0], checked[1], 0, len(body))
    return batch_term(crc, base_timestamp, count, attributes & CODEC_MASK)


def batch_term_of(batch: SourceBatch) -> int:
    """Of a batch of magic 2 as it lies in the log.

    Raises:
        CorruptBatch: its checksum is wrong.
    """
    verify(batch)
    header, data = batch
    crc = carried(header.crc, crc32c(data[CRC_START:HEADER_SIZE]), 0, len(data) - HEADER_SIZE)
    return batch_term(crc, header.base_timestamp, header.record_count, header.attributes & CODEC_MASK)


def copy_batch(batch: SourceBatch) -> CopyBatch:
    """A batch of a copy, for a comparison with the offset map."""
    header = batch.header
    try:
        term: int | None = batch_term_of(batch)
    except CorruptBatch:
        term = None
    return CopyBatch(
        header.base_offset,
        header.next_offset,
        header.record_count,
        term,
        (header.producer_id, header.producer_epoch),
        header.size,
        bool(header.attributes & DELETE_HORIZON),
    )
