"""The API of Streams Replication Manager, version 1: the same paths, parameters and fields; it reads only.

There, each service had one target. Here a service may have several: ``target`` then says which one is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from srm_common.domain.flow import FlowName
from srm_common.domain.health.health import HealthState
from srm_common.domain.health.judge import Verdict
from srm_common.domain.metrics.metric import BY_METRIC, Across, Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.policy import ReplicationPolicy
from srm_common.rest.app_context import Alias, AppContext, AppContextDep, ReaderDep
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.overview import Overview, load_overview
from srm_common.rest.query_parameters import Hours, Minutes, now_ms, time_range, topics_named, upstream_of
from srm_common.rest.srm import schemas
from srm_common.rest.v2.series import DownstreamTopic, Samples
from srm_common.store.rows import TopicRow

router = APIRouter(prefix="/api/v1", tags=["version 1"])

_Sources = Annotated[list[str], Query(max_length=100, description="only flows from these clusters")]
_Target = Annotated[str | None, Query(min_length=1, max_length=249, description="where one source has several targets")]
_KNOWN = responses(404, 409, 422, 503)
_WELL = {HealthState.RUNNING, HealthState.CATCHING_UP, HealthState.IDLE, HealthState.HEARTBEAT_ONLY}
_AT_WORK = {HealthState.FAILING, HealthState.LOST_DATA}


def _recent(minutes: Minutes = None, hours: Hours = None) -> TimeRange:
    return time_range(minutes, hours)


_Span = Annotated[TimeRange, Depends(_recent)]


@router.get("/replications", responses=responses(422, 503))
def replications(
    context: AppContextDep,
    caller: ReaderDep,
    span: _Span,
    source: _Sources = [],  # noqa: B006  FastAPI copies it
) -> dict[str, schemas.ReplicationInfo]:
    """Flows, by their names."""
    seen = load_overview(context, caller, now_ms())
    names = [flow for flow in seen.names if not source or flow.source in source]
    return replication_infos(context, seen, names, span)


@router.get("/remote-topics/{source}", responses=_KNOWN)
def remote_topics(
    context: AppContextDep,
    caller: ReaderDep,
    source: Alias,
    span: _Span,
    target: _Target = None,
) -> dict[str, schemas.TopicInfo]:
    """Copies of a cluster's topics, by their names on the target."""
    flow = _one_flow(load_overview(context, caller, now_ms()), source, target)
    configuration = context.configuration()
    settings = configuration.flows.get(flow)

    def info(row: TopicRow) -> schemas.TopicInfo:
        def figures(metric: Metric) -> schemas.Stats:
            return _stats(metric, row.stats.get(metric), span, topics=[row.topic])

        original = row.topic if settings is None else _original(settings.policy, row.topic, configuration.clusters)
        return schemas.TopicInfo(
            name=row.remote_topic,
            source=source,
            upstream_topic=row.topic,
            original_topic=original,
            num_partitions=row.partitions,
            num_consumer_groups=row.consumer_groups,
            throughput_bps=figures(Metric.BYTE_RATE),
            replication_latency_ms=figures(Metric.REPLICATION_LATENCY),
            checkpoint_latency_ms=figures(Metric.CHECKPOINT_LATENCY),
        )

    return {row.remote_topic: info(row) for row in topics_named(context, flow, "", span)}


@router.get("/topic-metrics/{topic}/{metric}", responses=_KNOWN)
@router.get("/topic-metrics-local/{topic}/{metric}", responses=_KNOWN, include_in_schema=False)
def topic_metrics(
    context: AppContextDep,
    caller: ReaderDep,
    topic: DownstreamTopic,
    metric: Metric,
    span: _Span,
    target: _Target = None,
    samples: Samples = 1000,
) -> schemas.TimeSeriesResponse:
    """One metric of a remote topic over time, by its name on the target."""
    flow, upstream = upstream_of(context, caller, target, topic, span, "topic")
    return _series(context, load_overview(context, caller, now_ms(), flow), flow, metric, span, samples, upstream)


@router.get("/cluster-metrics/{cluster}/{metric}", responses=_KNOWN)
@router.get("/cluster-metrics-local/{cluster}/{metric}", responses=_KNOWN, include_in_schema=False)
def cluster_metrics(
    context: AppContextDep,
    caller: ReaderDep,
    cluster: Alias,
    metric: Metric,
    span: _Span,
    target: _Target = None,
    samples: Samples = 1000,
) -> schemas.TimeSeriesResponse:
    """One metric of the whole flow from a cluster over time."""
    seen = load_overview(context, caller, now_ms())
    return _series(context, seen, _one_flow(seen, cluster, target), metric, span, samples)


