"""Columns of record batches hold what kafka-python reads, and kafka-python reads what is written from columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batches.batch import HEADER_SIZE, Packed, SourceBatch, parse_header
from srm_common.wire.batches.codec import LZ4, NAMES, NONE
from srm_common.wire.reencoding import columns, record_walk
from tests.unit.wire.built_batches import (
    Record,
    body_of,
    check_runs,
    rows,
    source_batch,
    take_all,
    varint,
    without_offsets,
    written,
)

CODECS = pytest.mark.parametrize("codec", range(5), ids=NAMES.get)
LARGE = 1 << 30


@pytest.fixture(params=["compiled", "plain"])
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    """The loops as numba has them, and as plain Python."""
    if request.param == "compiled":
        if not record_walk.COMPILED:
            pytest.skip("numba is not installed: pip install 'srm-kafka[transforms]'")
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_walk, "COMPILED", False)
        for name, function in list(vars(record_walk).items()):
            if hasattr(function, "py_func"):
                patch.setattr(record_walk, name, function.py_func)
        yield request.param


def seen(records: pa.RecordBatch) -> list[Record]:
    """Columns as records."""
    assert records.schema == columns.SCHEMA
    records.validate(full=True)
    headers = columns.parsed_headers(records)
    headers.validate(full=True)
    named = [tuple((one["key"].decode(), one["value"]) for one in found) for found in headers.to_pylist()]
    return [
        Record(row["offset"], row["timestamp"], row["key"], row["value"], names)
        for row, names in zip(records.to_pylist(), named, strict=True)
    ]


def encoded(records: pa.RecordBatch, **limits: int) -> list[Packed]:
    wanted = {"codec": NONE, "body_bytes": LARGE, "most_bytes": LARGE} | limits
    return list(columns.encode(records, **wanted))


@given(rows())
def test_all_fields_come_and_go(row: tuple[list[SourceBatch], list[Record]]) -> None:
    batches, records = row
    decoded = columns.decode(batches)
    assert seen(decoded) == records
    packs = encoded(decoded)
    assert [offset for packed in packs for offset in without_offsets(written(packed))] == without_offsets(records)
    check_runs(packs[0], [record.offset for record in records])


@given(rows(), st.integers(70, 400), st.sampled_from(range(5)))
def test_batches_keep_within_both_limits(
    row: tuple[list[SourceBatch], list[Record]], body_bytes: int, codec: int
) -> None:
    batches, records = row
    packs: list[Packed] = []
    limit = max(61 + 40 + 20 + sum(len(b or b"") + 30 for b in _parts(record)) for record in records)
    take_all(columns.encode(columns.decode(batches), codec, body_bytes, limit + 100), packs)
    assert [offset for packed in packs for offset in without_offsets(written(packed))] == without_offsets(records)
    assert all(packed.size <= limit + 100 for packed in packs)
    left = [record.offset for record in records]
    for packed in packs:
        here, left = left[: packed.record_count], left[packed.record_count :]
        check_runs(packed, here)
        assert packed.max_timestamp == max(record.timestamp for record in records if record.offset in here)


def _parts(record: Record) -> list[bytes | None]:
    return [record.key, record.value, *(part for name, value in record.headers for part in (name.encode(), value))]


def test_both_ways_give_the_same(loops: str) -> None:
    records = [
        Record(7, -1, None, None),
        Record(8, 0, b"", b"", (("", None), ("", b""), ("ü", b"x" * 200))),
        Record(1 << 30, 1 << 62, b"k" * 70, b"v" * 9000, (("h", b"1"), ("h", b"2"))),
    ]
    batch = source_batch(records, codec=LZ4, base_timestamp=-1)
    decoded = columns.decode([batch])
    assert seen(decoded) == records
    (packed,) = encoded(decoded)
    assert without_offsets(written(packed)) == without_offsets(records)
    assert packed.runs == ((7, 2, 2), (1 << 30, 1, 1))
    assert columns.with_headers(decoded, columns.parsed_headers(decoded)) == decoded


@pytest.mark.parametrize(("at", "lie"), [(57, (1 << 30).to_bytes(4, "big")), (None, varint(1 << 30))])
def test_counts_that_lie_take_no_memory(loops: str, at: int | None, lie: bytes) -> None:
    """The checksum is right: a client wrote so many records, or so many headers."""
    data = bytearray(source_batch([Record(4, 9, b"k", b"v")]).data)
    if at is None:
        text = b"\x00\x00\x00" + varint(1) + b"k" + varint(1) + b"v" + lie
        data[HEADER_SIZE:] = varint(len(text)) + text
        data[8:12] = (len(data) - 12).to_bytes(4, "big")
    else:
        data[at : at + len(lie)] = lie
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match=r"offset 4 (ends inside record 0|has 1073741824 records in \d+ bytes)"):
        columns.decode([SourceBatch(parse_header(data), memoryview(data))])


@given(rows(), st.integers(1, 4))
def test_what_is_left_out_is_a_gap(row: tuple[list[SourceBatch], list[Record]], step: int) -> None:
    batches, records = row
    decoded = columns.decode(batches)
    keep = [index % (step + 1) == 0 for index in range(len(records))]
    kept = [record for record, wanted in zip(records, keep, strict=True) if wanted]
    (packed,) = encoded(decoded.filter(pa.array(keep)))
    assert without_offsets(written(packed)) == without_offsets(kept)
    starts = [start for start, _, _ in packed.runs]
    assert sum(count for _, _, count in packed.runs) == len(kept)
    assert all(length == count for _, length, count in packed.runs)
    assert starts == sorted(starts)


@given(rows())
def test_headers_are_replaced(row: tuple[list[SourceBatch], list[Record]]) -> None:
    batches, records = row
    decoded = columns.decode(batches)
    wanted = [
        [{"key": b"first", "value": None}, *({"key": name.encode(), "value": value} for name, value in record.headers)]
        for record in records
    ]
    changed = columns.with_headers(decoded, pa.array(wanted, columns.HEADERS_TYPE))
    assert [record.headers for record in seen(changed)] == [(("first", None), *record.headers) for record in records]
    assert changed.drop_columns(["header_count", "headers"]) == decoded.drop_columns(["header_count", "headers"])
    none = columns.with_headers(decoded, pa.nulls(len(records), columns.HEADERS_TYPE))
    assert not any(record.headers for record in seen(none))


def test_slices_are_read_where_they_begin(loops: str) -> None:
    records = [Record(n, n, b"k%d" % n, None if n % 2 else b"v%d" % n, (("h", b"%d" % n),) * n) for n in range(9)]
    part = columns.decode([source_batch(records)]).slice(3, 4)
    assert seen(part) == records[3:7]
    (packed,) = encoded(part)
    assert without_offsets(written(packed)) == without_offsets(records[3:7])


def test_a_record_above_the_limit_is_named_after_what_comes_before() -> None:
    records = [Record(5, 0, b"", b"small"), Record(6, 0, b"", bytes(5000)), Record(7, 0, b"", b"small")]
    packs: list[Packed] = []
    with pytest.raises(RecordTooLarge, match=r"the record at offset 6 needs \d+ bytes.*max.message.bytes is 1000"):
        take_all(columns.encode(columns.decode([source_batch(records)]), NONE, LARGE, 1000), packs)
    assert [packed.upstream_end for packed in packs] == [6]


@given(st.binary(max_size=60), st.integers(0, 5))
def test_garbage_is_corrupt_or_a_batch(body: bytes, count: int) -> None:
    _either_way(body, count)


@given(rows(most_batches=1), st.data())
def test_a_damaged_body_is_corrupt_or_a_batch(row: tuple[list[SourceBatch], list[Record]], data: st.DataObject) -> None:
    records = row[1]
    body = bytearray(body_of(records, records[0].offset, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    _either_way(bytes(body[: data.draw(st.integers(0, len(body)))]), len(records))


def _either_way(body: bytes, count: int) -> None:
    """Compiled and plain say the same of a body, and neither reads beyond it."""
    fields = np.full((2, record_walk.FIELDS, count), -7, np.int64)
    plain = getattr(record_walk.walk, "py_func", record_walk.walk)
    assert record_walk.walk(np.frombuffer(body, np.uint8), count, fields[0]) == plain(body, count, fields[1])
    assert (fields[0] == fields[1]).all()


def test_a_bad_checksum_and_a_bad_layout_are_named(loops: str) -> None:
    batch = source_batch([Record(3, 0, b"k", b"v"), Record(4, 0, b"k", b"v")])
    data = bytearray(batch.data)
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="offset 3 fails its checksum"):
        columns.decode([SourceBatch(batch.header, memoryview(data))])
    cut = body_of([Record(3, 0, b"k", b"v")], 3, 0)[:-1]
    with pytest.raises(CorruptBatch, match="offset 3 ends inside record 0 of 1"):
        columns._walked(cut, 1, 3)


@CODECS
def test_every_codec(codec: int) -> None:
    records = [Record(n, n, b"k", b"v" * n) for n in range(100)]
    (packed,) = encoded(columns.decode([source_batch(records, codec=codec)]), codec=codec)
    assert packed.attributes == codec
    assert without_offsets(written(packed)) == without_offsets(records)
