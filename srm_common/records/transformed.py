"""Takes the batches of a partition apart, applies a transform to their records, and builds batches again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.errors import CorruptBatch, PartitionError, RecordTooLarge, TransformFailed
from srm_common.records.failed import FailedRecords
from srm_common.records.provenance import ProvenanceHeaders
from srm_common.records.transform import RecordFault, Transform
from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, Packed, SourceBatch
from srm_common.wire.batches.codec import NONE, library_level
from srm_common.wire.reencoding.columns import OpenBatch, encode, opened, records_of

#: How much goes through the transform at a time, unless a single record is larger, and the size of the batches that are
#: built, unless the target's limit is lower; both in bytes before compression.
PIECE_BYTES, BODY_BYTES = 4 << 20, 512 << 10

#: Called with the number of records that were dropped, the number that failed, and the latter's batches for the dead
#: letter topic.
Skip = Callable[[int, int, Sequence[Packed]], None]


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
    """Batches with what ``transform`` makes of consecutive visible batches of one partition, in log order. Otherwise as
    :func:`srm_common.wire.reencoding.repack.repack`, except that each dropped record is a gap between upstream runs:
    none is coarsened.

    Args:
        skip: called before the batch is yielded whose upstream end is behind the records that it is told about, or
            before the end.
        failed: says whether records that a step cannot handle are left out.
        provenance: headers for the records that are left.

    Raises:
        CorruptBatch: a checksum or layout is wrong. Everything before it was yielded.
        RecordTooLarge: a single record is above ``max_message_bytes`` as it comes out, or above the limit of the dead
            letter topic. Every batch before it was yielded.
        TransformFailed: a step cannot handle a record that may not be left out. Everything before it was yielded.
    """
    body_bytes = min(BODY_BYTES, max_message_bytes - HEADER_SIZE)
    for piece in _pieces(batches):
        fault: PartitionError | None = None
        before = _within(piece.records, first_offset, end_offset)
        records, faults = transform.apply(before)
        dropped = _dropped(before, records, faults)
        if faults and not failed.tolerated:
            records = _within(records, first_offset, faults[0].offset)
            fault, faults = TransformFailed(str(faults[0])), []
        if provenance is not None:
            records = provenance.added(records)
        codec, level = piece.codec, None
        if compression is not None:
            codec = COMPRESSION_TYPES.index(compression.codec)
            level = library_level(codec, compression.level)
        letters = partial(failed.dead_letters, before, codec=codec, body_bytes=body_bytes, level=level)
        skip_before = partial(_skip_before, dropped, faults, letters, failed, skip)
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
                last = last._replace(upstream_end=min(end_offset, max(piece.end, last.upstream_end)))
            skip_before(last.upstream_end)
            yield last
        elif not fault:
            skip_before(end_offset)
        if fault is not None:
            raise fault


def _dropped(before: pa.RecordBatch, left: pa.RecordBatch, faults: Sequence[RecordFault]) -> list[int]:
    """The offsets of records that are not there any more and have not failed."""
    if left.num_rows + len(faults) == before.num_rows:
        return []
    kept = np.append(left.column("offset").to_numpy(), [fault.offset for fault in faults])
    dropped: list[int] = np.setdiff1d(before.column("offset").to_numpy(), kept).tolist()
    return dropped


def _skip_before(
    dropped: list[int],
    faults: list[RecordFault],
    letters: Callable[[Sequence[RecordFault]], Iterator[Packed]],
    failed: FailedRecords,
    skip: Skip,
    end: int,
) -> None:
    """Report what was dropped and what failed before ``end``, and remove it from both lists."""
    due = [fault for fault in faults if fault.offset < end]
    gone = bisect_left(dropped, end)
    if due or gone:
        skip(gone, len(due), list(letters(due)) if due else ())
        failed.log(due)
        del faults[: len(due)]
        del dropped[:gone]


class _Piece(NamedTuple):
    """Consecutive records, the offset after them, and the codec of the first compressed batch: producers leave batches
    uncompressed that would not shrink."""

    records: pa.RecordBatch
    end: int
    codec: int


def _pieces(batches: Sequence[SourceBatch]) -> Iterator[_Piece]:
    """The records of the batches, in pieces, up to the first corrupt batch, after which it raises CorruptBatch."""
    row: list[SourceBatch] = []
    bodies: list[OpenBatch] = []
    size = 0
    for batch in batches:
        try:
            body = opened(batch)
        except CorruptBatch:
            yield from _cut(row, bodies)
            raise
        if size + len(body.data) > PIECE_BYTES:
            yield from _cut(row, bodies)
            row, bodies, size = [], [], 0
        row.append(batch)
        bodies.append(body)
        size += len(body.data)
    yield from _cut(row, bodies)


def _cut(row: Sequence[SourceBatch], bodies: Sequence[OpenBatch]) -> Iterator[_Piece]:
    """The records of consecutive batches; those of a large batch in several pieces."""
    if not row:
        return
    codecs = [batch.header.attributes & CODEC_MASK for batch in row if batch.header.magic == 2]
    codec = next((one for one in codecs if one), NONE)
    records, first, done = records_of(bodies), 0, 0
    offsets, ends = records.column("offset").to_numpy(), _ends(records)
    while first < len(ends) and ends[-1] - done > PIECE_BYTES:
        after = max(first + 1, int(np.searchsorted(ends, done + PIECE_BYTES, side="right")))
        yield _Piece(records.slice(first, after - first), int(offsets[after - 1]) + 1, codec)
        first, done = after, int(ends[after - 1])
    yield _Piece(records.slice(first), row[-1].header.next_offset, codec)


def _ends(records: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """For each record, the bytes of all records up to and including it."""
    fields = [pc.fill_null(pc.binary_length(records.column(name)), 0) for name in ("key", "value", "headers")]
    sizes: npt.NDArray[np.int64] = sum(field.to_numpy() for field in fields)
    return np.cumsum(sizes, dtype=np.int64)


def _within(records: pa.RecordBatch, first_offset: int, end_offset: int) -> pa.RecordBatch:
    offsets = records.column("offset").to_numpy()
    start, end = np.searchsorted(offsets, (first_offset, end_offset))
    return records.slice(int(start), int(end - start))
