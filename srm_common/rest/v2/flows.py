"""GET /flows and /flows/{source}/{target}: health and figures of flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from srm_common.domain.flow import FlowName
from srm_common.domain.health.health import HealthState, report_late
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.errors import StoreError
from srm_common.rest import presenters
from srm_common.rest.app_context import AppContext, AppContextDep, ReaderDep
from srm_common.rest.faults import fault_of, responses
from srm_common.rest.flow_dependency import LocalFlow
from srm_common.rest.overview import Overview, load_overview
from srm_common.rest.peers.flows import flows_of_peers
from srm_common.rest.peers.gateway import Local, PeersDep
from srm_common.rest.query_parameters import Limit, Offset, RangeDep, Search, now_ms, shown
from srm_common.rest.schemas import Fault, FlowDetail, FlowList, FlowSummary
from srm_common.settings_files.checks import notices
from srm_common.settings_files.explanations import Explainer

router = APIRouter(prefix="/api/v2", tags=["flows"])

_DRAWN = (Metric.BYTE_RATE, Metric.RECORDS_LAG)
_POINTS = 40
_Sources = Annotated[
    list[str], Query(max_length=100, description="only flows from these clusters", examples=[["east"]])
]
_States = Annotated[list[HealthState], Query(max_length=20, description="only flows in one of these states")]


@router.get("/flows", responses=responses(422))
def flows(
    context: AppContextDep,
    peers: PeersDep,
    caller: ReaderDep,
    span: RangeDep,
    source: _Sources = [],  # noqa: B006  FastAPI copies it
    status: _States = [],  # noqa: B006
    search: Search = "",
    offset: Offset = 0,
    limit: Limit = 100,
    local: Local = False,
) -> FlowList:
    """All flows that the caller may see, by name, with their statistics over the range; a gateway includes flows of
    other services."""
    seen = load_overview(context, caller, now_ms())
    wanted = search.casefold()
    own = {
        str(flow): flow
        for flow in seen.names
        if (not source or flow.source in source)
        and wanted in str(flow).casefold()
        and (not status or seen.verdict(flow).health.state in status)
    }
    others, missing = ([], []) if local else flows_of_peers(peers, span, source, status, search)
    known, allowed = set(seen.names), caller.readable([FlowName(other.source, other.target) for other in others])
    of_peers = {other.flow: other for other in others if FlowName(other.source, other.target) in allowed - known}
    page = sorted([*own, *of_peers])[offset : offset + limit]
    figures = Figures.read(context, [own[flow] for flow in page if flow in own], span)
    return FlowList(
        flows=[summary(seen, own[flow], figures, context) if flow in own else of_peers[flow] for flow in page],
        total=len(own) + len(of_peers),
        range=shown(span),
        errors=[*_faults(seen, figures), *missing],
        now_ms=seen.now_ms,
    )


@router.get("/flows/{source}/{target}", responses=responses(404, 422, 502, 503))
def flow(context: AppContextDep, caller: ReaderDep, name: LocalFlow, span: RangeDep) -> FlowDetail:
    """One flow, and its settings that differ from the defaults."""
    seen = load_overview(context, caller, now_ms(), name)
    figures = Figures.read(context, [name], span)
    return FlowDetail(
        flow=summary(seen, name, figures, context),
        settings=_settings(context, seen, name),
        ignored=_ignored(context, seen, name),
        range=shown(span),
        errors=_faults(seen, figures),
        now_ms=seen.now_ms,
    )


class Figures:
    """Statistics and sparklines of flows over ``span``; none, and ``fault``, when the store does not respond."""

    def __init__(self, span: TimeRange) -> None:
        self.span = span
        self.stats: Mapping[str, Mapping[Metric, Stats]] = {}
        self.lines: Mapping[str, Mapping[Metric, Sequence[Stats]]] = {}
        self.fault: StoreError | None = None

    @classmethod
    def read(cls, context: AppContext, flows: Sequence[FlowName], span: TimeRange) -> Figures:
        figures = cls(span)
        if not flows:
            return figures
        try:
            figures.stats = context.figures.flow_stats(span, [str(flow) for flow in flows])
            if len(flows) == 1:
                (flow,) = map(str, flows)
                figures.lines = {
                    flow: {metric: context.figures.series(flow, metric, span, points=_POINTS) for metric in _DRAWN}
                }
            else:
                figures.lines = context.store.sparklines(_DRAWN, span, points=_POINTS)
        except StoreError as error:
            figures.fault = error
        return figures


def summary(seen: Overview, flow: FlowName, figures: Figures, context: AppContext) -> FlowSummary:
    """A flow as a row of the list."""
    row, scheduled = seen.rows.get(str(flow)), seen.scheduled.get(flow)
    verdict = seen.verdict(flow)
    shown = FlowSummary(
        flow=str(flow),
        source=flow.source,
        target=flow.target,
        dag_id=flow.dag_id if scheduled is None else scheduled.dag_id,
        paused=None if scheduled is None else scheduled.paused,
        misconfigured=flow in seen.misconfigured or (scheduled is not None and scheduled.misconfigured is not None),
        health=presenters.health(verdict.health),
        alarms=presenters.alarms(verdict.alarms),
        metrics=presenters.stats(figures.stats.get(str(flow), {})),
        sparklines={
            metric.value: presenters.sparkline(line, figures.span, _POINTS, _pace(seen, flow))
            for metric, line in figures.lines.get(str(flow), {}).items()
        },
        next_run_ms=None if scheduled is None else scheduled.next_run_ms,
        dag_url=None if scheduled is None else scheduled.dag_url,
    )
    if row is None:
        return shown
    run = row.last_run
    url = (
        None if context.scheduler is None or scheduled is None else context.scheduler.run_url(shown.dag_id, run.run_id)
    )
    beats = row.heartbeats
    return shown.model_copy(
        update={
            "topics": row.topics,
            "partitions": row.partitions,
            "failed_partitions": row.failed_partitions,
            "groups": row.groups,
            "untranslated_groups": row.history.untranslated_groups,
            "proved_partitions": row.history.proved_partitions,
            "unproved_partitions": row.history.unproved_partitions,
            "different_partitions": row.history.different_partitions,
            "uncompared_partitions": row.history.uncompared_partitions,
            "verified_ms": row.history.verified_ms,
            **presenters.lag(row.lag_now),
            "lag_ms": None if row.lag_now is None else row.lag_ms,
            "behind_ms": row.behind_ms,
            "lag_fault": None if row.live is None else row.live.fault,
            "records_total": row.records_total,
            "bytes_total": row.bytes_total,
            "skipped_records_total": row.skipped_records_total,
            "dead_letters_total": row.dead_letters_total,
            "warnings": list(row.warnings),
            "heartbeats": None if beats is None else presenters.heartbeats(beats, seen.now_ms - row.reported_ms),
            "last_run": presenters.run(run, url),
            "reported_ms": row.reported_ms,
            "late": report_late(seen.observation(flow)),
        }
    )


def _pace(seen: Overview, flow: FlowName) -> float | None:
    settings, row = seen.settings.get(flow), seen.rows.get(str(flow))
    if row is not None and row.history.schedule_interval_seconds is not None:
        return row.history.schedule_interval_seconds
    return None if settings is None else settings.schedule_interval_seconds


def _faults(seen: Overview, figures: Figures) -> list[Fault]:
    again = figures.fault is not None and seen.store_fault is None
    return [*seen.faults, *([fault_of(figures.fault)] if again and figures.fault is not None else [])]


def _ignored(context: AppContext, seen: Overview, flow: FlowName) -> list[str]:
    """Keys of the file that have no effect."""
    return [str(notice) for notice in notices(context.configuration())[flow]] if flow in seen.settings else []


def _settings(context: AppContext, seen: Overview, flow: FlowName) -> dict[str, str]:
    """What the file sets for the flow; secrets are masked."""
    if flow not in seen.settings and flow not in seen.misconfigured:
        return {}
    explanations = Explainer(context.configuration(), flow).everything()
    return {
        f"{explanation.place}.{explanation.name}" if explanation.place else explanation.name: explanation.value
        for explanation in explanations
        if explanation.origin is not None and explanation.value is not None
    }
