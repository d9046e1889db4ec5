"""A report as rows of the database. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from srm_common.domain.amount import Amount
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.samples import by_topic, checkpoint_samples, flow_samples, partition_samples
from srm_common.domain.metrics.stats import Sample
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunState
from srm_common.store.tables import CODES
from srm_common.store.tiers import RAW, Level

Row = dict[str, Any]

#: There are many partitions: of the metrics that their topic has, too, only those in which partitions differ.
PARTITION_METRICS = (Metric.BYTE_RATE, Metric.RECORD_RATE, Metric.REPLICATION_LATENCY, Metric.RECORDS_LAG)
#: Topics have samples of these only from runs in which the event occurred; flows have one from each run.
EVENTS = (
    Metric.LOST_RECORDS,
    Metric.LOST_DATA_EVENTS,
    Metric.DROPPED_RECORDS,
    Metric.SKIPPED_RECORDS,
    Metric.DEAD_LETTERS,
    Metric.FAILED_PARTITIONS,
    Metric.UNKNOWN_LAGS,
)
#: ``number`` of samples that are not of a partition, ``topic_id`` of those that are not of a topic.
NO_PARTITION, NO_TOPIC = -1, 0
_ERRORS = 20
_UNFINISHED = "the run was ended before it had finished"


def run_row(flow_id: int, report: RunReport) -> Row:
    row: Row = {"flow_id": flow_id, "run_id": report.run_id, "reported_ms": report.reported_ms}
    run = report.run
    if run is None:
        counts = ("passes", "partitions", "failed_partitions", "records", "bytes")
        more = ("transactions", "retries", "reencoded_records", "lost_records")
        left_out = ("dropped_records", "skipped_records", "dead_letters")
        return {
            **row,
            "started_ms": None,
            "finished_ms": None,
            "ok": False,
            "error": report.run_error,
            **dict.fromkeys((*counts, *more, *left_out), 0),
            **_lag_columns(None),
            "notes": None,
            "partition_errors": None,
            "error_kind": None,
        }
    failed = run.failed_partitions
    return {
        **row,
        "started_ms": run.started_ms,
        "finished_ms": run.finished_ms,
        "ok": report.ok is True,
        "error": report.run_error or (_UNFINISHED if run.state is RunState.RUNNING else None),
        "passes": run.passes,
        "partitions": len(run.partitions),
        "failed_partitions": len(failed),
        "records": run.records,
        "bytes": run.bytes,
        **_lag_columns(report.lag),
        "transactions": run.transactions,
        "retries": run.retries,
        "reencoded_records": sum(partition.reencoded_records for partition in run.partitions),
        "lost_records": sum(partition.lost_records for partition in run.partitions),
        "dropped_records": sum(partition.dropped_records or 0 for partition in run.partitions),
        "skipped_records": sum(partition.skipped_records or 0 for partition in run.partitions),
        "dead_letters": sum(partition.dead_letters or 0 for partition in run.partitions),
        "notes": sentences(run.notes),
        "partition_errors": sentences([record.trouble for record in failed[:_ERRORS]]),
        "error_kind": run.first_error_kind,
    }


def _lag_columns(lag: Amount | None) -> Row:
    """``lag`` sums the partitions where it is known, by which rows are sorted; None if not measured."""
    return {"lag": lag and lag.least, "lag_unknown": lag and lag.unknown}


def kept_lag(row: Mapping[str, Any]) -> Amount | None:
    """The inverse, with the row's ``partitions``."""
    if row["lag"] is None:
        return None
    # Rows of before the count was kept have no unknown ones.
    return Amount(row["lag"], row["lag"], max(row["partitions"], row["lag_unknown"] or 0), row["lag_unknown"] or 0)


