"""Rows of small batches, beside the way that makes an object of each."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import SourceBatch, split, stamp
from srm_common.wire.batches.batch_terms import packed_term
from srm_common.wire.batches.codec import LZ4, NONE
from srm_common.wire.batches.visibility import visible
from srm_common.wire.reencoding import merging
from srm_common.wire.reencoding.batch_walk import scan, small_batches
from srm_common.wire.reencoding.repack import in_a_row, repack
from srm_common.wire.reencoding.small_batches import SCAN_FIELDS, SmallBatches
from tests.unit.wire.built_batches import CONTROL, TRANSACTIONAL, batch_bytes, rows, some, stamped


def answer(count: int, size: int = 20, codec: int = LZ4) -> memoryview:
    """Batches of one to three records, with a hole before every fifth."""
    choice = random.Random(count)
    parts, offset = [], 7
    for number in range(count):
        offset += 4 if number % 5 == 4 else 0
        records = choice.randint(1, 3)
        parts.append(batch_bytes(some(range(offset, offset + records), size), codec=codec))
        offset += records
    return memoryview(b"".join(parts))


def as_plain(data: memoryview) -> tuple[int, int]:
    """What the loop says as plain Python runs it."""
    plain = getattr(scan, "py_func", scan)
    numbers = np.empty((len(data) // 61, SCAN_FIELDS), np.int64)
    found: tuple[int, int] = plain(np.frombuffer(data, np.uint8), numbers)
    return found


@given(rows(most_batches=6), st.data())
def test_a_row_is_what_is_split_or_there_is_none(made: tuple[list[SourceBatch], object], data: st.DataObject) -> None:
    whole = bytearray(b"".join(bytes(batch.data) for batch in made[0]))
    for _ in range(data.draw(st.sampled_from([0, 0, 1, 3]))):
        batch = data.draw(st.integers(0, len(made[0]) - 1))
        start = sum(len(source_batch.data) for source_batch in made[0][:batch])
        whole[start + data.draw(st.integers(0, 60))] = data.draw(st.integers(0, 255))
    found = memoryview(bytes(whole))[: data.draw(st.integers(0, len(whole)))]
    row = small_batches(found)
    count, epoch = as_plain(found)
    assert count == (count if row is None else len(row))
    seen = visible(split(found), [])
    ordinary = [
        batch.header.magic == 2 and not batch.header.attributes & (CONTROL | TRANSACTIONAL) and is_data
        for batch, is_data in seen.batches
    ]
    if row is None:
        assert count <= 0
        return
    assert seen.fault is None
    assert all(ordinary)
    assert list(row) == [batch for batch, _ in seen.batches] == [row[number] for number in range(len(row))]
    assert {batch.header.leader_epoch for batch in row} == {row.epoch}
    assert row.epoch in (epoch, epoch - (1 << 32))
    assert (row.first_offset, row.next_offset) == (row[0].header.base_offset, row[-1].header.next_offset)
    assert row.record_count == sum(batch.header.record_count for batch in row)


@pytest.mark.parametrize("cut", [0, 1, 20, 45, 62])
def test_what_is_cut_off_is_left_out(cut: int) -> None:
    data = answer(30)
    row = small_batches(data[: len(data) - cut])
    assert row is not None
    assert len(row) == (30 if cut == 0 else 29)
    assert bytes(row.data) == b"".join(bytes(batch.data) for batch in split(data[: len(data) - cut]))


@pytest.mark.parametrize(
    "unusual",
    [
        batch_bytes(some([500]), attributes=TRANSACTIONAL),
        batch_bytes(some([500]), attributes=CONTROL),
        batch_bytes([], base_offset=500, next_offset=501),
        batch_bytes(some([3])),
    ],
    ids=["transaction", "marker", "emptied", "offsets before"],
)
def test_rows_with_anything_unusual_go_the_other_way(unusual: bytes) -> None:
    data = bytes(answer(30))
    assert small_batches(memoryview(data)) is not None
    assert small_batches(memoryview(data + unusual)) is None


def test_impossible_lengths_are_left_to_the_other_way() -> None:
    data = bytearray(answer(30))
    start = len(data) - len(list(split(answer(30)))[-1].data)
    data[start + 8 : start + 12] = (40).to_bytes(4, "big")
    assert small_batches(memoryview(bytes(data))) is None
    with pytest.raises(CorruptBatch, match="impossible length 40"):
        list(split(memoryview(bytes(data))))


def test_parts_of_a_row() -> None:
    data = answer(40)
    batches = list(split(data))
    row = small_batches(data)
    assert row is not None
    for offset in (0, 7, 8, 30, 31, 32, row.next_offset - 1, row.next_offset, 1 << 60):
        assert list(row.after(offset)) == [batch for batch in batches if batch.header.next_offset > offset]
        assert list(row.before(offset)) == [batch for batch in batches if batch.header.base_offset < offset]
    for start, size in ((0, 1), (0, 400), (5, 1000), (39, 1), (3, 1 << 20)):
        taken, bytes_taken = 0, 0
        while start + taken < 40 and bytes_taken < size:
            bytes_taken += len(batches[start + taken].data)
            taken += 1
        assert list(row.row(start, size)) == batches[start : start + taken]


def test_a_row_is_merged_as_its_batches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_compiled", None)
    monkeypatch.setattr(merging, "_walked", 0)
    monkeypatch.setattr(merging, "_looked", True)
    data = answer(3000, size=60)
    assert in_a_row(data) is None
    monkeypatch.setattr(merging, "_walked", 1 << 60)
    merging._loops()
    row = in_a_row(data)
    assert isinstance(row, SmallBatches)
    for first, end, limit in ((0, 1 << 60, 1 << 20), (100, 3000, 1 << 20), (0, 1 << 60, 5000)):
        expected = list(repack(list(split(data)), first, end, limit))
        assert list(repack(row, first, end, limit)) == expected
        assert len(expected) > 1
    assert in_a_row(answer(10)) is None
    assert in_a_row(answer(30, size=9000, codec=NONE)) is None
    assert in_a_row(memoryview(b"")) is None


def holed(count: int, keep: float, seed: int, codec: int = LZ4) -> list[bytes]:
    """Batches of 120 offsets with and without holes."""
    choice = random.Random(seed)
    parts = []
    for number in range(count):
        base = 120 * number
        kept = [base + delta for delta in range(120) if choice.random() < keep] or [base + 5]
        parts.append(batch_bytes(some(kept, 90), codec=codec, base_offset=base, next_offset=base + 120))
    return parts


def test_holes_of_a_row_are_closed_as_those_of_its_batches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_compiled", merging._compiled_loops())
    parts = holed(40, 0.5, 3)
    parts[7:9] = holed(9, 1.0, 4)[7:9]
    parts[20] = holed(21, 0.5, 5, codec=NONE)[20]
    data = memoryview(bytearray(b"".join(parts)))
    row = in_a_row(data)
    assert isinstance(row, SmallBatches)
    # From the first offset on, from one within a batch, up to one within a batch, and where none fits.
    for first, end, limit in ((0, 4800, 1 << 20), (121, 4800, 1 << 20), (0, 3001, 1 << 20), (0, 4800, 900)):
        batches = [one for one in split(data) if one.header.next_offset > first and one.header.base_offset < end]
        expected = list(repack(batches, first, end, limit))
        found = list(repack(row.after(first).before(end), first, end, limit))
        assert [one._replace(checked=None) for one in found] == [one._replace(checked=None) for one in expected]
        for one, other in zip(found, expected, strict=True):
            header = stamp(
                one.attributes,
                one.record_count - 1,
                one.base_timestamp,
                one.max_timestamp,
                one.record_count,
                one.body,
                4,
                5,
                6,
                one.checked,
            )
            assert header + bytes(one.body) == stamped(other)
            assert packed_term(one) == packed_term(other)
    assert merging.close_row(row, 0, 0, 4800, 1 << 20)
    assert not merging.close_row(row, 7, 0, 4800, 1 << 20), "a dense batch is copied unopened"
    assert not merging.close_row(row, 20, 0, 4800, 1 << 20), "its codec is another one"
    assert not merging.close_row(row, 1, 121, 4800, 1 << 20), "it begins before the wanted offsets"
    assert not merging.close_row(row, 0, 0, 119, 1 << 20), "it ends behind the wanted offsets"


def test_a_row_of_holes_ends_before_a_damaged_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_compiled", merging._compiled_loops())
    parts = [bytearray(part) for part in holed(6, 0.5, 6)]
    parts[3][-1] ^= 1
    row = in_a_row(memoryview(b"".join(parts)))
    assert row is not None
    closed = repack(row, 0, 720, 1 << 20)
    assert [next(closed).upstream_end for _ in range(3)] == [120, 240, 360]
    with pytest.raises(CorruptBatch, match="batch at offset 360 fails its checksum"):
        next(closed)


def test_a_row_of_large_batches_is_one_with_holes_in_lz4(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    monkeypatch.setattr(merging, "_compiled", merging._compiled_loops())
    assert in_a_row(memoryview(b"".join(holed(3, 0.5, 7)))) is not None
    assert in_a_row(memoryview(b"".join(holed(3, 1.0, 7)))) is None
    assert in_a_row(memoryview(b"".join(holed(3, 0.5, 7, codec=NONE)))) is None
    monkeypatch.setattr(merging, "_compiled", None)
    assert in_a_row(memoryview(b"".join(holed(3, 0.5, 7)))) is None
