"""Compare a flow's copies with the fingerprints in its offset map, by reading the target alone, or with the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from srm_common import __version__
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import Segment
from srm_common.domain.topic_id import NO_TOPIC_ID
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.copy_comparison import CopyComparison
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.tasks import WHOLE, MapStretch
from srm_common.domain.verification.unmapped_batches import CopyTraits
from srm_common.domain.verification.verification import (
    Against,
    Evidence,
    PartitionVerified,
    Verification,
    VerificationScope,
)
from srm_common.errors import CorruptBatch, CorruptRecord, SrmError, UnreachableCluster
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.mapped_log import read_mapped
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.offsets.foreign_records import MOST_INTERRUPTIONS, is_written_again
from srm_common.usecases.verification.committed_offsets import CommittedOffsets
from srm_common.usecases.verification.compare_with_source import CopyToCompare, SourceOfCopies
from srm_common.usecases.verification.existing_copies import ExistingCopy, existing_copies, recorded_copies
from srm_common.wire.batches.batch import SourceBatch
from srm_common.wire.batches.batch_terms import copy_batch
from srm_common.wire.reencoding.batch_rows import BatchRows
from srm_common.wire.state.segment_map import SegmentMap

_LISTING_SECONDS = 30.0
_SETTLING_SECONDS = 10.0
#: What one answer may hold. Larger ones leave the caches of the processor before they are looked at.
_FETCH_BYTES = 8 << 20
#: How long a leader may bring nothing.
_PATIENCE_SECONDS = 60.0

Report = Callable[[PartitionVerified], None]

#: Of this process: workers of Spark compare one task after the other.
_ROWS = BatchRows()


@dataclass(frozen=True)
class CopiesToShare:
    """What is to be compared, for whoever has it done by others. ``places``: partitions of copies, with those at the
    source. ``report`` takes results, ``fault`` sentences about what could not be read of the map."""

    clusters: FlowClusters
    scope: VerificationScope
    against: Against
    places: Mapping[TopicPartition, TopicPartition]
    report: Report
    fault: Callable[[str], None]


#: Whether it had all of them compared; if not, this process does so.
Share = Callable[[CopiesToShare], bool]


def verify_copies(
    flow: FlowSettings | FlowClusters,
    scope: VerificationScope | None = None,
    *,
    against: Against = Against.MAP,
    chosen: Callable[[str], bool] = lambda topic: True,
    skip: Callable[[TopicPartition], bool] = lambda place: False,
    report: Report = lambda one: None,
    stretches: Mapping[TopicPartition, MapStretch] | None = None,
    share: Share = lambda copies: False,
    show_keys: bool = False,
) -> Verification:
    """Compare what lies in the copies with what the flow committed, or with the source. Changes nothing; the flow may
    be running. Against the map the source may be gone.

    Memory does not depend on the data: a piece of the map and one answer of each leader are held at a time.

    Args:
        scope: all of it by default.
        against: what the copies are compared with.
        chosen: whether a topic, by its name at the source, is to be compared.
        skip: whether a partition, likewise, was compared already.
        report: called with each result as soon as it is there.
        stretches: of these partitions, by their names at the source, only so much. One whose bounds are gone from the
            map has no result.
        share: is asked first to have it all compared elsewhere.
        show_keys: where this process compares with the source, differences have the keys of records, too, and not only
            their digests. No document has them.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers. A partition that cannot be
            read is a result.
    """
    with clusters_of(flow) as clusters:
        return _Verifying(
            clusters, scope or VerificationScope(), against, chosen, skip, report, stretches or {}, share, show_keys
        ).go()


class _Verifying:
    def __init__(
        self,
        clusters: FlowClusters,
        scope: VerificationScope,
        against: Against,
        chosen: Callable[[str], bool],
        skip: Callable[[TopicPartition], bool],
        report: Report,
        stretches: Mapping[TopicPartition, MapStretch],
        share: Share,
        show_keys: bool,
    ) -> None:
        self._clusters = clusters
        self._scope = scope
        self._against = against
        #: The other side, where copies are compared with it.
        self._source: SourceOfCopies | None = None
        self._chosen = chosen
        self._skip = skip
        self._report = report
        self._stretches = stretches
        self._share = share
        self._show_keys = show_keys
        self._results: list[PartitionVerified] = []
        self._faults: list[str] = []
        self._committed = CommittedOffsets(clusters)

    def go(self) -> Verification:
        clusters, flow = self._clusters, self._clusters.flow
        started_ms = clusters.now_ms()
        known = clusters.target.registry.read()
        records = {topic: one for topic, one in recorded_copies(clusters, known).items() if self._chosen(topic)}
        existing = existing_copies(clusters, known, records)
        for topic, (name, kind) in existing.gone.items():
            self._gone(topic, name, kind)
        copies = existing.copies
        places = {
            TopicPartition(copy.name, number): TopicPartition(copy.upstream, number)
            for copy in copies.values()
            for number in range(copy.partitions)
        }
        places = {place: upstream for place, upstream in places.items() if not self._skip(upstream)}
        shared = CopiesToShare(clusters, self._scope, self._against, places, self._done, self._faults.append)
        if places and not self._share(shared):
            with clusters.target.link("verify") as link, ExitStack() as opened:
                if self._against is Against.SOURCE:
                    source = opened.enter_context(clusters.source.link("verify"))
                    self._source = SourceOfCopies(clusters, source, link, copies, show_keys=self._show_keys)
                self._compare_all(link, copies, places)
        evidence = Evidence(
            __version__,
            flow.digest,
            next((topic_record.upstream_cluster_id for topic_record in records.values()), ""),
            clusters.target.admin.cluster_id(),
            existing.topic_ids,
            {topic: one.upstream_topic_id for topic, one in records.items() if one.upstream_topic_id != NO_TOPIC_ID},
        )
        self._results.sort(key=lambda one: (one.topic, one.partition))
        return Verification(
            str(flow.name),
            self._against,
            self._scope,
            evidence,
            started_ms,
            clusters.now_ms(),
            tuple(self._results),
            tuple(self._faults),
        )

    def _gone(self, topic: str, name: str, kind: DifferenceKind) -> None:
        findings = Findings()
        findings.add(Difference(kind, -1, -1))
        self._done(PartitionVerified(topic, 0, name, findings, checked_ms=self._clusters.now_ms()))

    def _compare_all(
        self, link: ClusterLink, copies: Mapping[str, ExistingCopy], places: Mapping[TopicPartition, TopicPartition]
    ) -> None:
        # The logs first: what is committed between the two looks is in the map then, or MirrorMaker 2 has stored it.
        starts, faults = link.start_offsets(places, timeout_seconds=_LISTING_SECONDS)
        ends, more = link.end_offsets(places, timeout_seconds=_LISTING_SECONDS)
        since: Mapping[TopicPartition, int] = {}
        if self._scope.since_ms is not None:
            since, yet = link.offsets_at(places, self._scope.since_ms, timeout_seconds=_LISTING_SECONDS)
            more |= yet
        self._committed.read()
        unseen = {upstream: place for place, upstream in places.items()}
        for place, fault in (faults | more).items():
            self._without_log(copies, unseen.pop(places[place]), places[place], fault)
        segments = names.segments_topic(self._clusters.flow.name.source)
        for upstream, segment_map in self._clusters.target.segment_log(segments).maps(frozenset(places.values())):
            copy = unseen.pop(upstream, None)
            if copy is None:
                continue
            log = LogRange(starts[copy], ends[copy])
            # -1: nothing since then.
            first = 0 if copy not in since else log.end if since[copy] < 0 else since[copy]
            self._compare(link, copies[upstream.topic], upstream, copy, segment_map, log, first)
        for upstream, copy in unseen.items():
            if self._stretches.get(upstream, WHOLE) != WHOLE:
                continue
            log = LogRange(starts[copy], ends[copy])
            self._done(self._result(upstream, copy, log, self._unmapped(upstream, log), None))

    def _without_log(
        self, copies: Mapping[str, ExistingCopy], copy: TopicPartition, upstream: TopicPartition, fault: str
    ) -> None:
        self._done(self._result(upstream, copy, LogRange(-1, -1), Findings(), fault))

    def _compare(
        self,
        link: ClusterLink,
        copy: ExistingCopy,
        upstream: TopicPartition,
        place: TopicPartition,
        found: SegmentMap,
        log: LogRange,
        first: int,
    ) -> None:
        """One partition, from the downstream offset ``first`` on."""
        bounds = self._stretches.get(upstream, WHOLE).indexes(found.downstream_starts)
        if bounds is None:
            return
        findings = Findings()
        fault = None
        try:
            copied_to = self._committed.copied_to(upstream, found)
            traits = replace(copy.traits, position=self._committed.position(upstream), copied_to=copied_to)
            highs, unlisted = link.end_offsets([place], committed=False, timeout_seconds=_LISTING_SECONDS)
            if place not in highs:
                raise UnreachableCluster(unlisted[place])
            rows = self._rows(upstream, found, first, *bounds)
            if self._source is not None:
                one = CopyToCompare(
                    upstream,
                    place,
                    log,
                    highs[place],
                    found,
                    list(rows),
                    self._scope.whole,
                    traits,
                    expires=copy.expires,
                    same_times=copy.same_times,
                )
                self._source.compare(one, partial(self._readable, found), findings)
                rows = iter(())
            for begin, end in rows:
                # Behind the last segment before another stretch, all is compared up to that one.
                seam = end == bounds[1] < len(found)
                self._compare_stretch(link, place, found, (begin, end), seam, log, highs[place], traits, findings)
            if not traits.exactly_once:
                self._excuse_written_again(place, findings)
        except SrmError as error:
            fault = str(error)
        self._done(self._result(upstream, place, log, findings, fault))

    def _excuse_written_again(self, place: TopicPartition, findings: Findings) -> None:
        """What a flow that was interrupted between a chunk and its commit has written twice is its own."""
        if findings.counts.get(DifferenceKind.FOREIGN, 0) > MOST_INTERRUPTIONS:
            return
        reader = self._clusters.target.reader
        for difference in [one for one in findings.differences if one.kind is DifferenceKind.FOREIGN]:
            offsets = LogRange(difference.downstream_first, difference.downstream_last + 1)
            if is_written_again(reader, place, offsets):
                findings.excuse(difference, NotProved.COPIED_AGAIN, offsets.end - offsets.start)

    def _unmapped(self, upstream: TopicPartition, log: LogRange) -> Findings:
        """Of a partition that the map does not tell of."""
        findings = Findings()
        known = self._committed.copied_to(upstream, None)
        if known is not None and log.start < known.downstream_end <= log.end:
            findings.add(Difference(DifferenceKind.UNMAPPED, log.start, known.downstream_end - 1))
        return findings

    def _rows(
        self, upstream: TopicPartition, found: SegmentMap, first: int, start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        """Rows of neighbours that are to be compared: indexes of segments, the last one exclusive."""
        begin = None
        for number in range(start, stop):
            late_enough = not first or _end(found, number) > first
            if late_enough and self._scope.chooses(upstream, found.starts[number]):
                begin = number if begin is None else begin
            elif begin is not None:
                yield begin, number
                begin = None
        if begin is not None:
            yield begin, stop

    def _compare_stretch(
        self,
        link: ClusterLink,
        place: TopicPartition,
        found: SegmentMap,
        stretch: tuple[int, int],
        seam: bool,
        log: LogRange,
        high: int,
        traits: CopyTraits,
        findings: Findings,
    ) -> None:
        begin, end = stretch
        behind = found.downstream_starts[end] if end < len(found) else None
        if seam:
            # As if the next segment were open, which it is elsewhere.
            log = LogRange(log.start, min(log.end, found.downstream_starts[end]))
            following = next(iter(self._readable(found, end, end + 1)), None)
            copied_to = None if following is None else following.after
            traits = replace(traits, exactly_once=True, position=found.starts[end], copied_to=copied_to)
        elif end < len(found):
            # What is behind its last segment is no part of it.
            log = LogRange(log.start, min(log.end, found[end - 1].downstream_end, found.downstream_starts[end]))
            traits = replace(traits, position=None, copied_to=None)
        start = max(log.start, found.downstream_starts[begin] if begin else 0)
        comparison = CopyComparison(self._readable(found, begin, end), log, high, traits, findings, behind)

        async def read() -> None:
            await read_mapped(
                link,
                place,
                start,
                log.end,
                _Shown(comparison),
                patience_seconds=_PATIENCE_SECONDS,
                fetch_bytes=_FETCH_BYTES,
            )

        try:
            if start < log.end:
                link.run(read)
        except CorruptBatch as error:
            at = start if findings.proved_to_downstream < 0 else findings.proved_to_downstream
            findings.add(Difference(DifferenceKind.CORRUPT, at, log.end - 1, detail=str(error)))
            return
        comparison.finish()

    def _readable(self, found: SegmentMap, begin: int, end: int) -> Iterable[Segment]:
        for number in range(begin, end):
            try:
                yield found[number]
            except CorruptRecord as error:
                self._faults.append(str(error))

    def _result(
        self, upstream: TopicPartition, copy: TopicPartition, log: LogRange, findings: Findings, fault: str | None
    ) -> PartitionVerified:
        return PartitionVerified(
            *upstream, copy.topic, findings, log.start, log.end, self._clusters.now_ms(), self._scope.whole, fault
        )

    def _done(self, result: PartitionVerified) -> None:
        result = replace(result, against=self._against, sample=self._scope.sample)
        self._results.append(result)
        self._report(result)


class _Shown:
    """What a comparison is shown of a log."""

    def __init__(self, comparison: CopyComparison) -> None:
        self._comparison = comparison
        self.is_mapped = comparison.is_mapped
        self.aborted = comparison.aborted

    def take(self, batch: SourceBatch) -> None:
        self._comparison.take(copy_batch(batch))

    def take_row(self, records: memoryview, position: int, first: int) -> tuple[int, int]:
        end = self._comparison.row_end(first)
        if not end:
            return 0, first
        row = _ROWS.next_row(records, position, end)
        if row.size:
            self._comparison.take_row(row)
        return row.size, row.next_offset


def _end(found: SegmentMap, number: int) -> int:
    """Where a segment's part of the copy ends. With its marker, whose time is that of the commit."""
    if number + 1 < len(found):
        return found.downstream_starts[number + 1]
    return found[number].downstream_end + 1
