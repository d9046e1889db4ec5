"""The positions of one consumer group on both sides of a flow, queried from the clusters now."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import SrmError
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.groups.explain_offsets import ExplainedOffsets, explain_offsets
from srm_common.usecases.groups.export_offsets import export_offsets


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """One partition. ``upstream`` is what the group has committed at the source, ``translated`` where it would resume
    at the target, ``applied`` what it has committed there. ``remote_topic`` is None for a topic that is not copied."""

    topic: str
    remote_topic: str | None
    partition: int
    upstream: int | None
    translated: int | None
    applied: int | None
    written_ms: int | None
    reason: str


@dataclass(frozen=True)
class GroupPositions:
    """``notes`` say what holds for the whole group, and what is not known."""

    rows: tuple[GroupPosition, ...]
    notes: tuple[str, ...] = ()


def group_positions(flow: FlowSettings | FlowClusters, group: str) -> GroupPositions:
    """Raises UnreachableCluster, AccessDenied, ClusterError, StateError as the target answers."""
    with clusters_of(flow) as clusters:
        return _positions(clusters, group)


def _positions(clusters: FlowClusters, group: str) -> GroupPositions:
    flow = clusters.flow
    exported = export_offsets(clusters, [group])
    notes = list(exported.unreadable)
    try:
        explained = explain_offsets(clusters, exported.offsets, [group])
    except SrmError as error:
        explained = ExplainedOffsets.of(exported.offsets, f"reasons are not known: {error}")
    records = clusters.target.registry.read().of_flow(flow.name)
    upstream = {record.downstream_topic: topic for topic, record in records.items()}
    found, unread = clusters.target.groups().offsets([group])
    notes += [*explained.notes, *map(str, unread)]
    applied = {place: at.offset for one in found for place, at in one.offsets.items()}
    rows = []
    for row in explained.rows:
        if row.topic is None or row.partition is None:
            notes.append(f"group {row.group}: {row.remark}")
            continue
        topic = row.upstream_topic or upstream.get(row.topic) or flow.policy.upstream_topic(row.topic) or row.topic
        remote = row.topic if row.copied else None
        at = applied.get(TopicPartition(row.topic, row.partition)) if row.copied else None
        rows.append(
            GroupPosition(topic, remote, row.partition, row.upstream, row.offset, at, row.written_ms, row.remark)
        )
    return GroupPositions(tuple(rows), tuple(dict.fromkeys(notes)))
