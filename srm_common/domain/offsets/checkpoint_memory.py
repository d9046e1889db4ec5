"""What a flow remembers between its rounds of offset syncs, checkpoints and group sync, and when each is due.

A round is a part of a run, so an interval becomes a whole number of runs. MirrorMaker 2 has timers; what holds there
holds here, too: group sync works with checkpoints, so it can be no more frequent than they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.flow import FlowSettings

#: Pruning reads the whole map, and nothing is lost by doing it late.
PRUNE_INTERVAL_SECONDS = 3600.0
#: A run that comes this much early counts for its period; schedulers are never exact.
_TOLERANCE = 0.05


class Part(StrEnum):
    """A part of a round with an interval of its own. Offset syncs have none: they are written for what was copied."""

    CHECKPOINTS = "checkpoints"
    GROUPS = "groups"
    PRUNING = "pruning"


@dataclass(frozen=True)
class CheckpointMemory:
    """``synced`` and ``checked``: the offset map was read up to here (its topic's partition -> next offset) for offset
    syncs and for checkpoints. ``copies``: the ids of remote topics at the last checkpoints. ``last_ms``: when each
    part was done without faults."""

    synced: Mapping[int, int] = field(default_factory=dict)
    checked: Mapping[int, int] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    last_ms: Mapping[Part, int] = field(default_factory=dict)

    def due(self, flow: FlowSettings, now_ms: int, *, at_once: bool = False) -> frozenset[Part]:
        """What a round at ``now_ms`` has to do; with ``at_once`` whatever is switched on."""
        checkpoints = flow.emit_checkpoints and (
            at_once or self._is_over(Part.CHECKPOINTS, flow.emit_checkpoints_interval_seconds, flow, now_ms)
        )
        groups = (
            checkpoints
            and flow.sync_group_offsets
            and (at_once or self._is_over(Part.GROUPS, flow.sync_group_offsets_interval_seconds, flow, now_ms))
        )
        pruning = self._is_over(Part.PRUNING, PRUNE_INTERVAL_SECONDS, flow, now_ms)
        due = {Part.CHECKPOINTS: checkpoints, Part.GROUPS: groups, Part.PRUNING: pruning}
        return frozenset(part for part, is_due in due.items() if is_due)

    def next_seconds(self, flow: FlowSettings, now_ms: int) -> float:
        """Seconds until checkpoints are due."""
        passed = (now_ms - self.last_ms.get(Part.CHECKPOINTS, 0)) / 1000
        return max(0.0, flow.emit_checkpoints_interval_seconds - passed)

    def done(self, parts: Iterable[Part], now_ms: int) -> CheckpointMemory:
        """After these parts. One that had faults is not among them, so that the next run fails again: an interval
        must not make it look healthy."""
        return replace(self, last_ms={**self.last_ms, **dict.fromkeys(parts, now_ms)})

    def to_json(self) -> dict[str, Any]:
        """Plain values; the inverse of :meth:`from_json`."""
        return {
            "synced": {str(partition): offset for partition, offset in self.synced.items()},
            "checked": {str(partition): offset for partition, offset in self.checked.items()},
            "copies": dict(self.copies),
            "last_ms": {str(part): when for part, when in self.last_ms.items()},
        }

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """Read plain values; what cannot be read is forgotten, which costs one reading of the whole map."""
        try:
            return cls(
                {int(partition): int(offset) for partition, offset in found["synced"].items()},
                {int(partition): int(offset) for partition, offset in found["checked"].items()},
                {str(topic): str(topic_id) for topic, topic_id in found["copies"].items()},
                {Part(part): int(when) for part, when in found["last_ms"].items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return cls()

    def _is_over(self, part: Part, interval: float, flow: FlowSettings, now_ms: int) -> bool:
        if interval <= run_period_seconds(flow) or part not in self.last_ms:
            return True
        passed = (now_ms - self.last_ms[part]) / 1000
        # A clock that was set back must not switch anything off.
        return passed >= interval * (1 - _TOLERANCE) or passed < 0


def run_period_seconds(flow: FlowSettings) -> float:
    """How often a flow's tasks run at best: one run at a time, each as long as it reads."""
    return max(flow.schedule_interval_seconds, flow.run_max_seconds)


def checkpoint_period_seconds(flow: FlowSettings) -> float | None:
    """How often checkpoints are written at best; None: never."""
    if not flow.emit_checkpoints:
        return None
    return _whole(flow.emit_checkpoints_interval_seconds, run_period_seconds(flow))


def group_sync_period_seconds(flow: FlowSettings) -> float | None:
    """How often offsets of idle groups are committed on the target at best; None: never."""
    checkpoints = checkpoint_period_seconds(flow)
    if checkpoints is None or not flow.sync_group_offsets:
        return None
    return _whole(flow.sync_group_offsets_interval_seconds, checkpoints)


def _whole(interval: float, period: float) -> float:
    """The interval in whole periods, as :meth:`CheckpointMemory.due` counts them."""
    if interval <= 0 or period <= 0:
        return max(interval, period, 0.0)
    return max(1, math.ceil(interval * (1 - _TOLERANCE) / period)) * period
