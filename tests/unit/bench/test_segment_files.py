"""Segment files built by hand, byte for byte as a broker lays them out."""

import struct
from pathlib import Path

import pytest

from bench.segment_files import LogContent, read_partition, read_topics

_TRANSACTIONAL, _CONTROL = 0x10, 0x20


def batch(base: int, count: int, *, delta: int | None = None, attributes: int = 0, producer: int = -1) -> bytes:
    """A v2 batch whose records are zeros: only the header is looked at."""
    body = bytes(10 * count)
    last_delta = count - 1 if delta is None else delta
    return (
        struct.pack(">qiibIh", base, 49 + len(body), 0, 2, 0, attributes)
        + struct.pack(">iqqqhii", last_delta, 0, 0, producer, 0, 0, count)
        + body
    )


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    """A control batch with one record: length, attributes, deltas, key length as varints, then version and type."""
    record = bytes([0x20, 0, 0, 0, 8]) + struct.pack(">hh", 0, int(commit)) + bytes([12]) + bytes(6) + bytes([0])
    return (
        struct.pack(">qiibIh", base, 49 + len(record), 0, 2, 0, _CONTROL | _TRANSACTIONAL)
        + struct.pack(">iqqqhii", 0, 0, 0, producer, 0, -1, 1)
        + record
    )


def partition(folder: Path, *segments: bytes) -> Path:
    folder.mkdir(parents=True)
    for number, data in enumerate(segments):
        (folder / f"{number:020d}.log").write_bytes(data)
    return folder


def test_plain_batches_are_counted_with_their_size_and_codec(tmp_path: Path) -> None:
    content = read_partition(partition(tmp_path / "t-0", batch(0, 5, attributes=3), batch(5, 7, attributes=3)))
    assert content == LogContent(12, 0, 0, 2, 0, 2 * 61 + 120, 0, ("lz4",), 12)
    assert content.records_per_batch == 6


def test_aborted_and_open_transactions_are_left_out(tmp_path: Path) -> None:
    content = read_partition(
        partition(
            tmp_path / "t-0",
            batch(0, 5, attributes=_TRANSACTIONAL, producer=1)
            + batch(5, 3, attributes=_TRANSACTIONAL, producer=2)
            + marker(8, 1, commit=True)
            + marker(9, 2, commit=False),
            batch(10, 2, attributes=_TRANSACTIONAL, producer=1),
        )
    )
    assert (content.records, content.aborted_records, content.open_records) == (5, 3, 2)
    assert (content.batches, content.control_batches, content.end_offset) == (3, 2, 12)


def test_a_batch_with_fewer_records_than_offsets_has_holes(tmp_path: Path) -> None:
    content = read_partition(partition(tmp_path / "t-0", batch(0, 3, delta=9) + batch(10, 4)))
    assert (content.records, content.batches_with_holes, content.end_offset) == (7, 1, 14)


def test_a_preallocated_end_and_an_empty_segment_are_no_batches(tmp_path: Path) -> None:
    content = read_partition(partition(tmp_path / "t-0", batch(0, 3) + bytes(500), b""))
    assert (content.records, content.batches) == (3, 1)


def test_topics_add_up_over_their_partitions(tmp_path: Path) -> None:
    for place, count in (("a-0", 1), ("a-1", 2), ("b-0", 3), ("b-1", 4)):
        partition(tmp_path / place, batch(0, count, attributes=4 if place.startswith("a") else 0))
    content = read_topics(tmp_path, ["a", "b"], 2)
    assert (content.records, content.codecs, content.end_offset) == (10, ("none", "zstd"), 10)


def test_a_missing_partition_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="a-0"):
        read_topics(tmp_path, ["a"], 1)
