"""Exact translations: by the offset map, and where that has only a range, by reading the logs.

===========================================  =================================================================
the map has the offset                       exact, nothing is read
a sparse run                                 the source's records around the position are counted (exact as long as
                                             none of the run was removed there since); else what is left on the target
a run that others wrote into                 the flow's own records are identified on the target by their producer,
                                             and counted
between segments, before the first, where    exact where the target has nothing there; what MirrorMaker 2 copied, by
there are no segments                        its offset syncs and its rule
nothing was copied, and the copy is empty    the copy's start: the source has nothing, or has not kept it
===========================================  =================================================================

All reads are small (a run is part of one chunk) and shared by positions. Where neither log can tell, the answer is a
floor, which says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Literal, Self

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.counting import by_syncs, counted, counted_apart, looked_between, own_offsets
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.offsets.segments import OffsetSpan, generation_of, is_another_generation
from srm_common.domain.offsets.translation import (
    UNBOUNDED,
    Evidence,
    NotReplicatedYet,
    TooOld,
    Translated,
    Translation,
    Unmapped,
)
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.errors import ClusterError, CorruptRecord
from srm_common.kafka.log.log_windows import LogWindows, ScanResult, Window
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.source_offsets import next_offsets
from srm_common.kafka.state.sync_log import read_syncs
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.offsets.mapped_topics import MappedTopics

#: No log is so long: a query for such a position is for the end of the copy.
_NO_OFFSET = 1 << 50

Position = tuple[str, int, int]
"""Upstream topic, partition, next upstream offset to read."""


class ExactTranslation:
    """Translates positions of one flow's source into offsets on its target. A context manager.

    Args:
        flow: works while its source is down; ``away`` then says so, and what only the source can tell is a floor.
        log: the flow's map, when the caller has it open already; else it is read from the target.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers. The source's errors are in
            ``away``.
    """

    def __init__(self, flow: FlowSettings | FlowClusters, log: SegmentLog | None = None) -> None:
        self._opens = clusters_of(flow)
        self._flow = flow.flow if isinstance(flow, FlowClusters) else flow
        self._given = log
        self._stack = ExitStack()
        self._windows: dict[str, LogWindows] = {}
        self._records: Mapping[str, TopicRecord] = {}
        self._replicated: Mapping[TopicPartition, int] | None = None
        self._source_is_away = False
        #: Cluster alias -> one sentence why it could not be looked into.
        self.away: dict[str, str] = {}

    def __enter__(self) -> Self:
        flow = self._flow
        with ExitStack() as stack:
            self._clusters = stack.enter_context(self._opens)
            self._records = self._clusters.target.registry.read().of_flow(flow.name)
            if self._given is None:
                self._log = self._clusters.target.segment_log(names.segments_topic(flow.name.source))
                self._log.read_new({})
            else:
                self._log = self._given
            self._mapped = MappedTopics(self._clusters.target, flow.name, self._records, self._log)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def translate(self, positions: Iterable[Position]) -> dict[Position, Translation]:
        """The translation of each position.

        Give all at once: positions in the same stretch of a log share one read.
        """
        answers = self.by_map(positions)
        self._look_behind(answers)
        self._count(answers)
        self._look_between(answers)
        self._by_syncs(answers)
        self._at_start(answers)
        self._say_who_is_away(answers)
        return answers

    def by_map(self, positions: Iterable[Position]) -> dict[Position, Translation]:
        """The translation of each position by the map alone; no log is read."""
        wanted = sorted(positions)
        self._mapped.look({topic for topic, _, _ in wanted})
        return {position: self._by_map(*position) for position in wanted}

    def _look_behind(self, answers: dict[Position, Translation]) -> None:
        """Positions after the end of the map, or where there is none, may be replicated: there was nothing to copy, or
        MirrorMaker 2 copied it."""
        behind = [
            one
            for one, found in answers.items()
            if (isinstance(found, NotReplicatedYet) and found.behind < _NO_OFFSET) or isinstance(found, Unmapped)
        ]
        if behind and self._replicated is None:
            self._replicated = next_offsets(self._clusters.target.reader, self._flow.name)
        for one in behind:
            answers[one] = self._by_map(*one, replicated_to=(self._replicated or {}).get(TopicPartition(*one[:2])))

    def _by_map(self, topic: str, partition: int, position: int, replicated_to: int | None = None) -> Translation:
        found = self._log.translate(topic, partition, position, replicated_to)
        if isinstance(found, Unmapped) and not found.copied_to:
            return found
        outdated = self._mapped.outdated(topic, partition)
        if outdated is None:
            return found
        # An end: nothing of the new topic is copied yet.
        return Unmapped(outdated.reason) if outdated.end is None else NotReplicatedYet(position, outdated.end)

    def _count(self, answers: dict[Position, Translation]) -> None:
        """Narrow floors within runs, by the records of source and target."""
        floors = {one: found for one, found in answers.items() if isinstance(found, Translated) and found.within}
        if not floors:
            return
        upstream = self._seen("source", {one: self._upstream(one, found) for one, found in floors.items()})
        apart = {one: self._downstream(one, found) for one, found in floors.items() if _run(found).foreign}
        downstream = self._seen("target", apart)
        for one, floor in floors.items():
            seen = upstream[one].offsets if one in upstream else []
            if not _run(floor).foreign:
                answers[one] = counted(floor, one[2], seen)
            elif one in downstream:
                own = own_offsets(_run(floor), downstream[one].batches)
                if own is not None:
                    answers[one] = counted_apart(floor, one[2], own, seen)

    def _upstream(self, one: Position, floor: Translated) -> Window:
        run = _run(floor)
        return Window(one[0], one[1], run.upstream, run.upstream_end)

    def _downstream(self, one: Position, floor: Translated) -> Window:
        run = _run(floor)
        return Window(self._copy_of(one[0]), one[1], run.downstream, run.downstream_end)

    def _look_between(self, answers: dict[Position, Translation]) -> None:
        """Make floors exact where the target has nothing that could be read twice."""
        floors = {}
        gaps = {}
        for one, translated in self._bounded(answers).items():
            floors[one] = translated
            gaps[one] = Window(self._copy_of(one[0]), one[1], translated.offset, translated.most or translated.offset)
        for one, sight in self._seen("target", gaps, first_only=True).items():
            if sight.complete:
                answers[one] = looked_between(floors[one], sight.offsets)

    def _bounded(self, answers: dict[Position, Translation]) -> dict[Position, Translated]:
        """The floors; those after the end of the map are limited by the end of the target's log."""
        floors = {
            one: found for one, found in answers.items() if isinstance(found, Translated) and found.most is not None
        }
        behind = [one for one, found in floors.items() if found.most == UNBOUNDED]
        if behind:
            ends = self._open("target").ends({TopicPartition(self._copy_of(one[0]), one[1]) for one in behind})
            for one in behind:
                end = ends.get(TopicPartition(self._copy_of(one[0]), one[1]))
                if end is None:
                    del floors[one]
                else:
                    answers[one] = floors[one] = replace(floors[one], most=max(end, floors[one].offset))
        return floors

    def _by_syncs(self, answers: dict[Position, Translation]) -> None:
        """Positions outside the map: MirrorMaker 2 copied them, if its syncs are still there."""
        outside: dict[Position, tuple[int, int]] = {}
        old: dict[Position, TooOld | Unmapped] = {}
        for one, found in answers.items():
            if isinstance(found, Translated) and not found.exact and found.within is None and found.most is not None:
                outside[one] = found.offset, found.most
            elif (isinstance(found, TooOld) and found.offset) or (isinstance(found, Unmapped) and found.copied_to):
                old[one] = found
        if old:
            copies = {TopicPartition(self._copy_of(one[0]), one[1]) for one in old}
            starts, ends = self._open("target").starts(copies), self._open("target").ends(copies)
            for one, unknown in old.items():
                place = TopicPartition(self._copy_of(one[0]), one[1])
                start, end = starts.get(place), ends.get(place)
                if isinstance(unknown, TooOld):
                    end = unknown.offset
                if start is None or end is None:
                    continue
                if start < end:
                    outside[one] = start, end
                elif isinstance(unknown, Unmapped) and one[2] <= unknown.copied_to:
                    answers[one] = Translated(start, exact=True, by=Evidence.TARGET)
        # Syncs do not tell copies of one name apart.
        outside = {one: between for one, between in outside.items() if not self._is_replaced(one[0])}
        if not outside:
            return
        syncs = self._syncs({TopicPartition(topic, partition) for topic, partition, _ in outside})
        for one, (lowest, highest) in outside.items():
            by_rule = by_syncs(syncs.get(TopicPartition(one[0], one[1]), ()), one[2], lowest, highest)
            if by_rule is not None:
                answers[one] = self._of_former_topics(one[0], by_rule)
        self._look_between(answers)

    def _at_start(self, answers: dict[Position, Translation]) -> None:
        """Positions in partitions that have nothing to copy, or not yet: all that is ever copied lies at or after the
        start of an empty copy. MirrorMaker 2 has no place for them, so that a consumer with ``auto.offset.reset =
        latest`` skips what comes first.
        """
        unknown = {
            one: TopicPartition(self._copy_of(one[0]), one[1])
            for one, found in answers.items()
            if isinstance(found, Unmapped) and not found.copied_to and self._is_copied(one[0])
        }
        if not unknown:
            return
        target = self._open("target")
        # In this order: what is appended in between is taken for something of others, until the next round.
        starts = target.starts(set(unknown.values()))
        ends = target.ends(starts)
        empty = {
            one: starts[place] for one, place in unknown.items() if place in starts and starts[place] == ends.get(place)
        }
        behind = self._readable_before(empty)
        for one, start in empty.items():
            if behind[one]:
                answers[one] = NotReplicatedYet(behind[one], start)
            else:
                answers[one] = Translated(start, exact=True, by=Evidence.TARGET)

    def _is_replaced(self, topic: str) -> bool:
        """Whether the copy is not the first one."""
        record = self._records.get(topic)
        return record is not None and bool(record.previous_downstream_ids or record.former_downstream_topics)

    def _is_copied(self, topic: str) -> bool:
        record = self._records.get(topic)
        return record is not None and record.state is TopicState.REPLICATING

    def _readable_before(self, positions: Iterable[Position]) -> dict[Position, int]:
        """How many offsets of the source's logs lie before the positions; where it does not answer, at most."""
        known = {one: one[2] for one in positions}
        places = {TopicPartition(*one[:2]) for one, before in known.items() if before}
        if not places or self._source_is_away:
            return known
        try:
            source = self._open("source")
            starts, ends = source.starts(places), source.ends(places)
        except ClusterError as error:
            self._lose_source(error)
            return known
        for one in known:
            place = TopicPartition(*one[:2])
            if place in starts and place in ends:
                known[one] = max(0, min(one[2], ends[place]) - starts[place])
        return known

    def _of_former_topics(self, topic: str, found: Translated) -> Translated:
        """Syncs do not tell topics of one name apart."""
        record = self._records.get(topic)
        if record is None or not record.previous_upstream_ids or not found.exact:
            return found
        return replace(found, exact=False, why=f"{topic} was created again since, and offset syncs do not say when")

    def _syncs(self, places: set[TopicPartition]) -> Mapping[TopicPartition, list[OffsetSync]]:
        flow = self._flow
        at_source = flow.offset_syncs_topic_location == "source"
        cluster = self._clusters.source if at_source else self._clusters.target
        if at_source and self._source_is_away:
            return {}
        try:
            return read_syncs(cluster.reader, names.offset_syncs_topic(flow), places)
        except ClusterError as error:
            if not at_source:
                raise
            self._lose_source(error)
            return {}

    def _seen(
        self, side: Literal["source", "target"], wanted: Mapping[Position, Window], *, first_only: bool = False
    ) -> dict[Position, ScanResult]:
        """What each position's window shows; absent where that cannot be determined."""
        if not wanted or (side == "source" and self._source_is_away):
            return {}
        try:
            windows = self._open(side)
            if side == "source":
                wanted = self._of_the_same_topic(windows, wanted)
            sights, faults = windows.read(wanted.values(), first_only=first_only)
        except ClusterError as error:
            if side == "target":
                raise
            self._lose_source(error)
            return {}
        alias = self._flow.source.alias if side == "source" else self._flow.target.alias
        for fault in faults.values():
            self.away.setdefault(alias, fault)
        return {one: sights[window] for one, window in wanted.items() if window in sights}

    def _of_the_same_topic(self, windows: LogWindows, wanted: Mapping[Position, Window]) -> dict[Position, Window]:
        """Only positions of the topic that the map covers: offsets of a re-created topic are different."""
        ids = windows.topic_ids({topic for topic, _, _ in wanted})
        out = {}
        for one, window in wanted.items():
            topic_id = ids[one[0]]
            with suppress(CorruptRecord):  # which topic it covers is not known
                newest = self._log.newest(one[0], one[1])
                covered = newest.generation if newest else 0
                if topic_id is not None and not is_another_generation(covered, generation_of(topic_id)):
                    out[one] = window
        return out

    def _lose_source(self, error: ClusterError) -> None:
        self._source_is_away = True
        self.away[self._flow.source.alias] = str(error)

    def _open(self, side: Literal["source", "target"]) -> LogWindows:
        log_windows = self._windows.get(side)
        if log_windows is None:
            cluster = self._clusters.source if side == "source" else self._clusters.target
            committed = self._flow.read_committed if side == "source" else True
            windows = LogWindows(
                cluster.settings, committed=committed, timeout_seconds=cluster.request_seconds, pool=cluster.links
            )
            log_windows = self._stack.enter_context(windows)
            self._windows[side] = log_windows
        return log_windows

    def _copy_of(self, topic: str) -> str:
        record = self._records.get(topic)
        if record is not None:
            return record.downstream_topic
        return self._flow.policy.format_remote_topic(self._flow.name.source, topic)

    def _say_who_is_away(self, answers: dict[Position, Translation]) -> None:
        if not self.away:
            return
        because = "; ".join(self.away.values())
        for one, found in answers.items():
            if isinstance(found, Translated) and not found.exact and found.by is not Evidence.SYNCS:
                answers[one] = replace(found, why=f"{found.why}; it could not be counted: {because}")


def _run(floor: Translated) -> OffsetSpan:
    assert floor.within is not None
    return floor.within
