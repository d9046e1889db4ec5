"""What handing a flow back to MirrorMaker 2 would do, or did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srm_common.domain.moving.handover import HandoverPosition, unproved


@dataclass(frozen=True)
class Handback:
    """``signs``: that something is at work. ``faults``: stored offsets that cannot be read. ``held``: copies behind an
    open transaction. ``rewritten``: so many keys whose last record was that of an aborted transaction. ``offsets``: so
    many offsets that were not committed, or not under MirrorMaker 2's names. ``checkpoints``: what the last round of
    offset syncs and checkpoints did."""

    flow: str
    positions: tuple[HandoverPosition, ...]
    signs: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    rewritten: int = 0
    offsets: int = 0
    checkpoints: str = ""
    written: bool = False

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why it was not, or would not be, carried out: one sentence each."""
        doubts = (f"{one.topic}-{one.partition}: {one.proof}" for one in unproved(self.positions))
        return (*self.signs, *self.faults, *self.held, *doubts)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "written": self.written,
            "obstacles": list(self.obstacles),
            "positions": [one.to_json() for one in self.positions],
            "rewritten": self.rewritten,
            "offsets": self.offsets,
            "checkpoints": self.checkpoints,
        }
