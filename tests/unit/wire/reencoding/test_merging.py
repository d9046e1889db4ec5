"""Merging, trimming, re-batching: kafka-python reads what comes out, and the runs tell where it came from."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, Packed, SourceBatch, parse_header, unopened
from srm_common.wire.batches.codec import LZ4, NAMES, NONE
from srm_common.wire.batches.records import loose_records, pack, rebatch
from srm_common.wire.reencoding import merging
from srm_common.wire.reencoding.merging import merge, merge_row, rewrite
from tests.unit.wire.built_batches import (
    Record,
    check_runs,
    judge,
    read,
    rows,
    some,
    source_batch,
    stamped,
    varint,
    wanted,
    without_offsets,
    written,
)


@pytest.fixture(autouse=True, params=["plain", "compiled"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops in plain Python, and as numba has them."""
    monkeypatch.setattr(merging, "_compiled", None)
    monkeypatch.setattr(merging, "_walked", 0)
    monkeypatch.setattr(merging, "_looked", True)
    if request.param == "compiled":
        pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
        monkeypatch.setattr(merging, "_walked", 1 << 60)
        assert merging._loops() is not None


@pytest.mark.parametrize(("first", "left", "holes"), [(0, 399_998, 0), (0, 400_001, 0), (7, 800_001, 1), (7, 1, 0)])
def test_a_long_range_is_worth_the_compiled_loops_at_once(
    first: int, left: int, holes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_walked", 0)
    for looked in (True, False):
        monkeypatch.setattr(merging, "_compiled", None)
        monkeypatch.setattr(merging, "_looked", looked)
        batches = [source_batch(some([first, first + 1 + holes]))]
        packed, taken = merge_row(batches, 0, 1 << 20, first + left)
        assert (taken, packed is not None) == (1, True)
        assert (merging._compiled is not None) == (not looked and left >= 400_000)
        assert merging._looked or left < 400_000


@pytest.mark.parametrize(("codec", "left", "many"), [(LZ4, 30_000, True), (LZ4, 10_000, False), (NONE, 30_000, False)])
def test_large_records_that_need_not_be_compressed_again_are_worth_them_sooner(
    codec: int, left: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_compiled", None)
    monkeypatch.setattr(merging, "_walked", 0)
    monkeypatch.setattr(merging, "_looked", False)
    noise = random.Random(3)
    records = [record._replace(value=noise.randbytes(2000)) for record in some(range(0, 20, 2))]
    packed = rewrite(source_batch(records, codec=codec, base_offset=0, next_offset=20), 0, left)
    assert packed is not None
    assert packed.record_count == 10
    assert (merging._compiled is not None) == many


CODECS = pytest.mark.parametrize("codec", range(5), ids=NAMES.get)


def merged(batches: Sequence[SourceBatch], first: int, target: int, last: int | None = None) -> list[Packed]:
    """All of ``batches``, merge by merge."""
    out: list[Packed] = []
    at = 0
    while at < len(batches):
        packed, taken = merge(batches[at:], first, target, last)
        assert taken >= 1
        at += taken
        if packed is not None:
            out.append(packed)
    return out


# ---- unopened


@CODECS
def test_an_unopened_batch_keeps_its_body(codec: int) -> None:
    records = some(range(100, 105))
    batch = source_batch(records, codec=codec)
    packed = unopened(batch)
    assert stamped(packed)[HEADER_SIZE:] == bytes(batch.data)[HEADER_SIZE:]
    assert without_offsets(written(packed)) == without_offsets(records)
    assert packed.runs == ((100, 5, 5),)
    assert (packed.upstream_end, packed.reencoded) == (105, False)


def test_bits_that_must_not_travel_are_cleared_and_others_kept() -> None:
    batch = source_batch(some(range(3)), codec=4, attributes=0x70)
    assert parse_header(stamped(unopened(batch))).attributes == 4
    assert parse_header(stamped(unopened(batch), attributes=0x10)).attributes == 0x14


# ---- one batch


@CODECS
def test_holes_are_closed(codec: int) -> None:
    records = some([10, 11, 15, 20, 21])
    (packed,) = merged([source_batch(records, codec=codec, base_offset=8, next_offset=25)], 0, 0)
    assert without_offsets(written(packed)) == without_offsets(records)
    assert packed.attributes == codec
    assert packed.reencoded
    assert packed.upstream_end == 25
    check_runs(packed, [10, 11, 15, 20, 21])


def test_runs_stay_exact_where_they_cost_little() -> None:
    records = some([*range(10, 40), *range(50, 90), 95], size=500)
    (packed,) = merged([source_batch(records)], 0, 0)
    assert packed.runs == ((10, 30, 30), (50, 40, 40), (95, 1, 1))


def test_runs_become_one_where_they_cost_much() -> None:
    records = some(range(0, 200, 2), size=1)
    (packed,) = merged([source_batch(records, base_offset=0, next_offset=300)], 0, 0)
    assert packed.runs == ((0, 199, 100),)
    assert packed.upstream_end == 300


def test_a_few_holes_in_a_small_batch_stay_exact() -> None:
    (packed,) = merged([source_batch(some([5, 7], size=1))], 0, 0)
    assert packed.runs == ((5, 1, 1), (7, 1, 1))


@CODECS
def test_append_time_becomes_the_records_time(codec: int) -> None:
    batch = source_batch(some(range(5)), codec=codec, append_time=1_600_000_000_123)
    (packed,) = merged([batch], 0, 0)
    assert {record.timestamp for record in written(packed)} == {1_600_000_000_123}
    assert (packed.base_timestamp, packed.max_timestamp) == (1_600_000_000_123,) * 2
    assert packed.attributes == codec  # no LogAppendTime bit: the broker would put its own time there


@pytest.mark.parametrize(("first", "last", "left"), [
    (3, None, [3, 4, 5, 6, 7, 8, 9]),
    (0, 4, [0, 1, 2, 3]),
    (3, 7, [3, 4, 5, 6]),
    (9, None, [9]),
    (0, 1, [0]),
])  # fmt: skip
@pytest.mark.parametrize("append_time", [None, 77])
def test_trimmed_at_both_ends(first: int, last: int | None, left: list[int], append_time: int | None) -> None:
    records = some(range(10))
    (packed,) = merged([source_batch(records, append_time=append_time)], first, 0, last)
    expected = [record if append_time is None else record._replace(timestamp=append_time) for record in records]
    assert without_offsets(written(packed)) == without_offsets([expected[n] for n in left])
    assert packed.upstream_end == (10 if last is None else last)
    assert packed.runs == ((left[0], len(left), len(left)),)


@pytest.mark.parametrize(("first", "last"), [(10, None), (0, 5), (7, 8)])
def test_nothing_of_a_batch_iswanted(first: int, last: int | None) -> None:
    batch = source_batch(some([5, 6, 9]))
    assert merge([batch], first, 0, last) == (None, 1)
    assert list(rebatch(batch, first, 1000, last)) == []


# ---- several batches


def test_merging_shifts_times_to_the_first_batchs() -> None:
    ones = [
        source_batch([Record(0, 5000, b"a", b"1"), Record(1, 4000, b"b", None)]),
        source_batch([Record(2, -1, b"c", b"3")]),
        source_batch([Record(3, 1 << 41, None, b"4"), Record(4, 0, b"", b"")], append_time=123_456),
        source_batch([Record(5, 9000, b"d", b"5")], base_timestamp=1),
    ]
    packed, taken = merge(ones, 0, 1 << 20)
    assert taken == 4
    assert packed is not None
    assert [record.timestamp for record in written(packed)] == [5000, 4000, -1, 123_456, 123_456, 9000]
    assert (packed.base_timestamp, packed.max_timestamp) == (5000, 123_456)
    assert packed.runs == ((0, 6, 6),)


def test_merging_stops_at_the_wanted_size_and_at_another_codec() -> None:
    plain = [source_batch(some([n], size=100)) for n in range(6)]  # some 120 bytes each
    assert merge(plain, 0, 150)[1] == 2
    assert merge(plain, 0, 0)[1] == 1
    mixed = [source_batch(some([n], size=100), codec=codec) for n, codec in enumerate([3, 3, 4, 0])]
    assert merge(mixed, 0, 1 << 20)[1] == 2
    assert merge(mixed[2:], 0, 1 << 20)[1] == 2


def test_gaps_between_merged_batches_are_in_the_runs() -> None:
    ones = [source_batch(some(range(0, 20), size=900)), source_batch(some(range(22, 40), size=900))]
    (packed,) = merged(ones, 0, 1 << 20)
    assert packed.runs == ((0, 20, 20), (22, 18, 18))


def test_numbers_beyond_one_and_two_varint_bytes() -> None:
    records = [Record(n, n, None, b"") for n in range(40_000)]
    ones = [source_batch(records[:20_000]), source_batch(records[20_000:])]
    (packed,) = merged(ones, 0, 1 << 30)
    assert without_offsets(written(packed)) == without_offsets(records)


def test_a_record_longer_than_two_varint_bytes_in_length() -> None:
    records = [Record(0, 3, b"k" * 70_000, b"v" * 3_000_000), Record(2, 1, None, None)]
    (packed,) = merged([source_batch(records)], 0, 0)
    assert without_offsets(written(packed)) == without_offsets(records)


@given(rows(), st.data())
def test_merging_anything(row: tuple[list[SourceBatch], list[Record]], draws: st.DataObject) -> None:
    batches, seen = row
    low, high = batches[0].header.base_offset, batches[-1].header.next_offset
    first = draws.draw(st.one_of(st.just(0), st.integers(low, high)))
    last = draws.draw(st.one_of(st.none(), st.integers(first, high + 5)))
    packs = merged(batches, first, draws.draw(st.sampled_from([0, 100, 1000, 1 << 20])), last)
    judge(packs, wanted(seen, first, last))
    if first == 0 and last is None:
        assert packs[-1].upstream_end == high
        assert max(packed.max_timestamp for packed in packs) == max(batch.header.max_timestamp for batch in batches)


# ---- what cannot be walked


@pytest.mark.parametrize("damage", ["count too high", "count too low", "record too long", "ends in a varint"])
@pytest.mark.parametrize("holes", [True, False])
def test_a_layout_that_is_wrong_under_a_right_checksum(damage: str, holes: bool) -> None:
    good = source_batch(some([0, 1, 3] if holes else [0, 1, 2]))
    data = bytearray(good.data)
    match damage:
        case "count too high":
            data[57:61] = (4).to_bytes(4, "big")
        case "count too low":
            data[57:61] = (2).to_bytes(4, "big")
        case "record too long":
            data[HEADER_SIZE] += 2
        case _:
            del data[HEADER_SIZE + 1 :]
            data[HEADER_SIZE] = 0x80
    batch = SourceBatch(parse_header(data), memoryview(data))
    with pytest.raises(CorruptBatch, match="batch at offset 0"):
        merge([batch], 0, 0)
    with pytest.raises(CorruptBatch, match="batch at offset 0"):
        loose_records(batch)


def test_padded_varints_are_read() -> None:
    # Not canonical, but every consumer reads it (some writers patch lengths in place).
    text = b"\x00" + b"\x80\x00" + b"\x82\x80\x00" + varint(1) + b"k" + varint(1) + b"v" + varint(0)
    plain = source_batch([Record(4, 9, b"k", b"v")], base_offset=3)
    data = bytes(plain.data[:HEADER_SIZE]) + varint(len(text)) + text
    batch = SourceBatch(parse_header(data), memoryview(data))
    (packed,) = merged([batch], 0, 0)
    assert written(packed) == [Record(0, 9, b"k", b"v")]
    assert read(stamped(pack(loose_records(batch), 0))) == [Record(0, 9, b"k", b"v")]


# ---- rows that nobody has checked yet


@CODECS
def test_a_row_stops_before_a_corrupt_batch_which_is_named_when_it_comes_first(codec: int) -> None:
    batches = [source_batch(some([n]), codec=codec) for n in range(4)]
    data = bytearray(batches[2].data)
    data[-1] ^= 1
    batches[2] = SourceBatch(batches[2].header, memoryview(data))
    packed, taken = merge_row(batches, 0, 1 << 16)
    assert (taken, packed and packed.upstream_end) == (2, 2)
    with pytest.raises(CorruptBatch, match="offset 2 fails its checksum"):
        merge_row(batches[2:], 0, 1 << 16)


@given(rows(), st.data())
def test_checked_or_not_a_row_becomes_the_same(
    row: tuple[list[SourceBatch], list[Record]], draws: st.DataObject
) -> None:
    batches, records = row
    first = draws.draw(st.integers(0, records[-1].offset + 1))
    last = draws.draw(st.none() | st.integers(first, records[-1].offset + 2))
    target = draws.draw(st.sampled_from([0, 300, 1 << 16]))
    packed, taken = merge_row(batches, first, target, last)
    if merging._compiled is not None and taken < len(batches):
        codec = batches[taken].header.attributes & CODEC_MASK
        # Compiled, a row may end before a batch that only the plain loops read: it begins the next one.
        batches = batches if codec in (NONE, LZ4) else batches[:taken]
    expected, expected_taken = merge(batches, first, target, last)
    assert taken == expected_taken
    assert (packed is None) == (expected is None)
    if packed is not None and expected is not None:
        assert stamped(packed) == stamped(expected)
        assert packed == expected._replace(body=packed.body)


@pytest.mark.parametrize(("kept", "loaded"), [(True, True), (False, False)])
def test_loops_are_loaded_after_many_records_where_they_are_kept(
    kept: bool, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_walk = pytest.importorskip("srm_common.wire.reencoding.record_walk", reason="numpy is not installed")
    monkeypatch.setattr(merging, "_compiled", None)
    monkeypatch.setattr(merging, "_walked", 0)
    monkeypatch.setattr(merging, "_PLAIN_WORK", 200)
    monkeypatch.setattr(record_walk, "KEPT", kept)
    batch = source_batch(some(range(60)))
    outcomes = []
    for _ in range(3):
        outcomes.append(merge([batch], 0, 0))
        assert (merging._compiled is not None) == (loaded and len(outcomes) == 3)
    assert outcomes[0] == outcomes[1]
    assert stamped(outcomes[0][0] or unopened(batch)) == stamped(outcomes[2][0] or unopened(batch))


def test_loops_compile_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    caching = pytest.importorskip("numba.core.caching", reason="numba is not installed")
    record_walk = pytest.importorskip("srm_common.wire.reencoding.record_walk")
    monkeypatch.setattr(record_walk, "KEPT", True)
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    assert record_walk.compiled(_double)(4) == 8
    assert record_walk.KEPT is False


def _double(number: int) -> int:
    return 2 * number
