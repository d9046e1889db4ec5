from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.fingerprints import (
    FINGERPRINT_BYTES,
    NO_BATCHES,
    PRIME,
    Fingerprint,
    batch_term,
    fingerprint_of,
    offset_factor,
)
from srm_common.errors import CorruptRecord


@dataclass(frozen=True)
class Batch:
    crc: int
    timestamp: int
    records: int
    codec: int


BATCHES = st.lists(
    st.builds(
        Batch, st.integers(0, (1 << 32) - 1), st.integers(-1, 1 << 45), st.integers(1, 1 << 20), st.integers(0, 4)
    ),
    min_size=2,
    max_size=20,
)


def fingerprint(batches: list[Batch], starts: list[int]) -> Fingerprint:
    digest = content = 0
    for one, start in zip(batches, starts, strict=True):
        term = batch_term(one.crc, one.timestamp, one.records, one.codec)
        digest += term * offset_factor(start)
        content += term
    return fingerprint_of(digest, content)


def placed(batches: list[Batch], start: int) -> list[int]:
    return [start, *accumulate((batch.records for batch in batches), initial=start)][1:-1]


@given(BATCHES, st.integers(0, 1 << 50), st.data())
def test_any_cut_adds_up_to_the_same(batches: list[Batch], start: int, data: st.DataObject) -> None:
    starts = placed(batches, start)
    cut = data.draw(st.integers(0, len(batches)))
    parts = fingerprint(batches[:cut], starts[:cut]), fingerprint(batches[cut:], starts[cut:])
    assert parts[0].plus(parts[1]) == parts[1].plus(parts[0]) == fingerprint(batches, starts)


@given(BATCHES, st.integers(0, 1 << 50), st.data())
def test_each_fault_of_one_batch_changes_it(batches: list[Batch], start: int, data: st.DataObject) -> None:
    starts = placed(batches, start)
    true = fingerprint(batches, starts)
    at = data.draw(st.integers(0, len(batches) - 1))
    one = batches[at]
    for other in (
        replace(one, crc=one.crc ^ 1 << data.draw(st.integers(0, 31))),
        replace(one, timestamp=one.timestamp + data.draw(st.integers(1, 1 << 40))),
        replace(one, records=one.records + 1),
        replace(one, codec=one.codec ^ 1),
    ):
        changed = fingerprint([*batches[:at], other, *batches[at + 1 :]], starts)
        assert changed.digest != true.digest
    assert fingerprint(batches, [*starts[:at], starts[at] + 1, *starts[at + 1 :]]) != true
    assert fingerprint(batches[:at] + batches[at + 1 :], starts[:at] + starts[at + 1 :]) != true
    assert fingerprint([*batches, one], [*starts, starts[-1] + 1]) != true


@given(BATCHES, st.integers(0, 1 << 50))
def test_another_order_changes_the_digest_and_not_the_content(batches: list[Batch], start: int) -> None:
    if batches[0] == batches[1]:
        return
    swapped = [batches[1], batches[0], *batches[2:]]
    true, other = fingerprint(batches, placed(batches, start)), fingerprint(swapped, placed(swapped, start))
    assert other.digest != true.digest
    assert other.content == true.content


def test_layout() -> None:
    # The numbers are part of the format: they lie in maps.
    batch = Batch(0xDEADBEEF, 1_700_000_000_000, 1000, 3)
    assert fingerprint([batch], [4711]).to_bytes().hex() == "0ed0db627fbbd2f2e08d6ecc"
    assert Fingerprint.from_bytes(bytes.fromhex("0ed0db627fbbd2f2e08d6ecc")) == fingerprint([batch], [4711])
    assert NO_BATCHES.to_bytes() == bytes(FINGERPRINT_BYTES)


@pytest.mark.parametrize("data", [b"", bytes(11), bytes(13), PRIME.to_bytes(8, "big") + bytes(4)])
def test_what_is_no_fingerprint_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="fingerprint"):
        Fingerprint.from_bytes(data)
