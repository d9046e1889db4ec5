"""The topics of a flow as they stand, with statistics of a range."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, and_, func, or_, select

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.store.current_rows import listed
from srm_common.store.history import flow_names, newest_report
from srm_common.store.level import Level
from srm_common.store.metric_codes import METRICS
from srm_common.store.report_rows import kept_lag
from srm_common.store.rows import Page, TopicRow
from srm_common.store.sample_query import Scope, covered, statistics, stats
from srm_common.store.tables import FLOW, TOPIC
from srm_common.store.tiers import Retention, tier_for_statistics

TopicOrder = Literal[
    "topic", "-topic", "lag", "-lag", "byte-rate", "-byte-rate", "replication-latency-ms", "-replication-latency-ms"
]


def topic_page(
    connection: Connection,
    flow: str,
    span: TimeRange,
    retention: Retention,
    search: str,
    order: TopicOrder,
    offset: int,
    limit: int,
    *,
    gone: bool = False,
    lags: Mapping[str, int] | None = None,
    metrics: Collection[Metric] | None = None,
) -> Page[TopicRow]:
    """Topics that are copied now; of a range that was over before the newest report also those whose last report lies
    within it, and with ``gone`` of every range.

    Args:
        lags: by topic, newer than those of the report: the rows are sorted by them.
        metrics: those that statistics are wanted of; all where it is None.
    """
    names = flow_names(connection, [flow])
    if not names:
        return Page((), 0, offset)
    (flow_id,) = names
    tier = tier_for_statistics(span, newest_report(connection, names), retention.of(Level.TOPIC))
    within = and_(TOPIC.c.reported_ms >= span.start_ms, TOPIC.c.reported_ms < span.end_ms)
    wanted = select(TOPIC).select_from(FLOW.join(TOPIC, TOPIC.c.flow_id == FLOW.c.id))
    if not gone:
        # Who looks at now is not to see what is not copied any more.
        within = and_(within, FLOW.c.figures_ms >= span.end_ms)
    wanted = wanted.where(FLOW.c.id == flow_id, or_(listed(), within))
    if search:
        wanted = wanted.where(TOPIC.c.folded.contains(search.lower(), autoescape=True))
    total = connection.execute(select(func.count()).select_from(wanted.subquery())).scalar_one()
    key, falling = order.removeprefix("-"), order.startswith("-")
    if key == "lag" and lags:
        rows = list(connection.execute(wanted.order_by(TOPIC.c.name)).mappings())
        sign = -1 if falling else 1
        newest = {row["id"]: lags.get(row["name"], row["lag"]) for row in rows}
        rows.sort(key=lambda row: (newest[row["id"]] is None, sign * (newest[row["id"]] or 0)))
        rows = rows[offset : offset + limit]
    elif key in ("topic", "lag"):
        column = TOPIC.c.name if key == "topic" else TOPIC.c.lag
        wanted = wanted.order_by((column.desc() if falling else column.asc()).nulls_last(), TOPIC.c.name)
        rows = list(connection.execute(wanted.offset(offset).limit(limit)).mappings())
    else:
        rows = list(connection.execute(wanted.order_by(TOPIC.c.name)).mappings())
        metric = Metric(key)
        scope = Scope(Level.TOPIC, [flow_id], metrics=[metric])
        averages = {row.topic_id: row.total / row.figures for row in statistics(connection, scope, span, tier)}
        sign = -1 if falling else 1
        # Topics without a figure come last, either way.
        rows.sort(key=lambda row: (row["id"] not in averages, sign * averages.get(row["id"], 0.0)))
        rows = rows[offset : offset + limit]
    figures: dict[int, dict[Metric, Stats]] = {row["id"]: {} for row in rows}
    # Where most are wanted, naming each would take longer than reading the others.
    wanted_ids = list(figures) if 2 * len(figures) < total else None
    scope, measured = Scope(Level.TOPIC, [flow_id], topic_ids=wanted_ids, metrics=metrics), covered(span, tier)
    for row in statistics(connection, scope, span, tier) if figures else ():
        known, mine = METRICS.get(row.metric), figures.get(row.topic_id)
        if known is not None and mine is not None:
            mine[known] = stats(known, measured, row)
    return Page([_topic(flow, row, figures[row["id"]]) for row in rows], total, offset)


def _topic(flow: str, row: RowMapping, figures: Mapping[Metric, Stats]) -> TopicRow:
    hidden = ("id", "flow_id", "folded", "lag_unknown")
    values: dict[str, Any] = {name: value for name, value in row.items() if name not in hidden}
    return TopicRow(flow=flow, topic=values.pop("name"), stats=figures, **{**values, "lag": kept_lag(dict(row))})
