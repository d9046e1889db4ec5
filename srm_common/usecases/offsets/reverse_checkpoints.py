"""Checkpoints for the way back: positions on copies of groups at a flow's source, translated to the originals.

The copies were made by the flow in the other direction, whose originals are on this flow's target. Its offset map is on
the same cluster as the copies. Topic names are not used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from srm_common.domain.flow import FlowName, names
from srm_common.domain.offsets.checkpoints import Checkpoint, Untranslated, supersedes
from srm_common.domain.offsets.translation import Translated, translate_back
from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.topics.topic_records import TopicState
from srm_common.errors import AccessDenied
from srm_common.kafka.groups.group_offsets import GroupOffsets
from srm_common.kafka.state.checkpoint_log import NewestCheckpoints
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.mapped_topics import MappedTopics


@dataclass
class ReverseCheckpoints:
    """``written`` are new, ``kept`` were written before and hold; ``notes`` say what limits the result."""

    written: list[Checkpoint] = field(default_factory=list)
    kept: list[Checkpoint] = field(default_factory=list)
    untranslated: list[Untranslated] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Moved:
    """A group that has another position on ``copy`` than its ``last`` checkpoint; ``wanted`` lacks its place yet."""

    wanted: Checkpoint
    copy: str
    last: Checkpoint | None


def reverse_checkpoints(
    clusters: FlowClusters, offsets: Iterable[GroupOffsets], before: NewestCheckpoints
) -> ReverseCheckpoints:
    """The checkpoints of groups on copies at the source; the offset map there is read only when a group moved.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the source answers.
    """
    made, flow = ReverseCheckpoints(), clusters.flow
    if not flow.reverse_checkpointing:
        return made
    offsets = list(offsets)
    try:
        originals = _originals(clusters, {topic for found in offsets for topic, _ in found.offsets})
    except AccessDenied as error:
        made.notes.append(f"nothing is translated back: {error}")
        return made
    moved = []
    for found in offsets:
        for (topic, partition), at in sorted(found.offsets.items()):
            if topic not in originals:
                continue
            last = before.by_place.get((found.group, originals[topic], partition))
            if last is not None and last.upstream == at.offset:
                made.kept.append(last)
            else:
                wanted = Checkpoint(found.group, originals[topic], partition, at.offset, 0, at.metadata)
                moved.append(_Moved(wanted, topic, last))
    if moved:
        _translate(clusters, moved, made)
    return made


def _originals(clusters: FlowClusters, topics: set[str]) -> dict[str, str]:
    """Copy at the source -> its original on the target, of those of ``topics`` that are to be translated back.

    Copies that the flow itself would copy back under their original name are left to its own map.
    """
    if not topics:
        return {}
    flow = clusters.flow
    include, exclude = PatternList(flow.reverse_topics), PatternList(flow.reverse_topics_exclude)
    records = clusters.source.registry.read().of_flow(FlowName(flow.name.target, flow.name.source))
    return {
        record.downstream_topic: original
        for original, record in records.items()
        if record.downstream_topic in topics
        and record.downstream_topic != original
        and record.state is not TopicState.CLAIMED
        and include.matching(record.downstream_topic) is not None
        and exclude.matching(record.downstream_topic) is None
    }


def _translate(clusters: FlowClusters, moved: Collection[_Moved], made: ReverseCheckpoints) -> None:
    log = clusters.source.segment_log(names.segments_topic(clusters.flow.name.target))
    log.read_new({})
    flow = FlowName(clusters.flow.name.target, clusters.flow.name.source)
    mapped = MappedTopics(clusters.source, flow, clusters.source.registry.read().of_flow(flow), log)
    mapped.look({one.wanted.topic for one in moved})
    for one in moved:
        wanted, last = one.wanted, one.last
        if (outdated := mapped.outdated(wanted.topic, wanted.partition)) is not None:
            made.untranslated.append(
                Untranslated(wanted.group, one.copy, wanted.partition, wanted.upstream, outdated.reason)
            )
            continue
        known = log.complete_map(wanted.topic, wanted.partition)
        found = translate_back(
            known or (),
            wanted.upstream,
            starts=None if known is None else known.downstream_starts,
        )
        if not isinstance(found, Translated):
            why = f"it is unknown what was copied into {one.copy}-{wanted.partition} before that"
            made.untranslated.append(Untranslated(wanted.group, one.copy, wanted.partition, wanted.upstream, why))
            continue
        new = replace(wanted, downstream=found.offset)
        if last is None or supersedes(new, last):
            made.written.append(new)
        else:
            made.kept.append(last)
