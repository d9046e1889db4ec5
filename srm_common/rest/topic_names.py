"""Resolves full topic names on either side of a flow."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.flow import FlowName
from srm_common.domain.metrics.stats import TimeRange
from srm_common.rest.app_context import AppContext
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Caller
from srm_common.store.rows import TopicRow

_PAGE = 1000


def topic_row(context: AppContext, flow: FlowName, topic: str, span: TimeRange) -> TopicRow:
    """The upstream topic ``topic``. Raises :class:`ApiError` (404) when the flow has never reported it."""
    for row in topics_named(context, flow, topic, span, gone=True):
        if row.topic == topic:
            return row
    raise ApiError(404, "unknown_topic", f"{flow} has never reported a topic '{topic}'", flow=str(flow), field="topic")


def upstream_of(
    context: AppContext, caller: Caller, target: str | None, remote_topic: str, span: TimeRange, field: str
) -> tuple[FlowName, str]:
    """The flow and topic that ``remote_topic`` on ``target`` (None: on any) is a copy of, as was reported.

    Args:
        field: the parameter that names the topic, for errors.

    Raises:
        ApiError: there is none that the caller may see (404), or several flows copy into it (409).
    """
    known = (FlowName.parse(row.flow) for row in context.store.flows())
    flows = [flow for flow in known if target in (None, flow.target)]
    found = [
        (flow, row.topic)
        for flow in sorted(caller.readable(flows))
        for row in topics_named(context, flow, remote_topic, span, gone=True)
        if row.remote_topic == remote_topic
    ]
    if not found:
        where = "" if target is None else f" into '{target}'"
        sentence = f"no flow{where} has reported a topic '{remote_topic}' on its target"
        raise ApiError(404, "unknown_topic", sentence, field=field)
    if len(found) > 1:
        several = " and ".join(f"{flow} copies '{topic}'" for flow, topic in found)
        sentence = f"{several} into '{remote_topic}'; request it by its flow"
        raise ApiError(409, "ambiguous_topic", sentence, field=field)
    return found[0]


def topics_named(
    context: AppContext, flow: FlowName, name: str, span: TimeRange, *, gone: bool = False
) -> Iterator[TopicRow]:
    """Every topic with ``name`` as a part of its name on one of both sides; ``gone`` as the store has it."""
    offset, total = 0, 1
    while offset < total:
        page = context.store.topics(str(flow), span, search=name, offset=offset, limit=_PAGE, gone=gone)
        yield from page.rows
        offset, total = offset + _PAGE, page.total
