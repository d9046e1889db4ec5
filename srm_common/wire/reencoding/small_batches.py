"""The batches of an answer as a row that knows where each begins, and makes objects only when asked for them: of small
ones, and of those with holes.

The numbers come from one loop over all headers (:func:`srm_common.wire.reencoding.batch_walk.scan`), as objects for
each batch of ten records cost as much as to read their checksums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from srm_common.wire.batches.batch import SourceBatch, parse_header, split

if TYPE_CHECKING:
    from srm_common.wire.reencoding.record_walk import Ints

#: Columns of the numbers: where a batch begins and ends in the answer; its first offset and that after its last one;
#: its records.
START, END, FIRST, AFTER, RECORDS = range(5)
SCAN_FIELDS = 5


class SmallBatches(Sequence[SourceBatch]):
    """Batches that lie one behind the other: of magic 2, outside of transactions, none of them empty or a marker.

    Args:
        records: what they lie in.
        numbers: a row for each.
        epoch: of all of them, the leader's.
    """

    def __init__(self, records: memoryview, numbers: Ints, epoch: int) -> None:
        self._records = records
        self._numbers = numbers
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> SourceBatch: ...
    @overload
    def __getitem__(self, index: slice) -> SmallBatches: ...
    def __getitem__(self, index: int | slice) -> SourceBatch | SmallBatches:
        if isinstance(index, slice):
            return SmallBatches(self._records, self._numbers[index], self.epoch)
        start, end, *_ = self._numbers[index].tolist()
        data = self._records[start:end]
        return SourceBatch(parse_header(data), data)

    def __iter__(self) -> Iterator[SourceBatch]:
        return split(self.data)

    @property
    def records(self) -> memoryview:
        """What they lie in."""
        return self._records

    @property
    def numbers(self) -> Ints:
        """A row for each."""
        return self._numbers

    def dense(self) -> list[bool]:
        """Of each whether every offset has its record."""
        numbers = self._numbers
        dense: list[bool] = (numbers[:, AFTER] - numbers[:, FIRST] == numbers[:, RECORDS]).tolist()
        return dense

    @property
    def data(self) -> memoryview:
        """All of them."""
        numbers = self._numbers
        return self._records[int(numbers[0, START]) : int(numbers[-1, END])] if len(numbers) else self._records[:0]

    @property
    def record_count(self) -> int:
        """Records of all of them."""
        return int(self._numbers[:, RECORDS].sum())

    @property
    def first_offset(self) -> int:
        """Of the first batch."""
        return int(self._numbers[0, FIRST])

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return int(self._numbers[-1, AFTER])

    def after(self, offset: int) -> SmallBatches:
        """Without those that end at ``offset`` or before it."""
        return self[int(self._numbers[:, AFTER].searchsorted(offset, "right")) :]

    def before(self, offset: int) -> SmallBatches:
        """Without those that begin at ``offset`` or behind it."""
        return self[: int(self._numbers[:, FIRST].searchsorted(offset))]

    def row(self, start: int, size: int) -> SmallBatches:
        """From the one of that number on as many as have ``size`` bytes, all that are left if these have fewer."""
        ends = self._numbers[:, END]
        return self[start : int(ends.searchsorted(self._numbers[start, START] + size)) + 1]
