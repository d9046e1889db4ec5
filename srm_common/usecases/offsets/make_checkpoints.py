"""Translate the committed offsets of the source's consumer groups into checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from srm_common.domain.filters.flow_filters import group_filter
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.checkpoints import (
    Addition,
    Checkpoint,
    CheckpointMemory,
    Untranslated,
    downstream_of,
    is_contradicted,
    still_holds,
    supersedes,
)
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.topic_id import url_safe
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopics, select_topics
from srm_common.domain.topics.topic_records import TopicRecords
from srm_common.errors import CorruptRecord
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupOffsets
from srm_common.kafka.state.checkpoint_log import NewestCheckpoints, Place, newest_checkpoints
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.open_cluster import OpenCluster
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.usecases.offsets.mapped_topics import MappedTopics
from srm_common.usecases.offsets.reverse_checkpoints import reverse_checkpoints
from srm_common.wire.state.mm2 import MAX_STRING_BYTES


@dataclass
class CheckpointsMade:
    """What one round found out.

    ``written`` are the new checkpoints, in order; ``newest`` by group what holds after them, written now or before.
    ``positions`` is how many each group has on copied topics, ``asked`` when they were queried, by the monotonic
    clock. ``topics`` are groups by upstream topic, ``remotes`` the copies of these. ``rewound`` were
    moved back at the source. ``renewed`` counts positions whose earlier checkpoint belonged to a former copy, or to a
    part that the copy has lost; ``void`` has the places, by group, topic and partition, that these had said.
    ``unsupported`` (group, kind) pass the filter and are no consumer groups. ``shared`` are remote topics that other
    flows write to as well, with these flows. ``copies`` are the ids of remote topics, for the next round: of those that
    others have created again, the present ones. ``notes`` say what limits the result.
    """

    positions: dict[str, int] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    topics: dict[str, set[str]] = field(default_factory=dict)
    remotes: dict[str, str] = field(default_factory=dict)
    written: list[Checkpoint] = field(default_factory=list)
    newest: dict[str, list[Checkpoint]] = field(default_factory=dict)
    unchanged: int = 0
    renewed: int = 0
    void: dict[Place, int] = field(default_factory=dict)
    rewound: set[str] = field(default_factory=set)
    untranslated: list[Untranslated] = field(default_factory=list)
    unsupported: list[tuple[str, str]] = field(default_factory=list)
    shared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def keep(self, checkpoint: Checkpoint) -> None:
        """It was written before and holds."""
        self.unchanged += 1
        self.newest.setdefault(checkpoint.group, []).append(checkpoint)

    def write(self, checkpoint: Checkpoint) -> None:
        self.written.append(checkpoint)
        self.newest.setdefault(checkpoint.group, []).append(checkpoint)


@dataclass(frozen=True, slots=True)
class _Position:
    """A group's position on a copied partition. ``before`` is its checkpoint so far, None where there is none;
    ``void``: it is of a former copy, or points behind the end of the log, and must not be kept."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset
    remote: str
    before: Checkpoint | None
    void: bool = False

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def make_checkpoints(
    clusters: FlowClusters,
    log: SegmentLog,
    news: Mapping[TopicPartition, Iterable[Segment]],
    memory: CheckpointMemory,
) -> CheckpointsMade:
    """The checkpoints of the groups that moved, by the map of ``log``.

    Args:
        news: segments added to the map since the last round.

    Raises:
        CorruptRecord: what is recorded of topics cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer. Single groups that cannot be read are
            faults in the result.
    """
    made, flow = CheckpointsMade(), clusters.flow
    offsets = _group_offsets(clusters, made)
    records = clusters.target.registry.read()
    copies = CopiedPlaces.of(flow, records, offsets)
    made.shared = copies.shared
    before = newest_checkpoints(clusters.target.reader, names.checkpoints_topic(flow))
    made.skipped += before.unreadable
    made.copies = {**memory.copies, **copies.ids, **_replaced(clusters, records, log, before)}
    recreated = {remote for remote, known in memory.copies.items() if url_safe(made.copies[remote]) != url_safe(known)}
    added = _Additions(news)
    moved = []
    # In the first round of a flow that MirrorMaker 2 had, its checkpoints are rougher than they could be.
    trusted = bool(memory.checked)
    ends = CopyLogs(clusters.target, _last_places(offsets, copies.names, before))
    for group_offsets in offsets:
        places = sorted(place for place in group_offsets.offsets if place[0] in copies.names)
        if places:
            made.positions[group_offsets.group] = len(places)
            made.asked[group_offsets.group] = group_offsets.asked
        for topic, partition in places:
            remote, committed = copies.names[topic], group_offsets.offsets[TopicPartition(topic, partition)]
            made.topics.setdefault(topic, set()).add(group_offsets.group)
            made.remotes[topic] = remote
            last = before.by_place.get((group_offsets.group, remote, partition))
            if last is not None and (remote in recreated or ends.lack(remote, partition, last.downstream)):
                moved.append(_Position(group_offsets.group, topic, partition, committed, remote, last, void=True))
            elif topic in copies.gone:
                made.untranslated.append(
                    Untranslated(group_offsets.group, topic, partition, committed.offset, copies.gone[topic])
                )
            elif trusted and last and still_holds(last, committed.offset, added.of(topic, partition)):
                made.keep(last)
            else:
                moved.append(_Position(group_offsets.group, topic, partition, committed, remote, last))
    _translate(clusters, log, moved, added, ends, made)
    _start_over(before, recreated, made)
    _translate_back(clusters, offsets, before, made)
    return made


