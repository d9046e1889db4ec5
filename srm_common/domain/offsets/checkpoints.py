"""Checkpoints: positions of consumer groups in offsets of both clusters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.offsets.translation import NotReplicatedYet, TooOld, Translated, Translation, Unmapped


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Group offset ``upstream`` at the source corresponds to ``downstream`` on the remote topic ``topic``.

    ``topic`` is the downstream name (Kafka's ``Checkpoint``); both offsets are the next record to read.
    """

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Untranslated:
    """A group's position that has no checkpoint, and why, in words a person can read."""

    group: str
    topic: str
    partition: int
    upstream: int
    reason: str


@dataclass(frozen=True, slots=True)
class Addition:
    """Where the segments begin, on both sides, that were added to a partition's map since checkpoints were judged."""

    upstream: int
    downstream: int

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> Addition | None:
        """None where nothing was added."""
        starts = [(segment.upstream_start, segment.downstream_start) for segment in segments]
        if not starts:
            return None
        return cls(min(upstream for upstream, _ in starts), min(downstream for _, downstream in starts))


def still_holds(last: Checkpoint, committed: int, added: Addition | None) -> bool:
    """Whether a translation of ``committed`` would give the same result as ``last``, so that it can be skipped.

    The group has not moved, and what was copied since begins at or after its position on both sides: a later part of
    the map changes no translation before it. A group that was ahead of the copy may lie within such a part.
    """
    return last.upstream == committed and (
        added is None or (committed <= added.upstream and last.downstream <= added.downstream)
    )


def supersedes(new: Checkpoint, last: Checkpoint | None) -> bool:
    """Whether ``new`` is worth writing after ``last`` (``MirrorCheckpointTask.checkpointIsMoreRecent``).

    Yes for the first one, for a group that was rewound, and for progress downstream. A lower translation of
    the same or a later position is not written, so that checkpoints never go backwards while a group only
    advances.
    """
    return last is None or new.upstream < last.upstream or new.downstream > last.downstream


def downstream_of(translation: Translation) -> int | str:
    """The offset that a checkpoint may carry, or the reason why there is none.

    A group ahead of the copy is put at its end, so that it continues with what comes next; one before the known
    part of the map gets no checkpoint, because nothing certain can be said of where it would resume.
    """
    match translation:
        case Translated(offset) | NotReplicatedYet(_, offset):
            return offset
        case TooOld(oldest_known):
            return f"it is before upstream offset {oldest_known}, where the known offset map begins"
        case Unmapped(reason):
            return reason


def is_contradicted(
    last: Checkpoint, committed: int, translation: Translation, added: Addition | None, end: int | None
) -> bool:
    """Whether ``last`` points behind records that its group has not read, so that it must not be kept.

    No group can have resumed after the end of the copy. And what is added to a log lies behind every checkpoint so far,
    unless the log was cut in between (or the copy is another one): then what the map says now counts.

    Args:
        committed: where the group stands at the source; it was not moved back since.
        end: of the copy, by the map.
    """
    if committed < last.upstream:
        return False
    if end is not None and last.downstream > end:
        return True
    if added is None or last.downstream <= added.downstream:
        return False
    match translation:
        case Translated(offset, exact=True) | NotReplicatedYet(_, offset) | TooOld(_, offset):
            return offset < last.downstream
        case Translated(most=most):
            return most is not None and most < last.downstream
    return False


# What the last round could not translate, as it is kept for the time when the source cannot be asked.


#: Enough for a person; a record has to fit into a message.
_ROWS = 10_000


def untranslated_record(found: Sequence[Untranslated], others: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Plain values, the same for the same positions in any order; ``left_out`` counts those beyond 10,000.

    ``others``: groups (name, kind) that are no consumer groups.
    """
    rows = sorted(
        (untranslated.group, untranslated.topic, untranslated.partition, untranslated.upstream, untranslated.reason)
        for untranslated in found
    )
    return {"positions": [list(row) for row in rows[:_ROWS]], "left_out": max(0, len(rows) - _ROWS)} | (
        {"other_groups": [list(other) for other in sorted(others)[:_ROWS]]} if others else {}
    )


def untranslated_from(record: Any) -> tuple[list[Untranslated], int]:
    """The positions in a record, and how many it leaves out; none where there is no record, or one of another form."""
    try:
        untranslateds = [
            Untranslated(str(group), str(topic), int(partition), int(upstream), str(reason))
            for group, topic, partition, upstream, reason in record["positions"]
        ]
        return untranslateds, int(record["left_out"])
    except (KeyError, TypeError, ValueError):
        return [], 0


def other_groups_from(record: Any) -> list[tuple[str, str]]:
    """The groups (name, kind) in a record that are not consumer groups."""
    try:
        return [(str(name), str(kind)) for name, kind in record["other_groups"]]
    except (KeyError, TypeError, ValueError):
        return []


def why_not_moved(name: str, kind: str, alias: str) -> str:
    """What a person should know of a group whose place is not translated, before consumers start on ``alias``."""
    if kind == "share":
        return (
            f"{name} is a share group, which is not moved: set its start offsets on '{alias}' with "
            f"kafka-share-groups.sh --reset-offsets before its consumers start there (docs/offsets.md)"
        )
    return f"{name} is a {kind} group, which is not moved: its offsets are not translated"


# What a flow remembers between its rounds of offset syncs, checkpoints and group sync, and when each is due.
#
# A round is a part of a run, so an interval becomes a whole number of runs. MirrorMaker 2 has timers; what holds there
# holds here, too: group sync works with checkpoints, so it can be no more frequent than they are.


#: Pruning reads the whole map, and nothing is lost by doing it late.
PRUNE_INTERVAL_SECONDS = 3600.0
#: A run that comes this much early counts for its period; schedulers are never exact.
_TOLERANCE = 0.05


class Part(StrEnum):
    """A part of a round that has its own interval. Offset syncs have none: they are written for what was copied."""

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
        """What is due in a round at ``now_ms``; with ``at_once`` everything that is enabled."""
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
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
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
