"""The loop over small batches, beside the libraries whose work it does."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.batches.codec import LZ4, NONE, ZSTD
from srm_common.wire.reencoding import batch_walk
from tests.unit.wire.built_batches import CONTROL, TRANSACTIONAL, some, source_batch, without_offsets, written


def array(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


@given(st.binary(max_size=100), st.integers(0, 20))
def test_the_checksum(data: bytes, start: int) -> None:
    start = min(start, len(data))
    assert batch_walk.checksum(array(data), start, len(data)) == crc32c(data[start:])


def taken(batches: Sequence[SourceBatch]) -> int:
    return batch_walk.merge_small(batches, 0, 1 << 20, None)[1]


def test_a_row_ends_before_what_is_unusual() -> None:
    batches = [source_batch(some(range(n, n + 3)), codec=LZ4 if n % 2 else NONE) for n in range(0, 90, 3)]
    assert taken(batches) == 30
    damaged = bytearray(source_batch(some([90, 91]), codec=LZ4).data)
    damaged[-5] ^= 1
    unusual = {
        "codec": source_batch(some([90]), codec=ZSTD),
        "marker": source_batch(some([90]), attributes=TRANSACTIONAL | CONTROL),
        "corrupt": SourceBatch(batches[0].header, memoryview(bytes(damaged))),
    }
    for name, one in unusual.items():
        assert taken([one, *batches]) == 0, name
        assert taken([*batches, one]) == 30, name


@pytest.mark.parametrize(("size", "blocks"), [(10, 1), (5_000, 1), (70_000, 3)])
def test_only_frames_of_one_block_are_taken_apart(size: int, blocks: int) -> None:
    noise = random.Random(size).randbytes(size)
    records = [record._replace(value=noise) for record in some([0, 1])]
    packed, count = batch_walk.merge_small([source_batch(records, codec=LZ4)], 0, 1 << 20, None)
    assert count == (blocks == 1)
    if packed is not None:
        assert without_offsets(written(packed)) == without_offsets(records)
