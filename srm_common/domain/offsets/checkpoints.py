"""Checkpoints: where a consumer group stands, said in offsets of both clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
    """Where that begins, on both sides, which was added to the map of a partition since checkpoints were judged."""

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
    """Whether a translation of ``committed`` would put the group where ``last`` does, so that it need not be made.

    The group has not moved, and what was copied since lies behind its place on either side: a later part of the map
    changes nothing about what is before it, but for what is no record of the copy and lies between. A group that
    stood ahead of the copy lies within such a part.
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


# What the last round could not translate, as it is kept for the time when the source cannot be asked.


#: The key in the flow's state.
UNTRANSLATED = "untranslated"
#: Enough for a person; a record has to fit into a message.
_ROWS = 10_000


def untranslated_record(found: Sequence[Untranslated], others: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """Plain values, the same for the same positions in any order; ``left_out`` counts those beyond 10,000.

    ``others``: groups (name, kind) that are no consumer groups.
    """
    rows = sorted((one.group, one.topic, one.partition, one.upstream, one.reason) for one in found)
    return {"positions": [list(row) for row in rows[:_ROWS]], "left_out": max(0, len(rows) - _ROWS)} | (
        {"other_groups": [list(one) for one in sorted(others)[:_ROWS]]} if others else {}
    )


def untranslated_from(record: Any) -> tuple[list[Untranslated], int]:
    """The positions in a record, and how many it leaves out; none where there is no record, or one of another form."""
    try:
        found = [
            Untranslated(str(group), str(topic), int(partition), int(upstream), str(reason))
            for group, topic, partition, upstream, reason in record["positions"]
        ]
        return found, int(record["left_out"])
    except (KeyError, TypeError, ValueError):
        return [], 0


def other_groups_from(record: Any) -> list[tuple[str, str]]:
    """The groups (name, kind) in a record that are no consumer groups; none where it says nothing of them."""
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
