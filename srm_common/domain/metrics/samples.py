"""From the report of a run to samples of every metric, for its flow, topics and partitions.

The report of a run becomes records of the topic with raw metrics, each below a broker's default limit of 1 MB. The
first part has the run and the flow; partitions, groups and decisions are rows, spread over as many parts as needed.
Each part can be read by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from srm_common.domain.document import reading
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Sample, pooled
from srm_common.domain.monitoring.certificates import first_end_ms
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.errors import CorruptRecord


def by_topic(partitions: Iterable[PartitionRecord]) -> dict[str, list[PartitionRecord]]:
    """The partitions of each upstream topic, topics sorted by name."""
    found: dict[str, list[PartitionRecord]] = {}
    for partition in partitions:
        found.setdefault(partition.upstream_topic, []).append(partition)
    return dict(sorted(found.items()))


def partition_samples(report: RunReport, partitions: Sequence[PartitionRecord]) -> Mapping[Metric, Sample]:
    """Of one partition, or of several together: those of a topic, or of the flow.

    A metric without a sample is left out. Figures come from the partitions themselves, by the rules of
    :mod:`srm_common.domain.metrics.metric`.
    """
    samples: dict[Metric, Sample] = {}
    if not partitions:
        return samples
    records = copied = reencoded = lost = events = failed = lag = unknown = dropped = skipped = letters = 0
    latencies, ages, behind_ms = [], [], []
    # One loop, since there may be tens of thousands.
    for partition in partitions:
        records += partition.records
        copied += partition.bytes
        reencoded += partition.reencoded_records
        lost += partition.lost_records
        events += partition.lost_records > 0
        dropped += partition.dropped_records or 0
        skipped += partition.skipped_records or 0
        letters += partition.dead_letters or 0
        failed += partition.error is not None
        behind = partition.lag
        if behind is None:
            unknown += 1
        else:
            lag += behind
            if partition.oldest_ms is not None or not behind:
                waited = 0 if partition.oldest_ms is None else report.reported_ms - partition.oldest_ms
                behind_ms.append(Sample.of(max(0, waited)))
        if partition.latency_ms_avg is not None:
            latencies.append(_latency(partition, partition.latency_ms_avg))
        if partition.last_record_timestamp_ms is not None and (partition.records or behind):
            ages.append(Sample.of(report.reported_ms - partition.last_record_timestamp_ms))
    seconds = copying_seconds(report)
    if seconds is not None:
        samples[Metric.BYTE_RATE] = Sample.of(copied / seconds)
        samples[Metric.RECORD_RATE] = Sample.of(records / seconds)
    if not unknown:
        # What is known of a sum is not the sum.
        samples[Metric.RECORDS_LAG] = Sample.of(lag)
    samples[Metric.UNKNOWN_LAGS] = Sample.of(unknown)
    if not unknown and (waits := pooled(behind_ms)):
        samples[Metric.LAG_AGE] = waits
    if latency := pooled(latencies):
        samples[Metric.REPLICATION_LATENCY] = latency
        if report.clock.source_ms is not None:
            # A record's timestamp is ahead by as much as the clock that made it.
            samples[Metric.REPLICATION_LATENCY_CORRECTED] = latency.shifted(report.clock.source_ms)
    if age := pooled(ages):
        samples[Metric.RECORD_AGE] = age
    if records:
        samples[Metric.REENCODED_SHARE] = Sample.of(reencoded / records)
    samples[Metric.LOST_RECORDS] = Sample.of(lost)
    samples[Metric.LOST_DATA_EVENTS] = Sample.of(events)
    if dropped or skipped or (report.run is not None and report.run.transforms):
        samples[Metric.DROPPED_RECORDS] = Sample.of(dropped)
        samples[Metric.SKIPPED_RECORDS] = Sample.of(skipped)
        samples[Metric.DEAD_LETTERS] = Sample.of(letters)
    samples[Metric.FAILED_PARTITIONS] = Sample.of(failed)
    return samples


def flow_samples(report: RunReport) -> Mapping[Metric, Sample]:
    """Of the flow as a whole."""
    samples: dict[Metric, Sample] = {}
    run = report.run
    if run is not None:
        samples |= partition_samples(report, run.partitions)
        if run.finished_ms is not None and run.passes:
            samples[Metric.RUN_DURATION] = Sample.of(run.finished_ms - run.started_ms)
        samples[Metric.PASSES] = Sample.of(run.passes)
        samples[Metric.TRANSACTIONS] = Sample.of(run.transactions)
        samples[Metric.RETRIES] = Sample.of(run.retries)
        samples[Metric.UNTRANSLATED_GROUPS] = Sample.of(
            sum(group.translated < group.positions for group in report.groups)
        )
        if checkpoints := pooled(_checkpoint(group, run.started_ms) for group in report.groups):
            samples[Metric.CHECKPOINT_LATENCY] = checkpoints
    if (ends_ms := first_end_ms(report.certificates)) is not None:
        samples[Metric.CERTIFICATE_REMAINING] = Sample.of(ends_ms - report.reported_ms)
    beats = report.heartbeats
    if beats is not None and beats.newest is not None:
        if beats.newest.latency_ms is not None:
            samples[Metric.HEARTBEAT_LATENCY] = Sample.of(beats.newest.latency_ms)
        if beats.age_ms is not None:
            samples[Metric.HEARTBEAT_AGE] = Sample.of(beats.age_ms)
    return samples


def checkpoint_samples(report: RunReport) -> Mapping[str, Sample]:
    """Checkpoint latency by topic; only of this run, as of a group."""
    if report.run is None:
        return {}
    return {
        group.topic: Sample(group.latency_ms_min, group.latency_ms_max, group.latency_ms_sum, group.checkpointed)
        for group in report.topic_groups or ()
        if group.checkpointed and group.checkpoint_ms is not None and group.checkpoint_ms >= report.run.started_ms
    }


def copying_seconds(report: RunReport) -> float | None:
    """How long the run copied; None where it did not, or has not ended."""
    run = report.run
    if run is None or run.finished_ms is None or not run.passes:
        return None
    # Clocks tick in milliseconds, and a run of none copied nothing.
    return max(1, run.finished_ms - run.started_ms) / 1000


def _latency(one: PartitionRecord, average: float) -> Sample:
    low, high = one.latency_ms_min, one.latency_ms_max
    return Sample(average if low is None else low, average if high is None else high, average, 1, one.latencies)


def _checkpoint(group: GroupSample, since_ms: int) -> Sample | None:
    """Only of this run: a group may have no new checkpoint for many."""
    if group.checkpoint_latency_ms is None or group.checkpoint_ms is None or group.checkpoint_ms < since_ms:
        return None
    return Sample.of(group.checkpoint_latency_ms)


_VERSION = 1
#: Before compression; brokers measure after it, and take 1,048,588 bytes by default.
MAX_PART_BYTES = 900_000
#: Reports of which not all parts have come yet. A run writes one, its repetitions may write more at a time.
_PENDING = 8


def report_parts(report: RunReport, max_bytes: int = MAX_PART_BYTES) -> list[bytes]:
    """JSON texts, in their order. A plan or list of filters that fills a part by itself is left out."""
    head = report.to_json()
    rows: list[tuple[str, Any]] = []
    if report.run is not None:
        rows += [("partitions", row) for row in head["run"]["partitions"]]
        head["run"]["partitions"] = []
    rows += [("groups", row) for row in head["groups"]]
    head["groups"] = []
    if report.topic_groups is not None:
        rows += [("topic_groups", row) for row in head["topic_groups"]]
        head["topic_groups"] = []
    if report.decisions is not None:
        rows += [("decisions", row) for row in head["decisions"].get("decisions", ())]
        head["decisions"] = {**head["decisions"], "decisions": []}
    if report.verified is not None:
        rows += [("verified", row) for row in head["verified"]["rows"]]
        head["verified"] = {**head["verified"], "rows": []}
    for large in ("plan", "filters"):
        if len(_text(head[large])) > max_bytes // 3:
            head[large] = None
    columns = {"partitions": head["run"]["columns"] if head["run"] else [], "groups": head["group_columns"]}
    parts: list[dict[str, Any]] = [{"report": head}]
    used, filled = len(_text(head)), False
    for kind, row in rows:
        length = len(_text(row)) + 1
        if filled and used + length > max_bytes:
            parts.append({"columns": columns})
            used = len(_text(columns))
        parts[-1].setdefault(kind, []).append(row)
        used, filled = used + length, True
    about = {"version": _VERSION, "flow": report.flow, "run_id": report.run_id, "reported_ms": report.reported_ms}
    return [_text({**about, "part": number, "parts": len(parts), **part}) for number, part in enumerate(parts)]


class ReportAssembly:
    """Puts reports together from their parts, as they come."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str, int], dict[int, Mapping[str, Any]]] = {}

    def take(self, value: bytes) -> RunReport | None:
        """One part; the report when it was the last one that was missing.

        Raises:
            CorruptRecord: it is no part, or the report that it makes complete cannot be read.
        """
        try:
            part = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise CorruptRecord(f"a record of raw metrics cannot be read: {error!r}") from error
        with reading(part, "a record of raw metrics", _VERSION):
            place = (str(part["flow"]), str(part["run_id"]), int(part["reported_ms"]))
            known = self._pending.setdefault(place, {})
            known[int(part["part"])] = part
            if len(known) == int(part["parts"]):
                del self._pending[place]
                return _joined([known[number] for number in range(len(known))])
        if len(self._pending) > _PENDING:
            # Its writer died between two parts.
            del self._pending[next(iter(self._pending))]
        return None


def _joined(parts: list[Mapping[str, Any]]) -> RunReport:
    document = dict(parts[0]["report"])
    kinds = ("partitions", "groups", "topic_groups", "decisions", "verified")
    rows = {kind: [row for part in parts for row in part.get(kind, ())] for kind in kinds}
    if document["run"] is not None:
        document["run"] = {**document["run"], "partitions": rows["partitions"]}
    document["groups"] = rows["groups"]
    if document.get("topic_groups") is not None:
        document["topic_groups"] = rows["topic_groups"]
    if document["decisions"] is not None:
        document["decisions"] = {**document["decisions"], "decisions": rows["decisions"]}
    if document.get("verified") is not None:
        document["verified"] = {**document["verified"], "rows": rows["verified"]}
    return RunReport.from_json(document)


def _text(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
