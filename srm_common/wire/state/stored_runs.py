"""The runs of batches that were stored, on their way into the offset map (:mod:`srm_common.wire.state.segments`).

A batch of a compacted topic has a run for every other record. Compiled loops write them down as the map has them, so
that no object is made for a run: only the first and the last one of a batch may still be joined with those beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from srm_common.domain.offsets.segments import MOST_VALUE_BYTES
from srm_common.wire.batches.batch import UpstreamRun
from srm_common.wire.state.segments import VALUE_HEAD
from srm_common.wire.varints import read_uvarint, write_uvarint

StoredRuns = tuple[int, Sequence[UpstreamRun]]
"""Where a batch begins downstream, and its runs."""


class DenseRuns(Sequence[UpstreamRun]):
    """The runs of a batch, two or more, of which each is dense and no two are neighbours.

    Args:
        first, last: as they are.
        between: those between, as the offset map has them: a gap and a length times four, as varints.
        before_last: upstream offset behind the last but one.
        count: of all runs.
        records: of the batch.
    """

    __slots__ = ("_count", "before_last", "between", "first", "last", "records")

    def __init__(
        self,
        first: UpstreamRun,
        between: bytes,
        before_last: int,
        last: UpstreamRun,
        count: int,
        records: int,
    ) -> None:
        self.first = first
        self.between = between
        self.before_last = before_last
        self.last = last
        self._count = count
        self.records = records

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[UpstreamRun]:
        yield self.first
        start, length, _ = self.first
        place, end, between = 0, start + length, self.between
        while place < len(between):
            gap, place = read_uvarint(between, place)
            head, place = read_uvarint(between, place)
            start, length = end + gap, head >> 2
            yield start, length, length
            end = start + length
        yield self.last

    @overload
    def __getitem__(self, index: int) -> UpstreamRun: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[UpstreamRun]: ...
    def __getitem__(self, index: int | slice) -> UpstreamRun | Sequence[UpstreamRun]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def encode_stored(
    upstream_start: int, upstream_end: int, generation: int, stored: Sequence[StoredRuns], max_bytes: int
) -> bytes | None:
    """The value of a chunk's segment, as :func:`~srm_common.wire.state.segments.encode_segment` makes it of what
    :func:`~srm_common.domain.offsets.segments.build_segment` returns for the same runs; None where they take more than
    ``max_bytes``, so that neighbours have to be merged.

    Args:
        stored: the batches of the chunk, in order; one at least.

    Raises:
        ValueError: the runs overlap, go backwards or leave the range.
    """
    writer = _Writer(upstream_start, stored[0][0])
    # The run that may still grow: where it begins on both sides, its offsets upstream, its records.
    start = place = length = records = 0
    for base, runs in stored:
        dense = runs if isinstance(runs, DenseRuns) else None
        down = base
        for first, more, number in runs if dense is None else (dense.first,):
            if records and first == start + length and down == place + records and length == records and more == number:
                length = records = records + number
            else:
                if records:
                    writer.put(start, place, length, records)
                start, place, length, records = first, down, more, number
            down += number
        if dense is not None:
            writer.put(start, place, length, records)
            start, length, records = dense.last
            place = base + dense.records - records
            writer.add(dense.between, len(dense) - 2, dense.before_last, place)
    writer.put(start, place, length, records)
    if writer.upstream > upstream_end:
        raise ValueError(f"the last run ends at {writer.upstream}, beyond the end of the chunk {upstream_end}")
    value = (
        VALUE_HEAD.pack(stored[0][0], generation)
        + write_uvarint(upstream_end - upstream_start)
        + write_uvarint(writer.count)
        + writer.out
    )
    return value if writer.count == 1 or len(value) <= min(max_bytes, MOST_VALUE_BYTES) else None


class _Writer:
    """Runs as the map has them, and where the next one counts from on both sides."""

    def __init__(self, upstream: int, downstream: int) -> None:
        self.upstream = upstream
        self.downstream = downstream
        self.out = bytearray()
        self.count = 0

    def put(self, start: int, place: int, length: int, records: int) -> None:
        """One run. Raises ValueError where it overlaps the one before, or is empty."""
        gap, jump = start - self.upstream, place - self.downstream
        if gap < 0 or jump < 0 or not 0 < records <= length:
            raise ValueError(
                f"the run of {records} records from {start} to {start + length} overlaps another, or is empty"
            )
        out = self.out
        out += write_uvarint(gap)
        if length == records:
            out += write_uvarint(records << 2 | (jump > 0))
            if jump:
                out += write_uvarint(jump)
        elif jump:
            out += write_uvarint(records << 2 | 3) + write_uvarint(jump) + write_uvarint(length << 1)
        else:
            out += write_uvarint(records << 2 | 2) + write_uvarint(length - records)
        self.upstream, self.downstream = start + length, place + records
        self.count += 1

    def add(self, written: bytes, count: int, upstream: int, downstream: int) -> None:
        """Runs that were written before, up to there."""
        self.out += written
        self.count += count
        self.upstream, self.downstream = upstream, downstream
