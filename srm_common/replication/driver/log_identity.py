"""Whether the source's logs are still those that were copied, by their leader epochs (KIP-101, KIP-320).

Within one leader epoch a log only grows. So a position is checked when its log has a different leader than the one that
wrote the last record read, once for each leader. Logs at their end are checked as well: they may have been truncated
and have grown to exactly the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from srm_common.domain.runs.data_loss import Bookmark, EpochEnd, SourceLog, find_loss
from srm_common.domain.runs.partition_track import PartitionTrack, listed_end
from srm_common.domain.topic_partition import TopicPartition

Listed = tuple[dict[TopicPartition, int], dict[TopicPartition, str]]
EpochEnds = tuple[dict[TopicPartition, EpochEnd | None], dict[TopicPartition, str]]
"""Where epochs end (None where a log has none), and a sentence for each partition without a response."""


class EpochSource(Protocol):
    """The requests to the source cluster."""

    def leader_epoch(self, place: TopicPartition) -> int: ...

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> EpochEnds: ...

    def compacted(self, topics: Iterable[str]) -> Mapping[str, bool | None]: ...


class Source(EpochSource, Protocol):
    """Queries to the source cluster; :class:`srm_common.replication.driver.source_view.SourceView` sends them."""

    def saw(self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str | None]) -> None: ...

    def leader_epoch_of(self, place: TopicPartition, topic_id: str | None) -> int: ...

    def ends(self, partitions: Iterable[TopicPartition]) -> Listed: ...

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> Listed: ...

    def starts(self, partitions: Iterable[TopicPartition]) -> Listed: ...

    def at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Listed: ...

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]: ...


_NEWER_THAN_ALL = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to copy, and the leader epoch of the offset before it (-1: not known)."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class EpochAnswer:
    """The source's response about a position's epoch; ``end`` is None if it was not queried, or cannot answer.
    ``leading``: the epoch of the leader as it was known before the request."""

    end: EpochEnd | None = None
    compacted: bool = True
    leading: int = -1


def epochs_before(source: EpochSource, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The leader epochs of the offsets before ``offsets``, in the logs as they are now; absent where unknown.

    Args:
        offsets: each greater than the start of its log, since nothing is known about what came before that.

    An offset belongs to the first epoch that ends after it. A binary search finds it, for all partitions at once.
    """
    newest, _ = source.epoch_ends(dict.fromkeys(offsets, _NEWER_THAN_ALL))
    found = {place: end.epoch for place, end in newest.items() if end is not None and end.offset >= offsets[place]}
    lowest = dict.fromkeys(found, 0)
    while asked := {place: (lowest[place] + epoch) // 2 for place, epoch in found.items() if lowest[place] < epoch}:
        ends, _ = source.epoch_ends(asked)
        for place, epoch in asked.items():
            end = ends.get(place)
            if end is None:
                del found[place]
            elif end.offset >= offsets[place]:
                found[place] = end.epoch
            else:
                lowest[place] = epoch + 1
    return found


class LogIdentity:
    """Checks whether the logs still have what was read before the positions of one flow."""

    def __init__(self, source: EpochSource) -> None:
        self._source = source
        #: Positions that were found sound, and the epochs of the leaders that were asked.
        self._asked: dict[TopicPartition, tuple[Position, int]] = {}

    def is_due(self, place: TopicPartition, position: Position) -> bool:
        """Whether to ask the source if its log still has the records before the position."""
        if position.epoch < 0:
            return False
        leading = self._source.leader_epoch(place)
        return leading >= 0 and leading != position.epoch and self._asked.get(place) != (position, leading)

    def ask(
        self, positions: Mapping[TopicPartition, Position], cut: Collection[TopicPartition] = ()
    ) -> tuple[dict[TopicPartition, EpochAnswer], dict[TopicPartition, str]]:
        """Ask about the positions that are due, and about those of ``cut``: their logs end before the position, so they
        have a new leader even if the metadata are older than its election."""
        due = {
            place: position
            for place, position in positions.items()
            if self.is_due(place, position) or (place in cut and position.epoch >= 0)
        }
        if not due:
            return {}, {}
        leading = {place: self._source.leader_epoch(place) for place in due}
        ends, faults = self._source.epoch_ends({place: position.epoch for place, position in due.items()})
        # Only for these does it matter whether compaction removed all batches of the epoch.
        older = {place for place, end in ends.items() if end is not None and end.epoch < due[place].epoch}
        compacted = self._source.compacted(sorted({topic for topic, _ in older})) if older else {}
        answers = {}
        for place, end in ends.items():
            whole = place not in older or compacted.get(place[0]) is not False
            answers[place] = EpochAnswer(end, whole, leading[place])
        return answers, faults

    def holds(self, place: TopicPartition, position: Position, answer: EpochAnswer) -> int:
        """By this response the position is sound. Returns the epoch to continue with: -1 if the log does not have it,
        so that no broker is asked about it again."""
        self._asked[place] = (position, answer.leading)
        return position.epoch if answer.end is not None and answer.end.epoch >= position.epoch else -1


def source_log(
    track: PartitionTrack,
    starts: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    ids: Mapping[str, str | None],
    epochs: Mapping[TopicPartition, EpochAnswer],
) -> SourceLog:
    """What is known about a partition's log at the source."""
    epoch = epochs.get(track.place, EpochAnswer())
    return SourceLog(
        track.upstream_topic,
        track.partition,
        start=starts[track.place],
        end=log_ends.get(track.place, listed_end(track)),
        topic_id=ids.get(track.upstream_topic),
        epoch_end=epoch.end,
        compacted=epoch.compacted,
    )


def any_lost(
    tracks: Iterable[PartitionTrack],
    logs: Mapping[TopicPartition, SourceLog],
    topic_id: Callable[[str], str | None],
) -> bool:
    """Whether the log of a partition that has been copied in this run no longer has what was read before its position.

    Args:
        topic_id: of the topic that was copied, by name.
    """
    return any(
        find_loss(
            Bookmark(track.position, topic_id(track.upstream_topic), leader_epoch=track.leader_epoch),
            logs[track.place],
        )
        for track in tracks
        if track.position is not None and track.place in logs
    )
