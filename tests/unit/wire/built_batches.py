"""Record batches for tests: a plain writer of magic 2, and kafka-python's reader as the judge of what comes out."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from srm_common.wire.batches.batch import HEADER_SIZE, Packed, SourceBatch, UpstreamRun, parse_header, split, stamp
from srm_common.wire.batches.codec import compress, decompress

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
ABORT, COMMIT = 0, 1

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def varint(value: int) -> bytes:
    """Zig-zag, written without the code under test."""
    value = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _sized(part: bytes | None) -> bytes:
    return varint(-1) if part is None else varint(len(part)) + part


def body_of(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Uncompressed records of a batch."""
    out = bytearray()
    for record in records:
        text = b"\x00" + varint(record.timestamp - base_timestamp) + varint(record.offset - base_offset)
        text += _sized(record.key) + _sized(record.value) + varint(len(record.headers))
        for name, value in record.headers:
            text += _sized(name.encode()) + _sized(value)
        out += varint(len(text)) + text
    return bytes(out)


def batch_bytes(
    records: Sequence[Record],
    *,
    codec: int = 0,
    base_offset: int | None = None,
    next_offset: int | None = None,
    base_timestamp: int | None = None,
    append_time: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
) -> bytes:
    """A whole batch. Offsets may have holes, also before the first record (``base_offset``) and after the last
    one (``next_offset``). With ``append_time`` it is a LogAppendTime batch, as the broker writes them."""
    start = (records[0].offset if records else 0) if base_offset is None else base_offset
    end = (records[-1].offset + 1 if records else start + 1) if next_offset is None else next_offset
    base_time = (records[0].timestamp if records else -1) if base_timestamp is None else base_timestamp
    newest = max((record.timestamp for record in records), default=-1) if append_time is None else append_time
    flags = attributes | codec | (0 if append_time is None else LOG_APPEND_TIME)
    body = bytes(compress(codec, body_of(records, start, base_time)))
    tail = struct.pack(">hiqqqhii", flags, end - start - 1, base_time, newest, producer_id, 0, 0, len(records)) + body
    return struct.pack(">qiibI", start, len(tail) + 9, 7, 2, crc32c(tail)) + tail


def source_batch(
    records: Sequence[Record],
    *,
    codec: int = 0,
    base_offset: int | None = None,
    next_offset: int | None = None,
    base_timestamp: int | None = None,
    append_time: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
) -> SourceBatch:
    """The same as it comes out of a fetch answer."""
    data = batch_bytes(
        records,
        codec=codec,
        base_offset=base_offset,
        next_offset=next_offset,
        base_timestamp=base_timestamp,
        append_time=append_time,
        attributes=attributes,
        producer_id=producer_id,
    )
    return SourceBatch(parse_header(data), memoryview(data))


