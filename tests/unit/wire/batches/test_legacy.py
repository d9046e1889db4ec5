"""Magic 0 and 1, as kafka-python's builder and old brokers write them, converted to magic 2."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import pytest
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batches.batch import Packed, split, verify
from srm_common.wire.batches.codec import GZIP, LZ4, SNAPPY, compress
from srm_common.wire.batches.records import rebatch
from srm_common.wire.reencoding.repack import repack
from tests.unit.wire.built_batches import Record, check_runs, source_batch, without_offsets, written

PAIRS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v"), (None, b"only value"), (b"", b""), (b"tombstone", None)]
ALL = 1 << 40


def entry(
    offset: int, magic: int, key: bytes | None, value: bytes | None, timestamp: int = -1, attributes: int = 0
) -> bytes:
    """One entry of a log segment, after Kafka's LegacyRecord."""
    text = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        text += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(text) + 4, crc32(text)) + text


def wrapper(
    inner: Sequence[bytes], *, last_offset: int, magic: int, codec: int, timestamp: int = -1, append: bool = False
) -> bytes:
    body = bytes(compress(codec, b"".join(inner)))
    return entry(last_offset, magic, None, body, timestamp, codec | (0x08 if append else 0))


def converted(data: bytes, first: int = 0, end: int = ALL, limit: int = 1 << 20) -> list[Packed]:
    return [packed for packed in repack(list(split(memoryview(data))), first, end, limit)]


def records(packs: Sequence[Packed]) -> list[Record]:
    out: list[Record] = []
    for packed in packs:
        ones = written(packed)
        starts = [start + n for start, length, count in packed.runs for n in range(length) if length == count]
        out.extend(one._replace(offset=at) for one, at in zip(ones, starts, strict=True))
        check_runs(packed, starts)
        assert (packed.attributes, packed.reencoded) == (0, True)
    return out


