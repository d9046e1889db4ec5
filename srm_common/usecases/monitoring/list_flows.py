"""The health of all flows of a file, from the history where available, otherwise from the clusters."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.alarms import help_with
from srm_common.domain.health.health import FlowLine, Health, HealthState, Observation, by_urgency
from srm_common.domain.health.judge import judge, observe
from srm_common.domain.health.status_report import StatusReport, make_report
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.samples import flow_samples
from srm_common.domain.metrics.stats import PERCENTILES, Sample, Stats, TimeRange
from srm_common.domain.monitoring.flow_history import NO_RUNS
from srm_common.domain.monitoring.flow_lag import FlowLag
from srm_common.domain.monitoring.folding import fold
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.monitoring.schedule import ScheduledFlow
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import SrmError, StoreError
from srm_common.settings_files.configuration import Configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.rows import FlowRow
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.monitoring.heartbeats import heartbeat_report
from srm_common.usecases.monitoring.lag_watch import lag_now
from srm_common.usecases.monitoring.report_run import data_figures
from srm_common.usecases.runs.run_journal import last_run


def status(flow: FlowSettings | FlowClusters) -> StatusReport:
    """The last run's record, with the positions and the source's ends of this moment and the heartbeats that have come.

    A source that does not respond is said in the report, which then has the ends that the run saw.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers, where the record is.
        CorruptRecord: the record cannot be read.
    """
    with clusters_of(flow) as clusters:
        return _status(clusters)


def _status(clusters: FlowClusters) -> StatusReport:
    flow = clusters.flow
    run, lag, fault = last_run(clusters), None, None
    if run is not None:
        try:
            lag = lag_now(clusters)
        except SrmError as error:
            fault = str(error)
        else:
            fault = None if lag is None else lag.fault
    beats = heartbeat_report(clusters, run=run)
    report = make_report(str(flow.name), clusters.now_ms(), run, lag, fault, beats)
    return replace(report, health=judge(observe_status(flow, report)).health)


def observe_status(
    flow: FlowSettings,
    found: StatusReport,
    scheduled: ScheduledFlow | None = None,
    schedule_fault: str | None = None,
) -> Observation:
    """A flow as known from the clusters alone, which have only the newest run."""
    report = as_report(flow, found)
    history = None if report is None else fold(NO_RUNS, report)
    seen = observe(flow.name, history, flow, scheduled, found.now_ms, schedule_fault=schedule_fault)
    # Whether the flow is new is not known.
    seen = replace(seen, heartbeat_silence=found.silence)
    run = found.run
    if run is None or run.state is not RunState.RUNNING:
        return seen
    return replace(
        seen,
        running_since_ms=seen.running_since_ms or run.started_ms,
        running_run_id=seen.running_run_id or run.run_id,
    )


def as_report(flow: FlowSettings, found: StatusReport) -> RunReport | None:
    """The newest run as if it were reported now; None where there was none."""
    run = found.run
    if run is None:
        return None
    now = {(row.upstream_topic, row.partition): row for row in found.partitions}
    rows = [(partition, now[partition.upstream_topic, partition.partition]) for partition in run.partitions]
    run = replace(run, partitions=tuple(replace(one, position=row.position, end=row.end) for one, row in rows))
    return RunReport(
        str(flow.name),
        run.run_id,
        found.now_ms,
        run,
        heartbeats=found.heartbeats,
        schedule_interval_seconds=flow.schedule_interval_seconds,
        lag_objective_records=flow.lag_objective_records,
        **data_figures(flow, run),
    )


#: Over how long rates and latencies of the history are averaged.
RATES_OVER_MS = 15 * 60 * 1000
_RATES = (Metric.BYTE_RATE, Metric.RECORD_RATE, Metric.REPLICATION_LATENCY)
_AT_ONCE = 16


@dataclass(frozen=True)
class Schedule:
    """What a scheduler says of flows; ``fault`` is why it could not be asked."""

    flows: Mapping[FlowName, ScheduledFlow] = field(default_factory=dict)
    fault: str | None = None


def list_flows(
    configuration: Configuration,
    store: MetricsStore,
    schedule: Schedule,
    now_ms: int,
    *,
    live: bool = False,
    lags: Mapping[FlowName, FlowLag] | None = None,
) -> tuple[list[FlowLine], str | None]:
    """A line for each enabled flow and each that the file stops, the worst ones first; and why the history cannot be
    read, None where it can.

    Args:
        live: ask the clusters about every flow, whatever the history knows.
        lags: asked of the clusters already, for flows that the history knows.
    """
    rows: Mapping[str, FlowRow] = {}
    stats: Mapping[str, Mapping[Metric, Stats]] = {}
    fault = None
    names = [flow.name for flow in configuration.enabled_flows]
    try:
        rows = {row.flow: row for row in store.flows([str(name) for name in names])}
        if rows and not live:
            stats = store.flow_stats(TimeRange(now_ms - RATES_OVER_MS, now_ms + 1), list(rows))
    except StoreError as error:
        fault = str(error)
    looks = _Looks(schedule, now_ms)
    asked = [flow for flow in configuration.enabled_flows if live or str(flow.name) not in rows]
    lines = [looks.stopped(name, str(error)) for name, error in configuration.faults.items()]
    with ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(asked)))) as pool:
        clusters = pool.map(looks.at_the_clusters, asked)
        for flow in configuration.enabled_flows:
            if flow not in asked:
                row = replace(rows[str(flow.name)], live=(lags or {}).get(flow.name))
                lines.append(looks.at_the_history(flow, row, stats.get(str(flow.name), {})))
        lines += clusters
    return sorted(lines, key=by_urgency), fault


def known_flows(configuration: Configuration, store: MetricsStore) -> list[FlowSettings]:
    """The enabled flows in the history; none if it cannot be read, which :func:`list_flows` reports."""
    enabled = {str(flow.name): flow for flow in configuration.enabled_flows}
    try:
        return [enabled[row.flow] for row in store.flows(list(enabled))]
    except StoreError:
        return []


def _percentiles(latency: Stats | Sample | None) -> dict[str, float | None]:
    return {} if latency is None else {name: latency.percentile(share) for name, share in PERCENTILES.items()}


@dataclass(frozen=True)
class _Looks:
    schedule: Schedule
    now_ms: int

    def stopped(self, flow: FlowName, why: str) -> FlowLine:
        verdict = judge(Observation(str(flow), self.now_ms, misconfigured=why))
        return FlowLine(str(flow), verdict.health, tuple(verdict.alarms))

    def at_the_history(self, flow: FlowSettings, row: FlowRow, stats: Mapping[Metric, Stats]) -> FlowLine:
        scheduled = self.schedule.flows.get(flow.name)
        seen = observe(flow.name, row.history, flow, scheduled, self.now_ms, schedule_fault=self.schedule.fault)
        verdict = judge(seen)
        rates = {metric: stats[metric].avg for metric in _RATES if metric in stats}
        return FlowLine(
            row.flow,
            verdict.health,
            tuple(verdict.alarms),
            row.lag_now,
            rates.get(Metric.BYTE_RATE),
            rates.get(Metric.RECORD_RATE),
            rates.get(Metric.REPLICATION_LATENCY),
            row.partitions,
            row.failed_partitions,
            row.reported_ms,
            "history",
            None if row.lag_now is None else row.lag_ms,
            row.behind_ms,
            None if row.live is None else row.live.fault,
            latency_percentiles_ms=_percentiles(stats.get(Metric.REPLICATION_LATENCY)),
        )

    def at_the_clusters(self, flow: FlowSettings) -> FlowLine:
        name = str(flow.name)
        try:
            status_report = status(flow)
        except SrmError as error:
            cause = f"the clusters cannot be queried: {error}"
            return FlowLine(name, Health(HealthState.UNKNOWN, cause, None, help_with(HealthState.UNKNOWN, name)))
        seen = observe_status(flow, status_report, self.schedule.flows.get(flow.name), self.schedule.fault)
        verdict = judge(seen)
        line = FlowLine(name, verdict.health, tuple(verdict.alarms), asked="clusters")
        report = as_report(flow, status_report)
        if report is None:
            return line
        samples = flow_samples(report)
        return replace(
            line,
            lag=status_report.lag,
            byte_rate=samples[Metric.BYTE_RATE].value if Metric.BYTE_RATE in samples else None,
            record_rate=samples[Metric.RECORD_RATE].value if Metric.RECORD_RATE in samples else None,
            latency_ms=samples[Metric.REPLICATION_LATENCY].value if Metric.REPLICATION_LATENCY in samples else None,
            partitions=len(status_report.partitions),
            failed_partitions=sum(row.error is not None for row in status_report.partitions),
            reported_ms=status_report.now_ms,
            lag_ms=status_report.now_ms,
            behind_ms=None if status_report.behind_seconds is None else status_report.behind_seconds * 1000,
            lag_fault=status_report.source_fault,
            latency_percentiles_ms=_percentiles(samples.get(Metric.REPLICATION_LATENCY)),
        )
