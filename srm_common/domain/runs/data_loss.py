"""Records that vanished at the source before they were copied: how that is noticed, and what is done about
it.

What always holds: nothing is found exactly when the topic is the one the position belongs to and the position
lies inside its log; a decision never passes over a record that can still be read and was not copied, except
where the log was truncated and the operator chose to skip; and under ``fail`` nothing is ever started.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from srm_common.domain.flow import OnDataLoss


class Loss(StrEnum):
    """How the records vanished."""

    RETENTION = "retention"
    """The log now starts beyond the position: retention or DeleteRecords was faster than the copy."""
    RECREATED = "recreated"
    """The topic was deleted and created again: its id changed, its offsets mean something else."""
    TRUNCATED = "truncated"
    """The log ends before the position: an unclean leader election, or a cluster restored from a backup."""


@dataclass(frozen=True, slots=True)
class SourceLog:
    """One partition as the source describes it now. ``end`` is the high watermark; an id may be unknown."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a partition was copied: ``offset`` is the next to read, out of the topic ``topic_id``.

    ``last_end`` is the end of the log as last seen, if it was ever seen.
    """

    offset: int
    topic_id: str | None = None
    last_end: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Lost records of one partition. ``count`` is in offsets: the records lost are at most that many
    (for a topic created again: at least, since what its predecessor got last was never seen)."""

    loss: Loss
    bookmark: Bookmark
    log: SourceLog
    count: int

    def __str__(self) -> str:
        place = f"{self.log.topic}-{self.log.partition}"
        if self.loss is Loss.RECREATED:
            return (
                f"{place}: the topic was deleted and created again at the source (id "
                f"{self.bookmark.topic_id} became {self.log.topic_id}); {self.count} or more offsets of the "
                f"former topic, from {self.bookmark.offset} on, were never copied"
            )
        if self.loss is Loss.TRUNCATED:
            return (
                f"{place}: the source log ends at offset {self.log.end}, {self.count} offsets before the "
                f"copied position {self.bookmark.offset}; the source was truncated, and what it got since "
                f"may differ from what the target has"
            )
        return (
            f"{place}: {self.count} offsets were deleted at the source before they were copied (the log "
            f"starts at {self.log.start}, the copied position is {self.bookmark.offset})"
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """Where to go on, or why not. Exactly one of ``start`` and ``error`` is set; ``note`` says what was
    decided."""

    start: int | None
    lost_records: int
    error: str | None
    note: str


def find_loss(bookmark: Bookmark, log: SourceLog) -> Finding | None:
    """Compare a position with the log it belongs to. An unknown id on either side is taken for the same
    topic."""
    if bookmark.topic_id is not None and log.topic_id is not None and bookmark.topic_id != log.topic_id:
        unseen = 0 if bookmark.last_end is None else max(0, bookmark.last_end - bookmark.offset)
        return Finding(Loss.RECREATED, bookmark, log, unseen)
    if log.end < bookmark.offset:
        return Finding(Loss.TRUNCATED, bookmark, log, bookmark.offset - log.end)
    if bookmark.offset < log.start:
        return Finding(Loss.RETENTION, bookmark, log, log.start - bookmark.offset)
    return None


def decide(finding: Finding, choice: OnDataLoss) -> Decision:
    """Apply ``on.data.loss`` to one finding.

    ``fail``: this partition stops, with the count. ``skip``: go on with what was not copied yet, that is from
    the log's start, or, where the log was truncated, from its end. ``reset``: copy the whole log again from
    its start.
    """
    if choice is OnDataLoss.FAIL:
        return Decision(
            start=None,
            lost_records=finding.count,
            error=f"{finding}; set on.data.loss to skip or reset to go on without them",
            note="stopped",
        )
    truncated = finding.loss is Loss.TRUNCATED
    start = finding.log.end if truncated and choice is OnDataLoss.SKIP else finding.log.start
    return Decision(
        start=start,
        lost_records=finding.count,
        error=None,
        note=f"{finding}; on.data.loss={choice.value}: going on at offset {start}",
    )
