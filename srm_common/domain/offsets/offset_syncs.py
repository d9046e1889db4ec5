"""MirrorMaker 2's offset syncs: sparse pairs of offsets that say which record became which.

Ours are derived from the segment map, at the points where MirrorMaker 2 writes its own, so that its checkpoint
connector and client library can use them. A pair (up, down) guarantees exactly two things:

    position == up  ->  down        the record at ``down`` is not read yet
    position > up   ->  down + 1    the record at ``down`` is read

Both hold for a record and its copy, and also for the last offset that a run covers and the last record of its
copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain.offsets.segments import OffsetSpan, Segment


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Record ``upstream`` of (``topic``, ``partition``) at the source is record ``downstream`` of its copy.

    ``topic`` is the upstream name (Kafka's ``OffsetSync``).
    """

    topic: str
    partition: int
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class SyncState:
    """What MirrorMaker 2 remembers of a partition between records (``OffsetSyncWriter.PartitionState``)."""

    previous_upstream: int = -1
    previous_downstream: int = -1
    last_sync_downstream: int = -1

    def after(self, upstream: int, downstream: int, offset_lag_max: int) -> tuple[bool, SyncState]:
        """Whether a copied record forces a sync, and the state after it.

        The four reasons: the first record; ``offset_lag_max`` records since the last forced sync; a jump at
        the source; a step back at the target.
        """
        forced = (
            self.last_sync_downstream == -1
            or downstream - (self.last_sync_downstream + 1) >= offset_lag_max
            or upstream - self.previous_upstream != 1
            or downstream < self.previous_downstream
        )
        return forced, SyncState(upstream, downstream, downstream if forced else self.last_sync_downstream)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Forced syncs at equal distances: ``upstream + i``, ``downstream + i`` for each i of ``steps``."""

    upstream: int
    downstream: int
    steps: range


def syncs_for(
    segments: Iterable[Segment], state: SyncState, offset_lag_max: int, limit: int = 1000
) -> tuple[list[OffsetSync], SyncState]:
    """The syncs of newly committed segments of one partition, and the state after them.

    The last position always gets one, as MirrorMaker 2 publishes its delayed sync when it commits; that one
    does not count as forced.

    Args:
        segments: in the order of their commits.
        offset_lag_max: the flow's ``offset.lag.max``.
        limit: most syncs to return; of more, some are left out at equal distances, as MirrorMaker 2 leaves out those
            that come while ten are being sent. The newest stays.
    """
    stretches: list[_Stretch] = []
    last: tuple[Segment, OffsetSpan] | None = None
    for segment in segments:
        for run in segment.runs:
            state = _add_run(run, state, offset_lag_max, stretches)
            last = segment, run
    if last is None:
        return [], state
    segment, run = last
    total = sum(len(stretch.steps) for stretch in stretches)
    stride = -(-total // max(1, limit - 1))
    pairs = []
    # Counted from the newest, so that it is among those that stay.
    skip = 0
    for stretch in reversed(stretches):
        steps = stretch.steps[::-1]
        pairs += [(stretch.upstream + i, stretch.downstream + i) for i in steps[skip::stride]]
        skip = (skip - len(steps)) % stride
    pairs.reverse()
    newest = run.upstream_end - 1, run.downstream_end - 1
    if not pairs or pairs[-1] != newest:
        pairs.append(newest)
    return [OffsetSync(segment.topic, segment.partition, *pair) for pair in pairs], state


def _add_run(run: OffsetSpan, state: SyncState, offset_lag_max: int, stretches: list[_Stretch]) -> SyncState:
    if not run.dense:
        # Which record lies where is not known inside; its end is a safe pair, and a jump forces it.
        upstream, downstream = run.upstream_end - 1, run.downstream_end - 1
        forced, state = state.after(upstream, downstream, offset_lag_max)
        if forced:
            stretches.append(_Stretch(upstream, downstream, range(1)))
        return state
    forced, state = state.after(run.upstream, run.downstream, offset_lag_max)
    if forced:
        stretches.append(_Stretch(run.upstream, run.downstream, range(1)))
    first = max(1, state.last_sync_downstream + 1 + offset_lag_max - run.downstream)
    steps = range(first, run.length, offset_lag_max + 1)
    if steps:
        stretches.append(_Stretch(run.upstream, run.downstream, steps))
    last_sync = run.downstream + steps[-1] if steps else state.last_sync_downstream
    return SyncState(run.upstream_end - 1, run.downstream_end - 1, last_sync)
