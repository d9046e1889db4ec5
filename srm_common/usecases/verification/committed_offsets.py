"""What a flow has committed, next to the offset map that its copies are compared with."""

from __future__ import annotations

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.flow import names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord, StateUnavailable
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.source_offsets import SourceOffsets, next_offsets
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.state.segment_map import SegmentMap
from srm_common.wire.state.segments import segment_partition

_SETTLING_SECONDS = 10.0


class CommittedOffsets:
    """Source offsets of the flow, as they were when :meth:`read` was called; none before that."""

    def __init__(self, clusters: FlowClusters) -> None:
        self._clusters = clusters
        self._offsets = SourceOffsets()
        #: Partitions of the segments topic that were read once more; None where a transaction is open.
        self._settled: dict[int, SegmentLog | None] = {}

    def read(self) -> None:
        """Raises UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers."""
        self._offsets = next_offsets(self._clusters.target.reader, self._clusters.flow.name)

    def position(self, upstream: TopicPartition) -> int | None:
        """The next upstream offset to copy."""
        return self._offsets.get(upstream)

    def copied_to(self, upstream: TopicPartition, found: SegmentMap | None) -> CopiedTo | None:
        """What the flow has committed; None where that is not known, or the map may be about to tell more: the markers
        of a transaction do not reach all state topics at once."""
        known = self._offsets.copied_to.get(upstream)
        if known is None or _reaches(found, known):
            return known
        reader, topic = self._clusters.target.reader, names.segments_topic(self._clusters.flow.name.source)
        partitions = range(reader.partitions(topic))
        if not partitions:
            return known  # the topic was deleted, and nothing more will be told
        home = segment_partition(*upstream, len(partitions))
        if home not in self._settled:
            try:
                reader.stable_ends(topic, [home], _SETTLING_SECONDS)
            except StateUnavailable:
                self._settled[home] = None
            else:
                again = self._settled[home] = self._clusters.target.segment_log(topic)
                again.read_new(reader.offsets(topic, partitions, LATEST))
        settled = self._settled[home]
        return None if settled is None or _reaches(settled.complete_map(*upstream), known) else known


def _reaches(found: SegmentMap | None, copied_to: CopiedTo) -> bool:
    """Whether a map tells of all that was committed, or cannot be read there."""
    try:
        return found is not None and found[-1].downstream_end >= copied_to.downstream_end
    except CorruptRecord:
        return True
