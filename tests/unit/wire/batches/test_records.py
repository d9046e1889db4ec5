"""Records taken apart and packed again: kafka-python reads what comes out, and the runs tell where it came from."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.errors import RecordTooLarge
from srm_common.wire.batches.batch import Packed, SourceBatch
from srm_common.wire.batches.codec import NAMES
from srm_common.wire.batches.records import loose_records, pack, rebatch
from tests.unit.wire.built_batches import (
    Record,
    judge,
    rows,
    some,
    source_batch,
    take_all,
    wanted,
)

CODECS = pytest.mark.parametrize("codec", range(5), ids=NAMES.get)


@given(rows(most_batches=1), st.data())
def test_rebatching_anything(row: tuple[list[SourceBatch], list[Record]], draws: st.DataObject) -> None:
    (batch,), seen = row
    header = batch.header
    first = draws.draw(st.one_of(st.just(0), st.integers(header.base_offset, header.next_offset)))
    last = draws.draw(st.one_of(st.none(), st.integers(first, header.next_offset + 5)))
    limit = draws.draw(st.integers(1200, 4000))  # above any single record of the strategy
    packs = list(rebatch(batch, first, limit, last))
    assert all(packed.size <= limit for packed in packs)
    judge(packs, wanted(seen, first, last))
    if packs:
        assert packs[-1].upstream_end == (header.next_offset if last is None else min(last, header.next_offset))


@given(rows(most_batches=1))
def test_taking_apart_and_packing_anything(row: tuple[list[SourceBatch], list[Record]]) -> None:
    (batch,), seen = row
    loose = loose_records(batch)
    assert [(record.offset, record.timestamp) for record in loose] == [
        (record.offset, record.timestamp) for record in seen
    ]
    packed = pack(loose, batch.header.attributes & 7)
    judge([packed], seen)
    assert packed.max_timestamp == max(record.timestamp for record in seen)


# ---- limits


def test_a_batch_too_large_for_the_target_is_cut_into_ones_that_fit() -> None:
    records = some(range(40), size=1000)
    packs = list(rebatch(source_batch(records), 0, 8000))
    assert len(packs) > 5
    assert all(packed.size <= 8000 for packed in packs)
    judge(packs, records)


@CODECS
def test_a_record_too_large_for_the_target_is_named_after_all_before_it(codec: int) -> None:
    noise = random.Random(1).randbytes(5000)
    small, large = some(range(10, 17)), Record(17, 5, None, noise)
    packeds: list[Packed] = []
    packs = rebatch(source_batch([*small, large, *some([18, 19])], codec=codec), 10, 2000)
    with pytest.raises(RecordTooLarge, match=r"offset 17 needs \d+ bytes, .* max.message.bytes is 2000"):
        take_all(packs, packeds)
    judge(packeds, small)
