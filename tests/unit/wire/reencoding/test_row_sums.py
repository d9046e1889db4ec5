"""Rows that the compiled loop adds up, beside those of plain Python."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.fingerprints import PRIME, fingerprint_of
from srm_common.domain.verification.copy_batch import BatchRow
from srm_common.wire.batches.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_OVERHEAD
from srm_common.wire.batches.batch_terms import batch_row
from srm_common.wire.reencoding import machine_code
from srm_common.wire.reencoding.batch_rows import BatchRows

pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
if not machine_code.HAS_CRC32C:
    pytest.skip("the processor has no instruction for CRC-32C", allow_module_level=True)

from srm_common.wire.reencoding.row_sums import compiled_row, product

NUMBERS = st.one_of(st.integers(0, PRIME - 1), st.integers(0, 70), st.integers(PRIME - 70, PRIME - 1))
#: Of headers, apart from lengths and checksums: all of them are read, or decide where a row ends.
FIELDS = ("offset", "attributes", "delta", "time", "producer", "epoch", "count", "magic")


def batch(first: int, records: int, body: bytes, at_ms: int, **other: int) -> bytes:
    """A batch under a right checksum, with other numbers in its header where they are given."""
    header = HEADER.pack(
        other.get("offset", first),
        HEADER_SIZE - LENGTH_OVERHEAD + len(body),
        9,
        other.get("magic", 2),
        0,
        other.get("attributes", 0x13),
        other.get("delta", records - 1),
        other.get("time", at_ms),
        at_ms,
        other.get("producer", 5),
        other.get("epoch", 3),
        77,
        other.get("count", records),
    )
    signed = header[CRC_START:] + body
    return header[:17] + crc32c(signed).to_bytes(4, "big") + signed


def same(row: BatchRow, plain: BatchRow) -> bool:
    if not plain.size:
        return not row.size
    return (
        row[:3] == plain[:3]
        and row.terms == plain.terms
        and fingerprint_of(row.digest, row.content) == fingerprint_of(plain.digest, plain.content)
    )


@given(NUMBERS, NUMBERS)
def test_a_product_is_that_of_whole_numbers(one: int, other: int) -> None:
    assert product(one, other) == one * other % PRIME


@given(
    st.lists(
        st.tuples(st.integers(1, 1 << 20), st.one_of(st.integers(0, 70), st.integers(0, 5000)), st.integers()),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 1 << 61),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-1, 1 << 23),
    st.integers(0, 100),
)
def test_a_row_comes_to_what_it_does_in_plain_python(
    batches: list[tuple[int, int, int]], first: int, time: int, room: int, cut: int
) -> None:
    data, at = bytearray(b"other"), first
    for count, size, seed in batches:
        data += batch(at, count, random.Random(seed).randbytes(size), time)
        at += count
    del data[len(data) - cut :]
    records = memoryview(data)
    if len(records) >= 5 + HEADER_SIZE:
        assert same(compiled_row(records, 5, first + room), batch_row(records, 5, first + room))


@given(
    st.sampled_from(FIELDS), st.integers(0, 1), st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 63) - 1))
)
def test_a_row_ends_where_it_does_in_plain_python(field: str, number: int, value: int) -> None:
    bits = {"attributes": 16, "epoch": 16, "delta": 32, "count": 32, "magic": 8}.get(field, 64)
    value = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    data = bytearray()
    for place in range(3):
        data += batch(100 + 2 * place, 2, b"%d" % place * 100, 1000, **({field: value} if place == number else {}))
    # No log has a negative offset, which plain Python takes as any other.
    if field != "offset" or number or 0 <= value < 1 << 62:
        row = compiled_row(memoryview(data), 0, 1000)
        assert same(row, batch_row(memoryview(data), 0, 1000))


@given(st.integers(1861, 3 * 1861 - 1), st.integers(0, 7))
def test_a_row_ends_before_a_bit_that_flipped(place: int, bit: int) -> None:
    """Wherever it is in a batch that follows another: the checksum covers it, or the row is broken by it."""
    data = bytearray(b"".join(batch(100 + 2 * number, 2, b"%d" % number * 1800, 1000) for number in range(3)))
    data[place] ^= 1 << bit
    row = compiled_row(memoryview(data), 0, 1000)
    assert same(row, batch_row(memoryview(data), 0, 1000))
    # The leader's epoch is its own affair.
    assert len(row.terms) == (3 if 12 <= place % 1861 < 16 else place // 1861)


def test_a_long_row_comes_in_pieces_and_the_loop_after_so_much_plain_work() -> None:
    data = memoryview(bytearray(b"".join(batch(100 + number, 1, b"%d" % number, 1000) for number in range(10_000))))
    whole = batch_row(data, 0, 1 << 40)
    rows, plain = BatchRows(4), []
    terms: dict[int, int] = {}
    position = digest = content = 0
    while position < len(data):
        # The first is cut short, as by the end of a segment.
        row = rows.next_row(data, position, 1 << 40 if position else 105)
        plain.append(len(row.terms))
        position += row.size
        digest += row.digest
        content += row.content
        terms |= row.terms
    assert plain == [5, 4096, 4096, 1803]
    assert terms == whole.terms
    assert fingerprint_of(digest, content) == fingerprint_of(whole.digest, whole.content)
