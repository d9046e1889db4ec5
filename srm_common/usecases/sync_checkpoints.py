"""Write MirrorMaker 2's offset syncs and checkpoints, derived from the offset map, and sync idle groups."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from srm_common.domain import names
from srm_common.domain.checkpoint_report import CheckpointReport
from srm_common.domain.checkpoints import Checkpoint, Untranslated, downstream_of, supersedes
from srm_common.domain.filter_classes import group_filter
from srm_common.domain.flow import FlowSettings
from srm_common.domain.offset_syncs import OffsetSync, SyncState, syncs_for
from srm_common.domain.selection import TopicDecision, select_topics
from srm_common.domain.state_topics import state_topics
from srm_common.errors import CorruptRecord
from srm_common.kafka.compacted import StateReader, last_of_each_key
from srm_common.kafka.flow_state import FlowState
from srm_common.kafka.group_offsets import GroupFault, GroupOffsets, GroupReader
from srm_common.kafka.segment_log import SegmentBatch, SegmentLog
from srm_common.kafka.state_topics import ensure_topics
from srm_common.kafka.state_writer import NewRecord, StateWriter
from srm_common.usecases.prune_segments import prune_segments
from srm_common.usecases.sync_groups import GroupsSynced, sync_groups
from srm_common.wire.mm2 import decode_checkpoint, encode_checkpoint, encode_offset_sync

_STATE_KEY = "checkpoints"
#: Pruning reads the whole map, and nothing is lost by doing it late.
PRUNE_INTERVAL_SECONDS = 3600.0


@dataclass
class _Memory:
    """What a round leaves for the next one: how far the map was read, and when it was pruned last."""

    positions: dict[int, int]
    pruned_ms: int = 0
    groups_synced_ms: int = 0

    @classmethod
    def of(cls, found: Any) -> _Memory:
        if not isinstance(found, dict):
            return cls({})
        positions = {int(partition): int(offset) for partition, offset in found.get("positions", {}).items()}
        return cls(positions, int(found.get("pruned_ms", 0)), int(found.get("groups_synced_ms", 0)))

    def to_json(self) -> dict[str, Any]:
        return {
            "positions": {str(p): offset for p, offset in self.positions.items()},
            "pruned_ms": self.pruned_ms,
            "groups_synced_ms": self.groups_synced_ms,
        }


def sync_checkpoints(flow: FlowSettings, *, prune_interval_seconds: float = PRUNE_INTERVAL_SECONDS) -> CheckpointReport:
    """One round: offset syncs for what was copied since the last one, checkpoints for groups that moved.

    Reads the news of the offset map, all checkpoints, and the committed offsets of the source's groups; a group that
    moved within older parts of the map has that part read too. A round that fails is done again by the next one.

    Raises:
        StateTopicInvalid: a state topic cannot be used.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer. Single groups that cannot be read are
            faults in the report.
    """
    topics = state_topics(flow)
    partitions, _ = ensure_topics(flow.target, [topic for topic in topics if topic.location == "target"])
    ensure_topics(flow.source, [topic for topic in topics if topic.location == "source"])
    segments_topic = names.segments_topic(flow.name.source)
    segments_partitions = partitions[segments_topic]
    with FlowState(flow) as state, StateReader(flow.target) as reader:
        memory = _Memory.of(state.read(_STATE_KEY))
        log = SegmentLog(reader, segments_topic, segments_partitions)
        news, memory.positions = log.read_news(memory.positions)
        target_writer = StateWriter(flow.target)
        syncs = _write_offset_syncs(flow, news, target_writer) if flow.emit_offset_syncs else 0
        checkpoints = _Checkpoints(flow, log, reader)
        if flow.emit_checkpoints:
            checkpoints.make()
            checkpoints.write(target_writer)
        pruned = 0
        now_ms = int(time.time() * 1000)
        synced = GroupsSynced()
        interval_ms = flow.sync_group_offsets_interval_seconds * 1000
        if flow.emit_checkpoints and flow.sync_group_offsets and now_ms - memory.groups_synced_ms >= interval_ms:
            synced = sync_groups(flow, checkpoints.newest)
            memory.groups_synced_ms = now_ms
        if now_ms - memory.pruned_ms >= prune_interval_seconds * 1000:
            pruned = prune_segments(flow, log, target_writer, segments_topic, segments_partitions)
            memory.pruned_ms = now_ms
        state.write(_STATE_KEY, memory.to_json())
    return CheckpointReport(
        flow=str(flow.name),
        segments=len(news),
        offset_syncs=syncs,
        groups=checkpoints.groups,
        checkpoints=len(checkpoints.written),
        unchanged=checkpoints.unchanged,
        untranslated=tuple(checkpoints.untranslated),
        pruned_segments=pruned,
        group_positions=synced.positions,
        groups_synced=synced.groups,
        groups_in_use=synced.in_use,
        faults=(*checkpoints.faults, *map(_sentence, synced.faults)),
        skipped=(*news.unreadable, *checkpoints.skipped),
    )


def _write_offset_syncs(flow: FlowSettings, news: SegmentBatch, target_writer: StateWriter) -> int:
    """Each round starts like a restarted task of MirrorMaker 2: the first position of a partition gets a sync."""
    topic = names.offset_syncs_topic(flow)
    at_source = flow.offset_syncs_topic_location == "source"

    def syncs() -> Iterable[OffsetSync]:
        for segments in news.segments.values():
            yield from syncs_for(segments, SyncState(), flow.offset_lag_max)[0]

    records = (NewRecord(topic, 0, *encode_offset_sync(sync)) for sync in syncs())
    writer = StateWriter(flow.source) if at_source and len(news) else target_writer
    return writer.write(f"write offset syncs of flow {flow.name}", records)


class _Checkpoints:
    """The checkpoints of one round."""

    def __init__(self, flow: FlowSettings, log: SegmentLog, reader: StateReader) -> None:
        self._flow = flow
        self._log = log
        self._reader = reader
        self._topic = names.checkpoints_topic(flow)
        self.groups = 0
        self.unchanged = 0
        self.written: list[Checkpoint] = []
        #: By group: what holds after this round, written now or before.
        self.newest: dict[str, list[Checkpoint]] = {}
        self.untranslated: list[Untranslated] = []
        self.faults: list[str] = []
        self.skipped: list[str] = []

    def make(self) -> None:
        """Translate what the source's groups have committed."""
        offsets = self._group_offsets()
        copied = self._copied_topics(offsets)
        last = self._last_checkpoints()
        for found in offsets:
            places = {place: at for place, at in found.offsets.items() if place[0] in copied}
            self.groups += bool(places)
            for (topic, partition), committed in sorted(places.items()):
                remote = copied[topic].remote_topic
                assert remote is not None
                before = last.get((found.group, remote, partition))
                # A translation is stable: a position that did not move, on a copy that did not, keeps its place.
                if before and before.upstream == committed.offset and not self._log.has_news(topic, partition):
                    self._keep(before)
                    continue
                downstream = downstream_of(self._log.translate(topic, partition, committed.offset))
                if isinstance(downstream, str):
                    self.untranslated.append(Untranslated(found.group, topic, partition, committed.offset, downstream))
                    continue
                new = Checkpoint(found.group, remote, partition, committed.offset, downstream, committed.metadata)
                if before is None or supersedes(new, before):
                    self.written.append(new)
                    self.newest.setdefault(found.group, []).append(new)
                else:
                    self._keep(before)

    def _keep(self, before: Checkpoint) -> None:
        self.unchanged += 1
        self.newest.setdefault(before.group, []).append(before)

    def write(self, writer: StateWriter) -> None:
        records = (NewRecord(self._topic, 0, *encode_checkpoint(checkpoint)) for checkpoint in self.written)
        writer.write(f"write checkpoints of flow {self._flow.name}", records)

    def _group_offsets(self) -> list[GroupOffsets]:
        flow = self._flow
        groups = GroupReader(flow.source)
        listed, faults = groups.groups()
        chosen = group_filter(flow)
        offsets, more = groups.offsets(group.name for group in listed if chosen.decide(group.name).accepted)
        self.faults += [_sentence(fault) for fault in (*faults, *more)]
        return offsets

    def _copied_topics(self, offsets: Iterable[GroupOffsets]) -> dict[str, TopicDecision]:
        topics = {topic for found in offsets for topic, _ in found.offsets}
        return {decision.topic: decision for decision in select_topics(self._flow, topics) if decision.accepted}

    def _last_checkpoints(self) -> dict[tuple[str, str, int], Checkpoint]:
        """What was written before, by anybody; records that nobody can read are skipped, as MirrorMaker 2 does."""
        out = {}
        for record in last_of_each_key(self._reader.read(self._topic)).values():
            if record.value is None:
                continue
            try:
                checkpoint = decode_checkpoint(record.key, record.value)
            except CorruptRecord as error:
                self.skipped.append(f"{self._topic}-{record.partition} at offset {record.offset}: {error}")
                continue
            out[checkpoint.group, checkpoint.topic, checkpoint.partition] = checkpoint
        return out


def _sentence(fault: GroupFault) -> str:
    return f"group {fault.group}: {fault.reason}" if fault.group else fault.reason
