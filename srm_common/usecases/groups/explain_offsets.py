"""Where consumer groups are on both sides of a flow, and why positions have no translation, as far as the source
responds.

The export of resume positions queries only the target, for its checkpoints, so it works while the source is down.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

from srm_common.domain.filters.flow_filters import group_filter
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.offsets.checkpoints import Checkpoint, downstream_of, untranslated_from
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import TopicDecision, select_topics
from srm_common.errors import SrmError
from srm_common.kafka.groups.group_offsets import GroupOffsets
from srm_common.kafka.state.checkpoint_log import newest_checkpoints
from srm_common.usecases.flows.cluster_records import FlowTopics
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.offsets.exact_translation import ExactTranslation, Position


@dataclass(frozen=True)
class ExportedOffset:
    """``written_ms``: when the checkpoint was written, in milliseconds since the epoch."""

    checkpoint: Checkpoint
    written_ms: int


@dataclass(frozen=True)
class ExportedOffsets:
    """``offsets`` sorted by group, topic and partition. ``unreadable``: one sentence for each record that is no
    checkpoint."""

    offsets: tuple[ExportedOffset, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def written_ms(self) -> dict[str, tuple[int, int]]:
        """By group: when the newest and the oldest of its checkpoints were written."""
        out: dict[str, tuple[int, int]] = {}
        for offset in self.offsets:
            newest, oldest = out.get(offset.checkpoint.group, (offset.written_ms, offset.written_ms))
            out[offset.checkpoint.group] = (max(newest, offset.written_ms), min(oldest, offset.written_ms))
        return out


def export_offsets(flow: FlowSettings | FlowClusters, groups: Iterable[str] | None) -> ExportedOffsets:
    """The newest checkpoints of ``groups`` (None: of all).

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    wanted = None if groups is None else set(groups)
    with clusters_of(flow) as clusters:
        seconds = clusters.flow.admin_timeout_ms / 1000
        reader = clusters.target.clients.reader.with_patience(timeout_seconds=seconds)
        checkpoints = newest_checkpoints(reader, names.checkpoints_topic(clusters.flow))
    places = sorted(place for place in checkpoints.by_place if wanted is None or place[0] in wanted)
    return ExportedOffsets(
        tuple(ExportedOffset(checkpoints.by_place[place], checkpoints.written_ms[place]) for place in places),
        tuple(checkpoints.unreadable),
    )


#: The source may be down, and is asked for reasons only.
_SOURCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ExplainedOffset:
    """One position. ``topic`` is the copy's name, or the source's where there is no copy; None: the whole group.

    ``upstream`` is what the group has committed at the source, as the checkpoint or the source says; ``offset`` where
    it continues, None where that is not known. ``remark`` says why, or what has happened since the checkpoint.
    ``upstream_topic`` is the source's name of the topic, where the source was asked; ``copied``: the flow copies it.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    upstream: int | None = None
    offset: int | None = None
    written_ms: int | None = None
    remark: str = ""
    upstream_topic: str | None = None
    copied: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "upstream_offset": self.upstream,
            "written_ms": self.written_ms,
            "remark": self.remark,
        }


@dataclass(frozen=True)
class ExplainedOffsets:
    """``rows`` by group, topic and partition; ``notes`` name what is unknown."""

    rows: tuple[ExplainedOffset, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, exported: Iterable[ExportedOffset], *notes: str) -> Self:
        """The rows that follow from the checkpoints alone."""
        return cls(tuple(_sorted(_of_checkpoints(exported).values())), notes)


def explain_offsets(
    flow: FlowSettings | FlowClusters, exported: Iterable[ExportedOffset], groups: Collection[str] | None
) -> ExplainedOffsets:
    """The exported checkpoints, and every other position of ``groups`` (None: of all) with the reason why it has none.

    Where the source does not respond, reasons are those of the flow's last round, and a note says so.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        return _explained(clusters, tuple(exported), groups)


def _explained(
    clusters: FlowClusters, exported: tuple[ExportedOffset, ...], groups: Collection[str] | None
) -> ExplainedOffsets:
    flow = clusters.flow
    rows = _of_checkpoints(exported)
    try:
        offsets, refused, notes = _at_source(clusters, groups)
    except SrmError as error:
        return _as_the_last_round_found(clusters, rows, groups, error)
    copies = clusters.target.registry.read().of_flow(flow.name)
    decisions = _decisions(clusters, {topic for offset in offsets for topic, _ in offset.offsets})
    missing: dict[tuple[str, str, int], Position] = {}
    more: list[ExplainedOffset] = []
    for group_offsets in offsets:
        for (topic, partition), committed in group_offsets.offsets.items():
            decision = decisions[topic]
            if not decision.accepted:
                reason = f"the topic is not copied: {decision.reason}"
                more.append(
                    ExplainedOffset(
                        group_offsets.group,
                        topic,
                        partition,
                        committed.offset,
                        remark=reason,
                        upstream_topic=topic,
                        copied=False,
                    )
                )
                continue
            remote = copies[topic].downstream_topic if topic in copies else str(decision.remote_topic)
            place = group_offsets.group, remote, partition
            if place not in rows:
                missing[place] = topic, partition, committed.offset
            elif rows[place].upstream != committed.offset:
                rows[place] = _moved(rows[place], committed.offset)
    remarks = _without_checkpoint(clusters, set(missing.values())) if missing else {}
    for place, position in missing.items():
        topic, _, committed_offset = position
        rows[place] = ExplainedOffset(*place, upstream=committed_offset, remark=remarks[position], upstream_topic=topic)
    return ExplainedOffsets(tuple(_sorted((*rows.values(), *more, *refused))), tuple(notes))


