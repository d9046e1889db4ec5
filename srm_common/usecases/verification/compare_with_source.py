"""Compare the copies of a flow with their source, a partition at a time: both sides are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import Segment, generation_of, is_another_generation
from srm_common.domain.schemas.id_mapping import IdMapping
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.statements import statement_for
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.named_keys import NamedKeys
from srm_common.domain.verification.newest_values import NewestValues, compare_newest
from srm_common.domain.verification.older_values import OlderValues, mapped_offsets
from srm_common.domain.verification.source_comparison import (
    ComparedBatch,
    LogRecord,
    Side,
    SourceComparison,
    Stretch,
    kept_by_both,
    shared_stretches,
    stretches,
)
from srm_common.domain.verification.unmapped_batches import CopyTraits
from srm_common.errors import ClusterError, CorruptBatch, UnreachableCluster
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.log.log_cursor import batches_between
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.batches.compared_batches import compared_batch, key_of, keyed_records
from srm_common.wire.state.segment_map import SegmentMap

_LISTING_SECONDS = 30.0
_FETCH_BYTES = 8 << 20
_PATIENCE_SECONDS = 60.0
#: How many keys of each side are held at a time, some 200 bytes each; if there are more, the keys are divided, and the
#: logs read once for each part.
_KEYS = 200_000


@dataclass(frozen=True)
class CopyToCompare:
    """One partition of a copy.

    ``log``: from its start to its last stable offset, as it was before the map was read. ``high``: its high watermark
    after that. ``rows``: neighbours in the map that are to be compared, by index, the last one exclusive. ``whole``:
    these are all of them. ``expires``: retention deletes records of the copy. ``same_times``: its brokers keep times of
    records.
    """

    upstream: TopicPartition
    copy: TopicPartition
    log: LogRange
    high: int
    found: SegmentMap
    rows: Sequence[tuple[int, int]]
    whole: bool
    traits: CopyTraits
    expires: bool
    same_times: bool


class SourceOfCopies:
    """The source's side of a verification.

    Args:
        source, target: links that the caller closes.
        topics: at the source, of the flow's records.
        show_keys: differences have keys of records, too, and not only their digests.
    """

    def __init__(
        self,
        clusters: FlowClusters,
        source: ClusterLink,
        target: ClusterLink,
        topics: Iterable[str],
        *,
        show_keys: bool = False,
    ) -> None:
        self._keys = NamedKeys(key_of, show_keys)
        self._flow = clusters.flow
        self._source, self._target = source, target
        self._leases: dict[ClusterLink, dict[int, Lease]] = {source: {}, target: {}}
        admin = clusters.source.admin
        there = sorted(set(topics) & admin.topics().partitions.keys())
        self._facts = admin.describe_topics(there)
        self._settings = admin.topic_settings(there)

    def compare(
        self, one: CopyToCompare, readable: Callable[[int, int], Iterable[Segment]], findings: Findings
    ) -> None:
        """One partition.

        Args:
            readable: the segments between two indexes of the map.
            findings: gets what is found.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: either side cannot be read, or the source is not the one
                that was copied.
        """
        topic = one.upstream.topic
        if is_transformed(self._flow, topic, one.copy.topic):
            findings.leave(NotProved.TRANSFORMED, max(one.log.end - one.log.start, 0))
            return
        if topic not in self._facts:
            raise ClusterError(
                f"topic {topic} does not exist on {self._source.alias} any more: compare its copy with the offset map "
                f"(--against map)"
            )
        generation = generation_of(self._facts[topic].topic_id)
        if is_another_generation(one.found.generation, generation):
            raise ClusterError(
                f"topic {topic} was created again on {self._source.alias} since it was copied: compare its copy with "
                f"the offset map (--against map)"
            )
        source = self._log(self._source, one.upstream, committed=self._flow.read_committed)
        policy = self._setting(topic, "cleanup.policy")
        try:
            if one.traits.compacted or "compact" in policy:
                self._compare_newest(one, source, readable, findings, expires=one.expires or "delete" in policy)
            else:
                self._compare_stretches(one, source, readable, findings)
        except CorruptBatch as error:
            at = max(one.log.start, findings.proved_to_downstream)
            findings.add(Difference(DifferenceKind.CORRUPT, at, one.log.end - 1, detail=str(error)))

    # ---- logs of records

    def _compare_stretches(
        self,
        one: CopyToCompare,
        source: LogRange,
        readable: Callable[[int, int], Iterable[Segment]],
        findings: Findings,
    ) -> None:
        for begin, end in one.rows:
            ends = not begin, one.traits.position if end == len(one.found) else None
            following = one.found.downstream_starts[end] if end < len(one.found) else None
            if one.traits.shared:
                found = shared_stretches(readable(begin, end), one.log, one.high, findings, following)
            else:
                found = stretches(readable(begin, end), source, one.log, one.high, ends, findings, following)
            for group in _in_a_row(kept_by_both(found, source, one.log, findings), apart=one.traits.shared):
                self._compare_group(one, source, group, findings)

    def _compare_group(
        self, one: CopyToCompare, source: LogRange, group: Sequence[Stretch], findings: Findings
    ) -> None:
        first, last = group[0], group[-1]
        if last.upstream_end > source.end:
            raise ClusterError(
                f"the log of {one.upstream.topic}-{one.upstream.partition} on {self._source.alias} ends at "
                f"{source.end}, before offset {last.upstream_end}, up to which it was copied"
            )
        here = Side(self._of_source(one.upstream, first.upstream, last.upstream_end))
        there = Side(self._of_copy(one.copy, first.downstream, min(last.downstream_end, one.log.end)))

        def starts() -> tuple[int, int]:
            return (
                self._start(self._source, one.upstream),
                self._start(self._target, one.copy),
            )

        comparison = SourceComparison(
            here, there, starts, one.high, self._keys, same_times=one.same_times, findings=findings
        )
        for stretch in group:
            comparison.compare(stretch)
        findings.bytes += here.bytes + there.bytes

    # ---- compacted ones

    def _compare_newest(
        self,
        one: CopyToCompare,
        source: LogRange,
        readable: Callable[[int, int], Iterable[Segment]],
        findings: Findings,
        *,
        expires: bool,
    ) -> None:
        known = next(
            (at for at in reversed(range(len(one.found))) if one.found[at].downstream_end <= one.log.end), None
        )
        if not one.whole or known is None or one.traits.shared:
            # Of a key that several flows write, the newest value is that of any.
            reason = NotProved.MIXED if one.traits.shared else NotProved.COMPACTED
            findings.leave(reason, max(one.log.end - one.log.start, 0))
            return
        copied = min(one.found[known].upstream_end, source.end)
        mapped = mapped_offsets(readable(0, len(one.found)), one.log, one.traits)
        here = self._of_source(one.upstream, source.start, copied)
        older = OlderValues(here, mapped, same_times=one.same_times, findings=findings, keys=self._keys)
        older.take(self._of_copy(one.copy, one.log.start, one.log.end))
        classes = 1
        number = 0
        checked = Findings()
        while number < classes:
            sides = [NewestValues(number, classes, show=self._keys.show) for _ in range(3)]
            newest, there, later = sides
            first = (
                (newest, self._of_source(one.upstream, source.start, copied)),
                (there, self._of_copy(one.copy, one.log.start, one.log.end)),
            )
            whole = all(self._take(into, batches, one.same_times, checked) for into, batches in first)
            # Of a key that was written again meanwhile, a cleaner may have taken the older value from under either
            # reading: the end is listed when both are over.
            rest = self._of_source(one.upstream, copied, self._source_end(one.upstream)) if whole else iter(())
            if not (whole and self._take(later, rest, one.same_times, checked)):
                classes, number, checked = 4 * classes, 0, Findings()
                continue
            compare_newest(newest, there, later, checked, self._keys, expires=expires)
            number += 1
        findings.segments += len(one.found)
        findings.bytes += checked.bytes
        findings.proved += checked.proved
        for reason, count in checked.not_proved.items():
            findings.leave(reason, count)
        told = [one for one in checked.differences if one.downstream_first in older.different]
        for difference in checked.differences:
            if difference not in told:
                findings.add(difference)
        for kind, count in checked.counts.items():
            # Those that are not kept are counted all the same.
            more = count - sum(one.kind is kind for one in checked.differences)
            if more:
                findings.counts[kind] = findings.counts.get(kind, 0) + more
        findings.proved_from = one.found[0].upstream_start
        if not findings.different:
            findings.proved_to, findings.proved_to_downstream = copied, one.log.end

    def _take(self, into: NewestValues, batches: Iterator[ComparedBatch], same_times: bool, findings: Findings) -> bool:
        """Whether they are not too many keys."""
        for batch in batches:
            findings.bytes += batch.size
            into.take(keyed_records(batch.records(), same_times=same_times))
            if len(into) > _KEYS:
                return False
        return True

    # ---- the logs

    def _of_source(self, place: TopicPartition, start: int, end: int) -> Iterator[ComparedBatch]:
        try:
            for batch in self._batches(self._source, place, start, end, self._flow.read_committed):
                found = compared_batch(batch)
                yield found._replace(records=_of_source(found.records, place, self._source.alias))
        except CorruptBatch as error:
            raise _damaged(place, self._source.alias, error) from error

    def _of_copy(self, place: TopicPartition, start: int, end: int) -> Iterator[ComparedBatch]:
        return map(compared_batch, self._batches(self._target, place, start, end, committed=True))

    def _batches(
        self, link: ClusterLink, place: TopicPartition, start: int, end: int, committed: bool
    ) -> Iterator[SourceBatch]:
        return batches_between(
            link,
            place,
            start,
            end,
            committed=committed,
            patience_seconds=_PATIENCE_SECONDS,
            fetch_bytes=_FETCH_BYTES,
            leases=self._leases[link],
        )

    def _log(self, link: ClusterLink, place: TopicPartition, *, committed: bool) -> LogRange:
        end = self._end(link, place, committed=committed)
        return LogRange(self._start(link, place), end)

    def _source_end(self, place: TopicPartition) -> int:
        return self._end(self._source, place, committed=self._flow.read_committed)

    def _end(self, link: ClusterLink, place: TopicPartition, *, committed: bool) -> int:
        ends, faults = link.end_offsets([place], committed=committed, timeout_seconds=_LISTING_SECONDS)
        if place not in ends:
            raise UnreachableCluster(faults[place])
        return ends[place]

    def _start(self, link: ClusterLink, place: TopicPartition) -> int:
        found, faults = link.start_offsets([place], timeout_seconds=_LISTING_SECONDS)
        if place not in found:
            raise UnreachableCluster(faults[place])
        return found[place]

    def _setting(self, topic: str, name: str) -> str:
        setting = self._settings.get(topic, {}).get(name)
        return "" if setting is None else setting.value or ""


def _of_source(
    records: Callable[[], list[LogRecord]], place: TopicPartition, alias: str
) -> Callable[[], list[LogRecord]]:
    def opened() -> list[LogRecord]:
        try:
            return records()
        except CorruptBatch as error:
            raise _damaged(place, alias, error) from error

    return opened


def _damaged(place: TopicPartition, alias: str, error: CorruptBatch) -> ClusterError:
    """A fault of the source says nothing of the copy."""
    return ClusterError(f"{place.topic}-{place.partition} on {alias} cannot be read: {error}")


def _in_a_row(found: Iterable[Stretch], *, apart: bool) -> Iterator[list[Stretch]]:
    """Stretches that follow one another, so that both logs are read on; ``apart``: what others wrote may lie between
    them."""
    group: list[Stretch] = []
    for stretch in found:
        if group and not (
            stretch.upstream == group[-1].upstream_end
            and (
                stretch.downstream == group[-1].downstream_end
                or (apart and stretch.downstream > group[-1].downstream_end)
            )
        ):
            yield group
            group = []
        group.append(stretch)
    if group:
        yield group


def is_transformed(flow: FlowSettings, topic: str, copy: str) -> bool:
    """Whether records of a topic come out other than they went in. Heartbeats never do."""
    if names.has_heartbeats(flow, topic):
        return False
    if flow.transforms_python or flow.provenance or statement_for(topic, flow.statements) is not None:
        return True
    mapping = IdMapping.of(flow)
    if mapping is not None and mapping.sides(topic):
        return True
    return any(step.concerns(copy) for step in flow.transforms)
