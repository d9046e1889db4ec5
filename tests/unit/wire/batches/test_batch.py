"""Headers, splitting, checksums, stamping."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import (
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    SourceBatch,
    carried,
    parse_header,
    split,
    stamp,
    unopened,
    verify,
)
from srm_common.wire.batches.visibility import control_type
from tests.unit.wire.built_batches import ABORT, COMMIT, Record, batch_bytes, marker, source_batch

# One record: key "k", value "v", header "h" without a value, timestamp 1700000000000, offset 42, leader epoch 3,
# producer id 9, epoch 1, sequence 5, transactional. Laid out by hand after Kafka's DefaultRecordBatch.
VECTOR = bytes.fromhex(
    "000000000000002a"  # base offset
    "0000003d"  # length
    "00000003"  # leader epoch
    "02"  # magic
    "d0f7281b"  # crc
    "0010"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe56800"  # base timestamp
    "0000018bcfe56800"  # max timestamp
    "0000000000000009"  # producer id
    "0001"  # producer epoch
    "00000005"  # base sequence
    "00000001"  # record count
    "16"  # record length 11
    "00000002"  # attributes, timestamp delta, offset delta, key length
    "6b0276"  # key, value length, value
    "02026801"  # one header: name length 1, "h", null
)


def test_header_of_a_batch_written_by_hand() -> None:
    header = parse_header(VECTOR)
    assert header.base_offset == 42
    assert header.leader_epoch == 3
    assert header.magic == 2
    assert header.attributes == TRANSACTIONAL
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 5)
    assert header.record_count == 1
    assert header.size == len(VECTOR)
    assert header.next_offset == 43
    assert header.dense


def test_the_hand_written_batch_is_what_kafka_python_reads() -> None:
    batch = DefaultRecordBatch(bytearray(VECTOR))
    assert batch.validate_crc()
    (record,) = list(batch)
    assert (record.offset, record.key, record.value) == (42, b"k", b"v")
    assert [tuple(header) for header in record.headers] == [("h", None)]
    verify(SourceBatch(parse_header(VECTOR), memoryview(VECTOR)))


def test_header_of_a_batch_by_kafka_pythons_builder() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=True, producer_id=11, producer_epoch=2, base_sequence=30,
        batch_size=1 << 20,
    )  # fmt: skip
    for number in range(3):
        assert builder.append(number, 1000 - number, b"key", None, [("a", b"1"), ("a", None)]) is not None
    data = bytes(builder.build())
    (batch,) = split(memoryview(data))
    verify(batch)
    header = batch.header
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (11, 2, 30)


def test_holes_make_a_batch_not_dense() -> None:
    record = Record(7, 0, None, None)
    assert not source_batch([record], base_offset=5).header.dense
    assert not source_batch([record], next_offset=9).header.dense
    assert source_batch([record], next_offset=9).header.next_offset == 9


# ---- split


def three() -> list[bytes]:
    return [batch_bytes([Record(number, 5, b"k" * number, b"v" * 50)]) for number in range(3)]


def test_split_gives_views_not_copies() -> None:
    data = bytearray(b"".join(three()))
    first, *_ = split(memoryview(data))
    data[HEADER_SIZE] ^= 0xFF
    assert first.data[HEADER_SIZE] == data[HEADER_SIZE]


@pytest.mark.parametrize("missing", [1, 8, 16, 17, 45, 60, 61, 100])
def test_a_batch_that_the_broker_cut_short_is_left_out(missing: int) -> None:
    ones = three()
    whole = b"".join(ones)
    missing = min(missing, len(ones[2]))
    batches = list(split(memoryview(whole[: len(whole) - missing])))
    assert [bytes(batch.data) for batch in batches] == ones[:2]


def test_every_length_of_a_cut_answer_gives_the_complete_batches() -> None:
    ones = three()
    whole = b"".join(ones)
    edges = [len(b"".join(ones[:n])) for n in range(4)]
    for length in range(len(whole) + 1):
        batches = list(split(memoryview(whole[:length])))
        assert len(batches) == max(n for n in range(4) if edges[n] <= length)


def test_nothing_is_in_an_empty_answer() -> None:
    assert list(split(memoryview(b""))) == []


@pytest.mark.parametrize("length", [-12, -1, 0, 48])
def test_impossible_lengths_are_corrupt(length: int) -> None:
    data = bytearray(three()[0])
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch, match=f"offset 0 has the impossible length {length}"):
        list(split(memoryview(data)))


@pytest.mark.parametrize("length", [-12, -1, 0, 13])
def test_impossible_lengths_of_old_entries_are_corrupt(length: int) -> None:
    data = bytearray(100)
    data[8:12] = length.to_bytes(4, "big", signed=True)
    data[16] = 1
    with pytest.raises(CorruptBatch, match=f"impossible length {length}"):
        list(split(memoryview(data)))


def test_unknown_magic_is_corrupt() -> None:
    data = bytearray(three()[0])
    data[16] = 3
    with pytest.raises(CorruptBatch, match="magic 3"):
        list(split(memoryview(data)))


# ---- checksums and stamping


def test_one_flipped_bit_anywhere_behind_the_checksum_is_found() -> None:
    good = three()[2]
    verify(SourceBatch(parse_header(good), memoryview(good)))
    for at in range(17, len(good)):
        bad = bytearray(good)
        bad[at] ^= 0x10
        batch = SourceBatch(parse_header(bad), memoryview(bad))
        with pytest.raises(CorruptBatch, match="batch at offset 2 fails its checksum"):
            verify(batch)


@given(
    attributes=st.integers(0, 0x7F),
    base_timestamp=st.integers(-1, 1 << 62),
    producer=st.tuples(st.integers(-1, 1 << 62), st.integers(-1, 32767), st.integers(-1, (1 << 31) - 1)),
    body=st.binary(max_size=200),
)
def test_stamped_header_says_what_it_was_given(
    attributes: int, base_timestamp: int, producer: tuple[int, int, int], body: bytes
) -> None:
    data = bytes(
        stamp(
            attributes=attributes,
            last_offset_delta=8,
            base_timestamp=base_timestamp,
            max_timestamp=base_timestamp + 1,
            record_count=9,
            body=memoryview(body),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
    )
    header = parse_header(data)
    assert len(data) == HEADER_SIZE
    assert header.size == HEADER_SIZE + len(body)
    assert (header.base_offset, header.leader_epoch, header.magic) == (0, -1, 2)
    assert header.attributes == attributes & ~0x60  # neither control nor delete horizon
    assert (header.base_timestamp, header.max_timestamp) == (base_timestamp, base_timestamp + 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert (header.record_count, header.last_offset_delta) == (9, 8)
    assert DefaultRecordBatch(bytearray(data + body)).validate_crc()


# ---- control records


def test_the_checksum_of_an_unopened_body_is_carried_on() -> None:
    batch = source_batch([Record(7 + n, 1000 + n, b"key", b"value") for n in range(20)], codec=3, producer_id=5)
    packed = unopened(batch)
    fields = (TRANSACTIONAL | packed.attributes, 19, 1000, 1019, 20, packed.body, 77, 3, 1234)
    assert stamp(*fields, packed.checked) == stamp(*fields)
    hurt = bytearray(packed.body)
    hurt[-1] ^= 1
    again = stamp(*fields, packed.checked) + hurt
    with pytest.raises(CorruptBatch, match="fails its checksum"):
        verify(SourceBatch(parse_header(again), memoryview(again)))


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_type_of_a_marker(kind: int) -> None:
    batch = marker(99, 7, kind)
    assert batch.header.attributes & CONTROL
    assert control_type(batch) == kind


HEADERS = st.binary(min_size=40, max_size=40)


@given(old=HEADERS, new=HEADERS, body=st.binary(max_size=5000))
def test_any_headers_and_body(old: bytes, new: bytes, body: bytes) -> None:
    assert carried(crc32c(old + body), crc32c(old), crc32c(new), len(body)) == crc32c(new + body)
    assert carried(crc32c(old + body), crc32c(old), 0, len(body)) == crc32c(body)


@pytest.mark.parametrize(
    "length", [0, 1, 15, 16, 17, 4096, 65_535, 1 << 20, (1 << 24) - 1, 1 << 24, (1 << 24) + 7, 20 << 20]
)
def test_any_length(length: int) -> None:
    chance = random.Random(length)
    old, new, body = chance.randbytes(40), chance.randbytes(40), chance.randbytes(length)
    assert carried(crc32c(old + body), crc32c(old), crc32c(new), length) == crc32c(new + body)


@given(body=st.binary(min_size=1, max_size=200), bit=st.integers(0, 1599))
def test_a_flipped_bit_stays_visible(body: bytes, bit: int) -> None:
    old, new = bytes(40), bytes(range(40))
    crc = carried(crc32c(old + body), crc32c(old), crc32c(new), len(body))
    hurt = bytearray(body)
    hurt[bit // 8 % len(body)] ^= 1 << bit % 8
    assert crc != crc32c(new + hurt)
