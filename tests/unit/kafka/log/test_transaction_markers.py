"""What an answer, read uncommitted, says of the markers that are looked for."""

from __future__ import annotations

import struct

import pytest

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.log import transaction_markers
from srm_common.kafka.log.transaction_markers import Marker, MarkerSearch
from srm_common.wire.batches.batch import CONTROL, TRANSACTIONAL, SourceBatch
from srm_common.wire.protocol.fetch import FetchedPartition
from tests.unit.wire.built_batches import ABORT, COMMIT, Record, marker, source_batch


def data(offset: int, producer: int) -> SourceBatch:
    record = Record(offset, 0, None, b"v")
    return source_batch([record], attributes=TRANSACTIONAL, producer_id=producer)


def answer(*batches: SourceBatch, ends: int, stable: int | None = None) -> FetchedPartition:
    records = memoryview(b"".join(bytes(batch.data) for batch in batches))
    return FetchedPartition("t", 0, 0, ends, ends if stable is None else stable, 0, [], records)


def search(at: int, *producers: int) -> MarkerSearch:
    return MarkerSearch(TopicPartition("t", 0), at, dict.fromkeys(producers, at - 1))


def test_the_first_marker_of_each_producer_counts() -> None:
    one = search(10, 1, 2)
    one.read(answer(data(10, 1), marker(11, 3, ABORT), marker(12, 1, ABORT), data(13, 1), ends=20))
    assert (one.at, one.over) == (14, False)
    one.read(answer(marker(14, 1, COMMIT), marker(15, 2, COMMIT), ends=20))
    assert one.over
    assert one.found == {1: Marker(10, 12, True), 2: Marker(10, 15, False)}


def test_a_marker_is_the_first_from_other_offsets_on_too() -> None:
    found = Marker(10, 20, True)
    # Whoever starts over from an earlier offset may meet another one first.
    assert [offset for offset in range(5, 25) if found.follows(offset)] == list(range(10, 21))


def test_markers_before_the_position_do_not_count() -> None:
    # An answer begins with the batch that has the offset, however far before it that begins.
    one = search(10, 1)
    one.read(answer(marker(9, 1, ABORT), data(10, 2), marker(11, 1, COMMIT), ends=12))
    assert one.found == {1: Marker(10, 11, False)}


def test_an_emptied_marker_leaves_it_to_the_list() -> None:
    one = search(10, 1)
    emptied = source_batch([], base_offset=10, next_offset=11, attributes=TRANSACTIONAL | CONTROL, producer_id=1)
    one.read(answer(emptied, marker(11, 1, ABORT), ends=12))
    assert one.found == {1: Marker(10, 10, None)}


def test_control_records_of_another_kind_leave_it_to_the_list() -> None:
    one = search(10, 1)
    other = Record(10, 0, struct.pack(">hh", 0, 7), b"")
    one.read(answer(source_batch([other], attributes=TRANSACTIONAL | CONTROL, producer_id=1), ends=12))
    assert one.found == {1: Marker(10, 10, None)}


def test_at_the_end_of_the_log_stable_records_are_left_to_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    one = search(10, 1)
    one.read(answer(data(10, 2), ends=11))
    one.read(answer(ends=11))
    # A marker may be about to come.
    assert not one.over
    monkeypatch.setattr(transaction_markers, "_END_SECONDS", 0.0)
    one.read(answer(ends=11, stable=9))
    assert not one.over
    one.read(answer(ends=11, stable=10))
    assert one.found == {1: Marker(10, 11, None)}


def test_no_room_is_not_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "_END_SECONDS", 0.0)
    one = search(10, 1)
    one.read(answer(ends=11))
    assert not one.over
    assert one.empty == 1
