"""Committed source offsets that were lost, or are older than what was copied: what follows would come twice.

A run commits them in the same transaction as the records and their part of the offset map. So there is no part of the
map, and no record of the flow's own producers, behind the place that the committed offset names, unless a part of the
offsets topic was lost or rolled back, as by an unclean leader election or a backup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import names
from srm_common.domain.flow.control_record import SOURCE_OFFSETS
from srm_common.domain.offsets.offset_edits import is_outdated
from srm_common.domain.offsets.segments import generation_of, is_another_generation
from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.errors import CorruptRecord
from srm_common.kafka.log.log_windows import LogWindows, Window
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.source_offsets import SourceOffsets
from srm_common.replication.driver.hanging_transactions import Copy
from srm_common.replication.driver.ownership import Ownership
from srm_common.usecases.flows.flow_clusters import FlowClusters

#: So many offsets behind the end of a copy are looked at: the first record there tells enough.
_LOOK_AHEAD = 10_000


class LostProgress:
    """Compares what is committed with the copies and their map. Nothing is read for partitions that are as the last run
    left them.

    Args:
        owner: of the flow: nobody else commits.
        before: what the last run recorded.
        topics: those that the flow copies.
    """

    def __init__(
        self,
        clusters: FlowClusters,
        owner: Ownership,
        copies: Sequence[Copy],
        before: Mapping[TopicPartition, PartitionRecord],
        topics: Iterable[CopiedTopic],
    ) -> None:
        self._clusters = clusters
        self._owner = owner
        self._copies = {copy.upstream: copy.downstream for copy in copies}
        self._before = before
        self._upstream_ids = {topic.upstream: topic.upstream_topic_id for topic in topics}
        self._found: dict[TopicPartition, CorruptRecord] | None = None

    def find(self, offsets: SourceOffsets, decided: Collection[TopicPartition]) -> dict[TopicPartition, CorruptRecord]:
        """The partitions that must not be copied, each with what to do. Looked for once: what the run itself commits is
        newer.

        Args:
            decided: those whose start was chosen otherwise, by a pin or a person.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: as the target answers.
        """
        if self._found is None:
            self._found = self._find(offsets, decided)
        return self._found

    def _find(self, offsets: SourceOffsets, decided: Collection[TopicPartition]) -> dict[TopicPartition, CorruptRecord]:
        places = self._copies.keys() - set(decided) - offsets.faults.keys() - offsets.resets
        lost = {place for place in places if place not in offsets and self._may_have_had_one(place)}
        as_copied = {
            place: at
            for place in places
            if (at := offsets.copied_to.get(place)) is not None and at.upstream_end == offsets.get(place)
        }
        ends = self._owner.log_ends(self._copies[place] for place in (*lost, *as_copied))
        lost = {place for place in lost if ends.get(self._copies[place])}
        behind = {place: at for place, at in as_copied.items() if self._goes_on(place, at, ends)}
        own: dict[TopicPartition, tuple[TopicPartition, int]] = {}
        # Whose record comes next says whether it is worth reading the map: others may write there all the time. Records
        # of a flow that changes them may have been routed there from other topics.
        if not self._changes_records:
            own, unread = self._own(behind, ends)
            behind = {place: behind[place] for place in (*own, *unread)}
        if not (lost or behind):
            return {}
        log = self._clusters.target.segment_log(names.segments_topic(self._clusters.flow.name.source))
        log.read_new({})
        found = {place: self._missing(place, end) for place in lost if (end := self._mapped(log, place)) is not None}
        for place in self._forgotten(found):
            del found[place]
        proved = {place: end for place, at in behind.items() if (end := self._mapped(log, place, at)) is not None}
        proofs = {
            place: f"the flow itself has written offset {offset} of {copy}" for place, (copy, offset) in own.items()
        }
        proofs |= {place: f"the offset map ends at {end}" for place, end in proved.items()}
        return found | {place: self._outdated(place, behind[place], proof) for place, proof in proofs.items()}

    def _may_have_had_one(self, place: TopicPartition) -> bool:
        before = self._before.get(place)
        return before is None or bool(before.position) or before.error is not None

    def _goes_on(self, place: TopicPartition, end: CopiedTo, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether a copy has more than the marker of the last transaction behind what is committed, and not only what
        the last run has seen there."""
        log_end, before = ends.get(self._copies[place]), self._before.get(place)
        if log_end is None or log_end <= end.downstream_end + 1:
            return False
        return (
            before is None
            or before.position != end.upstream_end
            or before.copy_end is None
            or log_end > before.copy_end
        )

    def _mapped(self, log: SegmentLog, place: TopicPartition, at: CopiedTo | None = None) -> int | None:
        """Where the map of a partition ends at the source, if that is behind ``at``; None where it proves nothing."""
        with suppress(CorruptRecord):  # repair says so, as it needs the map
            last = log.newest(*place)
            now = generation_of(self._upstream_ids.get(place.topic))
            if last is not None and not is_another_generation(last.generation, now) and is_outdated(at, last):
                return last.upstream_end
        return None

    def _forgotten(self, places: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those whose offsets were deleted on purpose: the tombstone may have expired."""
        wanted = set(places)
        if not wanted:
            return []
        newest = dict[TopicPartition, int | None]()
        with self._clusters.control_log() as log:
            for record in log.records(SOURCE_OFFSETS):
                for topic, partition, offset in record.after or ():
                    newest[TopicPartition(topic, partition)] = offset
        return [place for place in wanted if newest.get(place, -1) is None]

    @property
    def _changes_records(self) -> bool:
        flow = self._clusters.flow
        return bool(flow.transforms or flow.statements or flow.transforms_python)

    def _own(
        self, behind: Mapping[TopicPartition, CopiedTo], ends: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, tuple[TopicPartition, int]], set[TopicPartition]]:
        """The copies whose first record behind what is committed was written by the flow's producers, with its
        offset; and the partitions whose copies could not be read."""
        windows = {}
        for place, end in behind.items():
            copy = self._copies[place]
            until = min(ends[copy], end.downstream_end + _LOOK_AHEAD)
            windows[Window(*copy, end.downstream_end, until)] = place
        if not windows:
            return {}, set()
        target, own = self._clusters.target, {identity.producer_id for identity in self._owner.all_identities}
        found = {}
        with LogWindows(target.settings, timeout_seconds=target.request_seconds, pool=target.links) as logs:
            sights, faults = logs.read(windows, first_only=True)
        for window, sight in sights.items():
            offset = next(iter(sight.offsets), None)
            first = next((batch for batch in sight.batches if offset in batch.offsets), None)
            if offset is not None and first is not None and first.producer[0] in own:
                found[windows[window]] = (window.place, offset)
        return found, {windows[window] for window in faults}

    def _missing(self, place: TopicPartition, mapped: int) -> CorruptRecord:
        return CorruptRecord(
            f"the source offset of {place} was lost: it has none in {self._where}, although the offset map proves that "
            f"it was copied up to {mapped}, and continuing would copy that again; {self._repair}"
        )

    def _outdated(self, place: TopicPartition, at: CopiedTo, proof: str) -> CorruptRecord:
        return CorruptRecord(
            f"the source offset of {place} in {self._where}, {at.upstream_end}, is older than what was copied: "
            f"{proof}, and continuing would copy records again; {self._repair}"
        )

    @property
    def _where(self) -> str:
        return f"{names.offsets_topic(self._clusters.flow.name.source)} on '{self._clusters.flow.target.alias}'"

    @property
    def _repair(self) -> str:
        flow = self._clusters.flow.name
        return (
            f"set what the map proves with: srm-control repair --flow '{flow}', or decide with: "
            f"srm-control source-offsets set --flow '{flow}'"
        )
