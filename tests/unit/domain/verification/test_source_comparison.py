from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from srm_common.domain.verification.named_keys import NamedKeys
from srm_common.domain.verification.source_comparison import ComparedBatch, LogRecord, Side, SourceComparison, Stretch

RECORDS = 4000


class CountedRecords(list[LogRecord]):
    """A batch's records; counts how many are handed out in slices."""

    handed_out = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        if isinstance(at, slice):
            self.handed_out += len(found)
        return found


def _same(records: list[LogRecord]) -> list[LogRecord]:
    return records


def side(*batches: list[LogRecord]) -> Side:
    def found() -> Iterator[ComparedBatch]:
        for one in batches:
            records = partial(_same, one)
            yield ComparedBatch(one[0].offset, one[-1].offset + 1, len(one), 100, None, records)

    return Side(found())


def test_a_large_batch_is_not_looked_at_as_a_whole_for_each_small_one_of_the_other_side() -> None:
    records = [LogRecord(offset, 0, b"%d" % offset) for offset in range(RECORDS)]
    merged = CountedRecords(records)
    small = side(*([record] for record in records))
    comparison = SourceComparison(small, side(merged), lambda: (0, 0), RECORDS, NamedKeys(lambda content: None))
    comparison.compare(Stretch(0, RECORDS, 0, RECORDS))
    assert (comparison.findings.proved, comparison.findings.differences) == (RECORDS, [])
    assert merged.handed_out < 100 * RECORDS
