"""From the report of a run to samples of every metric, for its flow, topics and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Sample, pooled
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord


def by_topic(partitions: Iterable[PartitionRecord]) -> dict[str, list[PartitionRecord]]:
    """The partitions of each upstream topic, topics sorted by name."""
    found: dict[str, list[PartitionRecord]] = {}
    for one in partitions:
        found.setdefault(one.upstream_topic, []).append(one)
    return dict(sorted(found.items()))


def partition_samples(report: RunReport, partitions: Sequence[PartitionRecord]) -> Mapping[Metric, Sample]:
    """Of one partition, or of several together: those of a topic, or of the flow.

    A metric without a sample is left out. Figures come from the partitions themselves, by the rules of
    :mod:`srm_common.domain.metrics.metric`.
    """
    found: dict[Metric, Sample] = {}
    if not partitions:
        return found
    records = copied = reencoded = lost = events = failed = lag = unknown = dropped = skipped = letters = 0
    latencies, ages, behind_ms = [], [], []
    # One loop, since there may be tens of thousands.
    for one in partitions:
        records += one.records
        copied += one.bytes
        reencoded += one.reencoded_records
        lost += one.lost_records
        events += one.lost_records > 0
        dropped += one.dropped_records or 0
        skipped += one.skipped_records or 0
        letters += one.dead_letters or 0
        failed += one.error is not None
        behind = one.lag
        if behind is None:
            unknown += 1
        else:
            lag += behind
            if one.oldest_ms is not None or not behind:
                waited = 0 if one.oldest_ms is None else report.reported_ms - one.oldest_ms
                behind_ms.append(Sample.of(max(0, waited)))
        if one.latency_ms_avg is not None:
            latencies.append(_latency(one, one.latency_ms_avg))
        if one.last_record_timestamp_ms is not None and (one.records or behind):
            ages.append(Sample.of(report.reported_ms - one.last_record_timestamp_ms))
    seconds = copying_seconds(report)
    if seconds is not None:
        found[Metric.BYTE_RATE] = Sample.of(copied / seconds)
        found[Metric.RECORD_RATE] = Sample.of(records / seconds)
    if not unknown:
        # What is known of a sum is not the sum.
        found[Metric.RECORDS_LAG] = Sample.of(lag)
    found[Metric.UNKNOWN_LAGS] = Sample.of(unknown)
    if not unknown and (waits := pooled(behind_ms)):
        found[Metric.LAG_AGE] = waits
    if latency := pooled(latencies):
        found[Metric.REPLICATION_LATENCY] = latency
        if report.clock.source_ms is not None:
            # A record's timestamp is ahead by as much as the clock that made it.
            found[Metric.REPLICATION_LATENCY_CORRECTED] = latency.shifted(report.clock.source_ms)
    if age := pooled(ages):
        found[Metric.RECORD_AGE] = age
    if records:
        found[Metric.REENCODED_SHARE] = Sample.of(reencoded / records)
    found[Metric.LOST_RECORDS] = Sample.of(lost)
    found[Metric.LOST_DATA_EVENTS] = Sample.of(events)
    if dropped or skipped or (report.run is not None and report.run.transforms):
        found[Metric.DROPPED_RECORDS] = Sample.of(dropped)
        found[Metric.SKIPPED_RECORDS] = Sample.of(skipped)
        found[Metric.DEAD_LETTERS] = Sample.of(letters)
    found[Metric.FAILED_PARTITIONS] = Sample.of(failed)
    return found


def flow_samples(report: RunReport) -> Mapping[Metric, Sample]:
    """Of the flow as a whole."""
    found: dict[Metric, Sample] = {}
    run = report.run
    if run is not None:
        found |= partition_samples(report, run.partitions)
        if run.finished_ms is not None and run.passes:
            found[Metric.RUN_DURATION] = Sample.of(run.finished_ms - run.started_ms)
        found[Metric.PASSES] = Sample.of(run.passes)
        found[Metric.TRANSACTIONS] = Sample.of(run.transactions)
        found[Metric.RETRIES] = Sample.of(run.retries)
        found[Metric.UNTRANSLATED_GROUPS] = Sample.of(sum(one.translated < one.positions for one in report.groups))
        if checkpoints := pooled(_checkpoint(one, run.started_ms) for one in report.groups):
            found[Metric.CHECKPOINT_LATENCY] = checkpoints
    beats = report.heartbeats
    if beats is not None and beats.newest is not None:
        if beats.newest.latency_ms is not None:
            found[Metric.HEARTBEAT_LATENCY] = Sample.of(beats.newest.latency_ms)
        if beats.age_ms is not None:
            found[Metric.HEARTBEAT_AGE] = Sample.of(beats.age_ms)
    return found


def checkpoint_samples(report: RunReport) -> Mapping[str, Sample]:
    """Checkpoint latency by topic; only of this run, as of a group."""
    if report.run is None:
        return {}
    return {
        one.topic: Sample(one.latency_ms_min, one.latency_ms_max, one.latency_ms_sum, one.checkpointed)
        for one in report.topic_groups or ()
        if one.checkpointed and one.checkpoint_ms is not None and one.checkpoint_ms >= report.run.started_ms
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
