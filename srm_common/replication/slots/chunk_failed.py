"""The failure of a chunk, after which its ranges are read again from where it began."""

from __future__ import annotations

from collections.abc import Sequence

from srm_common.errors import PartitionError, SrmError
from srm_common.replication.slots.ranges import RangeState


class ChunkFailed(Exception):
    """The chunk must be started over. ``states``: the ranges that caused it; empty if no range in particular did.
    ``error``: what to report when they are given up."""

    def __init__(self, reason: str | SrmError, states: Sequence[RangeState] = ()) -> None:
        super().__init__(str(reason))
        self.states = tuple(states)
        self.error = PartitionError(reason) if isinstance(reason, str) else reason
