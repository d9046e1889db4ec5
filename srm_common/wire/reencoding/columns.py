"""Record batches as columns and back, without a Python object for each record.

The columns are Arrow's. Headers stay as they lie in the log (their number, and their bytes one after the other), so
that whoever does not look into headers does not pay for them:

    offset int64 | timestamp int64 | key binary | value binary | header_count int32 | headers binary

Offsets are upstream offsets: rows that are missing between two of them were dropped, and are a gap in the offset map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batches.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    Packed,
    SourceBatch,
    UpstreamRun,
    verify,
)
from srm_common.wire.batches.codec import NONE, compress, decompress
from srm_common.wire.batches.records import legacy_records, pack
from srm_common.wire.reencoding import record_walk
from srm_common.wire.reencoding.record_walk import (
    CONTENT_AT,
    CONTENT_LENGTH,
    FIELDS,
    HEADER_COUNT,
    HEADER_FIELDS,
    HEADERS_AT,
    HEADERS_LENGTH,
    KEY_AT,
    KEY_LENGTH,
    LEAST_RECORD,
    NAME_AT,
    NAME_LENGTH,
    OFFSET_DELTA,
    TIME_DELTA,
    VALUE_AT,
    VALUE_LENGTH,
    Bytes,
    Ints,
    Offsets,
)
from srm_common.wire.varints import Buffer, write_varint

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("header_count", pa.int32(), nullable=False),
        pa.field("headers", pa.binary(), nullable=False),
    ]
)
_NULL = write_varint(-1)
#: What a record takes beside its fields at most: its own length and its offset delta.
_RECORD_OVERHEAD = 10


class OpenBatch(NamedTuple):
    """One batch without its compression: where the fields of its records are, and what they count from."""

    data: Bytes
    fields: Ints
    offsets: Ints
    timestamps: Ints


def decode(batches: Sequence[SourceBatch]) -> pa.RecordBatch:
    """The records of batches of any magic, in order, with the timestamps that a consumer sees. Raises as
    :func:`opened`."""
    return records_of([opened(batch) for batch in batches])


def records_of(bodies: Sequence[OpenBatch]) -> pa.RecordBatch:
    """The records of opened batches, in order."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array(_joined([body.offsets for body in bodies])),
            pa.array(_joined([body.timestamps for body in bodies])),
            _gathered(bodies, KEY_AT, KEY_LENGTH),
            _gathered(bodies, VALUE_AT, VALUE_LENGTH),
            pa.array(_joined([body.fields[HEADER_COUNT] for body in bodies]).astype(np.int32)),
            _gathered(bodies, HEADERS_AT, HEADERS_LENGTH),
        ],
        schema=SCHEMA,
    )


def opened(batch: SourceBatch) -> OpenBatch:
    """A batch of any magic, without its compression.

    Raises:
        CorruptBatch: its checksum or its layout is wrong.
    """
    verify(batch)
    header = batch.header
    if header.magic < 2:
        records = list(legacy_records(batch))
        data, fields = _walked(pack(records, NONE).body, len(records), header.base_offset)
        offsets = np.array([record.offset for record in records], np.int64)
        return OpenBatch(data, fields, offsets, np.array([record.timestamp for record in records], np.int64))
    count = header.record_count
    body = decompress(header.attributes & CODEC_MASK, batch.data[HEADER_SIZE:])
    data, fields = _walked(body, count, header.base_offset)
    if header.attributes & LOG_APPEND_TIME:
        timestamps = np.full(count, header.max_timestamp, np.int64)
    else:
        timestamps = fields[TIME_DELTA] + header.base_timestamp
    return OpenBatch(data, fields, fields[OFFSET_DELTA] + header.base_offset, timestamps)


def _walked(body: Buffer, count: int, base_offset: int) -> tuple[Bytes, Ints]:
    if count < 0:
        raise CorruptBatch(f"batch at offset {base_offset} has {count} records")
    if count * LEAST_RECORD > len(body):
        raise CorruptBatch(f"batch at offset {base_offset} has {count} records in {len(body)} bytes")
    data = np.frombuffer(body, np.uint8)
    fields = np.empty((FIELDS, count), np.int64)
    fault = record_walk.walk(data if record_walk.COMPILED else bytes(body), count, fields)
    if fault >= 0:
        raise CorruptBatch(f"batch at offset {base_offset} ends inside record {fault} of {count}")
    return data, fields


