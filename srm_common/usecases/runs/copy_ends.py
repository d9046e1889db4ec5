"""Where the logs of copies end: by it a run notices what the target has lost since it was written."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.runs.data_loss import CutCopy
from srm_common.domain.runs.partition_track import PartitionTrack
from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.domain.topic_id import is_another_topic
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.hanging_transactions import Copy
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.starting_points import Committed

#: Of so many copies that the last run's record has no partitions of, the ids are kept: they may be selected again.
_OTHER_COPIES = 1_000


class CopyEnds:
    """Where the logs of copies end, by upstream partition: what the target has cut off since is noticed by it.

    An earlier run has recorded the end, or, where it did not live to do so, has committed it with the source offset.
    Both count only for the very topic that it wrote to: one that was created in its place is a log of its own.

    Args:
        before: what the last run recorded.
        topic_ids: of the copies that it, or one before it, has seen, by topic of the target.
    """

    def __init__(self, before: Mapping[TopicPartition, PartitionRecord], topic_ids: Mapping[str, str]) -> None:
        self._before = before
        self._ids_before = topic_ids
        self._ids_now: Mapping[str, str] = {}
        self._owner: Ownership | None = None
        self._copies: Sequence[Copy] = ()
        #: For the record of this run, as far as it has looked.
        self.known: dict[TopicPartition, int] = {}
        #: Copies that end before where an earlier run left them.
        self.cut: dict[TopicPartition, CutCopy] = {}

    def look(self, owner: Ownership, copies: Sequence[Copy], topic_ids: Mapping[str, str]) -> None:
        """For the start of a run; no slot is active.

        Args:
            topic_ids: of the copies as they are now, by topic of the target.
        """
        self._owner, self._copies, self._ids_now = owner, copies, topic_ids

    def compare(self, committed: Committed) -> Mapping[TopicPartition, CutCopy]:
        """The copies that end before what is recorded, or committed, of them."""
        if self._owner is None:
            return {}
        left = {copy.upstream: where for copy in self._copies if (where := self._left(copy, committed)) is not None}

        def is_cut(place: TopicPartition) -> bool:
            return place in left and place in ends and ends[place] < left[place].downstream_end

        ends = self._read(self._owner, self._copies)
        if shorter := [copy for copy in self._copies if is_cut(copy.upstream)]:
            for copy in shorter:
                del ends[copy.upstream]
            ends |= self._read(self._owner, shorter, surely=True)
        for copy in self._copies:
            place = copy.upstream
            if is_cut(place):
                self.cut[place] = CutCopy(*copy.downstream, *left[place], ends[place])
            elif place in ends:
                self.known[place] = ends[place]
        return self.cut

    def _left(self, copy: Copy, committed: Committed) -> CopiedTo | None:
        """Where the flow left a copy; None where that is not known, or was another topic."""
        topic, before = copy.downstream.topic, self._before.get(copy.upstream)
        if self._is_another(topic):
            return None
        position = (None if before is None else before.position) or 0
        copied_to = committed.copied_to.get(copy.upstream)
        if topic in self._ids_before and copied_to is not None and committed.offsets.get(copy.upstream, 0) > position:
            # The run that committed it has recorded nothing since.
            return copied_to
        return None if before is None or before.copy_end is None else CopiedTo(position, before.copy_end)

    def _is_another(self, topic: str) -> bool:
        return is_another_topic(self._ids_before.get(topic), self._ids_now.get(topic))

    def read_again(self, owner: Ownership, undecided: Container[TopicPartition]) -> None:
        """At the end of a run. What was cut off meanwhile, or is ``undecided`` still, is left for the next run to
        notice."""
        for place, end in self._read(owner, self._copies).items():
            decided = place in self.cut and place not in undecided
            if decided or (place not in self.cut and end >= self.known.get(place, 0)):
                self.known[place] = end

    def recorded(self, track: PartitionTrack, undecided: Container[TopicPartition]) -> int | None:
        """The end to record for a partition: also by what was committed since the log was read."""
        place, before = track.place, self._before.get(track.place)
        end, cut = self.known.get(place), self.cut.get(place)
        if end is None and cut is not None:
            end = cut.before if place in undecided else cut.now
        if end is None:
            return None if before is None or self._is_another(track.downstream_topic) else before.copy_end
        return end if track.copied_to is None or not track.copied.records else max(end, track.copied_to.downstream_end)

    @property
    def topic_ids(self) -> dict[str, str]:
        """To record with the ends, with those of copies that this run did not look at."""
        recorded = {partition.downstream_topic for partition in self._before.values()}
        others = [topic for topic in self._ids_before if topic not in recorded and topic not in self._ids_now]
        forgotten = {*others[:-_OTHER_COPIES], *self._ids_now}
        kept = {topic: known for topic, known in self._ids_before.items() if topic not in forgotten}
        return kept | {topic: known for topic, known in self._ids_now.items() if known}

    @staticmethod
    def _read(owner: Ownership, copies: Sequence[Copy], *, surely: bool = False) -> dict[TopicPartition, int]:
        ends = owner.log_ends([copy.downstream for copy in copies], surely=surely)
        return {copy.upstream: ends[copy.downstream] for copy in copies if copy.downstream in ends}