def marker(offset: int, producer_id: int, kind: int) -> SourceBatch:
    """A control batch that ends a transaction."""
    record = Record(offset, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return source_batch([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def packed(
    *runs: UpstreamRun, end: int | None = None, size: int = 39, newest: int = 1000, again: bool = False
) -> Packed:
    """A batch to be written, of these runs; ``newest``: the time of its newest record, ``again``: it was reencoded."""
    records = sum(run[2] for run in runs)
    last = runs[-1][0] + runs[-1][1]
    return Packed(0, 0, newest, records, bytes(size), runs, last if end is None else end, again)


def stamped(packed: Packed, attributes: int = 0) -> bytes:
    """What the target would be sent."""
    header = stamp(
        attributes=packed.attributes | attributes,
        last_offset_delta=packed.record_count - 1,
        base_timestamp=packed.base_timestamp,
        max_timestamp=packed.max_timestamp,
        record_count=packed.record_count,
        body=packed.body,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
    )
    return bytes(header) + bytes(packed.body)


def read(data: bytes) -> list[Record]:
    """Records of one magic 2 batch, by kafka-python. Only the decompression is not its own: it has no cramjam."""
    whole = DefaultRecordBatch(bytearray(data))
    assert whole.validate_crc()
    header = parse_header(data)
    plain = bytearray(data[:HEADER_SIZE]) + bytes(decompress(header.attributes & 7, data[HEADER_SIZE:]))
    struct.pack_into(">h", plain, 21, header.attributes & ~7)
    struct.pack_into(">i", plain, 8, len(plain) - 12)
    return [
        Record(one.offset, one.timestamp, one.key, one.value, tuple((name, value) for name, value in one.headers))
        for one in DefaultRecordBatch(plain)
    ]


def written(packed: Packed) -> list[Record]:
    """Records of a packed batch, with the downstream offsets 0..n-1; asserts that the batch is dense."""
    data = stamped(packed)
    assert len(data) == packed.size
    (batch,) = split(memoryview(data))
    assert batch.header.dense
    records = read(data)
    assert [record.offset for record in records] == list(range(packed.record_count))
    return records


def check_runs(packed: Packed, offsets: Sequence[int]) -> None:
    """The runs of a packed batch tell where the records with these upstream offsets came from."""
    left = list(offsets)
    previous_end = -1
    for start, length, records in packed.runs:
        assert start >= previous_end
        assert length >= records >= 1
        previous_end = start + length
        here, left = left[:records], left[records:]
        assert here[0] == start
        assert here[-1] == previous_end - 1
        if length == records:
            assert here == list(range(start, start + length))
    assert not left
    assert packed.upstream_end >= previous_end


# ---- random ones

_BYTES = st.one_of(st.none(), st.just(b""), st.binary(max_size=40), st.binary(min_size=100, max_size=300))
_HEADERS = st.lists(st.tuples(st.sampled_from(["", "h", "trace-id", "ü"]), _BYTES), max_size=3).map(tuple)
_TIMES = st.one_of(st.just(-1), st.integers(0, 1 << 41), st.integers(1_700_000_000_000, 1_700_000_100_000))


@st.composite
def rows(draw: st.DrawFn, *, most_batches: int = 4, most_records: int = 12) -> tuple[list[SourceBatch], list[Record]]:
    """Batches of one partition in log order, and the records that a consumer sees in them."""
    batches: list[SourceBatch] = []
    seen: list[Record] = []
    offset = draw(st.integers(0, 3_000_000_000))
    one_codec = draw(st.one_of(st.none(), st.integers(0, 4)))
    for _ in range(draw(st.integers(1, most_batches))):
        base = offset
        gaps = draw(st.sampled_from([0, 0, 3, 200]))
        records = []
        for _ in range(draw(st.integers(1, most_records))):
            offset += draw(st.integers(0, gaps))
            records.append(Record(offset, draw(_TIMES), draw(_BYTES), draw(_BYTES), draw(_HEADERS)))
            offset += 1
        offset += draw(st.integers(0, gaps))
        append_time = draw(st.one_of(st.none(), st.none(), st.integers(0, 1 << 41)))
        batches.append(
            source_batch(
                records,
                codec=draw(st.integers(0, 4)) if one_codec is None else one_codec,
                base_offset=base,
                next_offset=offset,
                base_timestamp=draw(st.one_of(st.none(), _TIMES)),
                append_time=append_time,
                attributes=draw(st.sampled_from([0, TRANSACTIONAL])),
            )
        )
        seen.extend(record if append_time is None else record._replace(timestamp=append_time) for record in records)
        offset += draw(st.integers(0, gaps))
    return batches, seen


def without_offsets(records: Sequence[Record]) -> list[Record]:
    """For comparison where offsets differ by design."""
    return [record._replace(offset=0) for record in records]


def views(*batches: SourceBatch) -> Iterator[SourceBatch]:
    """The batches once more, as one fetch answer brings them."""
    return split(memoryview(b"".join(bytes(batch.data) for batch in batches)))


def take_all(packs: Iterable[Packed], into: list[Packed]) -> None:
    """What comes before an error is in ``into`` (``list.extend`` does not promise that)."""
    for packed in packs:
        into.append(packed)


def some(offsets: Sequence[int], size: int = 20) -> list[Record]:
    return [
        Record(
            offset,
            1_700_000_000_000 + (-offset if offset % 2 else offset),
            b"k%d" % offset,
            b"v" * size,
            (("h", b"%d" % offset),),
        )
        for offset in offsets
    ]


def wanted(seen: Sequence[Record], first: int, last: int | None) -> list[Record]:
    return [record for record in seen if record.offset >= first and (last is None or record.offset < last)]


def judge(packs: Sequence[Packed], expected: Sequence[Record]) -> None:
    left = list(expected)
    end = -1
    for packed in packs:
        records = written(packed)
        here, left = left[: len(records)], left[len(records) :]
        assert without_offsets(records) == without_offsets(here)
        check_runs(packed, [record.offset for record in here])
        assert packed.max_timestamp >= max(record.timestamp for record in records)
        assert packed.runs[0][0] >= end
        end = packed.upstream_end
    assert not left