def _joined(arrays: Sequence[Ints]) -> Ints:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _gathered(bodies: Sequence[OpenBatch], at: int, length: int) -> pa.Array:
    """One field of all records, as Arrow's binary; null where the length is -1."""
    lengths = _joined([body.fields[length] for body in bodies])
    nulls = lengths < 0
    some_null = bool(nulls.any())
    offsets = _offsets(np.maximum(lengths, 0) if some_null else lengths)
    out = np.empty(offsets[-1], np.uint8)
    first = 0
    for data, fields, _, _ in bodies:
        end = first + fields.shape[1]
        if offsets[end] > offsets[first]:
            _gather(data, fields[at], fields[length], offsets[first:end], out)
        first = end
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if some_null else None
    return pa.Array.from_buffers(pa.binary(), len(lengths), [valid, pa.py_buffer(offsets), pa.py_buffer(out)])


def _gather(data: Bytes, at: Ints, lengths: Ints, offsets: Offsets, out: Bytes) -> None:
    if record_walk.COMPILED:
        record_walk.gather(data, at, lengths, offsets, out)
        return
    body = data.tobytes()
    pieces = b"".join([body[a : a + n] for a, n in zip(at.tolist(), lengths.tolist(), strict=True) if n > 0])
    out[offsets[0] : offsets[0] + len(pieces)] = np.frombuffer(pieces, np.uint8)


def encode(
    records: pa.RecordBatch, codec: int, body_bytes: int, most_bytes: int, level: int | None = None
) -> Iterator[Packed]:
    """Batches of these records, in order, under magic 2 with CreateTime.

    Args:
        records: as :data:`SCHEMA` has them; at least one, offsets ascending.
        codec: to compress with.
        body_bytes: what a batch may take before compression; a single record may take more.
        most_bytes: what a batch may take on the target, header included.
        level: of the codec, in the library's numbers.

    Raises:
        RecordTooLarge: a single record takes more than ``most_bytes``. Everything before it was yielded.
    """
    columns = _Columns(records)
    room = max(1, body_bytes)
    ends = np.cumsum(columns.sizes + _RECORD_OVERHEAD)
    first, count = 0, len(ends)
    while first < count:
        done = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, done + room, side="right")))
        yield from columns.within(first, end, codec, most_bytes, level)
        first = end


