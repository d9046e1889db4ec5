from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.wire.batch import HEADER_SIZE, TRANSACTIONAL, Packed, SourceBatch, parse_header, stamp, unopened
from srm_common.wire.batch_terms import copy_batch, packed_term
from srm_common.wire.merging import merge
from tests.unit.wire.batches import Record, source_batch


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
