"""How far the flow in the other direction has written to the topics of this flow's source.

After a change of direction the topics at the new source hold two kinds of records: first those that came from the new
target, which must not go back, then those that producers wrote since. The offset map of the former flow, which lies on
the new source, says where the one ends and the other begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from srm_common.domain.flow import FlowName, FlowSettings, names
from srm_common.domain.offsets.offset_map import OffsetMap
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.source_offsets import SourceOffsets, next_offsets
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.state.segment_map import SegmentMap

_MARKER = 1


def opposite_ends(clusters: FlowClusters, places: Iterable[TopicPartition]) -> dict[TopicPartition, int | str]:
    """The end of what the flow ``target->source`` copied into each of these partitions of the source.

    Returns:
        The next offset behind the copy by (topic, partition), or a sentence where a copy exists that no map tells of,
        or not to its end (MirrorMaker 2 made it, or the map was lost or cannot be read). Partitions that were never
        copied into are absent.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the source answers.
    """
    flow = clusters.flow
    other = FlowName(flow.name.target, flow.name.source)
    wanted = set(places)
    ends: dict[TopicPartition, int | str] = {}
    reader = clusters.source.clients.reader.with_patience(patience_seconds=flow.patience_seconds)
    committed = next_offsets(reader, other)
    for upstream, known in clusters.source.segment_log(names.segments_topic(other.source), reader=reader).maps():
        place = _downstream(flow, upstream)
        if place in wanted:
            try:
                beyond = _copied_beyond(known, committed, upstream)
                ends[place] = _unknown(place, other, beyond) if beyond else known[-1].downstream_end
            except CorruptRecord as error:
                ends[place] = f"{place[0]}-{place[1]} cannot start after what flow {other} copied: {error}"
    for upstream in (*committed, *committed.faults):
        place = _downstream(flow, upstream)
        if place in wanted and place not in ends:
            ends[place] = _unknown(place, other, "that flow has progress there but no offset map")
    return ends


def _copied_beyond(known: SegmentMap, committed: SourceOffsets, upstream: TopicPartition) -> str:
    """A clause if something may have been copied behind the end of the map. Raises CorruptRecord."""
    if (fault := committed.faults.get(upstream)) is not None:
        return f"that flow's progress there cannot be read, because {fault}"
    offset_map = OffsetMap(known, committed.get(upstream), ended=committed.copied_to.get(upstream))
    # Versions that did not write down where a copy ends may have passed over a marker.
    if offset_map.copied_to - offset_map.reach <= _MARKER:
        return ""
    return f"it is copied up to upstream offset {offset_map.copied_to}, but its offset map ends at {offset_map.reach}"


def _unknown(place: TopicPartition, other: FlowName, why: str) -> str:
    return (
        f"{place[0]}-{place[1]} cannot start after what flow {other} copied: {why}, so it is unknown where its records "
        f"end; give the offset with start.positions = {place[0]}=offsets:{place[1]}=<offset>"
    )


def _downstream(flow: FlowSettings, upstream: TopicPartition) -> TopicPartition:
    return TopicPartition(flow.policy.format_remote_topic(flow.name.target, upstream[0]), upstream[1])
