"""Rows of batches, added up in plain Python, or compiled once that pays."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from srm_common.domain.verification.copy_batch import BatchRow
from srm_common.wire.batches.batch_terms import batch_row

#: Batches that are added up in plain Python, for as long as it takes to load the compiled loop.
_PLAIN_BATCHES = 100_000


class BatchRows:
    """Those that one process reads.

    Args:
        plain: batches until the compiled loop is loaded.
    """

    def __init__(self, plain: int = _PLAIN_BATCHES) -> None:
        self._plain = plain
        self._row: Callable[[memoryview, int, int], BatchRow] = batch_row

    def next_row(self, records: memoryview, position: int, end: int) -> BatchRow:
        """As :func:`~srm_common.wire.batches.batch_terms.batch_row`; what is left of a row may follow as one more."""
        row = self._row(records, position, end)
        if self._plain > 0:
            self._plain -= len(row.terms)
            if self._plain <= 0:
                self._row = _compiled() or batch_row
        return row


def _compiled() -> Callable[[memoryview, int, int], BatchRow] | None:
    """None where numba is not installed, cannot keep what it compiles, or the processor lacks the instruction."""
    if find_spec("numba") is None:
        return None
    from srm_common.wire.reencoding import machine_code, record_walk, row_sums

    return row_sums.compiled_row if record_walk.KEPT and machine_code.HAS_CRC32C else None
