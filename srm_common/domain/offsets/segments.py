"""The offset map: which upstream offsets became which downstream offsets, chunk by chunk.

    upstream    [ 10 11 12 13 )[ C ][ 15 16 ] ... [ 18 )      C: a commit marker of a source transaction
    downstream  [ 70 71 72 73    ][ 74 75 ]

A *span* (:class:`OffsetSpan`) is a stretch of both logs. In a dense span every upstream offset is a record and became
the downstream offset at the same distance: translation is arithmetic. In a sparse span some upstream offsets are
holes (markers, aborted or compacted records), so that only the order and a lower bound are known. A *segment*
is what one committed chunk did to one partition: the upstream range it covers, dropped records included, and
its spans (``runs``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.offsets.fingerprints import Fingerprint
from srm_common.domain.topic_id import url_safe

#: Bytes of the encoded value before its varints: downstream start and generation.
VALUE_HEAD_BYTES = 12
#: No segment's value takes more, however large the chunk: brokers refuse records beyond ``max.message.bytes`` (1 MB
#: if it is not set), and with its map the whole chunk.
MOST_VALUE_BYTES = 512 << 10
_SMALLEST_RUN_BYTES = 2


class OffsetSpan(NamedTuple):
    """``upstream_length`` offsets from ``upstream`` became the ``length`` offsets from ``downstream``.

    ``foreign``: the downstream range may hold records of others (another writer, a transaction marker), so
    that nothing can be counted in it; such a span is never dense.
    """

    upstream: int
    upstream_length: int
    downstream: int
    length: int
    foreign: bool = False

    @property
    def dense(self) -> bool:
        """Whether offsets inside the span translate by arithmetic."""
        return self.upstream_length == self.length and not self.foreign

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.upstream_length

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.length


@dataclass(frozen=True, slots=True)
class Segment:
    """One chunk of one partition.

    ``topic`` is the upstream name. ``upstream_end`` (exclusive) is the next offset to read after the chunk:
    dropped records and control batches at its end are included. So are, at its start, chunks before it that were
    nothing but such: a chunk that copied nothing has no segment. The downstream range spans the runs.
    ``generation`` tells topics of the same name apart (:func:`generation_of`). ``joined``: it holds the runs of several
    chunks that followed one another (:mod:`srm_common.domain.offsets.joined_segments`); where it has a gap of one
    offset downstream, there is the marker of a chunk. ``fingerprint``: of the batches that the flow wrote; None where
    they are not known, in segments of versions that took none and in those of a take-over. ``after``: what the flow had
    committed before, of which nothing lies behind the segment's start; None where it does not know, as behind what
    MirrorMaker 2 copied.
    """

    topic: str
    partition: int
    upstream_start: int
    upstream_end: int
    downstream_start: int
    downstream_end: int
    runs: tuple[OffsetSpan, ...]
    generation: int = 0
    joined: bool = False
    fingerprint: Fingerprint | None = None
    after: CopiedTo | None = None


def generation_of(topic_id: str | None) -> int:
    """What segments carry of the id of the source topic, 32 bits; 0 where the id is unknown.

    A topic that was deleted and re-created has another id, and its offsets mean something else.
    """
    return (crc32(url_safe(topic_id).encode()) or 1) if topic_id else 0


def is_another_generation(recorded: int, found: int) -> bool:
    """Whether both are known, and differ."""
    return 0 not in (recorded, found) and recorded != found


def build_segment(
    topic: str,
    partition: int,
    upstream_start: int,
    upstream_end: int,
    runs: Sequence[OffsetSpan],
    max_bytes: int,
    generation: int = 0,
    fingerprint: Fingerprint | None = None,
) -> Segment:
    """The segment of a committed chunk; its encoded value takes at most ``max_bytes`` where possible, and
    never more than ``MOST_VALUE_BYTES``.

    Adjacent runs are joined. If the rest is too large, neighbours are merged into sparse runs, small ones
    first, so that long dense stretches stay exact; at least one run stays, however small ``max_bytes`` is.

    Args:
        upstream_start: where the segment before it ended, if all that was read since was nothing to copy; else the next
            offset to read before the chunk.
        upstream_end: next offset to read after it.
        runs: in order on both sides, within the upstream range; at least one (a chunk that copied nothing has no
            place in the target log, and so no segment).
        generation: of the source topic.
        fingerprint: of all batches of the chunk.

    Raises:
        ValueError: the runs are empty, overlap, go backwards or leave the range.
    """
    size, kept = _measured(upstream_start, upstream_end, runs)
    max_bytes = min(max_bytes, MOST_VALUE_BYTES)
    if size > max_bytes:
        joined = kept
        records = sum(run.length for run in joined)
        # Start near the run length that fills the budget, then double: a handful of linear rounds at most.
        limit = max(2, records * _SMALLEST_RUN_BYTES // max(1, max_bytes))
        while len(kept) > 1 and size > max_bytes:
            kept = _coarsened(joined, limit)
            size = value_bytes(upstream_start, upstream_end, kept)
            limit *= 2
    return Segment(
        topic,
        partition,
        upstream_start,
        upstream_end,
        kept[0].downstream,
        kept[-1].downstream_end,
        tuple(kept),
        generation,
        fingerprint=fingerprint,
    )


def exact_segments(
    topic: str,
    partition: int,
    upstream_start: int,
    upstream_end: int,
    runs: Sequence[OffsetSpan],
    generation: int = 0,
    fingerprint: Fingerprint | None = None,
) -> list[Segment]:
    """The segments of a committed chunk of which no run may be merged, one after the other; the arguments as
    :func:`build_segment` has them.

    Within a merged run the records of the logs are counted. Where a transform has dropped some, source and copy have
    other numbers of records, and only the runs tell what became of a position. Several segments have no fingerprint:
    that of the chunk is of all of them together.
    """
    size, kept = _measured(upstream_start, upstream_end, runs)
    if size > MOST_VALUE_BYTES and len(kept) > 1:
        middle = len(kept) // 2
        at = kept[middle].upstream
        return [
            *exact_segments(topic, partition, upstream_start, at, kept[:middle], generation),
            *exact_segments(topic, partition, at, upstream_end, kept[middle:], generation),
        ]
    first, last = kept[0].downstream, kept[-1].downstream_end
    whole = (topic, partition, upstream_start, upstream_end, first, last, tuple(kept), generation)
    return [Segment(*whole, fingerprint=fingerprint)]


def in_a_row(segments: Iterable[Segment], copied_to: CopiedTo | None) -> list[Segment]:
    """The segments of a chunk, each with what the flow had committed before it.

    Args:
        copied_to: as it was before the chunk, None where that is not known.
    """
    out = []
    for segment in segments:
        out.append(replace(segment, after=copied_before(copied_to, segment.downstream_start)))
        copied_to = CopiedTo(segment.upstream_end, segment.downstream_end)
    return out


def copied_before(copied_to: CopiedTo | None, downstream_start: int) -> CopiedTo | None:
    """What a segment that begins there must record about earlier commits; None if that is unknown. Of a copy that was
    cut, there is nothing left behind it."""
    if copied_to is None or copied_to.downstream_end <= downstream_start:
        return copied_to
    return CopiedTo(copied_to.upstream_end, downstream_start)


def value_bytes(upstream_start: int, upstream_end: int, runs: Sequence[OffsetSpan]) -> int:
    """Size of the encoded value; the layout is that of :mod:`srm_common.wire.state.segments`.

    Raises:
        ValueError: the runs are empty, overlap, go backwards or leave the range.
    """
    return _size_of(upstream_start, upstream_end, runs)[0]


def _measured(upstream_start: int, upstream_end: int, runs: Sequence[OffsetSpan]) -> tuple[int, Sequence[OffsetSpan]]:
    """The runs, neighbours joined, and the size of their encoded value. Raises as :func:`value_bytes`."""
    size, touching = _size_of(upstream_start, upstream_end, runs)
    if not touching:
        return size, runs
    joined = with_neighbours_joined(runs)
    return value_bytes(upstream_start, upstream_end, joined), joined


def _size_of(upstream_start: int, upstream_end: int, runs: Sequence[OffsetSpan]) -> tuple[int, bool]:
    """As :func:`value_bytes`, and whether some neighbours could be joined."""
    if not runs:
        raise ValueError("a segment needs at least one run")
    size = VALUE_HEAD_BYTES + _varint_bytes(upstream_end - upstream_start) + _varint_bytes(len(runs))
    upstream, downstream = upstream_start, runs[0].downstream
    was_dense = touching = False
    for run in runs:
        start, upstream_length, place, length, foreign = run
        gap, jump = start - upstream, place - downstream
        upstream, downstream = start + upstream_length, place + length
        dense = upstream_length == length and not foreign
        # A compacted topic has a run for every other record, with small numbers.
        if dense and not jump and 0 < gap < 128 and 0 < length < 32 and place >= 0:
            size += 2
            was_dense = True
            continue
        if gap < 0 or jump < 0 or place < 0 or length < 1:
            raise ValueError(f"{run} overlaps the one before it, or is empty")
        if upstream_length < length and not foreign:
            raise ValueError(f"{run} has more records than upstream offsets")
        touching = touching or (dense and was_dense and not gap and not jump)
        was_dense = dense
        size += _varint_bytes(gap) + _varint_bytes(length << 2)
        if dense:
            size += _varint_bytes(jump) if jump else 0
        elif jump or foreign:
            size += _varint_bytes(jump) + _varint_bytes(upstream_length << 1)
        else:
            size += _varint_bytes(upstream_length - length)
    if upstream > upstream_end:
        raise ValueError(f"the last run ends at {upstream}, beyond the end of the chunk {upstream_end}")
    return size, touching


def _varint_bytes(number: int) -> int:
    return (number.bit_length() + 6) // 7 or 1


def with_neighbours_joined(runs: Iterable[OffsetSpan]) -> list[OffsetSpan]:
    """Dense neighbours without a jump on either side become one run; nothing is lost."""
    out: list[OffsetSpan] = []
    upstream_end = downstream_end = -1
    for run in runs:
        upstream, upstream_length, downstream, length, foreign = run
        dense = upstream_length == length and not foreign
        if dense and upstream == upstream_end and downstream == downstream_end:
            last = out[-1]
            out[-1] = OffsetSpan(last.upstream, last.length + length, last.downstream, last.length + length)
        else:
            out.append(run)
        # What is not dense has no end that another could touch.
        upstream_end = upstream + length if dense else -1
        downstream_end = downstream + length
    return out


def _coarsened(runs: Sequence[OffsetSpan], limit: int) -> list[OffsetSpan]:
    """Merge neighbours as long as the merged run holds at most ``limit`` records."""
    out: list[OffsetSpan] = []
    first, first_length, place, length, foreign = runs[0]
    for run in runs[1:]:
        upstream, upstream_length, downstream, records, other = run
        if downstream + records - place <= limit:
            foreign = foreign or other or downstream != place + length
            first_length, length = upstream + upstream_length - first, downstream + records - place
        else:
            out.append(OffsetSpan(first, first_length, place, length, foreign))
            first, first_length, place, length, foreign = run
    out.append(OffsetSpan(first, first_length, place, length, foreign))
    return out


def upstream_offsets(segment: Segment, first: int, last: int) -> tuple[int, int]:
    """Upstream offsets, inclusive, that became these downstream: exact in dense runs, otherwise those of the whole
    runs."""
    found: list[tuple[int, int]] = []
    for run in segment.runs:
        start, end = max(first, run.downstream), min(last + 1, run.downstream_end)
        if start < end:
            found.append(_of_run(run, start, end))
    return (found[0][0], found[-1][1]) if found else (-1, -1)


def _of_run(run: OffsetSpan, start: int, end: int) -> tuple[int, int]:
    if not run.dense:
        return run.upstream, max(run.upstream, run.upstream_end - 1)
    shift = run.upstream - run.downstream
    return start + shift, end - 1 + shift
