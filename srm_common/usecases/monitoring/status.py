"""The current status of a flow."""

from __future__ import annotations

from dataclasses import replace

from srm_common.domain.flow import FlowSettings
from srm_common.domain.health.health import Observation
from srm_common.domain.health.judge import judge
from srm_common.domain.health.observe_flow import observe
from srm_common.domain.health.status_report import StatusReport, make_report
from srm_common.domain.monitoring.flow_history import NO_RUNS, fold
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.monitoring.schedule import ScheduledFlow
from srm_common.domain.runs.run_record import RunState
from srm_common.errors import SrmError
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.monitoring.heartbeats import heartbeat_report
from srm_common.usecases.monitoring.lag_watch import lag_now
from srm_common.usecases.monitoring.report_run import data_topics
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
            lag = lag_now(flow)
        except SrmError as error:
            fault = str(error)
        else:
            fault = None if lag is None else lag.fault
    found = make_report(str(flow.name), clusters.now_ms(), run, lag, fault, heartbeat_report(clusters))
    return replace(found, health=judge(observe_status(flow, found)).health)


def observe_status(
    flow: FlowSettings,
    found: StatusReport,
    scheduled: ScheduledFlow | None = None,
    schedule_fault: str | None = None,
) -> Observation:
    """What the clusters alone tell, which know of the newest run only."""
    report = as_report(flow, found)
    history = None if report is None else fold(NO_RUNS, report)
    seen = observe(flow.name, history, flow, scheduled, found.now_ms, schedule_fault=schedule_fault)
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
    rows = [(one, now[one.upstream_topic, one.partition]) for one in run.partitions]
    run = replace(run, partitions=tuple(replace(one, position=row.position, end=row.end) for one, row in rows))
    return RunReport(
        str(flow.name),
        run.run_id,
        found.now_ms,
        run,
        heartbeats=found.heartbeats,
        schedule_interval_seconds=flow.schedule_interval_seconds,
        lag_objective_records=flow.lag_objective_records,
        data_topics=data_topics(flow, run),
    )
