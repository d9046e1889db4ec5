"""How far a flow has copied a partition."""

from __future__ import annotations

from typing import NamedTuple


class CopiedTo(NamedTuple):
    """Where the flow's committed records of a partition end, on both sides, exclusive: the ends of the newest segment
    when it was committed. It distinguishes a segment that follows its predecessor from one that follows a lost record
    of the map, and shows which part of a copy was copied again after offsets were moved back.
    """

    upstream_end: int
    downstream_end: int
