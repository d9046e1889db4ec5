"""Query parameters that routes share: the time range, offset and limit of lists, names of topics on either side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Query

from srm_common.domain.flow import FlowName
from srm_common.domain.metrics.stats import TimeRange
from srm_common.rest.app_context import AppContext
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Caller
from srm_common.rest.schemas import Range
from srm_common.store.rows import TopicRow

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
#: As Streams Replication Manager has it.
DEFAULT_MS = 2 * _HOUR_MS
LONGEST_MS = 5 * 366 * _DAY_MS
#: Year 3000; more is a mistake of units.
_LAST_MS = 32_503_680_000_000

Minutes = Annotated[int | None, Query(ge=1, le=LONGEST_MS // _MINUTE_MS, description="up to now", examples=[30])]
Hours = Annotated[int | None, Query(ge=1, le=LONGEST_MS // _HOUR_MS, description="up to now; 2 by default")]
Days = Annotated[int | None, Query(ge=1, le=LONGEST_MS // _DAY_MS, description="up to now")]
Moment = Annotated[int | None, Query(ge=0, le=_LAST_MS, description="epoch milliseconds")]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def time_range(
    minutes: Minutes = None, hours: Hours = None, days: Days = None, from_ms: Moment = None, to_ms: Moment = None
) -> TimeRange:
    """The last ``minutes``, ``hours`` or ``days`` together, up to ``to_ms`` (now), or from ``from_ms``."""
    end = now_ms() if to_ms is None else to_ms
    length = (minutes or 0) * _MINUTE_MS + (hours or 0) * _HOUR_MS + (days or 0) * _DAY_MS
    if from_ms is not None and length:
        raise ApiError(
            422, "invalid_range", "from_ms and minutes, hours or days cannot be combined: give one", field="from_ms"
        )
    start = from_ms if from_ms is not None else max(0, end - (length or DEFAULT_MS))
    if start > end:
        raise ApiError(422, "invalid_range", f"the range ends ({end}) before it starts ({start})", field="from_ms")
    if end - start > LONGEST_MS:
        raise ApiError(
            422,
            "invalid_range",
            f"the range is longer than {LONGEST_MS // _DAY_MS} days; request less",
            field="from_ms",
        )
    return TimeRange(start, end)


RangeDep = Annotated[TimeRange, Depends(time_range)]


def shown(span: TimeRange) -> Range:
    return Range(start_ms=span.start_ms, end_ms=span.end_ms)


#: Maximum number of rows in a response; neither a browser nor the store takes noticeable time for that many.
MOST_ROWS = 1000

Offset = Annotated[int, Query(ge=0, le=10_000_000, description="rows to leave out at the beginning")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description=f"rows of this response, at most {MOST_ROWS}")]
#: No topic's name is longer.
LONGEST_SEARCH = 249
Search = Annotated[
    str, Query(max_length=LONGEST_SEARCH, description="a part of the name, in any case", examples=["orders"])
]


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
    """The flow and topic of which ``remote_topic`` on ``target`` (None: on any) is a copy, according to reports.

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
    """Every topic whose upstream or downstream name contains ``name``; ``gone`` as for the store."""
    offset, total = 0, 1
    while offset < total:
        page = context.store.topics(str(flow), span, search=name, offset=offset, limit=_PAGE, gone=gone)
        yield from page.rows
        offset, total = offset + _PAGE, page.total
