"""Drop the offset map of copies that are replaced: their offsets mean nothing in the new ones."""

from __future__ import annotations

from collections.abc import Collection

from srm_common.domain.flow import names
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import segment_partition


def drop_maps(clusters: FlowClusters, topics: Collection[str]) -> int:
    """Write a tombstone for each segment of these upstream topics; returns how many. Nothing may be copied into the new
    copies before.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    if not topics:
        return 0
    target, topic = clusters.target, names.segments_topic(clusters.flow.name.source)
    partitions = target.reader.partitions(topic)
    tombstones = [
        NewRecord(topic, segment_partition(*place, partitions), key, None)
        for batch, _ in target.segment_log(topic, partitions).pieces()
        for place, committed in batch.segments.items()
        if place.topic in topics
        for key in committed.record_keys()
    ]
    if tombstones:
        target.writer().write(f"drop the offset map of former copies from state topic {topic}", tombstones)
    return len(tombstones)
