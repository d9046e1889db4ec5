"""GET /metrics, for Prometheus.

It requires a login with read permission, as everything else, unless the file allows a token that is valid for nothing
else, or access without a login.
"""

from __future__ import annotations

import gzip
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from srm_common import __version__
from srm_common.domain.flow import FlowName
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.errors import ConfigError, StoreError
from srm_common.rest.app_context import AppContext, AppContextDep, require
from srm_common.rest.faults import responses
from srm_common.rest.overview import Overview, load_overview
from srm_common.rest.ports import Caller, Right
from srm_common.rest.prometheus.exposition import CONTENT_TYPE
from srm_common.rest.prometheus.families import Detail, ServiceFigures, render
from srm_common.rest.prometheus.series import FlowFigures, rate_factor, rates_window_ms
from srm_common.rest.prometheus.topic_series import TOPIC_METRICS
from srm_common.rest.query_parameters import now_ms
from srm_common.settings_files.service_settings import ServiceSettings, service_settings
from srm_common.store.history import RATES
from srm_common.store.tiers import Level

#: Latencies are of this time: a few runs of most flows.
_LATENCIES_MS = 300_000
#: Rows requested for one flow; more than Kafka clusters have.
_ALL = 10_000_000

router = APIRouter(tags=["service"])


class Scraper:
    """A caller without a login; sees all flows, and only metrics."""

    name = "scraper"

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        return right is Right.READ

    def readable(self, flows: Iterable[FlowName]) -> set[FlowName]:
        return set(flows)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **responses(),
        200: {"content": {"text/plain": {"example": 'srm_flow_lag_records{source="east",target="west"} 12\n'}}},
    },
)
def metrics(
    request: Request,
    context: AppContextDep,
    detail: Annotated[Detail, Query(description="the finest level; each includes the coarser ones")] = Detail.PARTITION,
    mirror_maker: Annotated[bool, Query(description="with MirrorMaker 2's series (kafka_connect_*)")] = True,
) -> Response:
    """All flows in Prometheus' text format, as of each one's last report; the clusters are queried for lag between
    scrapes. docs/monitoring.md explains the series."""
    caller = _caller(request, context)
    overview = load_overview(context, caller, now_ms())
    figures, store_up = _figures(context, overview, detail)
    scheduler_up = None if context.scheduler is None else overview.schedule_fault is None
    text = render(
        ServiceFigures(__version__, store_up, scheduler_up), figures, detail, mirror_maker=mirror_maker
    ).encode()
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        # The app's own compression takes seconds, this one hundredths of a second: the text is repetitive.
        text = gzip.compress(text, 1)
        headers["Content-Encoding"] = "gzip"
    return Response(text, media_type=CONTENT_TYPE, headers=headers)


def _caller(request: Request, context: AppContext) -> Caller:
    try:
        settings = service_settings(context.configuration())
    except ConfigError:
        settings = ServiceSettings()  # a broken file opens nothing
    if settings.metrics_open or _has_token(request, settings.metrics_token):
        return Scraper()
    caller = context.access.caller(request)
    require(caller, Right.READ)
    return caller


def _has_token(request: Request, token: str | None) -> bool:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return (
        token is not None and kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
    )


def _figures(context: AppContext, overview: Overview, detail: Detail) -> tuple[Sequence[FlowFigures], bool]:
    """The flows, and whether the history could be read; without it there are still their states."""
    names = [str(name) for name in overview.names]
    span = TimeRange(overview.now_ms - _LATENCIES_MS, overview.now_ms)
    stats: dict[str, dict[Metric, Stats]] = {}
    store_up = overview.store_fault is None
    if store_up:
        try:
            stats = {flow: dict(found) for flow, found in context.figures.flow_stats(span, names).items()}
            return [_flow(context, overview, name, stats, detail) for name in overview.names], True
        except StoreError:
            store_up = False
    return [_judged(overview, name) for name in overview.names], store_up


def _judged(overview: Overview, name: FlowName) -> FlowFigures:
    health, alarms = overview.verdict(name)
    figures = FlowFigures(name, health, alarms, overview.rows.get(str(name)))
    settings = overview.settings.get(name)
    return figures if settings is None else replace(figures, names_formats=settings.metric_names_formats)


def _flow(
    context: AppContext, overview: Overview, name: FlowName, stats: dict[str, dict[Metric, Stats]], detail: Detail
) -> FlowFigures:
    figures, flow = context.figures, str(name)
    flow_figures = replace(_judged(overview, name), stats=stats.get(flow, {}))
    row = flow_figures.row
    if row is None:
        return flow_figures
    levels = (Level.FLOW,) if detail is Detail.FLOW else (Level.FLOW, Level.TOPIC)
    rates = context.store.average_rates(flow, overview.now_ms, rates_window_ms(row), levels)
    flow_figures = replace(flow_figures, stats={**flow_figures.stats, **_averages(rates.get("", {}), overview)})
    if detail is Detail.FLOW:
        return flow_figures
    span = TimeRange(overview.now_ms - _LATENCIES_MS, overview.now_ms)
    topics = figures.topics(flow, span, limit=_ALL, metrics=TOPIC_METRICS).rows
    return replace(
        flow_figures,
        topics=[replace(one, stats={**one.stats, **_averages(rates.get(one.topic, {}), overview)}) for one in topics],
        groups=context.store.groups(flow, limit=_ALL).rows,
        partitions=figures.partitions(flow, limit=_ALL).rows if detail is Detail.PARTITION else (),
        rate_factor=rate_factor(row, overview.now_ms),
    )


def _averages(rates: Mapping[Metric, float], overview: Overview) -> dict[Metric, Stats]:
    """As statistics, in place of those of rates within runs: of what is not among them, nothing was copied."""
    now = TimeRange(overview.now_ms, overview.now_ms)
    return {metric: Stats(metric, now, 1, sum=rates.get(metric, 0.0)) for metric in RATES}
