"""Move or delete the committed source offsets of a flow that is not running."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from srm_common.account import whoami
from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.filters.flow_filters import topic_filter
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.control_record import SOURCE_OFFSETS
from srm_common.domain.flow.names import StateKey
from srm_common.domain.flow.start_position import StartKind, StartPosition
from srm_common.domain.offsets.offset_edits import (
    LogRange,
    OffsetEdit,
    edited_memory,
    offset_edit,
    refuse_parts_of_new_topics,
    with_identity,
)
from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.errors import ConfigError
from srm_common.kafka.state.source_offsets import SourceOffsets, offset_record, read_source_offsets
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.replication.driver.log_identity import epochs_before
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.idle_flow import idle_flow
from srm_common.usecases.offsets.opposite_ends import opposite_ends
from srm_common.usecases.offsets.source_offsets import committed_now, logs_of


@dataclass(frozen=True)
class Request:
    """What is wanted: explicit ``offsets``; or partitions of ``topics`` (whole-name expressions), all of them or those
    in ``partitions``, moved ``to`` a position, or forgotten where ``to`` is None. ``command`` goes into the history."""

    verb: str
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    to: StartPosition | None = None
    command: str = "source-offsets"


def edit_source_offsets(
    flow: FlowSettings | FlowClusters, request: Request, *, dry_run: bool = False
) -> list[OffsetEdit]:
    """Carry out a request, all of it or nothing.

    Args:
        dry_run: only say what would be done; nothing is fenced or written, and a run may be active.

    Returns:
        One edit per partition. Where any has a ``problem``, nothing was written.

    Raises:
        FlowRunning: a run, or MirrorMaker 2, is active; nothing was changed.
        ConfigError: the request names no partition that there is.
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the clusters answer; nothing was changed.
    """
    with clusters_of(flow) as clusters:
        if dry_run:
            memory = SourceTopics.from_json(clusters.state.read(StateKey.TOPICS))
            return _edits(clusters, request, committed_now(clusters), memory)[0]
        with idle_flow(clusters, f"the source offsets of flow {clusters.flow.name} were not changed") as owner:
            return _carry_out(clusters, request, clusters.state_topics(), owner)


def _carry_out(
    clusters: FlowClusters, request: Request, state: StateTopics, owner: Ownership | None
) -> list[OffsetEdit]:
    flow, store = clusters.flow, clusters.state
    memory = SourceTopics.from_json(store.read(StateKey.TOPICS))
    committed = read_source_offsets(
        flow, state, refuse_loss=False, patience_seconds=flow.patience_seconds, pool=clusters.target.links
    )
    edits, ids = _edits(clusters, request, committed, memory)
    if any(edit.problem for edit in edits) or not any(_differs(edit, memory) for edit in edits):
        return edits
    copied_to = _copied_to(clusters, edits, committed)
    records = [
        offset_record(flow.name, state, edit.place, edit.after, epoch=edit.epoch, copied_to=copied_to.get(edit.place))
        for edit in edits
    ]
    after = edited_memory(memory, edits, ids)
    if after != memory:
        records.insert(0, store.record(StateKey.TOPICS, after.to_json()))
    if owner is None:
        clusters.target.writer().write(f"write source offsets of flow {flow.name}", records)
    else:
        write_transaction(flow, owner.identities[0], records, clusters.target.links)
    changed = [edit for edit in edits if edit.changes]
    with clusters.control_log() as log:
        log.append(
            SOURCE_OFFSETS,
            before=[[edit.topic, edit.partition, edit.before] for edit in changed],
            after=[[edit.topic, edit.partition, edit.after] for edit in changed],
            who=whoami(),
            origin=f"srm-control {request.command} {request.verb}".rstrip(),
            note="" if request.to is None else f"to {request.to}",
        )
    return edits


def _copied_to(
    clusters: FlowClusters, edits: Iterable[OffsetEdit], committed: SourceOffsets
) -> Mapping[TopicPartition, CopiedTo]:
    """Copied records stay; from this the map derives which part of a copy was copied again."""
    back = {edit.place for edit in edits if edit.before and edit.after and edit.after < edit.before}
    unknown = back - committed.copied_to.keys()
    if not unknown:
        return committed.copied_to
    # Committed by a version that did not write it down. Where the map ends elsewhere, others have copied since.
    log = clusters.target.segment_log(names.segments_topic(clusters.flow.name.source))
    log.read_new({})
    tos = dict(committed.copied_to)
    for place in unknown:
        newest = log.newest(*place)
        if newest is not None and newest.upstream_end == committed.get(place):
            tos[place] = CopiedTo(newest.upstream_end, newest.downstream_end)
    return tos


def _differs(edit: OffsetEdit, memory: SourceTopics) -> bool:
    return edit.changes or memory.pin(*edit.place) is not None


def _edits(
    clusters: FlowClusters, request: Request, committed: SourceOffsets, memory: SourceTopics
) -> tuple[list[OffsetEdit], dict[str, str | None]]:
    """The edits, and the ids of the topics they are about."""
    pinned = {TopicPartition(topic, partition) for topic, known in memory.topics.items() for partition in known.pins}
    before = {
        place: memory.position(*place, committed.get(place), committed.copied_to.get(place))
        for place in committed.keys() | pinned
    }
    known = {*before, *committed.faults}
    places = sorted(request.offsets or _chosen(clusters, request, known))
    # A topic that was created again may have fewer partitions. In those that it gets later, all will be new.
    from_start = not request.offsets and request.to is not None and request.to.kind is StartKind.EARLIEST
    logs = logs_of(clusters, places, missing_is_empty=from_start)
    if request.offsets:
        targets: dict[TopicPartition, int | str | None] = dict(request.offsets)
    elif request.to is None:
        targets = dict.fromkeys(places, None)
    else:
        targets = {**_resolved(clusters, request.to, logs)}
    edits = []
    for place in places:
        target = targets.get(place)
        if isinstance(target, str):
            edits.append(replace(offset_edit(place, before.get(place), None, logs[place]), problem=target))
        else:
            edits.append(offset_edit(place, before.get(place), target, logs[place]))
    with clusters.source_view() as source:
        ids = source.topic_ids(sorted({topic for topic, _ in places}))
        epochs = epochs_before(
            source,
            {edit.place: edit.after for edit in edits if edit.after and edit.log and edit.log.start < edit.after},
        )
    edits = with_identity(edits, epochs, committed.epochs, memory, ids)
    return refuse_parts_of_new_topics(edits, memory, ids, committed), ids


def _chosen(clusters: FlowClusters, request: Request, known: Iterable[TopicPartition]) -> set[TopicPartition]:
    """The partitions that expressions and numbers choose: those with a position, to be moved also all others."""
    flow = clusters.flow
    wanted = PatternList(request.topics)
    copied = topic_filter(flow)
    there = set(known)
    if request.to is not None:
        topics = clusters.source.admin.topics().partitions
        there |= {
            TopicPartition(topic, number)
            for topic, partitions in topics.items()
            if not flow.policy.is_internal_topic(topic) and copied.decide(topic).accepted
            for number in range(partitions)
        }
    numbers = set(request.partitions)
    topic_partitions = {
        place for place in there if wanted.matching(place[0]) is not None and (not numbers or place[1] in numbers)
    }
    if not topic_partitions:
        what = ", ".join(request.topics) + (f", partitions {', '.join(map(str, sorted(numbers)))}" if numbers else "")
        raise ConfigError(
            f"flow {flow.name} has nothing that matches {what}; srm-control source-offsets list shows all"
        )
    return topic_partitions


def _resolved(
    clusters: FlowClusters, to: StartPosition, logs: Mapping[TopicPartition, LogRange | str]
) -> dict[TopicPartition, int | str | None]:
    ranges = {place: log for place, log in logs.items() if isinstance(log, LogRange)}
    found: dict[TopicPartition, int | str | None] = {
        place: str(log) for place, log in logs.items() if place not in ranges
    }
    if to.kind is StartKind.EARLIEST:
        return found | {place: log.start for place, log in ranges.items()}
    if to.kind is StartKind.LATEST:
        return found | {place: log.end for place, log in ranges.items()}
    if to.kind is StartKind.OPPOSITE:
        ends = opposite_ends(clusters, ranges)
        for place, log in ranges.items():
            end = ends.get(place, log.start)
            found[place] = end if isinstance(end, str) else max(end, log.start)
        return found
    with clusters.source_view() as source:
        at, faults = source.at(list(ranges), to.timestamp_ms or 0)
    for place, log in ranges.items():
        offset = at.get(place)
        missing = faults.get(place, "the source does not return it")
        found[place] = missing if offset is None else log.end if offset < 0 else offset
    return found
