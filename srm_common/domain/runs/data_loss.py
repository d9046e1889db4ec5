"""Records that disappeared at the source before they were copied: how they are detected, and what the flow does then.

Invariant: nothing is found exactly when the topic is the one the position belongs to, the position lies inside
its log, and the log still has what was read before it (as far as that is known); a decision never passes over a
record that can still be read and was not copied, except where the log was truncated and the operator chose to skip; and
under ``fail`` nothing is ever started.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.topic_id import is_another_topic

#: How the names of the topics end by which a Kafka Streams application passes records on to itself (KIP-204).
_REPARTITION = "-repartition"


class Loss(StrEnum):
    """How the records vanished."""

    RETENTION = "retention"
    """The log now starts beyond the position: retention or DeleteRecords was faster than the copy."""
    RECREATED = "recreated"
    """The topic was deleted and created again: its id changed, its offsets mean something else."""
    TRUNCATED = "truncated"
    """The log ends before the position: an unclean leader election, or a cluster restored from a backup."""
    DIVERGED = "diverged"
    """The log was truncated and has grown beyond the position again, with other records."""


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """A leader's answer to where an epoch ends in its log (KIP-101): the newest epoch up to that one which it has, and
    the offset after its last."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class SourceLog:
    """One partition as the source describes it now. ``end`` is the high watermark; an id may be unknown.

    ``epoch_end`` answers for the bookmark's leader epoch; None when it was not asked or the log has no epochs.
    ``compacted``: whether compaction may have removed all batches of an epoch; True also when it is not known.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None
    epoch_end: EpochEnd | None = None
    compacted: bool = True


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far a partition was copied: ``offset`` is the next to read, out of the topic ``topic_id``.

    ``last_end`` is the end of the log as last seen, if it was ever seen. ``leader_epoch`` is that of the offset before
    ``offset``, -1 when it is not known.
    """

    offset: int
    topic_id: str | None = None
    last_end: int | None = None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Finding:
    """Lost records of one partition. ``count`` is in offsets: the records lost are at most that many
    (for a topic created again: at least, since what its predecessor got last was never seen)."""

    loss: Loss
    bookmark: Bookmark
    log: SourceLog
    count: int

    @property
    def parts_at(self) -> int:
        """Where the log diverges from the one that was copied, as far as that is known; of a truncated log its end."""
        known = self.log.epoch_end
        limit = min(self.log.end, self.bookmark.offset)
        return limit if known is None else min(known.offset, limit)

    def __str__(self) -> str:
        place = f"{self.log.topic}-{self.log.partition}"
        if self.loss is Loss.DIVERGED:
            now = "none" if self.log.epoch_end is None else self.log.epoch_end.epoch
            return (
                f"{place}: the source log was truncated and has grown again: it was copied up to offset "
                f"{self.bookmark.offset} (leader epoch {self.bookmark.leader_epoch}), and the current log diverges "
                f"from that at offset {self.parts_at} (leader epoch {now}) and ends at {self.log.end}; {self.count} "
                f"copied offsets have other records now"
            )
        if self.loss is Loss.RECREATED:
            return (
                f"{place}: the topic was deleted and created again at the source (id "
                f"{self.bookmark.topic_id} became {self.log.topic_id}); {self.count} or more offsets of the "
                f"former topic, from {self.bookmark.offset} on, were never copied"
            )
        if self.loss is Loss.TRUNCATED:
            parting = "" if self.parts_at == self.log.end else f" from offset {self.parts_at} on"
            return (
                f"{place}: the source log ends at offset {self.log.end}, {self.count} offsets before the "
                f"copied position {self.bookmark.offset}; the source was truncated, and what it got since"
                f"{parting} may differ from what the target has"
            )
        return (
            f"{place}: {self.count} offsets were deleted at the source before they were copied (the log "
            f"starts at {self.log.start}, the copied position is {self.bookmark.offset})"
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """Where to continue, or why not. Exactly one of ``start`` and ``error`` is set; ``note`` says what was
    decided."""

    start: int | None
    lost_records: int
    error: str | None
    note: str


def find_loss(bookmark: Bookmark, log: SourceLog) -> Finding | None:
    """Compare a position with the log it belongs to. An unknown id on either side is taken for the same
    topic, an unknown leader epoch for the same log."""
    if is_another_topic(bookmark.topic_id, log.topic_id):
        unseen = 0 if bookmark.last_end is None else max(0, bookmark.last_end - bookmark.offset)
        return Finding(Loss.RECREATED, bookmark, log, unseen)
    if log.end < bookmark.offset:
        return Finding(Loss.TRUNCATED, bookmark, log, bookmark.offset - log.end)
    if bookmark.offset < log.start:
        return Finding(Loss.RETENTION, bookmark, log, log.start - bookmark.offset)
    if _diverges(bookmark, log):
        finding = Finding(Loss.DIVERGED, bookmark, log, 0)
        return replace(finding, count=bookmark.offset - finding.parts_at)
    return None


def _diverges(bookmark: Bookmark, log: SourceLog) -> bool:
    """The rule of consumers (``SubscriptionState.maybeCompleteValidation``), and for logs that keep their batches that
    of followers, too: the epoch that was read last must be there."""
    end = log.epoch_end
    if end is None or bookmark.leader_epoch < 0:
        return False
    return end.offset < bookmark.offset or (end.epoch < bookmark.leader_epoch and not log.compacted)


def _way_out(finding: Finding) -> str:
    decide_for_all = "set on.data.loss to skip or reset to continue without them"
    if finding.loss is not Loss.RETENTION or not finding.log.topic.endswith(_REPARTITION):
        return decide_for_all
    return (
        "Kafka Streams deletes the records of its repartition topics once it has read them, so that such copies are of "
        f"no use: leave them out with srm-control topics --flow <flow> --add-exclude '.*{_REPARTITION}', or "
        f"{decide_for_all}"
    )


def decide(finding: Finding, choice: OnDataLoss) -> Decision:
    """Apply ``on.data.loss`` to one finding.

    ``fail``: this partition stops, with the count. ``skip``: continue with what was not copied yet, that is from
    the log's start, or, where the log was truncated, from where it diverges from the one that was copied: by its leader
    epochs, or, where those are not known, its end. ``reset``: copy the whole log again from its start.
    """
    if choice is OnDataLoss.FAIL:
        return Decision(
            start=None,
            lost_records=finding.count,
            error=f"{finding}; {_way_out(finding)}",
            note="stopped",
        )
    truncated = finding.loss in (Loss.TRUNCATED, Loss.DIVERGED)
    start = finding.log.start
    if truncated and choice is OnDataLoss.SKIP:
        start = max(start, finding.parts_at)
    return Decision(
        start=start,
        lost_records=finding.count,
        error=None,
        note=f"{finding}; on.data.loss={choice.value}: continuing at offset {start}",
    )


# Under which leaders the offsets of one partition were written, as far as its batches were read.
#
# Each record batch carries the epoch of the leader that took it, and epochs only grow along a log. So the epoch of the
# last offset read identifies the log it was read from: a log that was cut and has grown again has other epochs there
# (KIP-101, KIP-320).


UNKNOWN_EPOCH = -1


class LeaderEpochs:
    """Spans of offsets with one epoch each, in the order of the log.

    Args:
        offset: the next offset to read.
        epoch: the epoch of the offset before it, if it is known.
    """

    def __init__(self, offset: int = 0, epoch: int = UNKNOWN_EPOCH) -> None:
        #: First offset, offset after the last, epoch.
        self._spans: list[tuple[int, int, int]] = [(offset - 1, offset, epoch)] if epoch >= 0 else []

    def add(self, first: int, after: int, epoch: int) -> None:
        """A batch with the offsets from ``first`` up to, without it, ``after`` was read. What was read before from
        ``first`` on is forgotten; batches of magic 0 and 1 have no epoch."""
        spans = self._spans
        if spans:
            start, end, newest = spans[-1]
            if newest == epoch and start <= first:
                # Epochs only grow: what compaction took between two batches of an epoch was of that epoch, too.
                if after > end:
                    spans[-1] = (start, after, epoch)
                return
            while spans and spans[-1][1] > first:
                start, _, newest = spans.pop()
                if start < first:
                    spans.append((start, first, newest))
        if epoch >= 0:
            spans.append((first, after, epoch))

    def at(self, offset: int) -> int:
        """The epoch of an offset, -1 where it is not known."""
        for start, end, epoch in reversed(self._spans):
            if start <= offset < end:
                return epoch
        return UNKNOWN_EPOCH

    def forget_before(self, offset: int) -> None:
        """Nothing before ``offset`` will be asked for any more."""
        if len(self._spans) > 1:
            self._spans = [span for span in self._spans if span[1] > offset]

    def clear(self) -> None:
        """Know of no epoch."""
        self._spans = []


# Copies whose log ends before what the flow has written there: the target lost records that were committed.
#
# By an unclean leader election, a lost disk or a cluster that was restored. A log never ends earlier otherwise.


@dataclass(frozen=True, slots=True)
class CutCopy:
    """``position`` is the source offset up to which all was copied when the log ended at ``before``."""

    topic: str
    partition: int
    position: int
    before: int
    now: int

    @property
    def finding(self) -> str:
        """What happened, as half a sentence."""
        return (
            f"the copy {self.topic}-{self.partition} ends at offset {self.now}, {self.before - self.now} offsets "
            f"before the end that the flow left there: the target lost records that were copied (an unclean leader "
            f"election, a lost disk, a restored cluster)"
        )

    @property
    def error(self) -> str:
        """One sentence that says what to do."""
        return (
            f"{self.finding}; decide with on.target.loss: skip continues after the gap, reset copies the whole log "
            f"again; or set the source offset back with srm-control source-offsets"
        )
