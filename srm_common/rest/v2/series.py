"""Metrics over time, of flows, topics and partitions; also under the paths of Streams Replication Manager."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from srm_common.domain.flow import FlowName
from srm_common.domain.metrics.metric import BY_METRIC, Metric
from srm_common.domain.metrics.stats import TimeRange
from srm_common.rest import presenters
from srm_common.rest.app_context import AppContext, AppContextDep, ReaderDep, TargetAlias
from srm_common.rest.faults import ApiError, responses
from srm_common.rest.flow_dependency import ExistingFlow
from srm_common.rest.query_parameters import RangeDep, now_ms, shown, topic_row, upstream_of
from srm_common.rest.schemas import Series
from srm_common.rest.v2.flow_details import TopicName

router = APIRouter(prefix="/api/v2", tags=["metrics"])

_KNOWN = responses(404, 422, 502, 503)
_Topic = Annotated[str | None, Query(min_length=1, max_length=249, description="of this upstream topic")]
_Partition = Annotated[int | None, Query(ge=0, le=2_147_483_647, description="of this partition of the topic")]
Samples = Annotated[int, Query(ge=1, le=5000, description="maximum number of points")]
DownstreamTopic = Annotated[str, Path(min_length=1, max_length=249, examples=["east.orders"])]


@router.get("/flows/{source}/{target}/metrics/{metric}", responses=_KNOWN)
def flow_series(
    context: AppContextDep,
    flow: ExistingFlow,
    metric: Metric,
    span: RangeDep,
    topic: _Topic = None,
    partition: _Partition = None,
    samples: Samples = 200,
) -> Series:
    """One metric over time, of the flow, of a topic or of a partition."""
    if partition is not None and topic is None:
        raise ApiError(422, "invalid_parameter", "partition needs topic", field="partition")
    return _series(context, flow, metric, span, samples, topic, partition)


@router.get("/cluster-metrics/{source}/{target}/{metric}", responses=_KNOWN)
def cluster_metrics(
    context: AppContextDep, flow: ExistingFlow, metric: Metric, span: RangeDep, samples: Samples = 1000
) -> Series:
    """One metric of a whole flow over time."""
    return _series(context, flow, metric, span, samples)


@router.get("/topic-metrics/{source}/{target}/{topic}/{metric}", responses=_KNOWN)
def topic_metrics(
    context: AppContextDep,
    flow: ExistingFlow,
    topic: TopicName,
    metric: Metric,
    span: RangeDep,
    samples: Samples = 1000,
) -> Series:
    """One metric of an upstream topic over time."""
    return _series(context, flow, metric, span, samples, topic)


@router.get("/topic-metrics/{target}/{downstream_topic}/{metric}", responses=responses(404, 409, 422, 503))
def downstream_topic_metrics(
    context: AppContextDep,
    caller: ReaderDep,
    target: TargetAlias,
    downstream_topic: DownstreamTopic,
    metric: Metric,
    span: RangeDep,
    samples: Samples = 1000,
) -> Series:
    """One metric of a remote topic over time, by its name on the target, under any replication policy."""
    flow, topic = upstream_of(context, caller, target, downstream_topic, span, "downstream_topic")
    return _series(context, flow, metric, span, samples, topic)


def _series(
    context: AppContext,
    flow: FlowName,
    metric: Metric,
    span: TimeRange,
    samples: int,
    topic: str | None = None,
    partition: int | None = None,
) -> Series:
    stats = context.figures.series(str(flow), metric, span, topic=topic, partition=partition, points=samples)
    if not stats and topic is not None:
        topic_row(context, flow, topic, span)  # a name that was never reported is a mistake, not a quiet topic
    return Series(
        flow=str(flow),
        metric=metric.value,
        unit=BY_METRIC[metric].unit,
        topic=topic,
        partition=partition,
        points=[presenters.point(stat) for stat in stats],
        range=shown(span),
        now_ms=now_ms(),
    )
