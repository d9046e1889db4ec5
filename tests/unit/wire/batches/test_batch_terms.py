from __future__ import annotations

from itertools import takewhile

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.fingerprints import offset_factor
from srm_common.wire.batches.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    TRANSACTIONAL,
    Packed,
    SourceBatch,
    parse_header,
    split,
    stamp,
    unopened,
)
from srm_common.wire.batches.batch_terms import batch_row, copy_batch, packed_term
from srm_common.wire.reencoding.merging import merge
from tests.unit.wire.built_batches import Record, source_batch


def stored(packed: Packed, base_offset: int, producer_id: int) -> SourceBatch:
    """The batch as a leader has it: with its offset, its epoch, and the greatest timestamp corrected."""
    header = stamp(
        packed.attributes | TRANSACTIONAL,
        packed.record_count - 1,
        packed.base_timestamp,
        packed.max_timestamp + 5,
        packed.record_count,
        packed.body,
        producer_id,
        3,
        77,
    )
    data = bytearray(header + bytes(packed.body))
    data[:8] = base_offset.to_bytes(8, "big")
    data[12:16] = (9).to_bytes(4, "big")
    return SourceBatch(parse_header(data), memoryview(bytes(data)))


@given(st.sampled_from([0, 1, 2, 3, 4]), st.integers(1, 40), st.binary(max_size=300), st.integers(0, 1 << 40))
def test_what_is_sent_and_what_is_stored_have_the_same_term(codec: int, count: int, value: bytes, offset: int) -> None:
    batch = source_batch([Record(7 + n, 1000 + n, b"k%d" % n, value) for n in range(count)], codec=codec)
    copied = unopened(batch)
    assert copy_batch(stored(copied, offset, 5)).term == packed_term(copied) == copy_batch(batch).term
    written, _ = merge([batch], 0, 0)
    assert written is not None
    assert written.checked is None
    assert copy_batch(stored(written, offset, 6)).term == packed_term(written)


def test_a_body_that_is_not_what_its_checksum_says_has_none() -> None:
    data = bytearray(source_batch([Record(7, 1000, b"k", b"v")]).data)
    data[HEADER_SIZE + 8] ^= 1
    assert copy_batch(SourceBatch(parse_header(data), memoryview(data))).term is None


def log_of(counts: list[int]) -> list[bytearray]:
    """Batches of one producer that follow one another, from offset 100 on."""
    found, at = [], 100
    for count in counts:
        packed = unopened(source_batch([Record(n, 1000 + n, b"k%d" % n, b"%d" % at) for n in range(count)], codec=0))
        found.append(bytearray(stored(packed, at, 5).data))
        at += count
    return found


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 60))
def test_a_row_comes_to_what_its_batches_do(counts: list[int], cut: int, room: int) -> None:
    log = log_of(counts)
    records = memoryview(b"other" + b"".join(log) + bytes(log[0][: 20 * cut]))
    row = batch_row(records, 5, 100 + room)
    whole = [copy_batch(batch) for batch in split(records[5:])][: len(counts)]
    taken = list(takewhile(lambda one: one.next_offset <= 100 + room, whole))
    terms = {batch.term: batch.base_offset for batch in taken if batch.term is not None}
    assert row.terms == terms
    assert (row.size, row.next_offset) == (
        sum(batch.size for batch in taken),
        100 + sum(batch.records for batch in taken),
    )
    assert row.content == sum(terms)
    assert row.digest == sum(term * offset_factor(offset) for term, offset in terms.items())
    assert row.producer == (5, 3) or not taken


@pytest.mark.parametrize(
    ("at", "bits"),
    [(HEADER_SIZE + 8, 1), (21, 0x80), (22, CONTROL), (22, DELETE_HORIZON), (43, 1), (52, 1), (7, 1), (26, 1), (16, 3)],
    ids=["body", "checksum", "marker", "cleaned", "producer", "epoch", "offset", "hole", "magic"],
)
def test_a_row_ends_before_what_has_to_be_looked_at(at: int, bits: int) -> None:
    log = log_of([2, 2, 2])
    log[1][at] ^= bits
    if at not in (HEADER_SIZE + 8, 21):
        log[1][17:21] = crc32c(log[1][21:]).to_bytes(4, "big")
    row = batch_row(memoryview(b"".join(log)), 0, 1000)
    assert (row.size, row.next_offset) == (len(log[0]), 102)
    assert batch_row(memoryview(b"".join(log)), 0, 101).size == 0
