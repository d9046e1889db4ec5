"""What one round of writing offset syncs and checkpoints did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from srm_common.domain.checkpoints import Untranslated

_SHOWN = 3


@dataclass(frozen=True)
class CheckpointReport:
    """Counts of one round.

    ``checkpoints`` were written, ``unchanged`` positions needed none, ``untranslated`` could get none.
    ``group_positions`` were committed on the target for ``groups_synced`` groups; ``groups_in_use`` (name, state) were
    left alone. ``faults`` are groups that could not be read or written, ``skipped`` records of state topics that nobody
    can read: the rest was done in spite of them.
    """

    flow: str
    segments: int = 0
    offset_syncs: int = 0
    groups: int = 0
    checkpoints: int = 0
    unchanged: int = 0
    untranslated: tuple[Untranslated, ...] = ()
    pruned_segments: int = 0
    group_positions: int = 0
    groups_synced: int = 0
    groups_in_use: tuple[tuple[str, str], ...] = ()
    faults: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            f"{self.checkpoints} checkpoints of {self.groups} groups written, {self.unchanged} unchanged",
            f"{self.offset_syncs} offset syncs from {self.segments} segments",
        ]
        if self.groups_synced:
            parts.append(f"{self.group_positions} offsets committed for {self.groups_synced} groups on the target")
        if self.groups_in_use:
            shown = ", ".join(f"{group} ({state})" for group, state in self.groups_in_use[:_SHOWN])
            more = "" if len(self.groups_in_use) <= _SHOWN else ", ..."
            parts.append(f"{len(self.groups_in_use)} groups are in use on the target and left alone: {shown}{more}")
        if self.pruned_segments:
            parts.append(f"{self.pruned_segments} old segments removed")
        if self.untranslated:
            first = "; ".join(
                f"{row.group} on {row.topic}-{row.partition} at {row.upstream}: {row.reason}"
                for row in self.untranslated[:_SHOWN]
            )
            more = "" if len(self.untranslated) <= _SHOWN else "; ..."
            parts.append(f"{len(self.untranslated)} positions not translated ({first}{more})")
        for what, found in (("faults", self.faults), ("unreadable records skipped", self.skipped)):
            if found:
                more = "" if len(found) <= _SHOWN else "; ..."
                parts.append(f"{len(found)} {what} ({'; '.join(found[:_SHOWN])}{more})")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "segments": self.segments,
            "offset_syncs": self.offset_syncs,
            "groups": self.groups,
            "checkpoints": self.checkpoints,
            "unchanged": self.unchanged,
            "untranslated": [
                {
                    "group": row.group,
                    "topic": row.topic,
                    "partition": row.partition,
                    "upstream": row.upstream,
                    "reason": row.reason,
                }
                for row in self.untranslated
            ],
            "group_positions": self.group_positions,
            "groups_synced": self.groups_synced,
            "groups_in_use": [{"group": group, "state": state} for group, state in self.groups_in_use],
            "pruned_segments": self.pruned_segments,
            "faults": list(self.faults),
            "skipped": list(self.skipped),
        }
