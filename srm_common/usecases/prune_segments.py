"""Drop the parts of the offset map that say nothing about the target's log any more."""

from __future__ import annotations

from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.translation import dead_segments
from srm_common.kafka.admin import ClusterAdmin
from srm_common.kafka.compacted import EARLIEST
from srm_common.kafka.segment_log import Partition, SegmentLog
from srm_common.kafka.state_writer import NewRecord, StateWriter
from srm_common.wire.segments import segment_key, segment_partition


def prune_segments(flow: FlowSettings, log: SegmentLog, writer: StateWriter, topic: str, partitions: int) -> int:
    """Write tombstones for segments whose records have left the target, and for replaced ones.

    A copy whose log cannot be asked (its topic is gone, a right is missing) keeps its map.

    Args:
        topic: the segments topic, of ``partitions`` partitions.

    Returns:
        How many were dropped.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    found = log.read_all().segments
    remote: dict[Partition, Partition] = {
        place: (flow.policy.format_remote_topic(flow.name.source, place[0]), place[1]) for place in found
    }
    starts = ClusterAdmin(flow.target).offsets(remote.values(), EARLIEST)
    tombstones = []
    for place, segments in found.items():
        log_start = starts[remote[place]]
        if not isinstance(log_start, int):
            continue
        home = segment_partition(*place, partitions)
        tombstones += [
            NewRecord(topic, home, segment_key(*place, segment.upstream_start), None)
            for segment in dead_segments(segments, log_start)
        ]
    return writer.write(f"drop old records of state topic {topic}", tombstones)
