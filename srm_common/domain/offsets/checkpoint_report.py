"""The result of one round of writing offset syncs and checkpoints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from srm_common.domain.amount import counted
from srm_common.domain.offsets.checkpoints import Untranslated

_SHOWN = 3
#: Lines about single groups in a task's log; the flow's state topic has all.
_LINES = 200


@dataclass(frozen=True)
class CheckpointReport:
    """Counts of one round, and what a person should know of single groups.

    ``checkpoints_emitted`` is the switch, ``due_in_seconds`` when checkpoints are due again, None when they were made
    now. ``checkpoints`` were written, ``unchanged`` positions needed none, ``renewed`` ones had one of a former copy;
    groups ``rewound`` were moved back at the source. ``untranslated`` positions could get none.
    ``unsupported`` (name, kind) are no consumer groups. ``pruned_segments`` were removed from the offset map,
    ``joined_segments`` became ``joins`` larger ones.

    ``group_sync_seconds`` is how often offsets are committed on the target at best, None: never. ``group_positions``
    were, for ``groups_synced`` groups; ``groups_in_use`` (name, state) were left alone; ``groups_beyond`` (name,
    partitions) have passed their translated place; on ``shared`` topics (name, other flows) nothing is committed.

    ``faults`` are groups that could not be read or written, ``skipped`` unreadable records of state topics:
    the rest was done in spite of them. ``notes`` say what limits it.
    """

    flow: str
    segments: int = 0
    offset_syncs: int = 0
    checkpoints_emitted: bool = True
    due_in_seconds: float | None = None
    groups: int = 0
    checkpoints: int = 0
    unchanged: int = 0
    renewed: int = 0
    rewound: tuple[str, ...] = ()
    untranslated: tuple[Untranslated, ...] = ()
    unsupported: tuple[tuple[str, str], ...] = ()
    pruned_segments: int = 0
    joined_segments: int = 0
    joins: int = 0
    group_sync_seconds: float | None = None
    group_positions: int = 0
    groups_synced: int = 0
    groups_in_use: tuple[tuple[str, str], ...] = ()
    groups_beyond: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    faults: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self._parts())

    def lines(self) -> list[str]:
        """What holds for single groups, one line each: who got no checkpoint or no offset, and why."""
        found = list(self._group_lines())
        if len(found) > _LINES:
            found[_LINES:] = [f"and {len(found) - _LINES} more lines like these"]
        return found

    def to_json(self) -> dict[str, Any]:
        out = {field.name: getattr(self, field.name) for field in fields(self)}
        return out | {
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
            "rewound": list(self.rewound),
            "unsupported": [{"group": group, "kind": kind} for group, kind in self.unsupported],
            "groups_in_use": [{"group": group, "state": state} for group, state in self.groups_in_use],
            "groups_beyond": [{"group": group, "partitions": count} for group, count in self.groups_beyond],
            "shared": [{"topic": topic, "flows": list(flows)} for topic, flows in self.shared],
            "faults": list(self.faults),
            "skipped": list(self.skipped),
            "notes": list(self.notes),
        }

    def _parts(self) -> Iterator[str]:
        if not self.checkpoints_emitted:
            yield "no checkpoints (emit.checkpoints.enabled)"
        elif self.due_in_seconds is not None:
            yield f"checkpoints are due in {self.due_in_seconds:.0f} s"
        else:
            yield f"{self.checkpoints} checkpoints of {self.groups} groups written, {self.unchanged} unchanged"
        yield f"{self.offset_syncs} offset syncs from {self.segments} segments"
        if self.renewed:
            yield f"{self.renewed} checkpoints of former copies replaced"
        if self.rewound:
            yield f"{_count(self.rewound, 'group')} rewound at the source: {_some(self.rewound)}"
        if self.group_sync_seconds is not None and self.due_in_seconds is None:
            yield (
                f"{self.group_positions} offsets committed for {self.groups_synced} groups on the target (every "
                f"{self.group_sync_seconds:g} s at best)"
            )
        if self.groups_in_use:
            shown = _some([f"{group} ({state})" for group, state in self.groups_in_use])
            yield f"{len(self.groups_in_use)} groups are in use on the target and left alone: {shown}"
        if self.groups_beyond:
            shown = _some([group for group, _ in self.groups_beyond])
            yield f"{len(self.groups_beyond)} groups are further ahead on the target and are not moved back: {shown}"
        if self.shared:
            topics = _some([topic for topic, _ in self.shared])
            yield f"no offsets are committed on {_count(self.shared, 'topic')} that other flows write to: {topics}"
        if self.unsupported:
            shown = _some([f"{group} ({kind} group)" for group, kind in self.unsupported])
            yield f"{len(self.unsupported)} groups are not supported: {shown}"
        if self.pruned_segments:
            yield f"{self.pruned_segments} old segments removed"
        if self.joins:
            yield f"{self.joined_segments} segments joined to {self.joins}"
        if self.untranslated:
            first = _some([_sentence(row) for row in self.untranslated], "; ")
            yield f"{len(self.untranslated)} positions not translated ({first})"
        for what, found in (("faults", self.faults), ("unreadable records skipped", self.skipped)):
            if found:
                yield f"{len(found)} {what} ({_some(found, '; ')})"
        yield from self.notes

    def _group_lines(self) -> Iterator[str]:
        yield from self.faults
        rows: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for row in self.untranslated:
            rows[row.group, row.topic, row.reason].append(row.partition)
        for (group, topic, reason), partitions in sorted(rows.items()):
            places = ", ".join(map(str, sorted(partitions)))
            yield f"group {group} has no checkpoint on partitions {places} of {topic}: {reason}"
        for group, kind in self.unsupported:
            yield f"group {group} is a {kind} group: its offsets are not translated"
        for group, state in self.groups_in_use:
            yield f"group {group} is {state} on the target: its offsets there are left alone"
        for group, count in self.groups_beyond:
            yield f"group {group} is further ahead on {counted(count, 'partition')} of the target than at the source"
        for topic, flows in self.shared:
            yield (
                f"{topic} takes records of {', '.join(flows)} as well: an offset that skips nothing of one source may "
                f"skip records of another, so no group's offsets are committed there"
            )
        yield from self.skipped


def _sentence(row: Untranslated) -> str:
    return f"{row.group} on {row.topic}-{row.partition} at {row.upstream}: {row.reason}"


def _count(found: Sequence[object], what: str) -> str:
    return counted(len(found), what)


def _some(found: Sequence[str], between: str = ", ") -> str:
    more = "" if len(found) <= _SHOWN else f"{between}..."
    return between.join(found[:_SHOWN]) + more
