"""Segments of chunks that followed one another, joined to one: a flow that copies a trickle commits several a second.

Nothing is lost. A joined segment has the runs of all of its chunks, and every position translates as
before, in both directions. So only those are joined between which there is nothing but the marker of a transaction:

    upstream    [ 10 11 )[ 12 13 14 )        [ 10 11 12 13 14 )
    downstream  [ 70 71 ) C [ 73 74 75 )     [ 70 71 ) C [ 73 74 75 )

Upstream they have to touch: a gap means that another writer may have copied that part, or none.

One that was joined before is written again only with a neighbour that is half as large at least, like the levels of a
log-structured merge tree: so each run is written a few times in its life, not at every round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from srm_common.domain.offsets.fingerprints import NO_BATCHES, Fingerprint
from srm_common.domain.offsets.segments import (
    Segment,
    with_neighbours_joined,
)

#: The most that the runs of a joined segment take before they are compressed: about 8,000 chunks of a trickle. All of
#: it is decoded when one position within is translated.
MOST_BODY_BYTES = 32 << 10
#: Fewer are not worth a record, unless they are large.
LEAST_SEGMENTS = 4
_LARGE_BYTES = 4 << 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A segment of the current map. ``number`` is its index there, ``body_bytes`` what its runs take uncompressed."""

    number: int
    segment: Segment
    body_bytes: int


def groups(candidates: Iterable[Candidate | None], least: int = LEAST_SEGMENTS) -> Iterator[list[Candidate]]:
    """Which neighbours become one segment each.

    Args:
        candidates: in the order of the map; None stands for some that stay as they are.
        least: fewer are left alone, unless they are large.
    """
    pile: list[_Heap] = []
    for candidate in candidates:
        if candidate is None or (pile and not _follows(pile[-1].found[-1].segment, candidate.segment)):
            yield from _worthwhile(pile, least)
            pile = []
        if candidate is None or not _is_clean(candidate.segment):
            yield from _worthwhile(pile, least)
            pile = []
            continue
        pile.append(_Heap([candidate], candidate.body_bytes))
        while len(pile) > 1 and _fits(pile[-2], pile[-1]):
            top = pile.pop()
            pile[-1].found += top.found
            pile[-1].size += top.size
    yield from _worthwhile(pile, least)


def joined(segments: Sequence[Segment]) -> Segment:
    """One segment for all of ``segments``, which follow one another."""
    first, last = segments[0], segments[-1]
    known: Fingerprint | None = NO_BATCHES
    for segment in segments:
        known = known.plus(segment.fingerprint) if known is not None and segment.fingerprint is not None else None
    return Segment(
        first.topic,
        first.partition,
        first.upstream_start,
        last.upstream_end,
        first.downstream_start,
        last.downstream_end,
        tuple(with_neighbours_joined(run for segment in segments for run in segment.runs)),
        first.generation,
        joined=True,
        fingerprint=known,
        after=first.after,
    )


@dataclass(slots=True)
class _Heap:
    found: list[Candidate]
    size: int

    @property
    def is_written(self) -> bool:
        """Whether it is in the topic as it is, joined before."""
        return len(self.found) == 1 and self.found[0].segment.joined


def _fits(below: _Heap, top: _Heap) -> bool:
    """Whether two neighbours become one, and no large one is written again for the sake of a small one."""
    if below.size + top.size > MOST_BODY_BYTES:
        return False
    return not ((below.is_written and below.size > 2 * top.size) or (top.is_written and top.size > 2 * below.size))


def _worthwhile(pile: Sequence[_Heap], least: int) -> Iterator[list[Candidate]]:
    for heap in pile:
        if len(heap.found) >= least or (len(heap.found) > 1 and heap.size >= _LARGE_BYTES):
            yield heap.found


def _follows(one: Segment, after: Segment) -> bool:
    """Whether there is no more between two segments than a marker; one without a fingerprint would take it away."""
    return (
        one.generation == after.generation
        and (one.fingerprint is None) == (after.fingerprint is None)
        and one.upstream_end == after.upstream_start
        and 0 <= after.downstream_start - one.downstream_end <= 1
    )


def _is_clean(segment: Segment) -> bool:
    """Whether none but the flow wrote between its records, and no later one took a part of it."""
    gap = 1 if segment.joined else 0
    end = segment.downstream_start
    for run in segment.runs:
        if run.foreign or run.downstream - end > gap:
            return False
        end = run.downstream_end
    return segment.runs[-1].upstream_end <= segment.upstream_end
