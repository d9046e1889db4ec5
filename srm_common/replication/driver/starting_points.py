"""The offset from which each partition is read: the committed one, unless a start position, a newly seen topic or lost
data requires another. An offset that is not committed yet is pinned before anything is copied from there.

Invariant: where a topic starts is decided once, when it is first seen, and remembered; a partition that it got
later starts at its beginning, and so does a re-created topic, since everything in them was written while the flow
existed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import OnDataLoss
from srm_common.domain.flow.start_position import StartKind, StartPosition, StartRules
from srm_common.domain.runs.data_loss import Bookmark, CutCopy, Loss, SourceLog, decide, find_loss
from srm_common.domain.runs.partition_track import PartitionTrack, listed_end
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import LOST, ChosenStart, Pin, SourceTopics
from srm_common.replication.driver.log_identity import LogIdentity, Position, Source, any_lost, source_log
from srm_common.replication.driver.start_offsets import OppositeEnds, behind_opposite, first_offsets, override_offsets

_EARLIEST = StartPosition(StartKind.EARLIEST)


class Committed(NamedTuple):
    """The flow's progress as the target has it: the next offsets by (upstream topic, partition), a sentence for each
    partition whose record cannot be read, and, where known, the leader epochs of the last offsets copied and the ends
    of the copies."""

    offsets: Mapping[TopicPartition, int]
    faults: Mapping[TopicPartition, str]
    epochs: Mapping[TopicPartition, int] = {}
    copied_to: Mapping[TopicPartition, CopiedTo] = {}


@dataclass
class StartingPoints:
    """Positions of partitions, and what the flow must store about them.

    Args:
        source: the source cluster.
        memory: topic ids and pins; :meth:`place` changes it, and the caller stores it.
        read_committed: reads the progress.
        rules: where partitions without progress start.
        opposite_ends: for the rule ``opposite``.
        override: the run's start position, applied once to each of ``overridden``, from which it is then removed.
        last_ends: the log ends that the last run saw.
        find_cut: the copies of which the target lost records; ``on_target_loss`` says what happens to them.
        note: called with what was decided about lost data and first starts.
        now_ms: the time, for what is remembered.
        patience_seconds: how long to wait for the source to return a partition's start.
    """

    source: Source
    memory: SourceTopics
    read_committed: Callable[[], Committed]
    on_data_loss: OnDataLoss
    rules: StartRules = field(default_factory=StartRules)
    opposite_ends: OppositeEnds = lambda places: {}
    override: StartPosition = field(default_factory=StartPosition)
    overridden: set[TopicPartition] = field(default_factory=set)
    last_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    find_cut: Callable[[Committed], Mapping[TopicPartition, CutCopy]] = lambda committed: {}
    on_target_loss: OnDataLoss = OnDataLoss.FAIL
    note: Callable[[str], None] = lambda note: None
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    patience_seconds: float = 60.0

    def __post_init__(self) -> None:
        found = self._read()
        self._identity = LogIdentity(self.source)
        #: Partitions known not to hold records that would be copied back to where they came from.
        self._checked: set[TopicPartition] = set()
        #: Since when partitions have been waiting for offsets that the source does not return.
        self._waiting: dict[TopicPartition, float] = {}
        #: Truncated copies; an operator who set an offset back has decided about the gap.
        self.undecided = {
            place: cut
            for place, cut in self.find_cut(found).items()
            if (committed := self._committed.get(place)) is not None and committed >= cut.position
        }

    def _read(self) -> Committed:
        found = self.read_committed()
        self._committed, self._corrupt, self._epochs, self._copied_to = found
        return found

    def _pin(self, place: TopicPartition, offset: int) -> Pin:
        """Instead of what is committed now."""
        copied_to = self._copied_to.get(place)
        return Pin(offset, self._committed.get(place), None if copied_to is None else copied_to.downstream_end)

    @property
    def to_remember(self) -> tuple[SourceTopics, frozenset[TopicPartition]]:
        """What has to be stored before anything is copied: the memory, and the partitions to which the override has yet
        to be applied."""
        return self.memory, frozenset(self.overridden)

    def copied_to(self, track: PartitionTrack) -> CopiedTo | None:
        """How far the flow has committed a partition; None if that is unknown."""
        return self._copied_to.get(track.place) if track.copied_to is None else track.copied_to

    def first_seen(self, topics: Mapping[str, int]) -> None:
        """Decide where new topics start; ``topics`` has the number of partitions of every topic, known or new."""
        chosen = {}
        for topic, partitions in topics.items():
            if self.memory.start(topic) is not None:
                continue
            where, why = self.rules.of(topic)
            if self.memory.topic_id(topic) is not None:
                # Each partition that it had then got a position; one without is new.
                where, why = _EARLIEST, "copied before such choices were remembered"
            chosen[topic] = ChosenStart(str(where), why, self.now_ms(), partitions)
        if chosen:
            self.memory = self.memory.with_starts(chosen)

    def place(
        self, tracks: list[PartitionTrack], now: float, others: Iterable[PartitionTrack] = ()
    ) -> list[PartitionTrack]:
        """Set the positions of tracks whose ``end`` is known; those returned can be copied from there.

        A partition that lost data is failed, or continues where ``on.data.loss`` says. ``memory`` changes: the
        caller stores it before it copies anything. Where a topic turns out to be another one, ``others`` start over.
        """
        places = [track.place for track in tracks]
        listed = self.source.topic_ids(sorted({topic for topic, _ in places}))
        ids = {topic: None if self.memory.is_former(topic, one) else one for topic, one in listed.items()}
        positions = {track.place: found for track in tracks if (found := self._position(track)) is not None}
        # Else a deposed leader, whose log ends before what its successor took, would pass for a loss.
        copied = {topic: self.memory.topic_id(topic) for topic in ids}
        self.source.saw({place: found.epoch for place, found in positions.items()}, copied)
        starts, faults = self.source.starts(places)
        suspicious = [
            track.place for track in tracks if (known := self._known(track)) is not None and known > listed_end(track)
        ]
        log_ends, end_faults = self.source.high_watermarks(suspicious) if suspicious else ({}, {})
        shorter = [place for place, found in positions.items() if log_ends.get(place, found.offset) < found.offset]
        epochs, epoch_faults = self._identity.ask(positions, shorter)
        faults = {**faults, **end_faults, **epoch_faults}
        logs = {
            track.place: source_log(track, starts, log_ends, ids, epochs) for track in tracks if track.place in starts
        }
        if any_lost(tracks, logs, self.memory.topic_id):
            # A pin replaces the offset that is committed now, not the one that was at the run's start.
            self._read()
        overridden = [track for track in tracks if track.place in self.overridden]
        wanted, unknown = override_offsets(self.source, self.override, overridden, starts)
        waiting = {place: "the source does not return the start of its log" for place in places if place not in starts}
        here = f"it cannot start at {self.override}, as requested for this run"
        waiting |= {
            track.place: f"{here}: {unknown.get(track.place, 'the source does not return the offset')}"
            for track in overridden
            if track.place not in wanted
        }
        waiting |= faults
        firsts = self._firsts(tracks, starts)
        backward = self._backward(tracks)
        pins: dict[TopicPartition, Pin] = {}
        recreated: set[str] = set()
        ready = []
        for track in tracks:
            place = track.place
            if place in self._corrupt:
                track.fail(self._corrupt[place], "CorruptRecord", now)
                continue
            if place in backward:
                track.fail(backward[place], "ConfigError", now)
                continue
            if place in waiting:
                self._wait(track, waiting[place], now)
                continue
            log = logs[place]
            cut = None if place in wanted else self.undecided.get(place)
            if cut is not None and self.on_target_loss is OnDataLoss.FAIL:
                # It keeps its position, so that records behind the loss count as lag.
                track.leader_epoch, track.position = self._epoch(track), self._known(track)
                track.fail(cut.error, "DataLost", now)
                continue
            if cut is not None:
                del self.undecided[place]
                self.note(f"{place[0]}-{place[1]}: {cut.finding}; on.target.loss = {self.on_target_loss.value}")
                if self.on_target_loss is OnDataLoss.RESET:
                    wanted[place] = log.start
            if place in wanted:
                self.overridden.discard(place)
                pins[place] = self._pin(place, wanted[place])
                track.position, track.leader_epoch = wanted[place], -1
                ready.append(track)
                continue
            before = self._position(track)
            start, pin = self._start(track, log, firsts.get(place), now)
            if pin is not None:
                pins[place] = pin
            if start is None:
                if track.final and self.memory.is_other(log.topic, log.topic_id):
                    recreated.add(place[0])
                continue
            track.position, track.leader_epoch = start, -1
            if before is not None and before.offset == start:
                sound = epochs.get(place)
                track.leader_epoch = before.epoch if sound is None else self._identity.holds(place, before, sound)
            ready.append(track)
        for track in ready:
            self._waiting.pop(track.place, None)
        # Another topic is remembered once something of it is decided, and nothing failed.
        decided = {track.upstream_topic for track in ready} - recreated
        ids = {topic: one for topic, one in ids.items() if topic in decided or not self.memory.is_other(topic, one)}
        pins |= self._start_over(others, {track.place for track in ready}, ids)
        self.memory = self.memory.with_pins(pins).with_ids(ids)
        return ready

    def _start_over(
        self, tracks: Iterable[PartitionTrack], placed: set[TopicPartition], ids: Mapping[str, str | None]
    ) -> dict[TopicPartition, Pin]:
        """Pins for the partitions that are not placed now, of topics that are other ones now; also for those that the
        new topic does not have. It may grow, and what is known of them is the former one's."""
        replaced = {topic for topic, topic_id in ids.items() if self.memory.is_other(topic, topic_id)}
        here = {track.place: track for track in tracks if track.upstream_topic in replaced} if replaced else {}
        known = self.memory.places(replaced, {*self._committed, *self._corrupt, *here}) if replaced else set()
        for track in (here[place] for place in sorted(here.keys() - placed)):
            self.note(f"{track.place}: its topic was deleted and created again at the source; it starts over there")
            track.position, track.leader_epoch = 0, -1
        return {place: self._pin(place, 0) for place in known - placed}

    def _wait(self, track: PartitionTrack, why: str, now: float) -> None:
        """It is placed in a later pass, or fails if it has waited for the source for too long."""
        track.unlisted_since = now if track.unlisted_since is None else track.unlisted_since
        if now - self._waiting.setdefault(track.place, now) >= self.patience_seconds:
            del self._waiting[track.place]
            track.fail(why, "ClusterError", now)

    def fail_unplaced(self, tracks: Iterable[PartitionTrack]) -> None:
        """At the end of a run: report the partitions to which its start position was not applied."""
        for track in tracks:
            if track.place in self.overridden and track.error is None:
                track.fail(
                    f"it did not start at {self.override}, as requested for this run: the run ended first",
                    "ClusterError",
                    0,
                )

    def at_its_end(self, track: PartitionTrack) -> bool:
        """Whether a listed partition needs no more queries: it was read to its end, or never held anything."""
        waits = track.place in self.overridden or track.place in self._corrupt or track.place in self.undecided
        if waits or self.memory.is_other(track.upstream_topic, track.topic_id):
            return False
        known = self._known(track)
        if known is None and track.end == 0 and self._begins_at_start(track):
            known = 0
        if known is None or known != track.end:
            return False
        epoch = self._epoch(track)
        if self._identity.is_due(track.place, Position(known, epoch)):
            return False
        track.position, track.leader_epoch = known, epoch
        return True

    def forget_spent_pins(self, moved: Iterable[PartitionTrack]) -> None:
        """These partitions have committed something, which spends their pins."""
        self.memory = self.memory.without_pins({track.place for track in moved})

    def read_again(self, tracks: Iterable[PartitionTrack]) -> list[PartitionTrack]:
        """Read the committed offsets after an uncertain response and continue from them; returns those that were
        further than reported."""
        self._read()
        self.memory = self.memory.without_spent_pins(self._committed, self._copied_to)
        return [
            track
            for track in tracks
            if track.reposition(self._known(track, ignoring_position=True), self._epoch(track, ignoring_position=True))
        ]

    def _known(self, track: PartitionTrack, ignoring_position: bool = False) -> int | None:
        if track.position is not None and not ignoring_position:
            return track.position
        return self.memory.position(*track.place, self._committed.get(track.place), self._copied_to.get(track.place))

    def _epoch(self, track: PartitionTrack, ignoring_position: bool = False) -> int:
        """The leader epoch of the offset before :meth:`_known`; -1 when it is not known, as behind a pin."""
        if track.position is not None and not ignoring_position:
            return track.leader_epoch
        committed = self._committed.get(track.place)
        known = self._known(track, ignoring_position)
        return self._epochs.get(track.place, -1) if known is not None and known == committed else -1

    def _position(self, track: PartitionTrack) -> Position | None:
        known = self._known(track)
        return None if known is None else Position(known, self._epoch(track))

    def _begins_at_start(self, track: PartitionTrack) -> bool:
        """Whether it is settled that a partition without progress starts at its beginning; needs no pin."""
        chosen = self.memory.start(track.upstream_topic)
        return chosen is None or chosen.where == _EARLIEST.kind.value or track.partition >= chosen.partitions

    def _rule(self, track: PartitionTrack) -> tuple[StartPosition, str]:
        """Where a partition without progress starts, and why. The choice made for its topic is kept. For anything but
        ``earliest`` the choice was carried out with a pin; if there is none, it could not be carried out (no leader, an
        impossible offset), and the current rules apply.
        """
        if self._begins_at_start(track):
            return _EARLIEST, "settled"
        return self.rules.of(track.upstream_topic)

    def _backward(self, tracks: Iterable[PartitionTrack]) -> dict[TopicPartition, str]:
        """Partitions from which records would be copied back to where they came from, each with a sentence.

        A topic that starts at ``opposite`` may have progress from an earlier time when the flow ran in this direction;
        since then the other direction has written behind it. Each partition is checked once in a run.
        """
        asked = {
            track.place: position
            for track in tracks
            if not (track.heartbeats or track.place in self._checked)
            and self.rules.of(track.upstream_topic)[0].kind is StartKind.OPPOSITE
            and track.place not in self.overridden
            and (position := self._known(track)) is not None
        }
        if not asked:
            return {}
        found = behind_opposite(asked, self.opposite_ends(asked))
        self._checked |= asked.keys() - found.keys()
        return found

    def _firsts(
        self, tracks: Iterable[PartitionTrack], starts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | str]:
        """First offsets of the partitions without progress; a sentence where the rule cannot be carried out."""
        rules = {
            track.place: self._rule(track)
            for track in tracks
            if track.place in starts
            and self._known(track) is None
            and track.place not in self._corrupt
            and track.place not in self.overridden
        }
        of, otherwise = {track.place: track for track in tracks if track.place in rules}, self.rules.otherwise
        offsets = first_offsets(self.source, rules, otherwise, of, starts, self.opposite_ends, self.memory)
        self._tell(rules, offsets)
        return offsets

    def _tell(
        self, rules: Mapping[TopicPartition, tuple[StartPosition, str]], found: Mapping[TopicPartition, int | str]
    ) -> None:
        """Note the topics that do not start at their beginning, and remember a rule that replaced another."""
        started: dict[tuple[str, StartPosition, str], int] = defaultdict(int)
        for (topic, partition), (where, why) in rules.items():
            if where.kind is not StartKind.EARLIEST and isinstance(found.get(TopicPartition(topic, partition)), int):
                started[topic, where, why] += 1
        for (topic, where, why), count in started.items():
            many = f"{count} partition" + ("" if count == 1 else "s")
            self.note(f"{topic}: {many} without progress start at {where} ({why})")
            chosen = self.memory.start(topic)
            if chosen is not None and chosen.where not in (str(where), LOST):
                again = ChosenStart(str(where), why, self.now_ms(), chosen.partitions)
                self.memory = self.memory.with_starts({topic: again})

    def _start(
        self, track: PartitionTrack, log: SourceLog, first: int | str | None, now: float
    ) -> tuple[int | None, Pin | None]:
        """Where to read, and the pin that says so where the committed offset does not.

        Args:
            first: where it starts, or why it cannot, if it has no progress; None when that is not known yet.
        """
        position = self._known(track)
        if position is None:
            if self.memory.is_other(log.topic, log.topic_id):
                if self.on_data_loss is not OnDataLoss.FAIL:
                    return log.start, Pin(log.start, None)
                # Copied under the new id, it would make its sister partitions look sound in the next run.
                position = log.start
            elif first is None:
                where, why = self._rule(track)
                self._wait(track, f"it cannot start at {where} ({why}): the source does not return the offset", now)
                return None, None
            elif isinstance(first, str):
                track.fail(first, "ConfigError", now)
                return None, None
            else:
                return first, None if self._begins_at_start(track) else Pin(first, None)
        last_end = self.last_ends.get(track.place)
        bookmark = Bookmark(position, self.memory.topic_id(log.topic), last_end, self._epoch(track))
        finding = find_loss(bookmark, log)
        if finding is None:
            return position, None
        decision = decide(finding, self.on_data_loss)
        track.lost_records += decision.lost_records
        if decision.start is None:
            if finding.loss is not Loss.RECREATED:
                # It keeps its position, so that records behind the loss count as lag.
                track.leader_epoch, track.position = self._epoch(track), position
            track.fail(decision.error or str(finding), "DataLost", now)
            return None, None
        self.note(decision.note)
        return decision.start, self._pin(track.place, decision.start)
