"""Batches of two logs, to be compared: by their bytes where these say all, opened where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from srm_common.domain.verification.newest_values import KeyedRecord
from srm_common.domain.verification.source_comparison import ComparedBatch, LogRecord
from srm_common.errors import CorruptBatch
from srm_common.wire.batches.batch import LOG_APPEND_TIME, SourceBatch, verify
from srm_common.wire.batches.batch_terms import copy_batch
from srm_common.wire.batches.records import legacy_records, loose_records
from srm_common.wire.varints import read_varint, signed64

_TIME_BYTES = 8


def compared_batch(batch: SourceBatch) -> ComparedBatch:
    """A batch of either log. One with holes, or with the broker's times, says little by its bytes: the copy of it was
    written again."""
    header = batch.header
    plain = header.magic == 2 and header.dense and not header.attributes & LOG_APPEND_TIME
    term = copy_batch(batch).term if plain else None

    def records() -> list[LogRecord]:
        verify(batch)
        loose = legacy_records(batch) if header.magic < 2 else loose_records(batch)
        return [LogRecord(record.offset, record.timestamp, record.tail) for record in loose]

    return ComparedBatch(header.base_offset, header.next_offset, header.record_count, header.size, term, records)


def key_of(content: bytes) -> bytes | None:
    """The key in a record's content; None where it has none, or cannot be read."""
    try:
        length, at = read_varint(content, 0)
    except IndexError:
        return None
    return content[at : at + length] if 0 <= length <= len(content) - at else None


def keyed_records(records: Iterable[LogRecord], *, same_times: bool) -> Iterator[KeyedRecord]:
    """The records with keys, taken apart; without their times where these need not be the same.

    Raises:
        CorruptBatch: a record ends inside its key.
    """
    for offset, timestamp, content in records:
        try:
            length, at = read_varint(content, 0)
            if length < 0:
                continue
            end = at + length
            size, _ = read_varint(content, end)
        except IndexError as error:
            raise CorruptBatch(f"the record at offset {offset} ends inside its key") from error
        time = signed64(timestamp).to_bytes(_TIME_BYTES, "big", signed=True) if same_times else b""
        yield KeyedRecord(offset, content[at:end], None if size < 0 else time + content[end:])
