"""Verification of a flow's copies by tasks that run side by side, in Spark or wherever a runner has them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.policy import DefaultReplicationPolicy
from srm_common.domain.runs.copying import DEFAULT_RECORD_BYTES
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.tasks import (
    WHOLE,
    MapStretch,
    TaskResult,
    VerificationJob,
    VerificationPart,
    VerificationTask,
    joined_results,
    share_out,
    task_bytes,
)
from srm_common.domain.verification.verification import Against, PartitionVerified
from srm_common.errors import CorruptRecord, SrmError
from srm_common.usecases.verification.verify_copies import CopiesToShare, verify_copies
from srm_common.wire.state.segment_map import SegmentMap

#: Runs tasks, as many at a time as the flow has slots, and yields their results as they come.
VerificationRunner = Callable[[VerificationJob, Sequence[VerificationTask]], Iterator[TaskResult]]

_LISTING_SECONDS = 30.0
#: How many segments are looked at for one at which a partition may be cut.
_MOST_LOOKED_AT = 100
#: Stretches of one partition, for each slot.
_STRETCHES_PER_SLOT = 4


class SharedVerification:
    """Has the copies compared by ``runner``, unless they hold less than ``min_bytes`` in all.

    For :func:`srm_common.usecases.verification.verify_copies.verify_copies`. Results come as soon as their task is
    done; that of a partition that was cut, when all its stretches are.
    """

    def __init__(self, runner: VerificationRunner, min_bytes: int) -> None:
        self._runner = runner
        self._min_bytes = min_bytes

    def __call__(self, copies: CopiesToShare) -> bool:
        """Whether they are compared; else they are few, and the caller compares them."""
        flow = copies.clusters.flow
        sizes = _sizes(copies)
        if sum(sizes.values()) < self._min_bytes:
            return False
        parts = [VerificationPart(place, copy.topic, sizes[copy]) for copy, place in copies.places.items()]
        job = VerificationJob(_shipped(flow, copies.against), copies.scope, copies.against)
        if copies.against is Against.MAP and flow.tasks_max > 1:
            parts = list(_cut(copies, parts, flow.tasks_max))
        while parts:
            parts = self._compare(copies, job, share_out(parts, flow.tasks_max))
        return True

    def _compare(
        self, copies: CopiesToShare, job: VerificationJob, tasks: Sequence[VerificationTask]
    ) -> list[VerificationPart]:
        """Returns the partitions that have to be compared again, as a whole: the map has changed since they were cut,
        as when segments were joined."""
        wanted: dict[TopicPartition, list[VerificationPart]] = defaultdict(list)
        for task in tasks:
            for part in task.parts:
                wanted[part.place].append(part)
        found: dict[TopicPartition, dict[MapStretch, PartitionVerified | None]] = defaultdict(dict)
        again = []
        for done in self._runner(job, tasks):
            for fault in done.faults:
                copies.fault(fault)
            results = {result.place: result for result in done.results}
            for part in tasks[done.number].parts:
                of_place = found[part.place]
                of_place[part.stretch] = results.get(part.place)
                if len(of_place) < len(wanted[part.place]):
                    continue
                del found[part.place]
                result = _whole(of_place)
                if result is not None:
                    # By one clock, which says what is done when a verification is resumed.
                    copies.report(replace(result, checked_ms=copies.clusters.now_ms()))
                elif part.stretch == WHOLE:
                    copies.report(replace(part.failed(_GONE), checked_ms=copies.clusters.now_ms()))
                else:
                    size = sum(verification_part.bytes for verification_part in wanted[part.place])
                    again.append(replace(part, bytes=size, stretch=WHOLE))
        return again


_GONE = "it was deleted, or is no copy of the flow any more, since the verification began; verify again"


def verify_task(job: VerificationJob, task: VerificationTask) -> TaskResult:
    """One task, wherever it runs, with connections of its own. Whatever keeps it from being done is the fault of its
    partitions."""
    stretches = {part.place: part.stretch for part in task.parts}
    topics = {place.topic for place in stretches}
    results: dict[TopicPartition, PartitionVerified] = {}

    def take(result: PartitionVerified) -> None:
        if result.place in stretches:
            results[result.place] = result

    try:
        verification = verify_copies(
            job.flow,
            job.scope,
            against=job.against,
            chosen=topics.__contains__,
            skip=lambda place: place not in stretches,
            report=take,
            stretches=stretches,
        )
    except SrmError as error:
        for part in task.parts:
            results.setdefault(part.place, part.failed(str(error)))
        return TaskResult(task.number, tuple(results.values()))
    return TaskResult(task.number, tuple(results.values()), verification.faults)


def _whole(stretches: Mapping[MapStretch, PartitionVerified | None]) -> PartitionVerified | None:
    ordered = [stretches[stretch] for stretch in sorted(stretches, key=lambda one: one.begin or 0)]
    present = [verified for verified in ordered if verified is not None]
    return joined_results(present) if len(present) == len(ordered) else None


def _shipped(flow: FlowSettings, against: Against) -> FlowSettings:
    """Without classes of the user's own, which workers need not have, and without secrets that are not for them."""
    shipped = replace(
        flow,
        topic_filter_class=None,
        group_filter_class=None,
        config_property_filter_class=None,
        alarm_notifiers=(),
        graph=(),
    )
    if against is Against.SOURCE:
        return shipped
    # The source is not read, and its topics are not told apart by the policy.
    source = ClusterSettings.plaintext(flow.source.alias, flow.source.bootstrap_servers)
    return replace(shipped, source=source, policy=DefaultReplicationPolicy())


