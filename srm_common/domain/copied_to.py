"""How far a flow has copied a partition."""

from __future__ import annotations

from typing import NamedTuple


class CopiedTo(NamedTuple):
    """Where what the flow itself has committed of a partition ends, on both sides, both exclusive: the newest segment's
    ends, when it was committed.

    It tells a segment that lies behind the one before it from one behind a record of the map that was lost, and which
    part of a copy was made again since offsets were moved back.
    """

    upstream_end: int
    downstream_end: int
