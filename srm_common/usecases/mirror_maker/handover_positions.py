"""Compare the ends of a flow's copies with the source, to find where each partition continues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from srm_common.domain.moving.handover import ENOUGH, CopyEnd, HandoverPosition, SeenRecord, Verdict, judge_position
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.replication.driver.source_view import LISTING_SECONDS, SourceView
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.source_offsets import logs_of

#: Records of each copy's end that are compared, by default.
COMPARED = 100
#: Partitions of a topic that are read at the same time: their records are in memory together.
_AT_ONCE = 10
#: Where markers and aborted records leave too few visible records, windows grow by this factor, so often at most.
_WIDER, _WIDENINGS = 8, 4
#: How far behind the stored offset the copy's end is looked for, and how many offsets are read at a time.
_SEARCHED, _STRETCH = 200_000, 2_000
_NOTHING = LogRange(0, 0)


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last records before an offset, and the timestamp of the very last."""

    records: tuple[SeenRecord, ...] = ()
    last_ms: int = -1


def handover_positions(
    clusters: FlowClusters,
    topics: Iterable[CopiedTopic],
    stored: Mapping[TopicPartition, int],
    *,
    compared: int = COMPARED,
) -> list[HandoverPosition]:
    """Where each partition of ``topics`` continues, in their order. Reads both clusters, and changes nothing.

    Args:
        topics: with ``partitions`` those of the source; the copy may be missing.
        stored: the next offsets to copy by what is stored.
        compared: so many records of each copy's end are compared; they are in memory for ten partitions at a time.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    flow = clusters.flow
    wanted = sorted(topics, key=lambda one: one.upstream)
    places = [TopicPartition(topic.upstream, number) for topic in wanted for number in range(topic.partitions)]
    source_logs = logs_of(clusters, places)
    copy_logs = _copy_logs(clusters, wanted)
    settings = clusters.source.admin.topic_settings(topic.upstream for topic in wanted)
    positions = []
    with (
        # As the flow reads the source, which may be otherwise than state is read.
        clusters.source.log_reader(committed=flow.read_committed) as source,
        clusters.source_view() as view,
    ):
        ends = _Ends(source, clusters.target.reader, view, compared)
        for topic in wanted:
            policy = settings.get(topic.upstream, {}).get("cleanup.policy")
            compacted = policy is not None and "compact" in (policy.value or "")
            for numbers in _batches(range(topic.partitions)):
                ends.read(topic, numbers, stored, source_logs, copy_logs)
                positions += [ends.judged(topic, number, compacted) for number in numbers]
    return positions


class _Ends:
    """Records at the ends of some partitions' logs."""

    def __init__(self, source: StateReader, target: StateReader, view: SourceView, compared: int) -> None:
        self._source, self._target, self._view, self._compared = source, target, view, compared
        self._stored: Mapping[TopicPartition, int] = {}
        self._source_logs: Mapping[TopicPartition, LogRange | str] = {}
        self._copies: dict[TopicPartition, tuple[LogRange, _Tail] | str] = {}
        self._near: dict[TopicPartition, tuple[tuple[SeenRecord, ...], LogRange]] = {}

    def read(
        self,
        topic: CopiedTopic,
        numbers: Iterable[int],
        stored: Mapping[TopicPartition, int],
        source_logs: Mapping[TopicPartition, LogRange | str],
        copy_logs: Mapping[TopicPartition, LogRange | str],
    ) -> None:
        """Read the copies' last records, and the source's around the stored offsets."""
        self._stored, self._source_logs, self._copies, self._near = stored, source_logs, {}, {}
        logs: dict[int, LogRange] = {}
        for number in numbers:
            log = copy_logs[TopicPartition(topic.upstream, number)]
            if isinstance(log, str):
                self._copies[TopicPartition(topic.upstream, number)] = log
            else:
                logs[number] = log
        tails = self._tails(self._target, topic.downstream, logs)
        for number, log in logs.items():
            self._copies[TopicPartition(topic.upstream, number)] = log, tails.get(number, _Tail())
        before: dict[int, LogRange] = {}
        for number in logs:
            place = TopicPartition(topic.upstream, number)
            source = source_logs[place]
            if tails.get(number) and place in stored and isinstance(source, LogRange) and stored[place] <= source.end:
                before[number] = LogRange(source.start, max(source.start, stored[place]))
        around = self._tails(self._source, topic.upstream, before)
        behind = {
            number: LogRange(
                one.end, min(one.end + self._compared, _end(source_logs[TopicPartition(topic.upstream, number)]))
            )
            for number, one in before.items()
        }
        for number, records in self._records(self._source, topic.upstream, behind).items():
            earlier = around.get(number, _Tail()).records
            start = earlier[0].offset if earlier else before[number].start
            read = LogRange(start, behind[number].end)
            self._near[TopicPartition(topic.upstream, number)] = (*earlier, *map(_seen, records)), read

    def judged(self, topic: CopiedTopic, number: int, compacted: bool) -> HandoverPosition:
        """One of the partitions that were read. Reads further if the end is not near the stored offset."""
        place = TopicPartition(topic.upstream, number)
        stored, source, copy = self._stored.get(place), self._source_logs[place], self._copies[place]
        end = copy if isinstance(copy, str) else CopyEnd(copy[0], copy[1].records)
        near, read = self._near.get(place, ((), _NOTHING))
        position = judge_position(place, stored, source, end, near, read, compacted=compacted)
        if position.verdict is Verdict.UNPROVED and isinstance(source, LogRange) and not isinstance(copy, str):
            for records, window in self._further(place, source, copy[1]):
                far = judge_position(place, stored, source, end, records, window)
                if far.verdict in (Verdict.AHEAD, Verdict.BEHIND):
                    return far
        return position

    def _further(
        self, place: TopicPartition, source: LogRange, tail: _Tail
    ) -> Iterator[tuple[tuple[SeenRecord, ...], LogRange]]:
        """Stretches of the source in which the copy's end may lie: by its time first, then one after another."""
        if not tail.records:
            return
        yield self._stretch(place, self._by_time(place, source, tail))
        start = max(source.start, self._stored.get(place, 0))
        before: tuple[SeenRecord, ...] = ()
        for at in range(start, min(source.end, start + _SEARCHED), _STRETCH):
            records, window = self._stretch(place, LogRange(at, min(at + _STRETCH, source.end)))
            # The end of the stretch before, so that equal records in a row are seen as such.
            begin = before[0].offset if before else window.start
            yield (*before, *records), LogRange(begin, window.end)
            before = (*before, *records)[-self._compared :]

    def _stretch(self, place: TopicPartition, window: LogRange) -> tuple[tuple[SeenRecord, ...], LogRange]:
        records = self._records(self._source, place[0], {place[1]: window} if window.start < window.end else {})
        return tuple(map(_seen, records.get(place[1], ()))), window

    def _by_time(self, place: TopicPartition, source: LogRange, tail: _Tail) -> LogRange:
        """Where the source has the records of the copy's end, by their time."""
        starts, _ = self._view.at([place], tail.last_ms)
        ends, _ = self._view.at([place], tail.last_ms + 1)
        start, end = starts.get(place, -1), ends.get(place, -1)
        if start < 0:
            return _NOTHING
        # Times need not grow with offsets, so a little more on both sides.
        end = start if end < start else min(end, start + _WIDER * self._compared)
        return LogRange(max(source.start, start - self._compared), min(source.end, end + self._compared))

    def _tails(self, reader: StateReader, topic: str, logs: Mapping[int, LogRange]) -> dict[int, _Tail]:
        """The last records of each log, as many as are compared."""
        tails: dict[int, _Tail] = {}
        left = {number: log for number, log in logs.items() if log.start < log.end}
        span = self._compared
        for _ in range(_WIDENINGS):
            windows = {number: LogRange(max(log.start, log.end - span), log.end) for number, log in left.items()}
            for number, records in self._records(reader, topic, windows).items():
                last = records[-self._compared :]
                if last:
                    tails[number] = _Tail(tuple(map(_seen, last)), last[-1].timestamp_ms)
                if len(last) >= min(ENOUGH, self._compared) or windows[number].start == left[number].start:
                    del left[number]
            if not left:
                break
            span *= _WIDER
        return tails

    def _records(self, reader: StateReader, topic: str, windows: Mapping[int, LogRange]) -> dict[int, list[LogRecord]]:
        out: dict[int, list[LogRecord]] = {number: [] for number in windows}
        starts = {number: window.start for number, window in windows.items()}
        ends = {number: window.end for number, window in windows.items()}
        for record in reader.read(topic, starts, ends) if windows else ():
            out[record.partition].append(record)
        return out


