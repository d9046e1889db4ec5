"""Batches of our own, read by kafka-python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from srm_common.errors import CorruptBatch
from srm_common.wire.batches import codec
from srm_common.wire.batches.batch import SourceBatch, parse_header, split, stamp
from srm_common.wire.state.plain_records import (
    Newest,
    in_batches,
    newest_of_each_key,
    plain_records,
    read_headers,
    read_plain_records,
    write_headers,
)
from srm_common.wire.varints import Buffer


def test_library_reads_keys_values_and_tombstones() -> None:
    entries = [(b"a", b"1"), (b"bb", None), (b"c" * 300, b""), (b"", b"x" * 70_000)]
    body = plain_records(entries)
    header = stamp(
        attributes=0,
        last_offset_delta=3,
        base_timestamp=1000,
        max_timestamp=1000,
        record_count=4,
        body=body,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    batch = MemoryRecords(bytes(header) + body).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert [(record.key, record.value, record.timestamp) for record in batch] == [
        (key, value, 1000) for key, value in entries
    ]


def _batch(body: Buffer, count: int, attributes: int = 0) -> SourceBatch:
    header = stamp(
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=1000,
        max_timestamp=1000,
        record_count=count,
        body=body,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    data = memoryview(bytes(header) + bytes(body))
    return SourceBatch(parse_header(data), data)


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=300)), min_size=1, max_size=20),
    st.sampled_from(sorted(codec.NAMES)),
)
def test_what_was_written_is_read(entries: list[tuple[bytes, bytes | None]], kind: int) -> None:
    batch = _batch(codec.compress(kind, plain_records(entries)), len(entries), kind)
    assert [tuple(record) for record in read_plain_records(batch)] == [
        (offset, key, value, write_headers(())) for offset, (key, value) in enumerate(entries)
    ]


def test_records_with_headers_written_by_the_library_are_read() -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
    builder.append(timestamp=5, key=b"k", value=b"v", headers=[("h", b"1"), ("h", None)])
    builder.append(timestamp=9, key=None, value=None)
    builder.close()
    (batch,) = split(memoryview(bytes(builder.buffer())))
    first, second = read_plain_records(batch)
    assert (first[:3], read_headers(first.headers)) == ((0, b"k", b"v"), {b"h": b"1"})
    assert (second[:3], read_headers(second.headers)) == ((1, b"", None), {})


def test_a_wrong_checksum_is_refused() -> None:
    batch = _batch(plain_records([(b"k", b"v")]), 1)
    broken = bytearray(batch.data)
    broken[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        list(read_plain_records(SourceBatch(batch.header, memoryview(broken))))


@given(
    st.lists(
        st.tuples(st.binary(max_size=2) | st.binary(min_size=60, max_size=9000), st.none() | st.binary(max_size=9000)),
        min_size=1,
        max_size=200,
    ),
    st.sampled_from(sorted(codec.NAMES)),
)
def test_the_newest_of_each_key_is_kept(entries: list[tuple[bytes, bytes | None]], kind: int) -> None:
    batch = _batch(codec.compress(kind, plain_records(entries)), len(entries), kind)
    found: Newest = {b"before": (1, b"1")}
    newest_of_each_key(batch, found)
    assert found == {b"before": (1, b"1")} | {
        record.key: (record.offset, record.value) for record in read_plain_records(batch)
    }


def test_records_without_a_key_are_passed_over() -> None:
    # Length, attributes, time, offset, no key, one byte of value, no headers.
    found: Newest = {}
    newest_of_each_key(_batch(bytes([14, 0, 0, 0, 1, 2, 65, 0]), 1), found)
    assert found == {}


def test_a_body_that_ends_too_early_is_corrupt() -> None:
    body = plain_records([(b"k", b"v")])
    for wrong, count in ((body[:-3], 1), (body, 2), (body + b"\x00", 1)):
        with pytest.raises(CorruptBatch, match="does not end with its last record"):
            newest_of_each_key(_batch(wrong, count), {})


@given(
    st.lists(st.tuples(st.binary(max_size=30), st.one_of(st.none(), st.binary(max_size=200))), max_size=40),
    st.integers(1, 500),
)
def test_batches_hold_all_in_order_and_no_more_than_they_may(
    entries: list[tuple[bytes, bytes | None]], most: int
) -> None:
    found = list(in_batches(entries, most))
    assert [entry for batch in found for entry in batch] == entries
    assert all(len(batch) == 1 or len(plain_records(batch)) <= most for batch in found)
    assert all(found)