def _replaced(
    clusters: FlowClusters, records: TopicRecords, log: SegmentLog, before: NewestCheckpoints
) -> dict[str, str]:
    """The ids of copies with checkpoints that others have created again, and of which nothing is decided."""
    name, checkpointed = clusters.flow.name, {topic for _, topic, _ in before.by_place}
    mapped = MappedTopics(clusters.target, name, own := records.of_flow(name), log)
    mapped.look(topic for topic, record in own.items() if record.downstream_topic in checkpointed)
    return mapped.replaced()


def _translate_back(
    clusters: FlowClusters, offsets: Iterable[GroupOffsets], before: NewestCheckpoints, made: CheckpointsMade
) -> None:
    back = reverse_checkpoints(clusters, offsets, before)
    for new in back.written:
        made.write(new)
    for last in back.kept:
        made.keep(last)
    made.untranslated += back.untranslated
    asked = {found.group: found.asked for found in offsets}
    groups = [checkpoint.group for checkpoint in (*back.written, *back.kept)] + [
        untranslated.group for untranslated in back.untranslated
    ]
    for group in groups:
        made.positions[group] = made.positions.get(group, 0) + 1
        made.asked[group] = asked[group]
    made.notes += back.notes


class _Additions:
    """Where the new segments of each partition begin; determined once for all groups."""

    def __init__(self, news: Mapping[TopicPartition, Iterable[Segment]]) -> None:
        self._news = news
        self._found: dict[TopicPartition, Addition | None] = {}

    def of(self, topic: str, partition: int) -> Addition | None:
        place = TopicPartition(topic, partition)
        if place not in self._found:
            self._found[place] = Addition.of(self._news.get(place, ()))
        return self._found[place]


def _start_over(before: NewestCheckpoints, recreated: Collection[str], made: CheckpointsMade) -> None:
    """Checkpoints of groups that could not be asked, or are gone, must not point into the middle of another copy."""
    done = {(checkpoint.group, checkpoint.topic, checkpoint.partition) for checkpoint in made.written}
    for place, last in before.by_place.items():
        if last.topic in recreated and place not in done and last.downstream:
            made.written.append(replace(last, downstream=0))
            made.renewed += 1


