"""Restore lost source offsets from the offset map."""

from __future__ import annotations

from operator import itemgetter

from srm_common.domain.flow import FlowSettings
from srm_common.domain.offsets.offset_edits import CopyEnd, RepairAction, is_outdated, repair_action
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord, Fenced, FlowRunning, SrmError
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.source_offsets import SourceOffsets, offset_record, read_source_offsets
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import StateTopics, present_state_topics
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.slot_count import take_ownership

#: How many offsets of the copy are read after the end of the map; one visible record among them is enough.
_LOOK_AHEAD = 50_000


def repair_offsets(flow: FlowSettings | FlowClusters, *, dry_run: bool = False) -> list[RepairAction]:
    """Commit the position that the map proves, for each partition that has a map but no position, or one that is older
    than the end of the map.

    The flow is fenced first, whatever runs it; other positions, and partitions that were reset or moved on purpose,
    are left alone.

    Args:
        dry_run: only say what would be written; nothing is fenced or created.

    Returns:
        One action per partition without a position, or with an older one; those without ``next_offset`` were not
        written.

    Raises:
        FlowRunning: a run took the flow before the positions were committed.
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        if dry_run:
            return _planned(clusters, present_state_topics(clusters.target.reader, clusters.flow))
        return _repaired(clusters)


def _repaired(clusters: FlowClusters) -> list[RepairAction]:
    flow, state = clusters.flow, clusters.state_topics()
    owner = take_ownership(clusters, 1, flow.tasks_max)
    try:
        actions = _planned(clusters, state)
        records = [
            offset_record(flow.name, state, TopicPartition(action.topic, action.partition), action.next_offset)
            for action in actions
            if action.next_offset is not None
        ]
        if records:
            # Not by another producer: a run that has begun since has committed more than what the map proved.
            write_transaction(flow, owner.identities[0], records, clusters.target.links)
    except Fenced as error:
        raise FlowRunning(
            f"the source offsets of flow {flow.name} were not repaired: a run took over the flow in the meantime; "
            f"repair them again after its end"
        ) from error
    finally:
        # Without another fence, which would hit a run that took the flow meanwhile.
        owner.abandon()
    return actions


def _planned(clusters: FlowClusters, state: StateTopics) -> list[RepairAction]:
    flow, reader = clusters.flow, clusters.target.reader
    known = read_source_offsets(
        flow, state, refuse_loss=False, patience_seconds=flow.patience_seconds, pool=clusters.target.links
    )
    actions = []
    ends: dict[TopicPartition, Segment | str] = {}
    for place, segment_map in clusters.target.segment_log(state.segments_topic, state.segments_partitions).maps():
        if place in known.resets or (place in known and not _as_copied(known, place)):
            continue
        try:
            newest = segment_map[-1]
        except CorruptRecord as error:
            if place not in known:
                ends[place] = f"the end of its map cannot be read: {error}"
            continue
        if is_outdated(known.copied_to.get(place), newest):
            ends[place] = newest
    for place, last in sorted(ends.items(), key=itemgetter(0)):
        if isinstance(last, str):
            actions.append(RepairAction(*place, None, last))
        else:
            actions.append(repair_action(last, _copy_end(flow, reader, last)))
    return actions


def _as_copied(known: SourceOffsets, place: TopicPartition) -> bool:
    """Whether the position is as a run has committed it, with what it had copied."""
    end = known.copied_to.get(place)
    return end is not None and end.upstream_end == known[place]


def _copy_end(flow: FlowSettings, reader: StateReader, last: Segment) -> CopyEnd | str:
    remote = flow.policy.format_remote_topic(flow.name.source, last.topic)
    if last.partition >= reader.partitions(remote):
        return f"{remote}-{last.partition} does not exist on the target"
    try:
        end = reader.offsets(remote, [last.partition], LATEST)[last.partition]
        until = min(end, last.downstream_end + _LOOK_AHEAD)
        behind = reader.read(remote, {last.partition: last.downstream_end}, {last.partition: until})
    except SrmError as error:
        return str(error)
    return CopyEnd(end, len(behind))
