"""Makes floors exact by reading the logs: counts records before a position, or between two offsets.

A log may have lost records since they were copied (compaction, retention), but none comes back. So the records found on
either side of a position are lower bounds, and the translated position lies between them:

    run.downstream + seen before the position  <=  place  <=  end of the run - seen at or after it

Where the two meet, the place is known; and where no record is left between them on the target, it does not matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.offsets.segments import OffsetSpan
from srm_common.domain.offsets.translation import Evidence, Translated


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch in the target's log, as far as its header goes. ``offsets`` are those that it was written with."""

    offsets: range
    producer: tuple[int, int]
    sequence: int


def counted(floor: Translated, position: int, upstream: Sequence[int]) -> Translated:
    """Narrow a floor within a sparse run of records that lie side by side on the target.

    Args:
        upstream: offsets, in order, of the run's records that a consumer of the source still sees.
    """
    run = floor.within
    if run is None or run.foreign:
        return floor
    return _narrowed(floor, position, upstream, range(run.downstream, run.downstream_end), Evidence.SOURCE)


def counted_apart(floor: Translated, position: int, own: Sequence[int], upstream: Sequence[int]) -> Translated:
    """Narrow a floor within a run that others wrote into.

    Args:
        own: the downstream offsets of all records of the run, as :func:`own_offsets` tells them.
        upstream: as in :func:`counted`; empty where the source cannot be queried.
    """
    run = floor.within
    if run is None:
        return floor
    ahead, left = position - run.upstream, run.upstream_end - position
    fewest, most = max(0, len(own) - left), min(ahead, len(own))
    bounded = _bounded(floor, _at(own, fewest, run), _at(own, most, run), Evidence.TARGET)
    return _narrowed(bounded, position, upstream, own, Evidence.TARGET)


def own_offsets(run: OffsetSpan, batches: Sequence[SeenBatch]) -> list[int] | None:
    """The downstream offsets that the records of ``run`` were written to, None where the log does not prove it.

    A chunk has one producer, whose batches of a partition count on; compaction keeps a batch's number, so that a batch
    that is gone leaves a gap in them.

    Args:
        batches: of the target's log from the run's start to its end, those of others among them.
    """
    first = next((batch for batch in batches if run.downstream in batch.offsets), None)
    if first is None or first.sequence < 0:
        return None
    own = [batch for batch in batches if batch.producer == first.producer]
    for one, after in pairwise(own):
        if after.sequence != (one.sequence + len(one.offsets)) & 0x7FFFFFFF:
            return None
    if own[-1].offsets.stop < run.downstream_end:
        return None
    return [offset for batch in own for offset in batch.offsets if run.downstream <= offset < run.downstream_end]


def looked_between(floor: Translated, downstream: Sequence[int]) -> Translated:
    """Make a floor exact where nothing lies between it and the highest place that it may be.

    Args:
        downstream: offsets of the records that a consumer of the target sees from ``floor.offset`` on, in order.
    """
    if floor.exact or floor.most is None:
        return floor
    if bisect_left(downstream, floor.most) > bisect_left(downstream, floor.offset):
        return floor
    return Translated(floor.offset, exact=True, by=Evidence.TARGET)


def by_syncs(syncs: Sequence[OffsetSync], position: int, lowest: int, highest: int) -> Translated | None:
    """MirrorMaker 2's rule for a part that it copied: a sync's own offset is exact, after it only one step is certain.

    Args:
        syncs: of one partition, as :func:`current_syncs` leaves them.
        lowest, highest: between these downstream offsets lies what the map of this flow does not cover.

    Returns:
        None where no sync lies at or before the position.
    """
    index = bisect_right(syncs, position, key=_upstream) - 1
    if index < 0 or not lowest <= syncs[index].downstream < highest:
        return None
    sync = syncs[index]
    if sync.upstream == position:
        return Translated(sync.downstream, exact=True, by=Evidence.SYNCS)
    most = highest
    if index + 1 < len(syncs):
        most = min(most, syncs[index + 1].downstream)
    if most <= sync.downstream + 1:
        return Translated(most, exact=True, by=Evidence.SYNCS)
    return Translated(
        sync.downstream + 1,
        exact=False,
        most=most,
        by=Evidence.SYNCS,
        why=f"MirrorMaker 2 copied it and left one pair of offsets before it, at upstream offset {sync.upstream}",
    )


def current_syncs(written: Sequence[OffsetSync]) -> list[OffsetSync]:
    """What holds of one partition's syncs, given in the order of the log, ordered by upstream offset.

    A later one replaces what earlier ones say about its offset and everything after it, on either side.
    """
    out: list[OffsetSync] = []
    for sync in written:
        while out and (out[-1].upstream >= sync.upstream or out[-1].downstream >= sync.downstream):
            out.pop()
        out.append(sync)
    return out


def _narrowed(
    floor: Translated, position: int, upstream: Sequence[int], own: Sequence[int], by: Evidence
) -> Translated:
    run = floor.within
    before = bisect_left(upstream, position)
    after = len(upstream) - before
    if run is None or before + after > len(own):
        return floor  # more than was copied: this is not the log that it was copied from
    return _bounded(floor, _at(own, before, run), _at(own, len(own) - after, run), by)


def _at(own: Sequence[int], index: int, run: OffsetSpan) -> int:
    return own[index] if index < len(own) else run.downstream_end


def _bounded(floor: Translated, lowest: int, highest: int, by: Evidence) -> Translated:
    low = max(floor.offset, lowest)
    high = highest if floor.most is None else min(floor.most, highest)
    if low > high:
        return floor  # contradicts what is known already
    if low == high:
        return Translated(low, exact=True, by=by)
    return replace(floor, offset=low, most=high)


def _upstream(sync: OffsetSync) -> int:
    return sync.upstream
