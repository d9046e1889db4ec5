"""Where consumer groups stand on the cluster that they leave: queried, or as the flow's last round left it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from srm_common.domain.filters.flow_filters import group_filter
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.offsets.checkpoints import (
    CheckpointMemory,
    Part,
    Untranslated,
    other_groups_from,
    untranslated_from,
)
from srm_common.domain.topic_id import NO_TOPIC_ID, url_safe
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, CorruptRecord
from srm_common.kafka.groups.group_offsets import CommittedOffset
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.usecases.flows.flow_clusters import FlowClusters

_LIST_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Stand:
    """A committed position, and how old the knowledge of it is; ``downstream``: its place here by a checkpoint, 0 where
    it may be one of a former copy.
    ``untranslated``: why the flow's last round found no place for it."""

    committed: CommittedOffset
    age_ms: int = 0
    downstream: int = 0
    untranslated: str = ""


@dataclass
class Standing:
    """Where a group stands on the cluster that it leaves: ``positions`` by topic and partition there.

    ``translated`` by topic and partition here: what was translated before, by a map that cannot be read now.
    """

    group: str
    positions: dict[TopicPartition, Stand] = field(default_factory=dict)
    translated: dict[TopicPartition, Stand] = field(default_factory=dict)


def standings(clusters: FlowClusters, groups: Iterable[str] | None) -> list[Standing]:
    """Where groups stand at the source.

    Args:
        groups: None: all of them that the flow translates.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the source answers, also where it is about one group.
    """
    reader = clusters.source.groups()
    listed, faults = reader.groups()
    wanted = _chosen(clusters.flow, groups, (group.name for group in listed))
    offsets, more = reader.offsets(wanted)
    for fault in (*faults, *more):
        raise ClusterError(fault.reason)
    return [Standing(offset.group, {place: Stand(at) for place, at in offset.offsets.items()}) for offset in offsets]


@dataclass
class LastKnown:
    """What the target knows of groups at the source: ``standings``, and how many positions without a checkpoint are
    ``left_out`` of the record that the flow's last round kept; ``notes`` on what could not be read."""

    standings: list[Standing]
    left_out: int = 0
    notes: list[str] = field(default_factory=list)


def last_known(
    clusters: FlowClusters, copies: Mapping[str, str], ids: Mapping[str, str], groups: Iterable[str] | None
) -> LastKnown:
    """Positions of groups as of the last checkpoints, and those that the last round could not translate; queries only
    the target.

    Args:
        copies: upstream topic -> downstream topic.
        ids: those of downstream topics as they are now, as far as they are known, in Kafka's spelling.
        groups: None: all of them that the flow translates.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    upstream = {downstream: topic for topic, downstream in copies.items()}
    flow = clusters.flow
    out = LastKnown([])
    untranslated, memory = list[Untranslated](), CheckpointMemory()
    try:
        untranslated, out.left_out = untranslated_from(clusters.state.read(StateKey.UNTRANSLATED))
        memory = CheckpointMemory.from_json(clusters.state.read(StateKey.CHECKPOINTS))
    except CorruptRecord as error:
        out.notes.append(f"what the flow's last round of checkpoints left is not known in full: {error}")
    checkpoints = newest_checkpoints(clusters.target.reader, names.checkpoints_topic(flow))
    now_ms = clusters.now_ms()
    found: dict[str, Standing] = {}
    for place, checkpoint in checkpoints.by_place.items():
        group, topic, partition = place
        standing = found.setdefault(group, Standing(group))
        age = max(0, now_ms - checkpoints.written_ms[place])
        stand = Stand(CommittedOffset(checkpoint.upstream, checkpoint.metadata), age, checkpoint.downstream)
        if topic in upstream:
            if topic not in ids or url_safe(memory.copies.get(topic, NO_TOPIC_ID)) != ids[topic]:
                stand = replace(stand, downstream=0)
            standing.positions[TopicPartition(upstream[topic], partition)] = stand
        else:
            # Translated back: its map is on the cluster that is gone.
            standing.translated[TopicPartition(topic, partition)] = stand
    round_ms = memory.last_ms.get(Part.CHECKPOINTS)
    age = 0 if round_ms is None else max(0, now_ms - round_ms)
    for one in untranslated:
        standing = found.setdefault(one.group, Standing(one.group))
        place_there = TopicPartition(one.topic, one.partition)
        known = standing.positions.get(place_there)
        # A checkpoint after it is of the time before the group was moved back, or newer than the record. A place for
        # the lower position is safe in both cases.
        if known is None or one.upstream < known.committed.offset:
            stand = Stand(CommittedOffset(one.upstream), age, untranslated=one.reason)
            standing.positions[place_there] = stand
    wanted = set(_chosen(flow, groups, found))
    out.standings = [standing for group, standing in sorted(found.items()) if group in wanted]
    if out.left_out:
        out.notes.append(untold(out.left_out))
    return out


def untold(left_out: int) -> str:
    """A sentence on positions that the record of the last round leaves out."""
    return (
        f"{left_out} more positions had no checkpoint in the flow's last round, and are not listed there: "
        f"auto.offset.reset of their groups applies"
    )


def left_out_of_the_record(clusters: FlowClusters) -> int | None:
    """How many positions without a checkpoint the last round did not write down; None if that cannot be read.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    try:
        return untranslated_from(clusters.state.read(StateKey.UNTRANSLATED))[1]
    except CorruptRecord:
        return None


def groups_left_out(
    clusters: FlowClusters, groups: Iterable[str] | None, *, source_answers: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """Share and streams groups (name, kind) that may be expected to move; and what could not be queried.

    Args:
        source_answers: otherwise the flow's last round tells.
    """
    flow, faults = clusters.flow, list[str]()
    if not source_answers:
        try:
            found = other_groups_from(clusters.state.read(StateKey.UNTRANSLATED))
        except CorruptRecord as error:
            found, faults = [], [f"cannot tell whether there are share groups: {error}"]
    else:
        try:
            listed, unlisted = clusters.source.other_groups(_LIST_SECONDS)
            found, faults = [(group.name, group.protocol) for group in listed], [str(fault) for fault in unlisted]
        except ClusterError as error:
            found, faults = [], [f"cannot tell whether there are share groups: {error}"]
    chosen = set(_chosen(flow, groups, (name for name, _ in found)))
    return [one for one in found if one[0] in chosen], faults


def _chosen(flow: FlowSettings, groups: Iterable[str] | None, known: Iterable[str]) -> list[str]:
    """The named groups, whatever the filter says; without names, those of ``known`` that the filter accepts."""
    if groups is not None:
        return sorted(set(groups))
    chosen = group_filter(flow)
    return sorted(group for group in known if chosen.decide(group).accepted)
