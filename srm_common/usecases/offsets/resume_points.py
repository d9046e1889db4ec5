"""Where groups that move from a flow's source to its target resume: queried and translated again, nothing changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from srm_common.domain.amount import Amount
from srm_common.domain.flow import FlowName, FlowSettings, names
from srm_common.domain.moving.moves import PositionReport
from srm_common.domain.offsets.offset_map import OffsetMap
from srm_common.domain.offsets.resume_point import Log, not_copied, resume_point
from srm_common.domain.offsets.translation import Translation
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopics
from srm_common.errors import ClusterError, SrmError
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.flows.open_cluster import OpenCluster
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.usecases.offsets.group_standings import Stand, Standing, last_known, standings
from srm_common.usecases.offsets.mapped_topics import MappedTopics
from srm_common.usecases.offsets.source_offsets import committed_now


@dataclass
class Positions:
    """``reports`` by group, topic and partition; ``unknown`` are requested groups without any position. ``live``: the
    groups' offsets are from the source, otherwise from checkpoints.
    """

    reports: list[PositionReport] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    live: bool = True


def opposite(flow: FlowSettings) -> FlowSettings:
    """The same pair of clusters in the other direction."""
    name = FlowName(flow.name.target, flow.name.source)
    return replace(flow, name=name, source=flow.target, target=flow.source)


class CopyMaps:
    """What one flow copies, as recorded on its target, and the map of it.

    ``names`` is upstream topic -> downstream topic, ``ids`` are those of downstream topics as they are now, where they
    are known; ``shared`` are downstream topics that several flows write to, with these flows.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: from making it, as the target answers.
    """

    def __init__(self, clusters: FlowClusters) -> None:
        flow = clusters.flow
        copied = CopiedTopics(str(flow.name), clusters.target.registry.read())
        self.names = copied.names
        feeders = {copy: copied.feeders(copy) for copy in self.names.values()}
        self.shared = {copy: ", ".join(flows) for copy, flows in feeders.items() if len(flows) > 1}
        self.log = clusters.target.segment_log(names.segments_topic(flow.name.source))
        self.log.read_new({})
        self.committed = committed_now(clusters)
        self._mapped = MappedTopics(clusters.target, flow.name, copied.records, self.log)
        self._mapped.look(self.names)
        self.ids = self._mapped.copy_ids()

    def map_of(self, topic: str, partition: int) -> OffsetMap:
        """The map of a partition of the upstream ``topic``; without segments if they are of a former topic or copy."""
        if (outdated := self._mapped.outdated(topic, partition)) is not None:
            copied_to = self.committed.get(TopicPartition(topic, partition)) if outdated.copied else None
            return OffsetMap(replicated_to=copied_to)
        segment_map = self.log.complete_map(topic, partition)
        place = TopicPartition(topic, partition)
        replicated_to, ended = self.committed.get(place), self.committed.copied_to.get(place)
        if segment_map is None:
            return OffsetMap(replicated_to=replicated_to)
        return OffsetMap(segment_map, replicated_to, segment_map.starts, segment_map.downstream_starts, ended)


def answers(source: OpenCluster, patience_seconds: float = 15.0) -> str | None:
    """Why the flow's source cannot be queried, None when it answers in time."""
    try:
        source.admin_within(patience_seconds).topics()
    except SrmError as error:
        return str(error)
    return None


def group_states(cluster: OpenCluster, groups: Iterable[str]) -> dict[str, str]:
    """Kafka's word for the state of each of ``groups`` that the cluster has.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the cluster answers.
    """
    wanted = set(groups)
    listed, _ = cluster.groups().groups()
    return {group.name: group.state for group in listed if group.name in wanted}


@dataclass(frozen=True, slots=True)
class _Place:
    """A position, and the topic here where the group resumes. ``along`` and ``back``: by which maps."""

    group: str
    topic: str
    partition: int
    from_topic: str
    stand: Stand
    along: bool
    back: str | None


class _Mover:
    """One translation of everything."""

    def __init__(self, clusters: FlowClusters, along: CopyMaps, back: CopyMaps | None) -> None:
        self._clusters = clusters
        self._flow = clusters.flow
        self._along = along
        self._back = back
        #: Topic there -> topic here whose copy it is.
        self._originals = {} if back is None else {copy: topic for topic, copy in back.names.items()}

    def places(self, standing: Standing) -> Iterator[_Place | PositionReport]:
        for (topic, partition), stand in sorted(standing.positions.items()):
            copy, original = self._along.names.get(topic), self._originals.get(topic)
            reason = None
            if copy is None and original is None:
                reason = stand.untranslated or (
                    f"{topic} is not copied between {self._flow.name.source} and {self._flow.name.target}"
                )
            elif copy in self._along.shared:
                reason = f"flows {self._along.shared[copy]} write to {copy}: no offset is safe for all of them"
            if reason is not None:
                yield PositionReport(
                    standing.group,
                    copy or topic,
                    partition,
                    topic,
                    stand.committed.offset,
                    age_ms=stand.age_ms,
                    read_again=Amount.not_known(),
                    reason=reason,
                )
                continue
            for goes_to in sorted({copy, original} - {None}, key=str):
                yield _Place(
                    standing.group,
                    str(goes_to),
                    partition,
                    topic,
                    stand,
                    along=goes_to == copy,
                    back=original if goes_to == original else None,
                )

    def maps(self, place: _Place) -> tuple[OffsetMap | None, OffsetMap | None]:
        along = self._along.map_of(place.from_topic, place.partition) if place.along else None
        back = None
        if place.back is not None and self._back is not None:
            back = self._back.map_of(place.back, place.partition)
        return along, back

    def exact(self, places: Iterable[_Place]) -> dict[tuple[str, int, int], Translation]:
        wanted = {
            (place.from_topic, place.partition, place.stand.committed.offset)
            for place in places
            if place.along and place.back is None
        }
        with ExactTranslation(self._clusters, self._along.log) as exact:
            return exact.translate(sorted(wanted))