def topic_rows(flow_id: int, report: RunReport) -> Iterator[tuple[Row, Sequence[PartitionRecord]]]:
    """One for each upstream topic, with its partitions."""
    groups = None if report.topic_groups is None else {group.topic: group.groups for group in report.topic_groups}
    for topic, partitions in by_topic(report.run.partitions if report.run else ()).items():
        failed = [partition for partition in partitions if partition.error is not None]
        remote = partitions[0].downstream_topic
        stamps = [
            partition.last_record_timestamp_ms
            for partition in partitions
            if partition.last_record_timestamp_ms is not None
        ]
        row = {
            "flow_id": flow_id,
            "name": topic,
            "remote_topic": remote,
            "folded": f"{topic}\n{remote}".lower(),
            "reported_ms": report.reported_ms,
            "partitions": len(partitions),
            "failed_partitions": len(failed),
            **_lag_columns(Amount.sum(Amount.of(partition.lag) for partition in partitions)),
            "newest_record_ms": max(stamps, default=None),
            "consumer_groups": None if groups is None else groups.get(topic, 0),
            "error": f"partition {failed[0].partition}: {failed[0].error}" if failed else None,
        }
        yield row, partitions


def partition_row(topic_id: int, one: PartitionRecord, reported_ms: int, seconds: float | None) -> Row:
    """``seconds``: how long the run copied, None where it did not."""
    return {
        "topic_id": topic_id,
        "number": one.partition,
        "reported_ms": reported_ms,
        "position": one.position,
        "end_offset": one.end,
        "lag": one.lag,
        "newest_record_ms": one.last_record_timestamp_ms,
        "latency_ms_min": one.latency_ms_min,
        "latency_ms_avg": one.latency_ms_avg,
        "latency_ms_max": one.latency_ms_max,
        "error": one.error,
        "error_kind": one.error_kind,
        "latencies": None if one.latencies is None else one.latencies.text(),
        "record_rate": None if seconds is None else one.records / seconds,
        "byte_rate": None if seconds is None else one.bytes / seconds,
    }


def group_row(flow_id: int, sample: GroupSample, reported_ms: int) -> Row:
    return {
        "flow_id": flow_id,
        "name": sample.group,
        "folded": sample.group.lower(),
        "reported_ms": reported_ms,
        "positions": sample.positions,
        "translated": sample.translated,
        "reason": sample.reason,
        "synced": sample.synced,
        "checkpoint_latency_ms": sample.checkpoint_latency_ms,
        "checkpoint_ms": sample.checkpoint_ms,
    }


def sample_rows(flow_id: int, report: RunReport, topic_ids: Mapping[str, int], partitions_too: bool) -> Iterator[Row]:
    """Of the flow, its topics and, where they are kept, its partitions."""
    at = report.reported_ms
    yield from _rows(flow_id, Level.FLOW, at, NO_TOPIC, NO_PARTITION, flow_samples(report))
    checkpoints = checkpoint_samples(report)
    for topic, partitions in by_topic(report.run.partitions if report.run else ()).items():
        topic_id = topic_ids[topic]
        samples = dict(partition_samples(report, partitions))
        if topic in checkpoints:
            samples[Metric.CHECKPOINT_LATENCY] = checkpoints[topic]
        shown = {metric: sample for metric, sample in samples.items() if sample.max or metric not in EVENTS}
        yield from _rows(flow_id, Level.TOPIC, at, topic_id, NO_PARTITION, shown)
        if not partitions_too:
            continue
        for partition in partitions:
            mine = partition_samples(report, (partition,))
            kept = {metric: mine[metric] for metric in PARTITION_METRICS if metric in mine}
            yield from _rows(flow_id, Level.PARTITION, at, topic_id, partition.partition, kept)


def _rows(
    flow_id: int, level: Level, at: int, topic_id: int, number: int, samples: Mapping[Metric, Sample]
) -> Iterator[Row]:
    for metric, sample in samples.items():
        value = sample.value
        yield {
            "flow_id": flow_id,
            "level": int(level),
            "tier": RAW,
            "at_ms": at,
            "topic_id": topic_id,
            "number": number,
            "metric": CODES[metric],
            "count": sample.count,
            "low": None if sample.min == value else sample.min,
            "high": None if sample.max == value else sample.max,
            "total": None if sample.sum == value else sample.sum,
            "latest": value,
            "latest_ms": None,
            "latencies": None if sample.latencies is None else sample.latencies.text(),
        }


def sentences(texts: Sequence[str]) -> str | None:
    """JSON; None for none."""
    return json.dumps(list(texts), ensure_ascii=False) if texts else None
