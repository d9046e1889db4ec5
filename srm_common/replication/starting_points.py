"""Where each partition is read from: what was committed, unless a start position, a first sight or lost data
says otherwise. Every answer that no commit carries yet is pinned before anything is copied from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from srm_common.domain.data_loss import Bookmark, SourceLog, decide, find_loss
from srm_common.domain.flow import OnDataLoss
from srm_common.domain.partition_track import PartitionTrack
from srm_common.domain.source_topics import Pin, SourceTopics
from srm_common.domain.start_position import StartKind, StartPosition

Partition = tuple[str, int]
Listed = tuple[dict[Partition, int], dict[Partition, str]]


class Source(Protocol):
    """What is asked of the source cluster; :class:`srm_common.replication.source_view.SourceView` is the real
    one."""

    def ends(self, partitions: Iterable[Partition]) -> Listed: ...

    def high_watermarks(self, partitions: Iterable[Partition]) -> Listed: ...

    def starts(self, partitions: Iterable[Partition]) -> Listed: ...

    def at(self, partitions: Iterable[Partition], timestamp_ms: int) -> Listed: ...

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]: ...


@dataclass
class StartingPoints:
    """Positions of partitions, and what the flow must remember about them.

    Args:
        source: the source cluster.
        memory: topic ids and pins; changes by :meth:`place`, and is stored by the caller.
        read_committed: reads the next offsets by (upstream topic, partition), and a sentence for each partition
            whose record cannot be read.
        override: the run's start position, applied once to each of ``overridden``.
        last_ends: the log ends that the last run saw.
        note: told what was decided about lost data.
    """

    source: Source
    memory: SourceTopics
    read_committed: Callable[[], tuple[Mapping[Partition, int], Mapping[Partition, str]]]
    on_data_loss: OnDataLoss
    auto_offset_reset: Literal["earliest", "latest"]
    override: StartPosition = field(default_factory=StartPosition)
    overridden: set[Partition] = field(default_factory=set)
    last_ends: Mapping[Partition, int] = field(default_factory=dict)
    note: Callable[[str], None] = lambda note: None

    def __post_init__(self) -> None:
        self._committed, self._corrupt = self.read_committed()

    def place(self, tracks: list[PartitionTrack], now: float) -> list[PartitionTrack]:
        """Set the positions of tracks whose ``end`` is known; those returned can be copied from there.

        A partition that lost data is failed, or goes on where ``on.data.loss`` says. ``memory`` changes: the
        caller stores it before it copies anything.
        """
        places = [track.place for track in tracks]
        ids = self.source.topic_ids(sorted({topic for topic, _ in places}))
        starts, faults = self.source.starts(places)
        suspicious = [
            track.place for track in tracks if (known := self._known(track)) is not None and known > _end(track)
        ]
        log_ends, end_faults = self.source.high_watermarks(suspicious) if suspicious else ({}, {})
        faults = {**faults, **end_faults}
        if self._finds_loss_on_the_way(tracks, starts, log_ends, ids):
            # A pin stands in for the offset that is committed now, not for that of the run's start.
            self._committed, self._corrupt = self.read_committed()
        wanted = self._overrides([track for track in tracks if track.place in self.overridden], starts)
        pins: dict[Partition, Pin] = {}
        recreated: set[str] = set()
        ready = []
        for track in tracks:
            place = track.place
            if place in self._corrupt:
                track.fail(self._corrupt[place], "CorruptRecord", now)
                continue
            if place in faults or place not in starts:
                track.unlisted_since = now if track.unlisted_since is None else track.unlisted_since
                continue
            log = _log(track, starts, log_ends, ids)
            if place in wanted:
                self.overridden.discard(place)
                pins[place] = Pin(wanted[place], self._committed.get(place))
                track.position = wanted[place]
                ready.append(track)
                continue
            start, pin = self._start(track, log, now)
            if pin is not None:
                pins[place] = pin
            if start is None:
                if track.final and self._is_other_topic(log):
                    recreated.add(place[0])
                continue
            track.position = start
            ready.append(track)
        self.memory = self.memory.with_pins(pins).with_ids(
            {topic: topic_id for topic, topic_id in ids.items() if topic not in recreated}
        )
        return ready

    def at_its_end(self, track: PartitionTrack) -> bool:
        """Whether nothing has to be asked about a listed partition: it was read to its end, or never held anything."""
        if track.place in self.overridden or track.place in self._corrupt:
            return False
        known = self._known(track)
        if known is None and self.auto_offset_reset == "earliest" and track.end == 0:
            known = 0
        if known is None or known != track.end:
            return False
        track.position = known
        return True

    def forget_spent_pins(self, moved: Iterable[PartitionTrack]) -> None:
        """These partitions committed something: their pins have served."""
        self.memory = self.memory.without_pins({track.place for track in moved})

    def read_again(self, tracks: Iterable[PartitionTrack]) -> bool:
        """Read the committed offsets after an uncertain answer and believe them; True when any partition had
        gone further than was reported."""
        self._committed, self._corrupt = self.read_committed()
        self.memory = self.memory.without_spent_pins(self._committed)
        further = [track.reposition(self._known(track, ignoring_position=True)) for track in tracks]
        return any(further)

    def _known(self, track: PartitionTrack, ignoring_position: bool = False) -> int | None:
        if track.position is not None and not ignoring_position:
            return track.position
        return self.memory.position(*track.place, self._committed.get(track.place))

    def _finds_loss_on_the_way(
        self,
        tracks: Iterable[PartitionTrack],
        starts: Mapping[Partition, int],
        log_ends: Mapping[Partition, int],
        ids: Mapping[str, str | None],
    ) -> bool:
        return any(
            find_loss(
                Bookmark(track.position, self.memory.topic_id(track.upstream_topic)),
                _log(track, starts, log_ends, ids),
            )
            for track in tracks
            if track.position is not None and track.place in starts
        )

    def _is_other_topic(self, log: SourceLog) -> bool:
        known = self.memory.topic_id(log.topic)
        return known is not None and log.topic_id is not None and known != log.topic_id

    def _overrides(self, tracks: list[PartitionTrack], starts: Mapping[Partition, int]) -> dict[Partition, int]:
        if self.override.kind is StartKind.COMMITTED or not tracks:
            return {}
        if self.override.kind is StartKind.EARLIEST:
            return {track.place: starts[track.place] for track in tracks if track.place in starts}
        if self.override.kind is StartKind.LATEST:
            return {track.place: _end(track) for track in tracks}
        found, _ = self.source.at([track.place for track in tracks], self.override.timestamp_ms or 0)
        return {
            track.place: found[track.place] if found[track.place] >= 0 else _end(track)
            for track in tracks
            if track.place in found
        }

    def _start(self, track: PartitionTrack, log: SourceLog, now: float) -> tuple[int | None, Pin | None]:
        """Where to read, and the pin that says so where the committed offset does not."""
        committed = self._committed.get(track.place)
        position = self._known(track)
        if position is None:
            if self._is_other_topic(log) and self.on_data_loss is OnDataLoss.FAIL:
                # Copied under the new id, it would make its sister partitions look sound in the next run.
                position = log.start
            elif self.auto_offset_reset == "latest":
                return log.end, Pin(log.end, None)
            else:
                return log.start, None
        bookmark = Bookmark(position, self.memory.topic_id(log.topic), self.last_ends.get(track.place))
        finding = find_loss(bookmark, log)
        if finding is None:
            return position, None
        decision = decide(finding, self.on_data_loss)
        track.lost_records += decision.lost_records
        if decision.start is None:
            track.fail(decision.error or str(finding), "DataLost", now)
            return None, None
        self.note(decision.note)
        return decision.start, Pin(decision.start, committed)


def _log(
    track: PartitionTrack,
    starts: Mapping[Partition, int],
    log_ends: Mapping[Partition, int],
    ids: Mapping[str, str | None],
) -> SourceLog:
    return SourceLog(
        track.upstream_topic,
        track.partition,
        start=starts[track.place],
        end=log_ends.get(track.place, _end(track)),
        topic_id=ids.get(track.upstream_topic),
    )


def _end(track: PartitionTrack) -> int:
    if track.end is None:
        raise ValueError(f"{track.upstream_topic}-{track.partition} has no listed end")
    return track.end


__all__ = ["Listed", "Partition", "Source", "StartingPoints"]