def move_positions(clusters: FlowClusters, groups: Iterable[str] | None, *, source_answers: bool) -> Positions:
    """The place on the target of every partition that the groups have read at the source.

    Args:
        groups: None: all that the flow translates and that have read something of what is copied.
        source_answers: otherwise checkpoints have the positions of groups.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the clusters answer.
    """
    flow = clusters.flow
    named = None if groups is None else sorted(set(groups))
    out = Positions(live=source_answers)
    along = CopyMaps(clusters)
    if not source_answers:
        out.notes.append(f"'{flow.source.alias}' does not respond: checkpoints on '{flow.target.alias}' are used")
        back = None
        known = last_known(clusters, along.names, along.ids, named)
        found = known.standings
        out.notes += known.notes
    else:
        back = CopyMaps(clusters.opposite(opposite(flow)))
        found = standings(clusters, named)
    mover = _Mover(clusters, along, back)
    places: list[_Place] = []
    for standing in found:
        rows = list(mover.places(standing))
        moving = [row for row in rows if isinstance(row, _Place)]
        # What the last round could not translate may not be passed over in silence.
        told = standing.translated or any(stand.untranslated for stand in standing.positions.values())
        if moving or told or (named is not None and rows):
            places += moving
            out.reports += [row for row in rows if isinstance(row, PositionReport)]
    moved = {one.group for one in found if one.positions or one.translated}
    out.unknown = [group for group in named or () if group not in moved]
    out.reports += _resumed(clusters, mover, places, found, source_answers)
    out.reports.sort(key=lambda one: (one.group, one.topic, one.partition))
    return out


def _resumed(
    clusters: FlowClusters, mover: _Mover, places: list[_Place], found: list[Standing], source_answers: bool
) -> Iterator[PositionReport]:
    wanted = {TopicPartition(one.topic, one.partition) for one in places} | {
        place for one in found for place in one.translated
    }
    logs = _logs(clusters.target, wanted)
    own = own_offsets(clusters.target, sorted({one.group for one in found}))
    exact = mover.exact(places)
    left = {TopicPartition(one.from_topic, one.partition) for one in places if one.back is not None}
    # Up to the very end: behind the last stable offset, too, there may be what a group has not read.
    ends = clusters.source.admin.offsets(left, LATEST, committed=False) if left else {}
    for one in places:
        report = _report(one.group, TopicPartition(one.topic, one.partition), one.from_topic, one.stand, own)
        log = logs[TopicPartition(one.topic, one.partition)]
        if isinstance(log, str):
            yield replace(report, read_again=Amount.not_known(), reason=log)
            continue
        along, back = mover.maps(one)
        translation = exact.get((one.from_topic, one.partition, report.upstream)) if back is None else None
        end = ends.get(TopicPartition(one.from_topic, one.partition))
        point = resume_point(
            report.upstream,
            log,
            along=along,
            back=back,
            own=report.before,
            translation=translation,
            known=one.stand.downstream,
            at_end=isinstance(end, int) and report.upstream >= end,
        )
        again, reason = point.read_again, point.reason
        if not source_answers:
            since = log.end - point.offset
            again = Amount.at_most(since + not_copied(report.upstream, along))
            reason = "; ".join(filter(None, [reason, _SINCE if since else ""]))
        yield replace(report, applied=point.offset, read_again=again, reason=reason)
    for standing in found:
        for place, stand in sorted(standing.translated.items()):
            report = _report(standing.group, place, "", stand, own)
            log = logs[place]
            if isinstance(log, str):
                yield replace(report, read_again=Amount.not_known(), reason=log)
                continue
            applied = min(max(stand.downstream, report.before or 0, log.start), log.end)
            since = log.end - applied
            again = Amount.at_most(since)
            yield replace(report, applied=applied, read_again=again, reason=_SINCE if since else "")


def _report(
    group: str, place: TopicPartition, from_topic: str, stand: Stand, own: Mapping[str, Mapping[TopicPartition, int]]
) -> PositionReport:
    before = own.get(group, {}).get(place)
    committed = stand.committed
    return PositionReport(
        group, *place, from_topic, committed.offset, before, age_ms=stand.age_ms, metadata=committed.metadata
    )


_SINCE = "what the group read since its last checkpoint is read again"


def _logs(target: OpenCluster, places: set[TopicPartition]) -> dict[TopicPartition, Log | str]:
    """The target's logs, a sentence where there is none."""
    admin = target.admin
    known = admin.topics().partitions
    there = sorted(place for place in places if place[1] < known.get(place[0], 0))
    starts, ends = admin.offsets(there, EARLIEST), admin.offsets(there, LATEST)
    out: dict[TopicPartition, Log | str] = {}
    for place in places:
        start, end = starts.get(place), ends.get(place)
        if isinstance(start, int) and isinstance(end, int):
            out[place] = Log(start, end)
        elif place[0] not in known:
            out[place] = f"there is no topic {place[0]} on '{target.alias}'"
        elif start is None or end is None:
            out[place] = f"{place[0]} has no partition {place[1]} on '{target.alias}'"
        else:
            out[place] = str(start if isinstance(start, SrmError) else end)
    return out


def own_offsets(target: OpenCluster, groups: list[str]) -> dict[str, dict[TopicPartition, int]]:
    """What the groups have committed on the target.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers, also where it is about one group.
    """
    offsets, faults = target.groups().offsets(groups)
    if faults:
        raise ClusterError(faults[0].reason)
    return {offset.group: {place: at.offset for place, at in offset.offsets.items()} for offset in offsets}