def _sizes(copies: CopiesToShare) -> dict[TopicPartition, int]:
    """Bytes that there are probably to read of each partition, by its name on the target; 0 where it does not answer,
    which its task will tell."""
    logs = _logs(copies)
    known: Mapping[str, float] = copies.clusters.state.read_all(StateKey.SIZES).get(StateKey.SIZES, {})
    sizes = {}
    for copy, place in copies.places.items():
        log = logs.get(copy, LogRange(0, 0))
        record_bytes = known.get(place.topic, DEFAULT_RECORD_BYTES)
        sizes[copy] = round(max(log.end - log.start, 0) * record_bytes * min(copies.scope.sample, 1))
    return sizes


def _logs(copies: CopiesToShare) -> dict[TopicPartition, LogRange]:
    """The logs of the copies, as far as they are to be compared."""
    with copies.clusters.target.link("verify") as link:
        starts, _ = link.start_offsets(copies.places, timeout_seconds=_LISTING_SECONDS)
        ends, _ = link.end_offsets(copies.places, timeout_seconds=_LISTING_SECONDS)
        since: Mapping[TopicPartition, int] = {}
        if copies.scope.since_ms is not None:
            since, _ = link.offsets_at(copies.places, copies.scope.since_ms, timeout_seconds=_LISTING_SECONDS)
    logs = {}
    for copy in starts.keys() & ends.keys():
        first = since.get(copy, 0)
        logs[copy] = LogRange(ends[copy] if first < 0 else max(starts[copy], first), ends[copy])
    return logs


def _cut(copies: CopiesToShare, parts: Sequence[VerificationPart], slots: int) -> Iterator[VerificationPart]:
    """The parts, those cut that are larger than a task should be."""
    wanted = task_bytes(sum(part.bytes for part in parts), slots)
    large = {part.place: part for part in parts if part.bytes >= 2 * wanted}
    yield from (part for part in parts if part.place not in large)
    if not large:
        return
    logs = _logs(copies)
    segments = copies.clusters.target.segment_log(names.segments_topic(copies.clusters.flow.name.source))
    for place, segment_map in segments.maps(frozenset(large)):
        part = large.pop(place)
        log = logs.get(TopicPartition(part.copy, place.partition))
        pieces = min(part.bytes // wanted, _STRETCHES_PER_SLOT * slots)
        yield from [part] if log is None else _pieces(part, segment_map, log, pieces)
    yield from large.values()


def _pieces(part: VerificationPart, found: SegmentMap, log: LogRange, pieces: int) -> Iterable[VerificationPart]:
    cuts = _cuts(found, log, pieces)
    bounds: list[int | None] = [None, *cuts, None]
    places = [log.start, *cuts, log.end]
    length = max(log.end - log.start, 1)
    for number in range(len(bounds) - 1):
        share = (places[number + 1] - places[number]) / length
        stretch = MapStretch(bounds[number], bounds[number + 1]) if cuts else WHOLE
        yield replace(part, bytes=round(part.bytes * share), stretch=stretch)


def _cuts(found: SegmentMap, log: LogRange, pieces: int) -> list[int]:
    """Downstream offsets at which a partition is cut into about equal pieces: starts of segments."""
    starts = found.downstream_starts
    cuts: list[int] = []
    number = 0
    for piece in range(1, pieces):
        wanted = log.start + (log.end - log.start) * piece // pieces
        number = max(number + 1, bisect_left(starts, wanted))
        tries = range(number, min(number + _MOST_LOOKED_AT, len(found)))
        at = next((one for one in tries if _divides(found, one)), None)
        if at is not None and starts[at] < log.end:
            cuts.append(starts[at])
            number = at
    return cuts


def _divides(found: SegmentMap, number: int) -> bool:
    """Whether batches end where the segment begins: with a fingerprint it is one that the flow has written, and not one
    of a take-over, which may begin inside a batch; and it took nothing of the one before."""
    try:
        return found[number].fingerprint is not None and (
            found[number - 1].downstream_end <= found.downstream_starts[number]
        )
    except CorruptRecord:
        return False