def library(data: bytes, magic: int) -> list[Record]:
    """What kafka-python's reader sees."""
    return [
        Record(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value)
        for one in LegacyRecordBatch(bytearray(data), magic)
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_entries_of_the_librarys_builder(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for number, (key, value) in enumerate(PAIRS):
        builder.append(50 + number, 1000 - number, key, value)
    packs = converted(bytes(builder.build()))
    assert records(packs) == [
        Record(50 + number, 1000 - number if magic else -1, key, value) for number, (key, value) in enumerate(PAIRS)
    ]
    assert packs[-1].upstream_end == 54


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_set_of_the_librarys_builder(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, GZIP, 1 << 20)
    for number, (key, value) in enumerate(PAIRS):
        builder.append(50 + number if magic == 0 else number, 1000 + number, key, value)
    data = bytearray(builder.build())
    data[:8] = (53).to_bytes(8, "big")  # the broker writes the last record's offset into the wrapper
    expected = library(bytes(data), magic)
    assert [record.offset for record in expected] == [50, 51, 52, 53]
    assert records(converted(bytes(data))) == expected


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_sets_of_every_old_codec(codec: int, magic: int) -> None:
    base = 200 if magic == 0 else 0  # KIP-31: magic 1 counts inside the wrapper
    inner = [entry(base + n, magic, b"k%d" % n, b"v" * 50, 5000 - n) for n in range(20)]
    data = wrapper(inner, last_offset=219, magic=magic, codec=codec, timestamp=5000)
    got = records(converted(data))
    assert got == [Record(200 + n, 5000 - n if magic else -1, b"k%d" % n, b"v" * 50) for n in range(20)]


def test_a_compacted_set_keeps_the_relative_offsets_of_what_is_left() -> None:
    inner = [entry(n, 1, b"k", b"v" * 2000, 7) for n in (0, 3, 9)]
    data = wrapper(inner, last_offset=109, magic=1, codec=GZIP, timestamp=7)
    (packed,) = converted(data)
    assert packed.runs in (((100, 1, 1), (103, 1, 1), (109, 1, 1)), ((100, 10, 3),))
    assert [record.key for record in written(packed)] == [b"k"] * 3
    assert packed.upstream_end == 110


def test_append_time_of_the_wrapper_is_every_records_time() -> None:
    inner = [entry(n, 1, None, b"v", 1000 + n) for n in range(3)]
    data = wrapper(inner, last_offset=2, magic=1, codec=GZIP, timestamp=999_999, append=True)
    assert records(converted(data)) == library(data, 1)
    assert [record.timestamp for record in records(converted(data))] == [999_999] * 3


def test_append_time_of_a_plain_entry_is_its_own() -> None:
    data = entry(4, 1, b"k", b"v", 31, 0x08)
    assert records(converted(data)) == [Record(4, 31, b"k", b"v")]


@pytest.mark.parametrize(
    ("first", "end", "left"),
    [
        (103, ALL, range(103, 110)),
        (0, 105, range(100, 105)),
        (104, 106, range(104, 106)),
        (110, ALL, []),
        (0, 100, []),
    ],
)
def test_only_the_wanted_records_of_a_set(first: int, end: int, left: Sequence[int]) -> None:
    data = wrapper(
        [entry(n, 1, None, b"%d" % n, n) for n in range(10)], last_offset=109, magic=1, codec=GZIP, timestamp=9
    )
    got = records(converted(data, first, end))
    assert [record.offset for record in got] == list(left)


def test_old_and_new_batches_in_one_answer() -> None:
    old = entry(0, 0, b"a", b"1") + entry(1, 1, b"b", b"2", 500)
    new = source_batch([Record(2, 600, b"c", b"3", (("h", None),))])
    packs = converted(old + bytes(new.data))
    assert without_offsets([record for packed in packs for record in written(packed)]) == [
        Record(0, -1, b"a", b"1"),
        Record(0, 500, b"b", b"2"),
        Record(0, 600, b"c", b"3", (("h", None),)),
    ]
    assert [packed.upstream_end for packed in packs][-1] == 3


def test_a_set_larger_than_the_targets_limit_is_cut() -> None:
    inner = [entry(n, 1, None, bytes(1000), 1) for n in range(20)]
    data = wrapper(inner, last_offset=19, magic=1, codec=GZIP, timestamp=1)
    packs = converted(data, limit=5000)
    assert all(packed.size <= 5000 for packed in packs)
    assert [record.offset for record in records(packs)] == list(range(20))


def test_an_old_record_above_the_targets_limit() -> None:
    with pytest.raises(RecordTooLarge, match="the record at offset 8 needs"):
        converted(entry(8, 1, None, bytes(6000), 1), limit=5000)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_flipped_bit_is_found(magic: int) -> None:
    data = bytearray(entry(3, magic, b"key", b"value", 77))
    (good,) = split(memoryview(bytes(data)))
    verify(good)
    data[-2] ^= 4
    with pytest.raises(CorruptBatch, match="batch at offset 3 fails its checksum"):
        converted(bytes(data))


@pytest.mark.parametrize("body", [None, b"no gzip at all"])
def test_a_compressed_set_that_is_none(body: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        converted(entry(3, 1, None, body, 77, GZIP))


@pytest.mark.parametrize("cut", [1, 13, 24])
def test_a_compressed_set_that_ends_inside_an_entry(cut: int) -> None:
    inner = entry(0, 1, b"k", b"v", 1) + entry(1, 1, b"k", b"v", 1)
    data = entry(3, 1, None, bytes(compress(GZIP, inner[:-cut])), 77, GZIP)
    (batch,) = split(memoryview(data))
    with pytest.raises(CorruptBatch, match="offset 3"):
        list(rebatch(batch, 0, 1000))


def test_a_message_inside_a_set_has_a_checksum_of_its_own() -> None:
    inner = bytearray(entry(0, 1, b"k", b"value", 1))
    inner[-1] ^= 1
    data = wrapper([bytes(inner)], last_offset=3, magic=1, codec=GZIP, timestamp=1)
    with pytest.raises(CorruptBatch, match="batch at offset 0 fails its checksum"):
        converted(data)


def test_a_key_longer_than_its_entry() -> None:
    data = bytearray(entry(6, 0, b"key", b"value"))
    data[18:22] = (1000).to_bytes(4, "big")
    data[12:16] = crc32(data[16:]).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="message at offset 6 ends inside its key or value"):
        converted(bytes(data))