def _decisions(clusters: FlowClusters, topics: Collection[str]) -> dict[str, TopicDecision]:
    """By all that is known of both clusters; by names alone where that cannot be read now, and of topics that the
    source does not have any more."""
    flow = clusters.flow
    decisions = {decision.topic: decision for decision in select_topics(flow, topics)}
    try:
        with ThreadPoolExecutor(max_workers=4, thread_name_prefix="srm-decide") as pool:
            known = FlowTopics.decided(clusters, pool).decisions
    except SrmError:
        return decisions
    return decisions | {decision.topic: decision for decision in known if decision.topic in topics}


def _of_checkpoints(exported: Iterable[ExportedOffset]) -> dict[tuple[str, str, int], ExplainedOffset]:
    checkpoints = ((offset.checkpoint, offset.written_ms) for offset in exported)
    return {
        (one.group, one.topic, one.partition): ExplainedOffset(
            one.group, one.topic, one.partition, one.upstream, one.downstream, written_ms
        )
        for one, written_ms in checkpoints
    }


def _as_the_last_round_found(
    clusters: FlowClusters,
    rows: dict[tuple[str, str, int], ExplainedOffset],
    groups: Collection[str] | None,
    fault: SrmError,
) -> ExplainedOffsets:
    untranslateds, left_out = untranslated_from(clusters.state.read(StateKey.UNTRANSLATED))
    copies = clusters.target.registry.read().of_flow(clusters.flow.name)
    for untranslated in untranslateds:
        remote = copies[untranslated.topic].downstream_topic if untranslated.topic in copies else untranslated.topic
        place = untranslated.group, remote, untranslated.partition
        if place not in rows and (groups is None or untranslated.group in groups):
            rows[place] = ExplainedOffset(*place, upstream=untranslated.upstream, remark=untranslated.reason)
    notes = [f"reasons are those of the flow's last round, because {fault}"]
    if left_out:
        notes.append(f"{left_out} more positions had no translation then")
    return ExplainedOffsets(tuple(_sorted(rows.values())), tuple(notes))


def _at_source(
    clusters: FlowClusters, groups: Collection[str] | None
) -> tuple[list[GroupOffsets], list[ExplainedOffset], list[str]]:
    """What the chosen groups have committed, the groups whose offsets are not translated at all, and what could not be
    looked at."""
    flow, reader = clusters.flow, clusters.source.groups(_SOURCE_SECONDS)
    listed, unlisted = reader.groups()
    others, more = clusters.source.other_groups(_SOURCE_SECONDS)
    chosen = group_filter(flow)
    known = {group.name for group in listed}
    refused: list[ExplainedOffset] = []
    for other in others:
        if groups is not None and other.name in groups:
            remark = f"it is a {other.protocol} group, whose offsets are not translated"
            refused.append(ExplainedOffset(other.name, remark=remark))
    wanted = known if groups is None else known & set(groups)
    for name in sorted(wanted):
        decision = chosen.decide(name)
        if not decision.accepted:
            wanted = wanted - {name}
            if groups is not None:
                refused.append(ExplainedOffset(name, remark=f"the group is not translated: {decision.reason}"))
    for name in sorted(set(groups or ()) - known - {other.name for other in others}):
        refused.append(ExplainedOffset(name, remark=f"'{flow.name.source}' has no such group"))
    offsets, unread = reader.offsets(sorted(wanted))
    return offsets, refused, list(dict.fromkeys(str(fault) for fault in (*unlisted, *more, *unread)))


def _without_checkpoint(clusters: FlowClusters, positions: Collection[Position]) -> dict[Position, str]:
    remarks = {}
    with ExactTranslation(clusters) as exact:
        for position, translation in exact.translate(positions).items():
            downstream = downstream_of(translation)
            remarks[position] = (
                downstream
                if isinstance(downstream, str)
                else f"no checkpoint yet; the next round of the flow writes offset {downstream}"
            )
    return remarks


def _moved(row: ExplainedOffset, upstream: int) -> ExplainedOffset:
    way = "read on" if row.upstream is not None and upstream > row.upstream else "was moved back"
    remark = f"the group has since {way} to {upstream} at the source"
    return replace(row, remark=remark)


def _sorted(rows: Iterable[ExplainedOffset]) -> list[ExplainedOffset]:
    return sorted(rows, key=lambda row: (row.group, row.topic or "", row.partition or 0))


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
    """``notes`` are about whole groups, and about what is unknown."""

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
    offsets, unread = clusters.target.groups().offsets([group])
    notes += [*explained.notes, *map(str, unread)]
    applied = {place: at.offset for offset in offsets for place, at in offset.offsets.items()}
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
