"""Prometheus' series of a flow and its groups.

Times and durations are in seconds, as Prometheus recommends; those with MirrorMaker 2's names are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from srm_common.domain.amount import Amount
from srm_common.domain.flow import FlowName
from srm_common.domain.health.health import Alarm, Health
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.rest.prometheus.exposition import LatencySeries, Series
from srm_common.store.rows import FlowRow, GroupRow, PartitionRow, TopicRow


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """Everything that is exported about one flow. ``row`` is None before its first report."""

    name: FlowName
    health: Health
    alarms: Sequence[Alarm] = ()
    row: FlowRow | None = None
    stats: Mapping[Metric, Stats] = field(default_factory=dict)
    topics: Sequence[TopicRow] = ()
    partitions: Sequence[PartitionRow] = ()
    groups: Sequence[GroupRow] = ()
    #: From the rates of partitions within the newest run to those since the run before it.
    rate_factor: float = 1.0
    #: ``metric.names.formats``: keys of :data:`srm_common.rest.prometheus.families.MIRROR_MAKER`.
    names_formats: Collection[str] = ("legacy",)


def seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _row(value: Callable[[FlowRow], float | None]) -> Callable[[FlowFigures], float | None]:
    return lambda flow: None if flow.row is None else value(flow.row)


def _history(value: Callable[[FlowHistory], float | None]) -> Callable[[FlowFigures], float | None]:
    return lambda flow: None if flow.row is None else value(flow.row.history)


def most(lag: Amount | None) -> int | None:
    return None if lag is None else lag.most


def average(metric: Metric) -> Callable[[FlowFigures | TopicRow], float | None]:
    return lambda one: None if metric not in one.stats else one.stats[metric].avg


#: The shortest time that rates are averaged over.
_RATES_MS = 300_000
#: For so long a rate counts that was reported last, and for two periods.
_CURRENT_MS = 60_000


def _run_ms(row: FlowRow) -> int:
    run = row.last_run
    return 1 if run.started_ms is None or run.finished_ms is None else max(1, run.finished_ms - run.started_ms)


def _period_ms(row: FlowRow) -> float:
    """The time between two reports of a flow that runs."""
    return max((row.history.schedule_interval_seconds or 0) * 1000, _run_ms(row))


def rates_window_ms(row: FlowRow) -> int:
    """What the rates of a flow are averaged over: a few runs."""
    return round(max(_RATES_MS, 3 * _period_ms(row)))


def rate_factor(row: FlowRow, now_ms: int) -> float:
    """From rates within the newest run to those since the report before it; 0 where reports no longer come."""
    if now_ms - row.reported_ms > max(_CURRENT_MS, 2 * _period_ms(row)):
        return 0.0
    before = row.history.before
    since = None if before is None or before.reported_ms is None else row.reported_ms - before.reported_ms
    took = _run_ms(row)
    return took / max(took, _period_ms(row) if since is None else since)


def _duration(row: FlowRow) -> float | None:
    run = row.last_run
    return None if run.started_ms is None or run.finished_ms is None else (run.finished_ms - run.started_ms) / 1000


def _skew(cluster: str) -> Callable[[FlowRow], float | None]:
    return lambda row: seconds((row.clock or {}).get(f"{cluster}_ms"))


BUILD_INFO: Series[int] = Series("srm_build_info", "The version of the service; always 1.", int)
STORE_UP: Series[bool] = Series("srm_store_up", "1 when the history can be read.", int)
SCHEDULER_UP: Series[bool] = Series("srm_scheduler_up", "1 if Airflow can be queried.", int)

FLOW_SERIES: tuple[Series[FlowFigures], ...] = (
    Series(
        "srm_flow_health_since_timestamp_seconds",
        "Since when the flow has been in its state of health.",
        lambda flow: seconds(flow.health.since_ms),
    ),
    Series(
        "srm_flow_reported_timestamp_seconds",
        "When the flow reported last; its figures other than lag are as old as that.",
        _row(lambda row: seconds(row.reported_ms)),
    ),
    Series(
        "srm_flow_good_run_timestamp_seconds",
        "When the last run without an error ended.",
        _history(lambda known: seconds(known.good_run_ended_ms)),
    ),
    Series(
        "srm_flow_failing_since_timestamp_seconds",
        "When the first failed run since the last good one was; absent while runs are good.",
        _history(lambda known: seconds(known.failing_since_ms)),
    ),
    Series(
        "srm_flow_lag_records",
        "Source offsets that are not copied yet; absent while the lag of a partition is unknown.",
        _row(lambda row: most(row.lag_now)),
    ),
    Series(
        "srm_flow_lag_unknown_partitions",
        "Partitions whose lag is unknown: without a leader, without a response, or hidden.",
        _row(lambda row: None if row.lag_now is None else row.lag_now.unknown),
    ),
    Series(
        "srm_flow_lag_seconds",
        "Age of the oldest record that is not copied; 0 when all are, absent while that is unknown.",
        _row(lambda row: seconds(row.behind_ms)),
    ),
    Series(
        "srm_flow_lag_timestamp_seconds",
        "When the lag was queried from both clusters.",
        _row(lambda row: None if row.lag_now is None else seconds(row.lag_ms)),
    ),
    Series(
        "srm_flow_lag_objective_records",
        "The lag above which the flow has an alarm (lag.objective.records).",
        _history(lambda known: known.lag_objective_records),
    ),
    Series(
        "srm_flow_copied_bytes_per_second",
        "Bytes copied per second, averaged over the last five minutes, or three runs; 0 when nothing is copied.",
        average(Metric.BYTE_RATE),
    ),
    Series(
        "srm_flow_copied_records_per_second",
        "Records copied per second, averaged over the last five minutes, or three runs; 0 when nothing is copied.",
        average(Metric.RECORD_RATE),
    ),
    Series(
        "srm_flow_copied_records_total",
        "Records copied by all runs, including those of topics that are no longer copied.",
        _row(lambda row: row.records_total),
        kind="counter",
    ),
    Series(
        "srm_flow_copied_bytes_total",
        "Bytes copied by all runs, as batches are stored in the source's log.",
        _row(lambda row: row.bytes_total),
        kind="counter",
    ),
    Series(
        "srm_flow_skipped_records_total",
        "Records that transforms could not handle and all runs left out; absent where runs leave out none.",
        _row(lambda row: row.skipped_records_total),
        kind="counter",
    ),
    Series(
        "srm_flow_dead_letters_total",
        "Those of them that are in the dead letter topic.",
        _row(lambda row: row.dead_letters_total),
        kind="counter",
    ),
    Series("srm_flow_topics", "Topics that the flow copies.", _row(lambda row: row.topics)),
    Series("srm_flow_partitions", "Partitions that the flow copies.", _row(lambda row: row.partitions)),
    Series(
        "srm_flow_failed_partitions",
        "Partitions that the last run could not copy.",
        _row(lambda row: row.failed_partitions),
    ),
    Series("srm_flow_groups", "Consumer groups whose offsets the flow translates.", _row(lambda row: row.groups)),
    *(
        Series(f"srm_flow_{name}", text, _history(value))
        for name, text, value in (
            (
                "untranslated_groups",
                "Groups that cannot resume on the target.",
                lambda known: known.untranslated_groups,
            ),
            ("lost_records", "Records that the newest loss at the source has cost.", lambda known: known.lost_records),
            (
                "skipped_records",
                "Records that transforms could not handle, of all runs without a day between them that left out any.",
                lambda known: known.skipped_records,
            ),
            ("dead_letters", "Those of them that are in the dead letter topic.", lambda known: known.dead_letters),
            ("proved_partitions", "Copies that a verification has proved.", lambda known: known.proved_partitions),
            ("unproved_partitions", "Copies proved in part, or unreadable.", lambda known: known.unproved_partitions),
            ("different_partitions", "Copies that differ.", lambda known: known.different_partitions),
            (
                "uncompared_partitions",
                "Copies with records that no verification has compared.",
                lambda known: known.uncompared_partitions,
            ),
            (
                "verified_timestamp_seconds",
                "Since when all copies were verified.",
                lambda known: seconds(known.verified_ms),
            ),
            ("schedule_interval_seconds", "Time between two runs.", lambda known: known.schedule_interval_seconds),
        )
    ),
    Series(
        "srm_flow_last_run_ok",
        "1 when the last run copied all there was, 0 when it or one of its partitions failed.",
        _row(lambda row: int(row.last_run.ok)),
    ),
    Series("srm_flow_last_run_duration_seconds", "How long the last run took.", _row(_duration)),
    Series("srm_flow_last_run_passes", "Passes of the last run.", _row(lambda row: row.last_run.passes)),
    Series("srm_flow_last_run_records", "Records copied by the last run.", _row(lambda row: row.last_run.records)),
    Series("srm_flow_last_run_bytes", "Bytes copied by the last run.", _row(lambda row: row.last_run.bytes)),
    Series(
        "srm_flow_last_run_transactions",
        "Transactions committed by the last run.",
        _row(lambda row: row.last_run.transactions),
    ),
    Series(
        "srm_flow_last_run_retries",
        "Chunks that the last run had to restart.",
        _row(lambda row: row.last_run.retries),
    ),
    Series(
        "srm_flow_last_run_reencoded_records",
        "Records of the last run whose batches had to be opened.",
        _row(lambda row: row.last_run.reencoded_records),
    ),
    Series(
        "srm_flow_source_clock_skew_seconds",
        "How far the source's clock is ahead of the measuring host's.",
        _row(_skew("source")),
    ),
    Series(
        "srm_flow_target_clock_skew_seconds",
        "How far the target's clock is ahead of the measuring host's.",
        _row(_skew("target")),
    ),
)

#: A histogram, since only histograms can be added up over flows and used with rate() over any time; one per flow, since
#: each costs a line for every bound.
FLOW_LATENCY: LatencySeries[FlowFigures] = LatencySeries(
    "srm_flow_replication_latency_seconds",
    "From a record at the source to its commit on the target, of all runs that were reported; the sum is an estimate.",
    lambda flow: None if flow.row is None else flow.row.latencies_total,
)

HEALTH: Series[bool] = Series("srm_flow_health", "1 for the state that the flow is in, 0 for all others.", int)
ALARM: Series[int] = Series("srm_flow_alarm", "0: no such alarm; 1: a warning; 2: critical.", int)
HEARTBEAT_WRITTEN: Series[Mapping[str, float | None]] = Series(
    "srm_flow_heartbeat_timestamp_seconds",
    "When the newest heartbeat that the flow copied was written, by the clock of its writer.",
    lambda beat: seconds(beat["written_ms"]),
)
HEARTBEAT_LATENCY: Series[Mapping[str, float | None]] = Series(
    "srm_flow_heartbeat_latency_seconds",
    "How long that heartbeat took to arrive.",
    lambda beat: seconds(beat["latency_ms"]),
)

GROUP_SERIES: tuple[Series[GroupRow], ...] = (
    Series(
        "srm_group_positions",
        "Partitions of the flow that the group has committed at the source.",
        lambda row: row.sample.positions,
    ),
    Series(
        "srm_group_translated_positions",
        "Those of them that have an offset on the target.",
        lambda row: row.sample.translated,
    ),
    Series(
        "srm_group_checkpoint_timestamp_seconds",
        "When the group's last checkpoint was written.",
        lambda row: seconds(row.sample.checkpoint_ms),
    ),
)