class CopyLogs:
    """Where the logs of copies end.

    Args:
        expected: where each of them ends at least, as far as that is known.
    """

    def __init__(self, target: OpenCluster, expected: Mapping[TopicPartition, int]) -> None:
        self._target = target
        self._ends = target.log_ends(expected)

    def lack(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a log is known to end before ``offset``."""
        end = self._ends.get(TopicPartition(topic, partition))
        return end is not None and end < offset

    def within(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets, none of them behind the end of its log; for those that seem to be, it is asked again."""
        self._ends |= self._target.log_ends(
            {place: offset for place, offset in wanted.items() if self.lack(*place, offset)}
        )
        return {place: min(offset, self._ends.get(place, offset)) for place, offset in wanted.items()}


def _last_places(
    offsets: Iterable[GroupOffsets], copies: Mapping[str, str], before: NewestCheckpoints
) -> dict[TopicPartition, int]:
    """The highest place in each copy that a checkpoint of one of these groups has, 0 where there is none."""
    found: dict[TopicPartition, int] = {}
    for group_offsets in offsets:
        for topic, partition in group_offsets.offsets:
            if topic in copies:
                place = TopicPartition(copies[topic], partition)
                last = before.by_place.get((group_offsets.group, *place))
                found[place] = max(found.get(place, 0), 0 if last is None else last.downstream)
    return found


def _translate(
    clusters: FlowClusters,
    log: SegmentLog,
    moved: list[_Position],
    added: _Additions,
    logs: CopyLogs,
    made: CheckpointsMade,
) -> None:
    if not moved:
        return
    with ExactTranslation(clusters, log) as exact:
        translations = exact.translate(
            {(position.topic, position.partition, position.committed.offset) for position in moved}
        )
        made.notes += exact.away.values()
    ends = _ends(log, {position.place for position in moved if position.before is not None})
    highest: dict[TopicPartition, int] = {}
    for position in moved:
        found = downstream_of(translations[position.topic, position.partition, position.committed.offset])
        if isinstance(found, int):
            copy = TopicPartition(position.remote, position.partition)
            highest[copy] = max(highest.get(copy, 0), found)
    limits = logs.within(highest)
    for position in moved:
        translation = translations[position.topic, position.partition, position.committed.offset]
        before = position.before
        void = position.void or (
            before is not None
            and is_contradicted(
                before,
                position.committed.offset,
                translation,
                added.of(position.topic, position.partition),
                ends.get(position.place),
            )
        )
        downstream = downstream_of(translation)
        if isinstance(downstream, int):
            downstream = min(downstream, limits[TopicPartition(position.remote, position.partition)])
        _judge(position, downstream, void, made)


def _ends(log: SegmentLog, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the copies of the partitions end by the map."""
    ends = {}
    for place in places:
        # A segment that cannot be read maps nothing, as translations say.
        with contextlib.suppress(CorruptRecord):
            newest = log.newest(*place)
            if newest is not None:
                ends[place] = newest.downstream_end
    return ends


def _judge(one: _Position, downstream: int | str, void: bool, made: CheckpointsMade) -> None:
    before = None if void else one.before
    if isinstance(downstream, str):
        made.untranslated.append(Untranslated(one.group, one.topic, one.partition, one.committed.offset, downstream))
        if not void:
            return
        # What was said of the former copy must not be believed of this one.
        downstream = 0
    new = Checkpoint(one.group, one.remote, one.partition, one.committed.offset, downstream, _metadata(one, made))
    if void and one.before is not None:
        made.renewed += 1
        made.void[one.group, one.remote, one.partition] = one.before.downstream
    if before is None or supersedes(new, before):
        if before is not None and new.upstream < before.upstream:
            made.rewound.add(one.group)
        made.write(new)
    else:
        made.keep(before)


def _metadata(one: _Position, made: CheckpointsMade) -> str:
    """What the group noted with its commit, where it fits into a checkpoint."""
    if len(one.committed.metadata.encode()) <= MAX_STRING_BYTES:
        return one.committed.metadata
    made.notes.append(
        f"the metadata that group {one.group} committed for {one.topic}-{one.partition} is longer than "
        f"{MAX_STRING_BYTES} bytes and left out of its checkpoint"
    )
    return ""


def _group_offsets(clusters: FlowClusters, made: CheckpointsMade) -> list[GroupOffsets]:
    flow, groups = clusters.flow, clusters.source.groups()
    listed, faults = groups.groups()
    others, unlisted = clusters.source.other_groups()
    chosen = group_filter(flow)
    made.unsupported = [(other.name, other.protocol) for other in others if chosen.decide(other.name).accepted]
    offsets, unread = groups.offsets(group.name for group in listed if chosen.decide(group.name).accepted)
    sentences = (str(fault) for fault in (*faults, *unlisted, *unread))
    made.faults += dict.fromkeys(sentences)
    return offsets


@dataclass(frozen=True)
class CopiedPlaces:
    """The topics that groups have offsets on and that are copied: upstream -> remote ``names``, the ``ids`` of all of
    the flow's remote topics, who else writes to them, and why some are ``gone``."""

    names: dict[str, str]
    ids: dict[str, str]
    shared: dict[str, tuple[str, ...]]
    gone: dict[str, str]

    @classmethod
    def of(cls, flow: FlowSettings, records: TopicRecords, offsets: Iterable[GroupOffsets]) -> CopiedPlaces:
        copied = CopiedTopics(str(flow.name), records)
        recorded = copied.names
        copies = cls({}, copied.ids, {}, {})
        for decision in select_topics(flow, {topic for found in offsets for topic, _ in found.offsets}):
            # Names do not tell of loops. What a refresh has accepted has a record, and a run copies nothing else.
            if not decision.accepted or decision.topic not in recorded:
                continue
            topic, remote = decision.topic, recorded[decision.topic]
            copies.names[topic] = remote
            if (gone := copied.gone(topic)) is not None:
                copies.gone[topic] = gone
            if others := copied.other_writers(remote):
                copies.shared[remote] = others
        return copies