def replication_infos(
    context: AppContext, seen: Overview, flows: Sequence[FlowName], span: TimeRange
) -> dict[str, schemas.ReplicationInfo]:
    """Flows as version 1 shows them."""
    if seen.store_fault is not None:
        raise ApiError(503, "store_unavailable", seen.store_fault)
    stats = context.figures.flow_stats(span, [str(flow) for flow in flows])

    def info(flow: FlowName) -> schemas.ReplicationInfo:
        row = seen.rows.get(str(flow))

        def figures(metric: Metric) -> schemas.Stats:
            mine: Mapping[Metric, Stats] = stats.get(str(flow), {})
            return _stats(metric, mine.get(metric), span)

        return schemas.ReplicationInfo(
            name=str(flow),
            source=flow.source,
            target=flow.target,
            status=status_of(seen.verdict(flow)),
            num_topics=None if row is None else row.topics,
            num_consumer_groups=None if row is None else row.groups,
            throughput_bps=figures(Metric.BYTE_RATE),
            replication_latency_ms=figures(Metric.REPLICATION_LATENCY),
            checkpoint_latency_ms=figures(Metric.CHECKPOINT_LATENCY),
        )

    return {str(flow): info(flow) for flow in flows}


def status_of(verdict: Verdict) -> schemas.Status:
    """WARNING: it works, but needs attention; INACTIVE: it does not work, has not run yet, or is unknown. A flow that
    copies only heartbeats counts as working, as in SRM, where disabled flows do so; version 2 distinguishes it."""
    state = verdict.health.state
    if state in _WELL:
        return schemas.Status.WARNING if verdict.alarms else schemas.Status.ACTIVE
    return schemas.Status.WARNING if state in _AT_WORK else schemas.Status.INACTIVE


def shown_range(span: TimeRange) -> schemas.TimeRange:
    minutes = span.milliseconds / 60_000
    return schemas.TimeRange(
        start=span.start_ms, end=span.end_ms, midpoint=span.midpoint_ms, description=f"{minutes:g} minutes"
    )


def _one_flow(seen: Overview, source: str, target: str | None) -> FlowName:
    """The flow from ``source``. Raises :class:`ApiError`: there is none (404), or several (409)."""
    flow_names = [flow for flow in seen.names if flow.source == source and target in (None, flow.target)]
    if not flow_names:
        where = "" if target is None else f" to '{target}'"
        raise ApiError(404, "unknown_flow", f"there is no flow from '{source}'{where}")
    if len(flow_names) > 1:
        names = " and ".join(str(flow) for flow in flow_names)
        raise ApiError(409, "ambiguous_flow", f"'{source}' is the source of {names}; add target=", field="target")
    return flow_names[0]


def _original(policy: ReplicationPolicy, topic: str, aliases: Collection[str]) -> str:
    """Its name where it was first written. A name such as ``customers.created`` is a copy's only if there is a cluster
    ``customers``."""
    while policy.topic_source(topic) in aliases:
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            break
        topic = upstream
    return topic


def _series(
    context: AppContext,
    seen: Overview,
    flow: FlowName,
    metric: Metric,
    span: TimeRange,
    samples: int,
    topic: str | None = None,
) -> schemas.TimeSeriesResponse:
    row, errors = seen.rows.get(str(flow)), [fault.message for fault in seen.faults]
    if metric in (Metric.RECORDS_LAG, Metric.LAG_AGE) and row is not None and row.live is not None and row.live.fault:
        errors.append(f"the current lag is unknown: {row.live.fault}")
    stats = context.figures.series(str(flow), metric, span, topic=topic, points=samples)
    topics = [] if topic is None else [topic]
    return schemas.TimeSeriesResponse(
        metrics=[_stats(metric, stat, stat.span, topics=topics) for stat in stats],
        errors=errors,
        range=shown_range(span),
    )


def _stats(metric: Metric, found: Stats | None, span: TimeRange, topics: Sequence[str] = ()) -> schemas.Stats:
    stats = schemas.Stats(name=metric.value, range=shown_range(span), topics=list(topics))
    if found is None:
        return stats
    figures = {
        "min": found.min,
        "max": found.max,
        # Version 1 averages each partition over time, and adds these up: "sum" is the whole backlog.
        "sum": found.avg if BY_METRIC[metric].across is Across.SUM else found.sum,
        "avg": found.avg,
        "samples": found.count,
        "latest_timestamp": found.latest_ms,
        "latest_value": found.latest,
    }
    return stats.model_copy(update=figures)
