"""Details of one flow: topics, partitions, groups, runs, decisions and the last plan."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from srm_common.domain.flow import FlowName
from srm_common.domain.topic_partition import TopicPartition
from srm_common.rest import presenters
from srm_common.rest.app_context import AppContext, AppContextDep
from srm_common.rest.faults import responses
from srm_common.rest.flow_dependency import ExistingFlow
from srm_common.rest.query_parameters import Limit, Offset, RangeDep, Search, now_ms, shown, topic_row
from srm_common.rest.schemas import Decision, DecisionList, GroupList, PlanAnswer, PlannedAction, RunList
from srm_common.rest.topic_schemas import PartitionList, TopicDetail, TopicList
from srm_common.store.metrics_store import TopicOrder
from srm_common.store.rows import Document

router = APIRouter(prefix="/api/v2/flows/{source}/{target}", tags=["one flow"])

_KNOWN = responses(404, 422, 502, 503)
TopicName = Annotated[str, Path(min_length=1, max_length=249, examples=["orders"])]
_Topic = Annotated[str | None, Query(min_length=1, max_length=249, description="only this upstream topic")]


@router.get("/topics", responses=_KNOWN)
def topics(
    context: AppContextDep,
    flow: ExistingFlow,
    span: RangeDep,
    search: Search = "",
    order: TopicOrder = "topic",
    offset: Offset = 0,
    limit: Limit = 100,
) -> TopicList:
    """Topics that the flow copies, with their statistics of the range."""
    page = context.figures.topics(str(flow), span, search=search, order=order, offset=offset, limit=limit)
    return TopicList(
        topics=[presenters.topic(row) for row in page.rows],
        total=page.total,
        offset=page.offset,
        range=shown(span),
        now_ms=now_ms(),
    )


@router.get("/topics/{topic}", responses=_KNOWN)
def topic(context: AppContextDep, flow: ExistingFlow, topic: TopicName, span: RangeDep) -> TopicDetail:
    """One upstream topic."""
    row = context.figures.topic(topic_row(context, flow, topic, span), span)
    return TopicDetail(topic=presenters.topic(row), range=shown(span), now_ms=now_ms())


@router.get("/partitions", responses=_KNOWN)
def partitions(
    context: AppContextDep,
    flow: ExistingFlow,
    topic: _Topic = None,
    failed: Annotated[bool, Query(description="only those that failed")] = False,
    offset: Offset = 0,
    limit: Limit = 100,
) -> PartitionList:
    """Partitions as of the last run, by topic, with their newest verification."""
    page = context.figures.partitions(str(flow), topic=topic, failed_only=failed, offset=offset, limit=limit)
    document = _document(context, flow, "verified")
    places = {TopicPartition(row.topic, row.partition) for row in page.rows}
    verified = {} if document is None else presenters.verified(document.value, places)
    found = [presenters.partition(row, verified.get(TopicPartition(row.topic, row.partition))) for row in page.rows]
    return PartitionList(partitions=found, total=page.total, offset=page.offset, now_ms=now_ms())


@router.get("/groups", responses=_KNOWN)
def groups(
    context: AppContextDep, flow: ExistingFlow, search: Search = "", offset: Offset = 0, limit: Limit = 100
) -> GroupList:
    """Consumer groups after the last checkpoints; those that are not translated completely come first."""
    page = context.store.groups(str(flow), search=search, offset=offset, limit=limit)
    found = [presenters.group(row) for row in page.rows]
    return GroupList(groups=found, total=page.total, offset=page.offset, now_ms=now_ms())


@router.get("/runs", responses=_KNOWN)
def runs(context: AppContextDep, flow: ExistingFlow, offset: Offset = 0, limit: Limit = 50) -> RunList:
    """Reported runs, newest first."""
    page = context.store.runs(str(flow), offset=offset, limit=limit)
    found = [presenters.run(row, _run_url(context, flow, row.run_id)) for row in page.rows]
    return RunList(runs=found, total=page.total, offset=page.offset, now_ms=now_ms())


@router.get("/decisions", responses=_KNOWN)
def decisions(
    context: AppContextDep,
    flow: ExistingFlow,
    search: Search = "",
    copied: Annotated[bool | None, Query(description="only topics that are, or are not, copied")] = None,
    offset: Offset = 0,
    limit: Limit = 100,
) -> DecisionList:
    """Why each topic of the source is, or is not, copied, as of the last refresh."""
    document = _document(context, flow, "decisions")
    wanted = search.casefold()
    found = [
        Decision(topic=one["topic"], remote_topic=one.get("remote_topic"), copied=one["accepted"], reason=one["reason"])
        for one in (() if document is None else document.value.get("decisions", ()))
        if wanted in one["topic"].casefold() and copied in (None, one["accepted"])
    ]
    return DecisionList(
        decisions=found[offset : offset + limit],
        total=len(found),
        offset=offset,
        reported_ms=None if document is None else document.reported_ms,
        now_ms=now_ms(),
    )


@router.get("/plan", responses=_KNOWN)
def plan(context: AppContextDep, flow: ExistingFlow) -> PlanAnswer:
    """What the last refresh changed; at most 500 changes, failed ones first."""
    document = _document(context, flow, "plan")
    if document is None:
        return PlanAnswer(actions=[], now_ms=now_ms())
    value = document.value
    left_out = int(value.get("actions_left_out", 0))
    more = [f"{left_out} more changes are not kept"] if left_out else []
    return PlanAnswer(
        actions=[
            PlannedAction(
                topic=one.get("topic"),
                kind=one["action"],
                sentence=one["text"],
                done=one.get("error") is None,
                error=one.get("error"),
            )
            for one in value.get("actions", ())
        ],
        notes=[*more, *value.get("lost", ()), *value.get("notices", ())],
        computed_ms=value.get("made_ms"),
        now_ms=now_ms(),
    )


def _document(context: AppContext, flow: FlowName, key: str) -> Document | None:
    return context.store.documents(str(flow), key).get(key)


def _run_url(context: AppContext, flow: FlowName, run_id: str) -> str | None:
    return None if context.scheduler is None else context.scheduler.run_url(flow.dag_id, run_id)
