"""The partitions of a run: which there are, how far their logs go at the source, and which of them are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from srm_common.domain.runs.partition_track import PartitionTrack
from srm_common.domain.topic_id import url_safe
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.errors import ClusterError, StateUnavailable, UnreachableCluster
from srm_common.replication.driver.starting_points import StartingPoints

#: How often a long run looks for topics and partitions that appeared meanwhile.
MAPPING_SECONDS = 30.0
#: A topic that is missing from a listing is looked for again after this time; if it is still missing, it is gone.
_LOOK_AGAIN_SECONDS = 5.0


@dataclass
class TrackedPartitions:
    """A track for each partition that the run has seen.

    Args:
        topics: lists what is to be copied now.
        points: where partitions start, and the source.
        flow: its name, for messages.
        tails: whether the run continues when everything is copied.
        patience_seconds: how long a partition, or the whole source, may stay unlisted.
    """

    topics: Callable[[], Iterable[CopiedTopic]]
    points: StartingPoints
    flow: str
    tails: bool
    patience_seconds: float
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.tracks: dict[TopicPartition, PartitionTrack] = {}
        self._mapped_at: float | None = None
        self._missing_since: dict[TopicPartition, float] = {}

    @property
    def all_settled(self) -> bool:
        """For a run that does not tail: each partition has reached its goal, or failed."""
        return all(self._settled(track) for track in self.tracks.values())

    def seconds_until_due(self, now: float) -> list[float]:
        """How long each partition still rests that is not in the next pass, and 0 if any is missing or unlisted."""
        waiting = [
            track.rest_until - now for track in self.tracks.values() if not track.final and track.rest_until > now
        ]
        if self._missing_since or any(track.unlisted_since is not None for track in self.tracks.values()):
            waiting.append(0.0)
        return waiting

    def find(self) -> None:
        """Find out what there is to copy: once at first, then regularly in a long run."""
        now = self.clock()
        interval = _LOOK_AGAIN_SECONDS if self._missing_since else MAPPING_SECONDS
        if self._mapped_at is not None and (not self.tails or now - self._mapped_at < interval):
            return
        try:
            topics = list(self.topics())
        except (ClusterError, StateUnavailable) as error:
            if self._mapped_at is None:
                raise
            self._mapped_at = now
            self.points.note(f"new topics and partitions are not seen yet: {error}")
            return
        self._mapped_at = now
        there = set()
        # Heartbeats start at the beginning: else a flow that starts at `latest` would wait for the next one.
        self.points.first_seen({topic.upstream: topic.partitions for topic in topics if not topic.heartbeats})
        for topic in topics:
            for partition in range(topic.partitions):
                place = TopicPartition(topic.upstream, partition)
                there.add(place)
                new = place not in self.tracks
                if new:
                    self.tracks[place] = PartitionTrack(
                        topic.upstream, topic.downstream, partition, heartbeats=topic.heartbeats
                    )
                if new or topic.settings_known:
                    self.tracks[place].max_message_bytes = topic.max_message_bytes
                    self.tracks[place].compacted = topic.compacted
                self.tracks[place].topic_id = url_safe(topic.upstream_topic_id)
                self.tracks[place].copy_id = url_safe(topic.downstream_topic_id)
        for place, track in self.tracks.items():
            if place in there:
                self._missing_since.pop(place, None)
            elif not track.final:
                self._missing(track, now)

    def list_ends(self) -> list[PartitionTrack]:
        """The partitions that may be copied now and whose end offsets the source returns; sets these offsets.

        Raises:
            UnreachableCluster: the whole source has not responded for ``patience_seconds``.
        """
        now = self.clock()
        asked = [track for track in self.tracks.values() if track.rest_until <= now and not self._given_up(track)]
        if not asked:
            return []
        ends, faults = self.points.source.ends([track.place for track in asked])
        # A run that does not tail owes nothing more to those that are settled.
        silent = [track for track in asked if track.place in faults and (self.tails or not self._settled(track))]
        if silent:
            self._unlisted(silent, faults, bool(ends))
        listed = [track for track in asked if track.place in ends]
        for track in listed:
            track.listed(ends[track.place])
        return listed

    def _given_up(self, track: PartitionTrack) -> bool:
        """Whether this run does not copy it any more. One that has reached its goal is copied on while others have not:
        they may take hours."""
        return track.final or (not self.tails and track.error is not None and not track.reached_goal())

    def _settled(self, track: PartitionTrack) -> bool:
        return track.error is not None or (track.reached_goal() and track.place not in self.points.overridden)

    def excuse_beyond_goals(self) -> None:
        """At the end of a run that does not tail: what failed behind a goal, and may succeed next time, is a note."""
        for track in self.tracks.values():
            if track.error and not track.final and track.reached_goal() and track.place not in self.points.overridden:
                self.points.note(f"{track.place}: {track.error}; the run had copied what it was for")
                track.error = track.error_kind = None

    def _unlisted(self, tracks: list[PartitionTrack], faults: Mapping[TopicPartition, str], others: bool) -> None:
        """Partitions that the source does not return: deleted, without a leader, or the source is down."""
        ids = self.points.source.topic_ids(sorted({track.upstream_topic for track in tracks})) if others else {}
        # Read after the listing, so that the time spent waiting for it counts.
        now = self.clock()
        for track in tracks:
            if others and ids[track.upstream_topic] is None:
                self._missing(track, now)
                continue
            self._missing_since.pop(track.place, None)
            track.unlisted_since = now if track.unlisted_since is None else track.unlisted_since
            if now - track.unlisted_since < self.patience_seconds:
                continue
            if not others and len(tracks) == len(self.tracks):
                raise UnreachableCluster(
                    f"the source of flow {self.flow} has not responded for {self.patience_seconds:g} s: "
                    f"{faults[track.place]}"
                )
            track.fail(faults[track.place], "ClusterError", now)

    def _missing(self, track: PartitionTrack, now: float) -> None:
        """A listing lacks the partition. A single one may be incomplete, such as that of a broker that has just
        started; another, seconds later, is believed."""
        since = self._missing_since.setdefault(track.place, now)
        if now - since < _LOOK_AGAIN_SECONDS:
            track.unlisted_since = now if track.unlisted_since is None else track.unlisted_since
            return
        del self._missing_since[track.place]
        track.fail(
            f"topic {track.upstream_topic} was deleted at the source, or its copy {track.downstream_topic} "
            f"on the target, while the run was copying it",
            "PartitionError",
            now,
        )
        track.final = True
