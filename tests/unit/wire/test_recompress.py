"""Batches in another codec: the records stay what they are, for every pair of codecs and whatever else is done."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batch import HEADER_SIZE, SourceBatch, parse_header, split
from srm_common.wire.codec import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress, library_level
from srm_common.wire.packed import Packed
from srm_common.wire.recompress import recompress
from srm_common.wire.repack import repack
from tests.unit.wire.batches import (
    TRANSACTIONAL,
    Record,
    check_runs,
    rows,
    source_batch,
    stamped,
    take_all,
    without_offsets,
    written,
)
from tests.unit.wire.test_legacy import entry, wrapper

ALL = 1 << 62
MIB = 1 << 20
#: What Kafka's producer has.
DEFAULT_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}
WANTED = st.sampled_from([Compression(codec, DEFAULT_LEVELS.get(codec, 0)) for codec in COMPRESSION_TYPES])
CODECS = pytest.mark.parametrize("codec", COMPRESSION_TYPES)
SOURCES = pytest.mark.parametrize("source", range(5), ids=COMPRESSION_TYPES)


def done(
    batches: Sequence[SourceBatch],
    codec: str,
    *,
    first: int = 0,
    limit: int = MIB,
    level: int | None = None,
) -> list[Packed]:
    chosen = DEFAULT_LEVELS.get(codec, 0) if level is None else level
    return list(recompress(batches, first, ALL, limit, Compression(codec, chosen)))


def some(start: int, end: int, size: int = 200) -> list[Record]:
    value = b"v" * size
    return [Record(n, 5000 + 7 * n, b"k%d" % n, value, (("h", None), ("h", b"%d" % n))) for n in range(start, end)]


@SOURCES
@CODECS
def test_only_the_codec_changes(source: int, codec: str) -> None:
    batch = source_batch(some(0, 60), codec=source, attributes=TRANSACTIONAL, producer_id=9)
    (packed,) = done([batch], codec)
    (plain,) = repack([batch], 0, ALL, MIB)
    same = COMPRESSION_TYPES[source] == codec
    assert packed == plain if same else packed.reencoded
    header = parse_header(stamped(packed, TRANSACTIONAL))
    assert header.attributes == COMPRESSION_TYPES.index(codec) | TRANSACTIONAL
    # The records as bytes, deltas of offsets and times among them; then as an independent reader has them.
    assert bytes(decompress(header.attributes & 7, packed.body)) == bytes(decompress(source, batch.data[HEADER_SIZE:]))
    assert written(packed) == some(0, 60)
    assert packed._replace(body=b"", attributes=0, reencoded=False, checked=None) == plain._replace(
        body=b"", attributes=0, checked=None
    )


@given(rows(), WANTED, st.data())
def test_anything_has_the_same_records_afterwards(
    row: tuple[list[SourceBatch], list[Record]], wanted: Compression, draws: st.DataObject
) -> None:
    batches, seen = row
    low, high = batches[0].header.base_offset, batches[-1].header.next_offset
    first = draws.draw(st.one_of(st.just(low), st.integers(low, high)))
    end = draws.draw(st.one_of(st.just(high), st.integers(first, high)))
    limit = draws.draw(st.one_of(st.just(MIB), st.integers(1200, 4000)))  # above any single record of the strategy
    packs = list(recompress(batches, first, end, limit, wanted))
    kept = [record for record in seen if first <= record.offset < end]
    assert without_offsets([one for packed in packs for one in written(packed)]) == without_offsets(kept)
    left = list(kept)
    before = first
    for packed in packs:
        assert packed.size <= limit
        assert packed.attributes & 7 == COMPRESSION_TYPES.index(wanted.codec)
        here, left = left[: packed.record_count], left[packed.record_count :]
        check_runs(packed, [record.offset for record in here])
        assert packed.max_timestamp >= max(record.timestamp for record in here)
        assert before < packed.upstream_end <= end
        before = packed.upstream_end
    # Offsets without records at an end move the position, as in an unopened copy.
    plain = list(repack(batches, first, end, MIB))
    assert [one.upstream_end for one in packs[-1:]] == [one.upstream_end for one in plain[-1:]]


@SOURCES
def test_what_grows_beyond_the_limit_is_divided(source: int) -> None:
    batches = [source_batch(some(0, 300), codec=source), source_batch(some(300, 310), codec=source)]
    packs = done(batches, "none", limit=9000)
    assert all(packed.size <= 9000 for packed in packs)
    assert without_offsets([one for packed in packs for one in written(packed)]) == without_offsets(some(0, 310))
    assert packs[-1].upstream_end == 310


def test_a_row_of_tiny_ones_that_grows_beyond_the_limit_is_divided() -> None:
    batches = [source_batch(some(n, n + 3, 900), codec=ZSTD) for n in range(0, 90, 3)]
    packs = done(batches, "none", limit=4000)
    assert all(packed.size <= 4000 for packed in packs)
    assert without_offsets([one for packed in packs for one in written(packed)]) == without_offsets(some(0, 90, 900))
    at = 0
    for packed in packs:
        assert packed.runs == ((at, packed.record_count, packed.record_count),)
        at = packed.upstream_end
    assert at == 90


def test_what_fits_only_in_the_wanted_codec_is_not_divided() -> None:
    (packed,) = done([source_batch(some(0, 300))], "zstd", limit=9000)
    assert packed.record_count == 300
    # Also a single record that would be refused as it is.
    (packed,) = done([source_batch(some(0, 1, 50_000))], "zstd", limit=9000)
    assert packed.size < 9000


def test_a_record_that_is_too_large_in_the_wanted_codec_comes_after_everything_before_it() -> None:
    batch = source_batch([*some(0, 20), *some(20, 21, 20_000), *some(21, 25)], codec=LZ4)
    found: list[Packed] = []
    with pytest.raises(RecordTooLarge, match="the record at offset 20 needs"):
        take_all(recompress([batch], 0, ALL, 9000, Compression("none")), found)
    assert without_offsets([one for packed in found for one in written(packed)]) == without_offsets(some(0, 20))


@CODECS
@pytest.mark.parametrize("limit", [MIB, 600], ids=["whole", "divided"])
@pytest.mark.parametrize("inner_codec", [0, GZIP, SNAPPY, LZ4])
def test_message_format_v1(codec: str, limit: int, inner_codec: int) -> None:
    pairs = [(b"k%d" % n, b"x" * 150) for n in range(12)]
    if inner_codec:
        inner = [entry(n, 1, key, value, 1000 + n) for n, (key, value) in enumerate(pairs)]
        data = wrapper(inner, last_offset=51, magic=1, codec=inner_codec, timestamp=1011)
    else:
        data = b"".join(entry(40 + n, 1, key, value, 1000 + n) for n, (key, value) in enumerate(pairs))
    packs = done(list(split(memoryview(data))), codec, first=41, limit=limit)
    assert [packed.attributes for packed in packs] == [COMPRESSION_TYPES.index(codec)] * len(packs)
    assert all(packed.size <= limit for packed in packs)
    records = [one for packed in packs for one in written(packed)]
    assert without_offsets(records) == [Record(0, 1000 + n, *pairs[n]) for n in range(1, 12)]
    offsets = [start + n for packed in packs for start, length, _ in packed.runs for n in range(length)]
    assert offsets == list(range(41, 52))
    assert packs[-1].upstream_end == 52


def test_a_body_that_is_not_what_its_codec_says_comes_after_everything_before_it() -> None:
    # With a checksum that is right: its producer wrote it so.
    wrong = source_batch(some(50, 60))
    lying = bytearray(wrong.data)
    lying[22] |= ZSTD
    lying[17:21] = crc32c(bytes(lying[21:])).to_bytes(4, "big")
    batches = [source_batch(some(0, 50)), SourceBatch(parse_header(lying), memoryview(bytes(lying)))]
    found: list[Packed] = []
    with pytest.raises(CorruptBatch, match="batch at offset 50: batch body is not valid zstd"):
        take_all(recompress(batches, 0, ALL, MIB, Compression("gzip", -1)), found)
    assert found[-1].upstream_end == 50


@pytest.mark.parametrize(
    ("codec", "levels"), [("gzip", [-1, 0, 1, 9]), ("lz4", [1, 3, 9, 12, 17]), ("zstd", [-131072, -5, 1, 3, 22])]
)
def test_every_level_of_a_producer_is_read_by_others(codec: str, levels: list[int]) -> None:
    words = [b"word%d " % number for number in range(500)]
    text = [Record(n, n, None, b"".join(random.Random(n).choices(words, k=80))) for n in range(100)]
    sizes = []
    for level in levels:
        (packed,) = done([source_batch(text)], codec, level=level)
        assert written(packed) == text
        sizes.append(packed.size)
    assert len(set(sizes)) > 1


def test_the_producers_default_levels_are_its_own() -> None:
    text = random.Random(1).randbytes(50_000).hex().encode()
    assert library_level(GZIP, -1) == 6
    assert library_level(LZ4, 9) == 1
    assert len(compress(LZ4, text, library_level(LZ4, 9))) > len(compress(LZ4, text, library_level(LZ4, 8)))
    assert library_level(ZSTD, -7) == -7
