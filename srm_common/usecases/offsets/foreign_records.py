"""Find records in a flow's copies that the flow did not write, by comparing the offset map with the logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.foreign_records import (
    ForeignRecords,
    Gap,
    come_again,
    mixed_runs,
    suspicious_gaps,
)
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of

#: Of each copy: how many of the newest gaps are read, and how many offsets of each.
_GAPS, _OFFSETS = 100, 10_000
#: A flow that copies at least once is rarely interrupted. What comes again in more gaps of a copy is the work of a
#: second copier, such as a MirrorMaker 2 that was not stopped.
MOST_INTERRUPTIONS = 3
_LISTING_SECONDS = 10.0


@dataclass(frozen=True)
class CopiesChecked:
    """``copies`` have a map and were checked. ``unmapped`` copies have none. ``left`` gaps were not read, since there
    are too many. ``faults``: copies that cannot be read, or whose map cannot."""

    flow: str
    copies: int
    unmapped: int
    found: tuple[ForeignRecords, ...]
    left: int = 0
    faults: tuple[str, ...] = ()

    def summary(self) -> str | None:
        """One sentence where there are such records, None otherwise."""
        if not self.found:
            return None
        affected = len({(records.topic, records.partition) for records in self.found})
        return (
            f"{affected} of {self.copies} partitions contain records that the flow did not write, the first: "
            f"{self.found[0]}; srm-control check-copies --flow '{self.flow}' lists them"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "copies": self.copies,
            "unmapped": self.unmapped,
            "found": [records.to_json() for records in self.found],
            "gaps_left": self.left,
            "faults": list(self.faults),
        }


def check_copies(flow: FlowSettings | FlowClusters) -> CopiesChecked:
    """Read the records between the spans of each copy's map, and after its end. Changes nothing; the flow may be
    running.

    Raises:
        ConfigError: an alias means another cluster than before, or a policy renames what is copied.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    with clusters_of(flow) as clusters:
        return _checked(clusters)


def _checked(clusters: FlowClusters) -> CopiesChecked:
    flow, reader = clusters.flow, clusters.target.reader
    places = {
        TopicPartition(topic.downstream, number): TopicPartition(topic.upstream, number)
        for topic in replicated_topics(clusters)
        for number in range(topic.partitions)
    }
    records: list[ForeignRecords] = []
    copies = unread = left = 0
    # The logs first: what is committed between the two looks is in the map then.
    logs, faults = _logs(clusters, places)
    copied = {upstream: place for place, upstream in places.items() if place in logs}
    for upstream, mapped in clusters.target.segment_log(names.segments_topic(flow.name.source)).maps():
        place = copied.get(upstream)
        if place is None:
            continue
        log = logs[place]
        try:
            mixed = list(mixed_runs(mapped, log))
            gaps = list(suspicious_gaps(mapped, log, exactly_once=flow.exactly_once))
        except CorruptRecord as error:
            # Whose the records are that such a segment maps is not known.
            faults[place] = f"{place.topic}-{place.partition} was not checked: {error}"
            unread += 1
            continue
        copies += 1
        records += [ForeignRecords(*place, run.start, run.end - 1, None) for run in mixed]
        left += max(0, len(gaps) - _GAPS)
        records += _read(reader, place, gaps[-_GAPS:], exactly_once=flow.exactly_once)
    records.sort(key=lambda one: (one.topic, one.partition))
    unmapped = len(logs) - copies - unread
    return CopiesChecked(str(flow.name), copies, unmapped, tuple(records), left, tuple(faults.values()))


def is_written_again(reader: StateReader, place: TopicPartition, offsets: LogRange) -> bool:
    """Whether the records of a gap in the map come again behind it, as those of a flow that copies at least once do.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: the log cannot be read.
    """
    return _is_written_again(reader, place, offsets, _records(reader, place, offsets))


def _is_written_again(
    reader: StateReader, place: TopicPartition, offsets: LogRange, records: Sequence[LogRecord]
) -> bool:
    following = _records(reader, place, LogRange(offsets.end, 2 * offsets.end - offsets.start))
    return bool(records) and come_again(map(_content, records), map(_content, following))


def _records(reader: StateReader, place: TopicPartition, offsets: LogRange) -> list[LogRecord]:
    until = min(offsets.end, offsets.start + _OFFSETS)
    return reader.read(place.topic, {place.partition: offsets.start}, {place.partition: until})


def _content(record: LogRecord) -> tuple[bytes | None, bytes | None, int]:
    return record.key, record.value, record.timestamp_ms


def _read(
    reader: StateReader, place: TopicPartition, gaps: Iterable[Gap], *, exactly_once: bool
) -> list[ForeignRecords]:
    out: list[ForeignRecords] = []
    again: list[ForeignRecords] = []
    for gap in gaps:
        records = _records(reader, place, gap.offsets)
        if not records:
            continue
        times = [record.timestamp_ms for record in records]
        first, last = records[0].offset, records[-1].offset
        found = ForeignRecords(*place, first, last, len(records), min(times), max(times), gap.unmapped)
        own = not exactly_once and _is_written_again(reader, place, gap.offsets, records)
        (again if own else out).append(found)
    return out if len(again) <= MOST_INTERRUPTIONS else sorted([*out, *again], key=lambda one: one.first)


def _logs(
    clusters: FlowClusters, copies: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, LogRange], dict[TopicPartition, str]]:
    wanted = list(copies)
    if not wanted:
        return {}, {}
    with clusters.target.link("control") as link:
        starts, faults = link.start_offsets(wanted, timeout_seconds=_LISTING_SECONDS)
        ends, more = link.end_offsets(wanted, timeout_seconds=_LISTING_SECONDS)
    logs = {place: LogRange(starts[place], end) for place, end in ends.items() if place in starts}
    return logs, {**faults, **more}
