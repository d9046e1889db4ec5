"""Take a flow over from a stopped MirrorMaker 2: without a gap or a repetition, and with an offset map.

Carried out in this order, so that it can be repeated after a fault at any place: prove that nothing writes; fence
MirrorMaker 2's tasks; find where each partition continues; adopt the topics (records, settings, missing partitions);
commit positions, a piece of the offset map, and what the flow remembers of its topics, in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import ConnectNames, StateKey
from srm_common.domain.flow.start_position import StartKind
from srm_common.domain.moving.handover import (
    HandoverPosition,
    Takeover,
    Verdict,
    accepted,
    segment_of,
)
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import failed
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.source_topics import ChosenStart, SourceTopics
from srm_common.errors import FlowRunning
from srm_common.kafka.state.source_offsets import offset_record
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.flows.idle_flow import idle_flow, signs_of_life
from srm_common.usecases.mirror_maker.handover_positions import COMPARED, handover_positions
from srm_common.usecases.mirror_maker.handover_state import (
    blocked_copies,
    growing,
    handover_topics,
    record_handover,
    stored_offsets,
)
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from srm_common.wire.state.plain_records import NewRecord
from srm_common.wire.state.segments import encode_segment, segment_partition

_COPIED_BEFORE = "copied by MirrorMaker 2 before"


@dataclass(frozen=True)
class TakeoverRequest:
    """``compared``: records of each copy's end to compare. ``accept_unproved``: continue from the stored offsets also
    where the logs do not agree with them. ``watch_seconds``: how long copies must not grow."""

    mirror_maker: ConnectNames
    compared: int = COMPARED
    accept_unproved: bool = False
    watch_seconds: float = 5.0


def take_over(flow: FlowSettings | FlowClusters, request: TakeoverRequest, *, dry_run: bool = False) -> Takeover:
    """Carry it out, all of it or nothing; may be repeated.

    Args:
        dry_run: only say what would be done; nothing is fenced or written, and MirrorMaker 2 may be active.

    Returns:
        What was found. Where there are ``obstacles``, no position was written.

    Raises:
        FlowRunning: MirrorMaker 2, or a run, is active; nothing was changed.
        ConfigError: an alias means another cluster, a policy gives other names, or a topic does not exist.
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the clusters answer.
    """
    with clusters_of(flow) as clusters:
        return _taken_over(clusters, request, dry_run)


def _taken_over(clusters: FlowClusters, request: TakeoverRequest, dry_run: bool) -> Takeover:
    if dry_run:
        takeover, topics = _found(clusters, request, fenced=False)
        signs = signs_of_life(clusters, request.mirror_maker) or growing(clusters, topics, request.watch_seconds)
        return replace(takeover, signs=tuple(signs))
    undone = f"flow {clusters.flow.name} was not taken over"

    def refuse_growth() -> None:
        plan = plan_topics(clusters)
        stored = stored_offsets(clusters, request.mirror_maker, fenced=False)
        topics = handover_topics(clusters, plan, stored)
        signs = growing(clusters, topics, request.watch_seconds, one_is_enough=True)
        if signs:
            raise FlowRunning(f"{undone}: {signs[0]}")

    with idle_flow(clusters, undone, request.mirror_maker, before_fence=refuse_growth) as owner:
        takeover, topics = _found(clusters, request, fenced=True)
        if takeover.obstacles:
            return takeover
        refreshed = refresh_topics(clusters, at_once=True)
        takeover = replace(takeover, results=refreshed.results)
        if failed(takeover.results):
            return takeover
        _write(clusters, request, owner, takeover, topics)
    return replace(takeover, written=True)


def _found(clusters: FlowClusters, request: TakeoverRequest, *, fenced: bool) -> tuple[Takeover, list[CopiedTopic]]:
    flow = clusters.flow
    plan = plan_topics(clusters)
    stored = stored_offsets(clusters, request.mirror_maker, fenced=fenced)
    topics = handover_topics(clusters, plan, stored)
    # Before the copies are read: what lies behind an open transaction would count as not copied.
    held = blocked_copies(clusters, topics) if fenced else []
    positions = [
        _of_reset(position) if position.place in stored.resets else position
        for position in handover_positions(clusters, topics, stored, compared=request.compared)
        if position.place not in stored.faults
    ]
    if request.accept_unproved:
        positions = [accepted(position) if position.verdict is Verdict.UNPROVED else position for position in positions]
    wanted = {topic.upstream for topic in topics}
    return (
        Takeover(
            flow=str(flow.name),
            positions=tuple(positions),
            plan=plan,
            left_out=tuple(_left_out(plan, {topic for topic, _ in stored} - wanted)),
            faults=tuple(str(fault) for _, fault in sorted(stored.faults.items())),
            held=tuple(held),
        ),
        topics,
    )


def _of_reset(found: HandoverPosition) -> HandoverPosition:
    why = "its offset was deleted on purpose: it is copied from its start"
    return replace(found, position=None, verdict=Verdict.BELIEVED, proof=why, pairs=())


def _left_out(plan: Plan, topics: Iterable[str]) -> Iterable[tuple[str, str]]:
    decisions = {topic_decision.topic: topic_decision for topic_decision in plan.decisions}
    for topic in sorted(topics):
        decision = decisions.get(topic)
        yield topic, "it does not exist at the source any more" if decision is None else decision.reason


def _write(
    clusters: FlowClusters,
    request: TakeoverRequest,
    owner: Ownership | None,
    found: Takeover,
    topics: Iterable[CopiedTopic],
) -> None:
    flow, store = clusters.flow, clusters.state
    state = clusters.state_topics()
    ours = stored_offsets(clusters, ConnectNames.dedicated(flow.name), fenced=True)
    changed = [
        position
        for position in found.positions
        if position.position is not None and position.position != ours.get(position.place)
    ]
    records = [offset_record(flow.name, state, position.place, position.position) for position in changed]
    records += _segments(clusters, state, found.positions)
    memory = SourceTopics.from_json(store.read(StateKey.TOPICS))
    records.append(store.record(StateKey.TOPICS, _remembered(clusters, memory, found.positions, topics).to_json()))
    if owner is None:
        clusters.target.writer().write(f"take over flow {flow.name}", records)
    else:
        write_transaction(flow, owner.identities[0], records, clusters.target.links)
    how = f"from MirrorMaker 2 in group {request.mirror_maker.group}"
    record_handover(clusters, "takeover", how, found.positions, changed)


def _segments(clusters: FlowClusters, state: StateTopics, positions: Iterable[HandoverPosition]) -> list[NewRecord]:
    positions = list(positions)
    wanted = {position.place for position in positions}
    log = clusters.target.segment_log(state.segments_topic, state.segments_partitions)
    newest = {place: known[-1] for place, known in log.maps() if place in wanted}
    records = []
    for position in positions:
        segment = segment_of(position, newest.get(position.place))
        if segment is not None:
            home = segment_partition(position.topic, position.partition, state.segments_partitions)
            records.append(NewRecord(state.segments_topic, home, *encode_segment(segment)))
    return records


def _remembered(
    clusters: FlowClusters, memory: SourceTopics, positions: Iterable[HandoverPosition], topics: Iterable[CopiedTopic]
) -> SourceTopics:
    """Ids as they are now, and that partitions without a position start at their beginning: what is in them came while
    MirrorMaker 2 copied the topic."""
    taken = {position.place for position in positions if position.position is not None}
    names = {topic for topic, _ in taken}
    with clusters.source_view() as source:
        ids = source.topic_ids(sorted(names))
    now_ms = clusters.now_ms()
    starts = {
        topic.upstream: ChosenStart(str(StartKind.EARLIEST), _COPIED_BEFORE, now_ms, topic.partitions)
        for topic in topics
        if topic.upstream in names and memory.start(topic.upstream) is None
    }
    return memory.without_pins(taken).with_ids(ids).with_starts(starts)
