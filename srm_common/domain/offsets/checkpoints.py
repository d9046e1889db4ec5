"""Checkpoints: where a consumer group stands, said in offsets of both clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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

    A group ahead of the copy is put at its end, so that it goes on with what comes next; one before the known
    part of the map gets no checkpoint, because nothing certain can be said of where it would go on.
    """
    match translation:
        case Translated(offset) | NotReplicatedYet(_, offset):
            return offset
        case TooOld(oldest_known):
            return f"it lies before upstream offset {oldest_known}, where the known offset map begins"
        case Unmapped(reason):
            return reason
