"""Keep the offset map small: delete segments of records that have left the target's log, and join small segments.

Readers never miss a part of the map meanwhile. A joined segment is written before the first of those that it holds is
dropped, and while both are there, they say the same. Its key is its own: two rounds at the same time may write
different ones, and each drops only what it has read and holds in one of its own. A run that copies at the
same time writes behind what was read here, and a joined segment belongs before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.librdkafka import EARLIEST
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_writer import NewRecord
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.segment_map import map_changes
from srm_common.wire.segments import segment_partition


@dataclass(frozen=True, slots=True)
class Pruned:
    """``dropped`` segments said nothing of the target's log any more; of ``joined`` others ``written`` were made."""

    dropped: int = 0
    joined: int = 0
    written: int = 0


def prune_segments(clusters: FlowClusters, log: SegmentLog, topic: str, read_up_to: Mapping[int, int]) -> Pruned:
    """Write joined segments, and tombstones for those that they hold, for replaced ones, and for those whose records
    have left the target.

    A copy whose log cannot be queried (its topic is gone, a right is missing) keeps its map.

    Args:
        topic: the segments topic.
        read_up_to: for each of its partitions, the offset up to which incremental readers have read; later segments
            are not joined.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    dropped = held = written = 0
    flow, admin = clusters.flow, clusters.target.admin
    for batch, ends in log.pieces():
        found = batch.segments
        remote: dict[TopicPartition, TopicPartition] = {
            place: TopicPartition(flow.policy.format_remote_topic(flow.name.source, place[0]), place[1])
            for place in found
        }
        starts = admin.offsets(remote.values(), EARLIEST)
        made: list[NewRecord] = []
        dead: list[tuple[int, bytes]] = []
        for place, committed in found.items():
            log_start = starts[remote[place]]
            if not isinstance(log_start, int):
                continue
            home = segment_partition(*place, len(read_up_to))
            changes = map_changes(committed, log_start, read_up_to[home])
            made += [NewRecord(topic, home, key, value) for key, value in changes.written]
            dead += [(home, key) for key in changes.dropped]
            dropped += changes.replaced
            held += changes.joined
        if made:
            written += clusters.target.writer().write(f"join segments in state topic {topic}", made)
        if dead:
            # A start that was committed again has its old key. What cannot be decided now is dropped next time.
            later = log.keys_since(ends)
            tombstones = [NewRecord(topic, home, key, None) for home, key in dead if key not in later.get(home, {key})]
            clusters.target.writer().write(f"drop old records of state topic {topic}", tombstones)
    return Pruned(dropped, held, written)
