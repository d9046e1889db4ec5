"""Batches of a partition on their way through a transform: taken apart, changed, put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.errors import CorruptBatch, PartitionError, RecordTooLarge, TransformFailed
from srm_common.records.failed import FailedRecords
from srm_common.records.provenance import ProvenanceHeaders
from srm_common.records.transform import RecordFault, Transform
from srm_common.wire.batch import CODEC_MASK, HEADER_SIZE, Packed, SourceBatch
from srm_common.wire.codec import NONE, library_level
from srm_common.wire.columns import decode, encode

#: What is taken apart at a time, in bytes as they lie in the log, unless a single batch has more; and what a batch that
#: is put together may take before compression, unless the target's limit is lower.
PIECE_BYTES, BODY_BYTES = 1 << 20, 512 << 10

#: Takes the number of records that were left out, and their batches for the dead letter topic.
Skip = Callable[[int, Sequence[Packed]], None]


def transformed(
    batches: Sequence[SourceBatch],
    first_offset: int,
    end_offset: int,
    max_message_bytes: int,
    compression: Compression | None,
    skip: Skip,
    transform: Transform,
    failed: FailedRecords,
    provenance: ProvenanceHeaders | None = None,
) -> Iterator[Packed]:
    """What ``transform`` makes of a row of visible batches of one partition, in log order; as
    :func:`srm_common.wire.repack.repack` otherwise. What is dropped leaves gaps between the runs, none of which is
    coarsened.

    Args:
        skip: called with the number of records that were left out since a step could not take them, and with their
            batches for the dead letter topic, before the batch is yielded whose upstream end is behind them, or before
            the end.
        failed: says whether they are left out.
        provenance: headers that what is left gets.

    Raises:
        CorruptBatch: a checksum or layout is wrong. Everything before it was yielded.
        RecordTooLarge: a single record is above ``max_message_bytes`` as it comes out, or above the limit of the dead
            letter topic. Every batch before it was yielded.
        TransformFailed: a step cannot take a record, and it is not left out. Everything before it was yielded.
    """
    body_bytes = min(BODY_BYTES, max_message_bytes - HEADER_SIZE)
    for piece in _pieces(batches):
        fault: PartitionError | None
        records, fault = _decoded(piece)
        if records is not None:
            before = _within(records, first_offset, end_offset)
            records, faults = transform.apply(before)
            if faults and not failed.tolerated:
                records = _within(records, first_offset, faults[0].offset)
                fault, faults = TransformFailed(str(faults[0])), []
            if provenance is not None:
                records = provenance.added(records)
            codec, level = _codec(piece, compression)
            letters = partial(failed.dead_letters, before, codec=codec, body_bytes=body_bytes, level=level)
            skip_before = partial(_skip_before, faults, letters, failed, skip)
            last: Packed | None = None
            packs = encode(records, codec, body_bytes, max_message_bytes, level) if records.num_rows else iter(())
            while True:
                try:
                    packed = next(packs, None)
                except RecordTooLarge as error:
                    fault = error
                    break
                if packed is None:
                    break
                if last is not None:
                    skip_before(last.upstream_end)
                    yield last
                last = packed
            if last is not None:
                if not fault:
                    done = min(end_offset, max(piece[-1].header.next_offset, last.upstream_end))
                    last = last._replace(upstream_end=done)
                skip_before(last.upstream_end)
                yield last
            elif not fault:
                skip_before(end_offset)
        if fault is not None:
            raise fault


def _skip_before(
    faults: list[RecordFault],
    letters: Callable[[Sequence[RecordFault]], Iterator[Packed]],
    failed: FailedRecords,
    skip: Skip,
    end: int,
) -> None:
    """Leave out what failed before ``end``; it is in ``faults`` no longer."""
    due = [one for one in faults if one.offset < end]
    if due:
        skip(len(due), list(letters(due)))
        failed.log(due)
        del faults[: len(due)]


def _pieces(batches: Sequence[SourceBatch]) -> Iterator[list[SourceBatch]]:
    piece: list[SourceBatch] = []
    size = 0
    for batch in batches:
        if piece and size + len(batch.data) > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(batch)
        size += len(batch.data)
    if piece:
        yield piece


def _decoded(piece: Sequence[SourceBatch]) -> tuple[pa.RecordBatch | None, CorruptBatch | None]:
    """The records of the batches up to the first that is corrupt, and what is wrong with that one."""
    try:
        return decode(piece), None
    except CorruptBatch:
        for end, batch in enumerate(piece):
            try:
                decode([batch])
            except CorruptBatch as error:
                return (decode(piece[:end]) if end else None), error
        raise


def _within(records: pa.RecordBatch, first_offset: int, end_offset: int) -> pa.RecordBatch:
    offsets = records.column("offset").to_numpy()
    start, end = np.searchsorted(offsets, (first_offset, end_offset))
    return records.slice(int(start), int(end - start))


def _codec(piece: Sequence[SourceBatch], compression: Compression | None) -> tuple[int, int | None]:
    """The flow's codec, else that of the first compressed batch: producers leave alone what would not shrink."""
    if compression is not None:
        codec = COMPRESSION_TYPES.index(compression.codec)
        return codec, library_level(codec, compression.level)
    own = [batch.header.attributes & CODEC_MASK for batch in piece if batch.header.magic == 2]
    return next((codec for codec in own if codec), NONE), None
