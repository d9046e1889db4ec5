"""What happens to each batch: every row of the table in the module under test, and anything mixed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batches.batch import HEADER_SIZE, Packed, SourceBatch, parse_header, split
from srm_common.wire.batches.codec import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress, library_level
from srm_common.wire.reencoding.repack import MERGED_BYTES, TINY_BYTES, recompress, repack
from tests.unit.wire.batches.test_legacy import entry, wrapper
from tests.unit.wire.built_batches import (
    TRANSACTIONAL,
    Record,
    check_runs,
    rows,
    source_batch,
    stamped,
    take_all,
    views,
    without_offsets,
    written,
)

ALL = 1 << 62
MIB = 1 << 20


def ones(start: int, count: int, size: int = 500, time: int = 1000) -> list[Record]:
    return [Record(n, time + n, b"k", bytes(size)) for n in range(start, start + count)]


def done(batches: Sequence[SourceBatch], first: int = 0, end: int = ALL, limit: int = MIB) -> list[Packed]:
    return list(repack(batches, first, end, limit))


def damaged(batch: SourceBatch) -> SourceBatch:
    data = bytearray(batch.data)
    data[-1] ^= 1
    return SourceBatch(parse_header(data), memoryview(data))


def contents(packs: Sequence[Packed]) -> list[Record]:
    return without_offsets([record for packed in packs for record in written(packed)])


def test_a_dense_batch_inside_the_wanted_offsets_goes_unopened() -> None:
    batch = source_batch(ones(10, 100), codec=3)
    for first, end in ((0, ALL), (10, 110)):
        (packed,) = done([batch], first, end)
        assert not packed.reencoded
        assert bytes(packed.body) == bytes(batch.data[61:])
        assert packed.runs == ((10, 100, 100),)


def test_several_of_them_go_unopened_one_by_one() -> None:
    batches = [source_batch(ones(n, 100)) for n in (0, 100, 200)]
    assert [(packed.reencoded, packed.upstream_end) for packed in done(batches)] == [
        (False, 100),
        (False, 200),
        (False, 300),
    ]


def test_a_batch_exactly_as_large_as_the_limit_goes_unopened() -> None:
    batch = source_batch(ones(0, 100))
    assert [packed.reencoded for packed in done([batch], limit=len(batch.data))] == [False]
    assert len(done([batch], limit=len(batch.data) - 1)) == 2


def test_holes_are_reencoded() -> None:
    batch = source_batch([*ones(0, 50), *ones(60, 50)])
    (packed,) = done([batch])
    assert packed.reencoded
    assert packed.record_count == 100
    check_runs(packed, [*range(50), *range(60, 110)])
    assert contents([packed]) == without_offsets([*ones(0, 50), *ones(60, 50)])


def test_a_hole_at_an_end_is_reencoded_too() -> None:
    for batch in (source_batch(ones(5, 100), base_offset=4), source_batch(ones(5, 100), next_offset=106)):
        (packed,) = done([batch])
        assert packed.reencoded
        assert packed.upstream_end == batch.header.next_offset


def test_append_time_is_reencoded() -> None:
    (packed,) = done([source_batch(ones(0, 100), append_time=77)])
    assert packed.reencoded
    assert {record.timestamp for record in written(packed)} == {77}


def test_what_reaches_over_the_wanted_offsets_is_reencoded() -> None:
    batch = source_batch(ones(0, 100))
    (packed,) = done([batch], first=1)
    assert (packed.reencoded, packed.runs, packed.upstream_end) == (True, ((1, 99, 99),), 100)
    (packed,) = done([batch], end=99)
    assert (packed.reencoded, packed.runs, packed.upstream_end) == (True, ((0, 99, 99),), 99)


def test_nothing_comes_of_a_batch_that_is_not_wanted() -> None:
    assert done([source_batch(ones(0, 10)), source_batch(ones(10, 10))], first=20) == []
    assert done([source_batch(ones(30, 10))], end=30) == []


def test_a_batch_emptied_by_compaction_gives_nothing() -> None:
    # Without isolation nothing leaves it out before.
    assert done([source_batch([], base_offset=3, next_offset=9)]) == []


def test_a_batch_above_the_limit_is_cut() -> None:
    batch = source_batch(ones(0, 100))
    packs = done([batch], limit=8000)
    assert len(packs) > 5
    assert all(packed.size <= 8000 for packed in packs)
    assert contents(packs) == without_offsets(ones(0, 100))
    assert packs[-1].upstream_end == 100


def test_a_record_above_the_limit_comes_after_everything_before_it() -> None:
    batches = [source_batch(ones(0, 100)), source_batch([*ones(100, 3), *ones(103, 1, 9000), *ones(104, 2)])]
    packeds: list[Packed] = []
    turns = repack(batches, 0, ALL, 8000)
    with pytest.raises(RecordTooLarge, match="the record at offset 103 needs"):
        take_all(turns, packeds)
    assert contents(packeds) == without_offsets(ones(0, 103))
    assert packeds[-1].upstream_end == 103


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 500], ids=["tiny", "large"])
def test_a_wrong_checksum_comes_after_everything_before_it(position: int, size: int) -> None:
    batches = [source_batch(ones(n * 20, 20, size)) for n in range(3)]
    batches[position] = damaged(batches[position])
    packeds: list[Packed] = []
    turns = repack(batches, 0, ALL, MIB)
    with pytest.raises(CorruptBatch, match=f"batch at offset {position * 20} fails its checksum"):
        take_all(turns, packeds)
    assert contents(packeds) == without_offsets(ones(0, position * 20, size))


# ---- tiny ones


def test_a_row_of_tiny_batches_is_merged() -> None:
    batches = [source_batch(ones(n * 3, 3, 10), codec=3) for n in range(50)]
    (packed,) = done(batches)
    assert packed.reencoded
    assert packed.runs == ((0, 150, 150),)
    assert contents([packed]) == without_offsets(ones(0, 150, 10))


def test_merged_batches_stay_near_the_wanted_size_and_under_the_limit() -> None:
    batches = [source_batch(ones(n, 1, 3000)) for n in range(200)]
    packs = done(batches)
    assert len(packs) > 3
    assert all(packed.size < MERGED_BYTES + TINY_BYTES for packed in packs)
    small = done(batches, limit=10_000)
    assert all(packed.size <= 10_000 for packed in small)
    assert contents(packs) == contents(small) == without_offsets(ones(0, 200, 3000))


def test_one_tiny_batch_alone_goes_unopened() -> None:
    assert [packed.reencoded for packed in done([source_batch(ones(0, 3, 10))])] == [False]


def test_small_batches_of_many_records_go_unopened() -> None:
    # To walk the records would cost more than the requests saved.
    batches = [source_batch(ones(n * 100, 100, 10), codec=3) for n in range(5)]
    assert [packed.reencoded for packed in done(batches)] == [False] * 5


def test_tiny_batches_of_several_codecs_are_merged_codec_by_codec() -> None:
    # Uncompressed ones join: librdkafka leaves a batch uncompressed when that is smaller.
    batches = [source_batch(ones(n, 1, 10), codec=codec) for n, codec in enumerate([0, 0, 3, 0, 3, 4, 0])]
    packs = done(batches)
    assert [(packed.attributes, packed.record_count) for packed in packs] == [(3, 5), (4, 2)]
    assert contents(packs) == without_offsets(ones(0, 7, 10))


def test_tiny_batches_with_holes_between_and_inside() -> None:
    batches = [source_batch([*ones(n * 10, 2, 10), *ones(n * 10 + 4, 1, 10)], next_offset=n * 10 + 7) for n in range(9)]
    (packed,) = done(batches)
    check_runs(packed, [n * 10 + at for n in range(9) for at in (0, 1, 4)])
    assert packed.upstream_end == 87


# ---- anything


@given(rows(most_batches=8, most_records=8), st.data())
def test_anything_is_copied_record_by_record(row: tuple[list[SourceBatch], list[Record]], draws: st.DataObject) -> None:
    batches, seen = row
    batches = list(views(*batches))
    low, high = batches[0].header.base_offset, batches[-1].header.next_offset
    first = draws.draw(st.one_of(st.just(low), st.integers(low, high)))
    end = draws.draw(st.one_of(st.just(high), st.integers(first, high + 3)))
    limit = draws.draw(st.sampled_from([1500, 3000, MIB]))  # above any single record of the strategy
    left = [record for record in seen if first <= record.offset < end]
    at = first
    for packed in done(batches, first, end, limit):
        records = written(packed)
        here, left = left[: len(records)], left[len(records) :]
        assert without_offsets(records) == without_offsets(here)
        check_runs(packed, [record.offset for record in here])
        assert packed.size <= limit
        assert packed.runs[0][0] >= at
        at = packed.upstream_end
        assert at <= end
        if not packed.reencoded:
            assert any(stamped(packed)[61:] == bytes(batch.data[61:]) for batch in batches)
    assert not left


#: What Kafka's producer has.
DEFAULT_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}
WANTED = st.sampled_from([Compression(codec, DEFAULT_LEVELS.get(codec, 0)) for codec in COMPRESSION_TYPES])
CODECS = pytest.mark.parametrize("codec", COMPRESSION_TYPES)
SOURCES = pytest.mark.parametrize("source", range(5), ids=COMPRESSION_TYPES)


def recompressed(
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
    (packed,) = recompressed([batch], codec)
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
    assert [pack.upstream_end for pack in packs[-1:]] == [one.upstream_end for one in plain[-1:]]


@SOURCES
def test_what_grows_beyond_the_limit_is_divided(source: int) -> None:
    batches = [source_batch(some(0, 300), codec=source), source_batch(some(300, 310), codec=source)]
    packs = recompressed(batches, "none", limit=9000)
    assert all(packed.size <= 9000 for packed in packs)
    assert without_offsets([record for packed in packs for record in written(packed)]) == without_offsets(some(0, 310))
    assert packs[-1].upstream_end == 310


def test_a_row_of_tiny_ones_that_grows_beyond_the_limit_is_divided() -> None:
    batches = [source_batch(some(n, n + 3, 900), codec=ZSTD) for n in range(0, 90, 3)]
    packs = recompressed(batches, "none", limit=4000)
    assert all(packed.size <= 4000 for packed in packs)
    assert without_offsets([record for packed in packs for record in written(packed)]) == without_offsets(
        some(0, 90, 900)
    )
    at = 0
    for packed in packs:
        assert packed.runs == ((at, packed.record_count, packed.record_count),)
        at = packed.upstream_end
    assert at == 90


def test_what_fits_only_in_the_wanted_codec_is_not_divided() -> None:
    (packed,) = recompressed([source_batch(some(0, 300))], "zstd", limit=9000)
    assert packed.record_count == 300
    # Also a single record that would be refused as it is.
    (packed,) = recompressed([source_batch(some(0, 1, 50_000))], "zstd", limit=9000)
    assert packed.size < 9000


def test_a_record_that_is_too_large_in_the_wanted_codec_comes_after_everything_before_it() -> None:
    batch = source_batch([*some(0, 20), *some(20, 21, 20_000), *some(21, 25)], codec=LZ4)
    packeds: list[Packed] = []
    with pytest.raises(RecordTooLarge, match="the record at offset 20 needs"):
        take_all(recompress([batch], 0, ALL, 9000, Compression("none")), packeds)
    assert without_offsets([record for packed in packeds for record in written(packed)]) == without_offsets(some(0, 20))


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
    packs = recompressed(list(split(memoryview(data))), codec, first=41, limit=limit)
    assert [packed.attributes for packed in packs] == [COMPRESSION_TYPES.index(codec)] * len(packs)
    assert all(packed.size <= limit for packed in packs)
    records = [record for packed in packs for record in written(packed)]
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
    packeds: list[Packed] = []
    with pytest.raises(CorruptBatch, match="batch at offset 50: batch body is not valid zstd"):
        take_all(recompress(batches, 0, ALL, MIB, Compression("gzip", -1)), packeds)
    assert packeds[-1].upstream_end == 50


@pytest.mark.parametrize(
    ("codec", "levels"), [("gzip", [-1, 0, 1, 9]), ("lz4", [1, 3, 9, 12, 17]), ("zstd", [-131072, -5, 1, 3, 22])]
)
def test_every_level_of_a_producer_is_read_by_others(codec: str, levels: list[int]) -> None:
    words = [b"word%d " % number for number in range(500)]
    text = [Record(n, n, None, b"".join(random.Random(n).choices(words, k=80))) for n in range(100)]
    sizes = []
    for level in levels:
        (packed,) = recompressed([source_batch(text)], codec, level=level)
        assert written(packed) == text
        sizes.append(packed.size)
    assert len(set(sizes)) > 1


def test_the_producers_default_levels_are_its_own() -> None:
    text = random.Random(1).randbytes(50_000).hex().encode()
    assert library_level(GZIP, -1) == 6
    assert library_level(LZ4, 9) == 1
    assert len(compress(LZ4, text, library_level(LZ4, 9))) > len(compress(LZ4, text, library_level(LZ4, 8)))
    assert library_level(ZSTD, -7) == -7
