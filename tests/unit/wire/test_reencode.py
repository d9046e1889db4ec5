"""Merging, trimming, re-batching: kafka-python reads what comes out, and the runs tell where it came from."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import CorruptBatch, RecordTooLarge
from srm_common.wire.batch import HEADER_SIZE, Packed, SourceBatch, parse_header, unopened
from srm_common.wire.codec import NAMES
from srm_common.wire.reencode import loose_records, merge, pack, rebatch
from tests.unit.wire.batches import (
    Record,
    check_runs,
    read,
    rows,
    source_batch,
    stamped,
    take_all,
    varint,
    without_offsets,
    written,
)

CODECS = pytest.mark.parametrize("codec", range(5), ids=NAMES.get)


def some(offsets: Sequence[int], size: int = 20) -> list[Record]:
    return [
        Record(one, 1_700_000_000_000 + (-one if one % 2 else one), b"k%d" % one, b"v" * size, (("h", b"%d" % one),))
        for one in offsets
    ]


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
    expected = [one if append_time is None else one._replace(timestamp=append_time) for one in records]
    assert without_offsets(written(packed)) == without_offsets([expected[n] for n in left])
    assert packed.upstream_end == (10 if last is None else last)
    assert packed.runs == ((left[0], len(left), len(left)),)


@pytest.mark.parametrize(("first", "last"), [(10, None), (0, 5), (7, 8)])
def test_nothing_of_a_batch_is_wanted(first: int, last: int | None) -> None:
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
    assert [one.timestamp for one in written(packed)] == [5000, 4000, -1, 123_456, 123_456, 9000]
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


def _wanted(seen: Sequence[Record], first: int, last: int | None) -> list[Record]:
    return [one for one in seen if one.offset >= first and (last is None or one.offset < last)]


def _judge(packs: Sequence[Packed], expected: Sequence[Record]) -> None:
    left = list(expected)
    end = -1
    for packed in packs:
        records = written(packed)
        here, left = left[: len(records)], left[len(records) :]
        assert without_offsets(records) == without_offsets(here)
        check_runs(packed, [one.offset for one in here])
        assert packed.max_timestamp >= max(one.timestamp for one in records)
        assert packed.runs[0][0] >= end
        end = packed.upstream_end
    assert not left


@given(rows(), st.data())
def test_merging_anything(row: tuple[list[SourceBatch], list[Record]], draws: st.DataObject) -> None:
    batches, seen = row
    low, high = batches[0].header.base_offset, batches[-1].header.next_offset
    first = draws.draw(st.one_of(st.just(0), st.integers(low, high)))
    last = draws.draw(st.one_of(st.none(), st.integers(first, high + 5)))
    packs = merged(batches, first, draws.draw(st.sampled_from([0, 100, 1000, 1 << 20])), last)
    _judge(packs, _wanted(seen, first, last))
    if first == 0 and last is None:
        assert packs[-1].upstream_end == high
        assert max(one.max_timestamp for one in packs) == max(batch.header.max_timestamp for batch in batches)


@given(rows(most_batches=1), st.data())
def test_rebatching_anything(row: tuple[list[SourceBatch], list[Record]], draws: st.DataObject) -> None:
    (batch,), seen = row
    header = batch.header
    first = draws.draw(st.one_of(st.just(0), st.integers(header.base_offset, header.next_offset)))
    last = draws.draw(st.one_of(st.none(), st.integers(first, header.next_offset + 5)))
    limit = draws.draw(st.integers(1200, 4000))  # above any single record of the strategy
    packs = list(rebatch(batch, first, limit, last))
    assert all(one.size <= limit for one in packs)
    _judge(packs, _wanted(seen, first, last))
    if packs:
        assert packs[-1].upstream_end == (header.next_offset if last is None else min(last, header.next_offset))


@given(rows(most_batches=1))
def test_taking_apart_and_packing_anything(row: tuple[list[SourceBatch], list[Record]]) -> None:
    (batch,), seen = row
    loose = loose_records(batch)
    assert [(one.offset, one.timestamp) for one in loose] == [(one.offset, one.timestamp) for one in seen]
    packed = pack(loose, batch.header.attributes & 7)
    _judge([packed], seen)
    assert packed.max_timestamp == max(one.timestamp for one in seen)


# ---- limits


def test_a_batch_too_large_for_the_target_is_cut_into_ones_that_fit() -> None:
    records = some(range(40), size=1000)
    packs = list(rebatch(source_batch(records), 0, 8000))
    assert len(packs) > 5
    assert all(one.size <= 8000 for one in packs)
    _judge(packs, records)


@CODECS
def test_a_record_too_large_for_the_target_is_named_after_all_before_it(codec: int) -> None:
    noise = random.Random(1).randbytes(5000)
    small, large = some(range(10, 17)), Record(17, 5, None, noise)
    found: list[Packed] = []
    packs = rebatch(source_batch([*small, large, *some([18, 19])], codec=codec), 10, 2000)
    with pytest.raises(RecordTooLarge, match=r"offset 17 needs \d+ bytes, .* max.message.bytes is 2000"):
        take_all(packs, found)
    _judge(found, small)


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