def _copy_logs(clusters: FlowClusters, topics: Iterable[CopiedTopic]) -> dict[TopicPartition, LogRange | str]:
    """The copies' logs by upstream partition; a sentence where there is none, or it cannot be looked at."""
    there = clusters.target.admin.topics().partitions
    ranges: dict[TopicPartition, LogRange | str] = {}
    wanted: dict[TopicPartition, TopicPartition] = {}
    for topic in topics:
        for number in range(topic.partitions):
            if number < there.get(topic.downstream, 0):
                wanted[TopicPartition(topic.upstream, number)] = TopicPartition(topic.downstream, number)
            else:
                ranges[TopicPartition(topic.upstream, number)] = (
                    f"{topic.downstream}-{number} does not exist on the target"
                )
    if not wanted:
        return ranges
    with clusters.target.link("control") as link:
        copies = list(wanted.values())
        starts, faults = link.start_offsets(copies, timeout_seconds=LISTING_SECONDS)
        ends, more = link.end_offsets(copies, timeout_seconds=LISTING_SECONDS)
    faults = {**faults, **more}
    for place, copy in wanted.items():
        if copy in starts and copy in ends:
            ranges[place] = LogRange(starts[copy], ends[copy])
        else:
            ranges[place] = faults.get(copy, "the target does not return it")
    return ranges


def _seen(record: LogRecord) -> SeenRecord:
    digest = hashlib.blake2b(digest_size=16)
    for part in (record.key, record.value):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    digest.update(b"%d" % record.timestamp_ms)
    return SeenRecord(record.offset, digest.digest())


def _end(log: LogRange | str) -> int:
    return log.end if isinstance(log, LogRange) else 0


def _batches(numbers: range) -> Iterator[range]:
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]
