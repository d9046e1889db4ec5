"""What taking a flow over from MirrorMaker 2 would do, or did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srm_common.domain.moving.handover import HandoverPosition, unproved
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import ActionResult, failed


@dataclass(frozen=True)
class Takeover:
    """``signs``: that something still writes. ``left_out``: topics that MirrorMaker 2 copied and the flow does not,
    with the reason. ``faults``: stored offsets that cannot be read. ``plan`` adopts the topics; ``results`` are what
    became of it. ``written``: the flow is ours, and every position is committed."""

    flow: str
    positions: tuple[HandoverPosition, ...]
    plan: Plan
    signs: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    results: tuple[ActionResult, ...] = ()
    written: bool = False

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why it was not, or would not be, carried out: one sentence each."""
        return (
            *self.signs,
            *self.faults,
            *(f"{one.topic}-{one.partition}: {one.proof}" for one in unproved(self.positions)),
            *map(str, failed(self.results)),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "written": self.written,
            "obstacles": list(self.obstacles),
            "positions": [one.to_json() for one in self.positions],
            "left_out": [{"topic": topic, "reason": reason} for topic, reason in self.left_out],
            "plan": self.plan.to_json(),
            "results": [one.to_json() for one in self.results],
        }
