"""Write MirrorMaker 2's offset syncs and checkpoints, derived from the offset map, and sync idle groups.

The offset map is kept small: segments of records that have left the target's log are deleted, and small segments
joined. Readers never miss a part of the map meanwhile. A joined segment is written before the first of those that it
holds is dropped, and while both are there, they say the same. Its key is its own: two rounds at the same time may write
different ones, and each drops only what it has read and holds in one of its own. A run that copies at the same time
writes behind what was read here, and a joined segment belongs before that.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.monitoring.run_report import CheckpointRound, groups_from, groups_record, topics_from
from srm_common.domain.offsets.checkpoint_report import CheckpointReport
from srm_common.domain.offsets.checkpoints import (
    Checkpoint,
    CheckpointMemory,
    Part,
    group_sync_period_seconds,
    untranslated_record,
)
from srm_common.domain.offsets.offset_syncs import OffsetSync, SyncState, syncs_for
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.state_topics import state_topics
from srm_common.domain.verification.foreign_records import foreign_record
from srm_common.errors import AccessDenied, CorruptRecord
from srm_common.kafka.client.links.link import EARLIEST
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.segment_log import SegmentBatch, SegmentLog
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.offsets.foreign_records import check_copies
from srm_common.usecases.offsets.group_sync import GroupsSynced, sync_groups
from srm_common.usecases.offsets.make_checkpoints import CheckpointsMade, make_checkpoints
from srm_common.wire.state.mm2 import encode_checkpoint, encode_offset_sync
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segment_map import MapChanges, map_changes
from srm_common.wire.state.segments import segment_partition

#: New segments after which the map is pruned at once: a flow that copies a trickle commits a hundred thousand an hour.
_MANY_SEGMENTS = 5_000


def sync_checkpoints(flow: FlowSettings | FlowClusters, *, at_once: bool = False) -> CheckpointReport:
    """One round: offset syncs for what was copied since the last one, checkpoints for groups that moved.

    Reads the news of the offset map, all checkpoints, and the committed offsets of the source's groups; a group that
    moved within older parts of the map has that part read too. A round that fails is done again by the next one.

    Args:
        at_once: do now what is switched on, whatever the intervals say.

    Raises:
        StateTopicInvalid: a state topic cannot be used.
        CorruptRecord: what is recorded of topics cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer. Single groups that cannot be read are
            faults in the report.
    """
    with clusters_of(flow) as clusters:
        return _synced(clusters, at_once)


def _synced(clusters: FlowClusters, at_once: bool) -> CheckpointReport:
    flow, state = clusters.flow, clusters.state
    partitions = clusters.target.ensure([topic for topic in state_topics(flow) if topic.location == "target"])
    segments_topic = names.segments_topic(flow.name.source)
    segments_partitions = partitions[segments_topic]
    now_ms = clusters.now_ms()
    skipped: list[str] = []
    faults: list[str] = []
    made, synced, pruned, foreign = CheckpointsMade(), GroupsSynced(), Pruned(), None
    acknowledged = 0.0
    memory = _remembered(state, skipped)
    due = memory.due(flow, now_ms, at_once=at_once)
    log = clusters.target.segment_log(segments_topic, segments_partitions)
    news, ends = log.read_new(memory.synced)
    report = CheckpointReport(
        str(flow.name),
        segments=len(news),
        checkpoints_emitted=flow.emit_checkpoints,
        group_sync_seconds=group_sync_period_seconds(flow),
    )
    before = memory
    try:
        written = _write_offset_syncs(clusters, news) if flow.emit_offset_syncs else 0
        report, memory = replace(report, offset_syncs=written), replace(memory, synced=ends)
    except AccessDenied as error:
        if flow.offset_syncs_topic_location == "target":
            raise
        # Nothing here needs them.
        faults.append(f"no offset syncs are written: {error}, or set offset-syncs.topic.location = target")
    # Segments are decoded when they are looked at.
    skipped += news.unreadable
    if Part.CHECKPOINTS in due:
        if before.checked != before.synced:
            news, ends = log.read_new(before.checked)
        if before.synced != memory.synced:
            # Whatever fails from here on: MirrorMaker 2 takes a sync that comes twice for a rewound log.
            state.write(StateKey.CHECKPOINTS, memory.to_json())
        made = make_checkpoints(clusters, log, news.segments, before)
        if made.written:
            write_checkpoints(flow, made.written, clusters.target.writer())
        acknowledged = time.monotonic()
        _keep_untranslated(state, made)
        memory = replace(memory, checked=ends, copies=made.copies)
        if not made.faults:
            memory = memory.done([Part.CHECKPOINTS], now_ms)
    # What a checkpoint said that holds no more is known in this round alone.
    group_sync = Part.GROUPS in due or (flow.sync_group_offsets and bool(made.void))
    if group_sync:
        synced = sync_groups(clusters.target, made.newest, made.shared, made.void)
        if not synced.faults:
            memory = memory.done([Part.GROUPS], now_ms)
    if Part.CHECKPOINTS in due:
        _keep_groups(clusters, made, acknowledged, synced.kept if group_sync else None)
    if Part.PRUNING in due or report.segments >= _MANY_SEGMENTS:
        if not flow.emit_checkpoints and memory.checked:
            # When they are switched on again they begin with the whole map: its newer part was joined meanwhile.
            memory = replace(memory, checked={})
            state.write(StateKey.CHECKPOINTS, memory.to_json())
        # What is not kept yet does not count: the next round may have to read the same news again.
        read_up_to = before.checked if flow.emit_checkpoints else {}
        read_up_to = {home: read_up_to.get(home, ends[home]) for home in range(segments_partitions)}
        pruned = prune_segments(clusters, log, segments_topic, read_up_to)
        foreign = check_copies(clusters).summary()
        state.write(StateKey.FOREIGN, foreign_record(foreign, now_ms))
        memory = memory.done([Part.PRUNING], now_ms)
    if memory != before:
        state.write(StateKey.CHECKPOINTS, memory.to_json())
    return replace(
        report,
        due_in_seconds=None if Part.CHECKPOINTS in due else memory.next_seconds(flow, now_ms),
        groups=len(made.positions),
        checkpoints=len(made.written),
        unchanged=made.unchanged,
        renewed=made.renewed,
        rewound=tuple(sorted(made.rewound)),
        untranslated=tuple(made.untranslated),
        unsupported=tuple(made.unsupported),
        pruned_segments=pruned.dropped,
        joined_segments=pruned.joined,
        joins=pruned.written,
        group_positions=synced.positions,
        groups_synced=synced.groups,
        groups_in_use=synced.in_use,
        groups_beyond=synced.beyond,
        shared=tuple(sorted(made.shared.items())) if group_sync else (),
        faults=(*faults, *made.faults, *map(str, synced.faults)),
        skipped=(*skipped, *made.skipped),
        notes=(*made.notes, *([foreign] if foreign else [])),
    )


def _remembered(state: FlowState, skipped: list[str]) -> CheckpointMemory:
    """A memory that cannot be read costs one reading of the whole map, and no more."""
    try:
        return CheckpointMemory.from_json(state.read(StateKey.CHECKPOINTS))
    except CorruptRecord as error:
        skipped.append(str(error))
        return CheckpointMemory()


def _keep_untranslated(state: FlowState, made: CheckpointsMade) -> None:
    """For queries while the source is down; written only when it has changed."""
    record = untranslated_record(made.untranslated, made.unsupported)
    try:
        known = state.read(StateKey.UNTRANSLATED)
    except CorruptRecord:  # it is written again
        known = None
    if record != (known or untranslated_record(())):
        state.write(StateKey.UNTRANSLATED, record)


def _keep_groups(
    clusters: FlowClusters, made: CheckpointsMade, acknowledged: float, synced: Collection[str] | None
) -> None:
    """The state of each group, for the report of the run."""
    state = clusters.state
    found_out = CheckpointRound(
        at_ms=clusters.now_ms(),
        positions=made.positions,
        untranslated=made.untranslated,
        # Checkpoints that start over may be of groups that are gone.
        latencies_ms={
            checkpoint.group: (acknowledged - made.asked[checkpoint.group]) * 1000
            for checkpoint in made.written
            if checkpoint.group in made.asked
        },
        synced=synced,
        topics=made.topics,
        checkpointed=_checkpointed(made),
    )
    try:
        before = state.read(StateKey.GROUPS)
    except CorruptRecord:  # it is written again
        before = None
    samples = found_out.samples(groups_from(before))
    state.write(StateKey.GROUPS, groups_record(samples, found_out.topic_groups(topics_from(before))))


def _checkpointed(made: CheckpointsMade) -> set[tuple[str, str]]:
    """(group, upstream topic) of checkpoints that were written for positions at the source."""
    written = {(checkpoint.group, checkpoint.topic) for checkpoint in made.written if checkpoint.group in made.asked}
    return {
        (group, topic)
        for topic, groups in made.topics.items()
        for group in groups
        if (group, made.remotes[topic]) in written
    }


def _write_offset_syncs(clusters: FlowClusters, news: SegmentBatch) -> int:
    """Each round starts like a restarted task of MirrorMaker 2: the first position of a partition gets a sync."""
    flow = clusters.flow
    topic = names.offset_syncs_topic(flow)
    cluster = clusters.target
    if flow.offset_syncs_topic_location == "source":
        cluster = clusters.source
        cluster.ensure([state_topic for state_topic in state_topics(flow) if state_topic.location == "source"])
    if not len(news):
        return 0

    def syncs() -> Iterable[OffsetSync]:
        for segments in news.segments.values():
            yield from syncs_for(segments, SyncState(), flow.offset_lag_max)[0]

    records = (NewRecord(topic, 0, *encode_offset_sync(sync)) for sync in syncs())
    return cluster.writer().write(f"write offset syncs of flow {flow.name}", records)


def write_checkpoints(flow: FlowSettings, checkpoints: Iterable[Checkpoint], writer: StateWriter) -> None:
    """Into the checkpoints topic, in this order. Raises UnreachableCluster, AccessDenied, ClusterError."""
    topic = names.checkpoints_topic(flow)
    records = (NewRecord(topic, 0, *encode_checkpoint(checkpoint)) for checkpoint in checkpoints)
    writer.write(f"write checkpoints of flow {flow.name}", records)


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
        segments = batch.segments
        remote: dict[TopicPartition, TopicPartition] = {
            place: TopicPartition(flow.policy.format_remote_topic(flow.name.source, place[0]), place[1])
            for place in segments
        }
        starts = admin.offsets(remote.values(), EARLIEST)
        changed: list[tuple[int, MapChanges]] = []
        for place, committed in segments.items():
            log_start = starts[remote[place]]
            if not isinstance(log_start, int):
                continue
            home = segment_partition(*place, len(read_up_to))
            changed.append((home, map_changes(committed, log_start, read_up_to[home])))
        if any(changes.written for _, changes in changed):
            # A map that was dropped meanwhile, with its copy, must not come back.
            since = log.keys_since(ends)
            changed = [
                (home, changes)
                for home, changes in changed
                if not changes.written or since.get(home, set()).isdisjoint(changes.dropped)
            ]
        made = [
            NewRecord(topic, home, key, value, headers=headers)
            for home, changes in changed
            for key, value, headers in changes.written
        ]
        dead = [(home, key) for home, changes in changed for key in changes.dropped]
        dropped += sum(changes.replaced for _, changes in changed)
        held += sum(changes.joined for _, changes in changed)
        if made:
            written += clusters.target.writer().write(f"join segments in state topic {topic}", made)
        if dead:
            # A start that was committed again has its old key. What cannot be decided now is dropped next time.
            later = log.keys_since(ends)
            tombstones = [NewRecord(topic, home, key, None) for home, key in dead if key not in later.get(home, {key})]
            clusters.target.writer().write(f"drop old records of state topic {topic}", tombstones)
    return Pruned(dropped, held, written)