class _Columns:
    """The columns of a record batch as the loops take them. All batches of it count times from its first record."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self._offsets: Ints = records.column(0).to_numpy()
        self._timestamps: Ints = records.column(1).to_numpy()
        self._base = int(self._timestamps[0])
        self._times = self._timestamps - self._base
        self._key, self._value, self._headers = (_binary(records.column(index)) for index in (2, 3, 5))
        self._header_counts = records.column(4).to_numpy().astype(np.int64)
        self.sizes = np.empty(len(self._offsets), np.int64)
        lengths = (self._key.lengths, self._value.lengths, self._headers.lengths)
        record_walk.sizes(self._times, *lengths, self._header_counts, self.sizes)

    def within(self, first: int, end: int, codec: int, most_bytes: int, level: int | None) -> Iterator[Packed]:
        """The rows ``first`` to ``end`` (exclusive) as one batch, or halved until each takes no more than the limit."""
        packed = self._packed(first, end, codec, level)
        if packed.size <= most_bytes:
            yield packed
            return
        if end - first == 1:
            raise RecordTooLarge(
                f"the record at offset {self._offsets[first]} needs {packed.size} bytes, "
                f"but the target topic's max.message.bytes is {most_bytes}"
            )
        middle = (first + end) // 2
        yield from self.within(first, middle, codec, most_bytes, level)
        yield from self.within(middle, end, codec, most_bytes, level)

    def _packed(self, first: int, end: int, codec: int, level: int | None) -> Packed:
        body = np.empty(int(self.sizes[first:end].sum()) + _RECORD_OVERHEAD * (end - first), np.uint8)
        size = record_walk.write(
            body, first, end, self.sizes, self._times, *self._key, *self._value, *self._headers, self._header_counts
        )
        return Packed(
            codec,
            self._base,
            int(self._timestamps[first:end].max()),
            end - first,
            compress(codec, body[:size].data, level),
            runs_of(self._offsets[first:end]),
            int(self._offsets[end - 1]) + 1,
            True,
        )


class _Binary(NamedTuple):
    """A column of bytes: where each begins, its length (-1 for null), and all bytes."""

    at: Offsets
    lengths: Ints
    data: Bytes


def _binary(column: pa.Array) -> _Binary:
    _, offsets, data = column.buffers()
    at = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(at).astype(np.int64)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    empty = data is None or not data.size
    return _Binary(at, lengths, np.empty(0, np.uint8) if empty else np.frombuffer(data, np.uint8))


def runs_of(offsets: npt.NDArray[np.int64]) -> tuple[UpstreamRun, ...]:
    """Ascending offsets as dense runs, none of which touches the next."""
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    if not len(breaks):
        return ((int(offsets[0]), len(offsets), len(offsets)),)
    starts = np.concatenate(([0], breaks))
    lengths = np.diff(np.append(starts, len(offsets))).tolist()
    return tuple(zip(offsets[starts].tolist(), lengths, lengths, strict=True))


HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())]))
"""Headers as whoever looks into them has them; names may occur more than once, and are UTF-8 only by convention."""


def parsed_headers(records: pa.RecordBatch) -> pa.ListArray:
    """The headers of records as :data:`HEADERS_TYPE`.

    Raises:
        CorruptBatch: headers that cannot be read.
    """
    counts = records.column(4).to_numpy().astype(np.int64)
    raw = _binary(records.column(5))
    fields = np.empty((HEADER_FIELDS, int(counts.sum())), np.int64)
    data = raw.data if record_walk.COMPILED else raw.data.tobytes()
    fault = record_walk.walk_headers(data, raw.at, counts, fields)
    if fault >= 0:
        raise CorruptBatch(f"the headers of the record at offset {records.column(0)[fault]} cannot be read")
    body = [OpenBatch(raw.data, fields, counts, counts)]
    names = _gathered(body, NAME_AT, NAME_LENGTH)
    structs = pa.StructArray.from_arrays(
        [names, _gathered(body, CONTENT_AT, CONTENT_LENGTH)], fields=list(HEADERS_TYPE.value_type)
    )
    return pa.ListArray.from_arrays(_offsets(counts), structs, type=HEADERS_TYPE)


def with_headers(records: pa.RecordBatch, headers: pa.ListArray) -> pa.RecordBatch:
    """The records with these headers instead of theirs; ``headers`` as :data:`HEADERS_TYPE`, null for none."""
    counts = np.diff(headers.offsets.to_numpy()).astype(np.int64)
    if headers.null_count:
        headers = headers.fill_null([])
        counts = np.diff(headers.offsets.to_numpy()).astype(np.int64)
    structs = headers.flatten()
    name, content = _binary(structs.field(0).view(pa.binary())), _binary(structs.field(1))
    sizes = np.empty(len(structs), np.int64)
    record_walk.header_sizes(name.lengths, content.lengths, sizes)
    ends = _offsets(sizes)
    data = np.empty(ends[-1], np.uint8)
    record_walk.write_headers(data, *name, *content)
    at = ends[_offsets(counts)]
    raw = pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(at), pa.py_buffer(data)])
    return records.set_column(4, SCHEMA[4], pa.array(counts.astype(np.int32))).set_column(5, SCHEMA[5], raw)


def more_headers(records: pa.RecordBatch, added: int | npt.NDArray[np.int32], *encoded: Any) -> pa.RecordBatch:
    """The records with more headers behind their own, which stay byte for byte.

    Args:
        added: how many each record gets.
        encoded: what they are in a log (:func:`encoded_header`), in pieces: binary scalars for what is the same for all
            records, otherwise arrays.
    """
    counts = records.column("header_count").to_numpy() + np.asarray(added, np.int32)
    raw = pc.binary_join_element_wise(records.column("headers"), *encoded, pa.scalar(b"", pa.binary()))
    return pa.RecordBatch.from_arrays([*records.columns[:-2], pa.array(counts), raw], schema=SCHEMA)


def _offsets(lengths: Ints) -> Offsets:
    """Where pieces of these lengths begin one after the other, and where the last one ends."""
    out = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=out[1:])
    return out


def encoded_header(name: str, value: bytes | None) -> bytes:
    """One header as it lies in a record."""
    text = name.encode()
    return b"".join(
        (
            write_varint(len(text)),
            text,
            *((_NULL,) if value is None else (write_varint(len(value)), value)),
        )
    )
