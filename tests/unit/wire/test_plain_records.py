"""Batches of our own, read by kafka-python."""

from __future__ import annotations

from kafka.record.memory_records import MemoryRecords

from srm_common.wire.batch import stamp
from srm_common.wire.plain_records import plain_records


def test_library_reads_keys_values_and_tombstones() -> None:
    entries = [(b"a", b"1"), (b"bb", None), (b"c" * 300, b""), (b"", b"x" * 70_000)]
    body = plain_records(entries)
    header = stamp(
        attributes=0,
        last_offset_delta=3,
        base_timestamp=1000,
        max_timestamp=1000,
        record_count=4,
        body=body,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    batch = MemoryRecords(bytes(header) + body).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert [(record.key, record.value, record.timestamp) for record in batch] == [
        (key, value, 1000) for key, value in entries
    ]
