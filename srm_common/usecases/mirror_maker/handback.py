"""Hand a flow back, in a state from which MirrorMaker 2 continues.

MirrorMaker 2 with exactly-once support waits behind open transactions, so the flow is fenced. Without it, it would use
the offsets of aborted transactions, so the committed ones are written once more. It has no access to start positions
that were never committed, so these are committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import ConnectNames, StateKey
from srm_common.domain.moving.handover import Handback, HandoverPosition, Verdict, accepted
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.kafka.state.source_offsets import STABLE_WITHIN_SECONDS, SourceOffsets, offset_record
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import rewritten_offsets, write_transaction
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.idle_flow import idle_flow, signs_of_life
from srm_common.usecases.mirror_maker.handover_positions import COMPARED, handover_positions
from srm_common.usecases.mirror_maker.handover_state import (
    blocked_copies,
    handover_topics,
    record_handover,
    state_of,
    stored_offsets,
)
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.wire.state.plain_records import NewRecord


@dataclass(frozen=True)
class HandbackRequest:
    """``compared``: records of each copy's end to compare. ``accept_unproved``: hand the committed offsets over also
    where the logs do not agree with them."""

    mirror_maker: ConnectNames
    compared: int = COMPARED
    accept_unproved: bool = False


def hand_back(flow: FlowSettings | FlowClusters, request: HandbackRequest, *, dry_run: bool = False) -> Handback:
    """Carry it out, all of it or nothing; may be repeated.

    Args:
        dry_run: only say what would be done; nothing is fenced or written, and a run may be active.

    Returns:
        What was found. Where there are ``obstacles``, no offset was written.

    Raises:
        FlowRunning: a run, or MirrorMaker 2, is active; nothing was changed.
        ConfigError: an alias means another cluster, a policy gives other names, or a topic does not exist.
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the clusters answer.
    """
    with clusters_of(flow) as clusters:
        if dry_run:
            handback, _ = _found(clusters, request, fenced=False)
            return replace(handback, signs=tuple(signs_of_life(clusters, request.mirror_maker)))
        undone = f"flow {clusters.flow.name} was not handed back"
        with idle_flow(clusters, undone, request.mirror_maker) as owner:
            clusters.state_topics()
            handback, records = _found(clusters, request, fenced=True)
            if handback.obstacles:
                return handback
            _write(clusters, request, owner, handback, records)
        return replace(handback, checkpoints=str(sync_checkpoints(clusters, at_once=True)), written=True)


def _found(clusters: FlowClusters, request: HandbackRequest, *, fenced: bool) -> tuple[Handback, list[NewRecord]]:
    """What is to be said, and what to be written."""
    flow = clusters.flow
    ours = ConnectNames.dedicated(flow.name)
    committed = stored_offsets(clusters, ours, fenced=fenced)
    memory = SourceTopics.from_json(clusters.state.read(StateKey.TOPICS))
    chosen = _chosen(memory, committed)
    topics = handover_topics(clusters, plan_topics(clusters), [*committed, *chosen])
    # Before the copies are read: what lies behind an open transaction would count as not copied.
    held = blocked_copies(clusters, topics) if fenced else []
    positions = [
        _of_choice(position, chosen[position.place])
        if position.place in chosen
        else _as_committed(position)
        if flow.exactly_once
        else position
        for position in handover_positions(clusters, topics, committed, compared=request.compared)
        if position.place not in committed.faults
    ]
    if request.accept_unproved:
        positions = [accepted(position) if position.verdict is Verdict.UNPROVED else position for position in positions]
    state = state_of(clusters, ours)
    moved = [position for position in positions if _moves(position, committed)] if state.offsets_partitions else []
    wanted = [offset_record(flow.name, state, position.place, position.position) for position in moved]
    stable_within = STABLE_WITHIN_SECONDS if fenced else None
    again = rewritten_offsets(flow, state, stable_within) if state.offsets_partitions else []
    keys = {record.key for record in wanted}
    records = [record for record in again if record.key not in keys]
    if request.mirror_maker != ours:
        theirs, connector = state_of(clusters, request.mirror_maker), request.mirror_maker.connector
        wanted += [
            offset_record(flow.name, theirs, position.place, position.position, connector=connector)
            for position in positions
            if position.position is not None
        ]
    handback = Handback(
        flow=str(flow.name),
        positions=tuple(positions),
        faults=tuple(str(fault) for _, fault in sorted(committed.faults.items())),
        held=tuple(held),
        rewritten=len(records),
        offsets=len(wanted),
    )
    return handback, records + wanted


def _chosen(memory: SourceTopics, committed: SourceOffsets) -> dict[TopicPartition, int]:
    """Where partitions start that were moved by hand, or placed by a start position, and not copied since."""
    found = {}
    for topic, known in memory.topics.items():
        for number in known.pins:
            place = TopicPartition(topic, number)
            before = committed.get(place)
            position = memory.position(*place, before, committed.copied_to.get(place))
            if position is not None and position != before:
                found[place] = position
    return found


def _of_choice(found: HandoverPosition, position: int) -> HandoverPosition:
    why = f"starts at {position} by choice; nothing was committed there yet"
    return replace(found, position=position, verdict=Verdict.BELIEVED, proof=why, pairs=())


def _as_committed(found: HandoverPosition) -> HandoverPosition:
    """Offsets committed with their records differ from them only if an operator moved them on purpose."""
    if found.verdict not in (Verdict.AHEAD, Verdict.BEHIND):
        return found
    why = f"{found.proof}; was the offset moved manually?"
    return replace(found, position=found.stored, verdict=Verdict.UNPROVED, proof=why, pairs=())


def _moves(one: HandoverPosition, committed: Mapping[TopicPartition, int]) -> bool:
    return one.position is not None and one.position != committed.get(one.place)


def _write(
    clusters: FlowClusters,
    request: HandbackRequest,
    owner: Ownership | None,
    found: Handback,
    records: Sequence[NewRecord],
) -> None:
    flow = clusters.flow
    if owner is None:
        clusters.target.writer().write(f"hand back flow {flow.name}", records)
    elif records:
        write_transaction(flow, owner.identities[0], records, clusters.target.links)
    changed = [position for position in found.positions if position.position != position.stored]
    how = f"to MirrorMaker 2 in group {request.mirror_maker.group}"
    record_handover(clusters, "handback", how, found.positions, changed)
