"""The newest status in the database: flows, partitions, groups, runs, documents."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, Select, and_, func, or_, select

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.domain.monitoring.run_report import GroupSample
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.store.history import Scope, covered, statistics, stats
from srm_common.store.report_rows import kept_lag
from srm_common.store.rows import Document, FlowRow, GroupRow, Page, PartitionRow, RunRow, TopicRow
from srm_common.store.tables import DOCUMENT, FLOW, GROUP, METRICS, PARTITION, RUN, TOPIC, TOTALS
from srm_common.store.tiers import Level, Retention, tier_for_statistics

_RUN_COLUMNS = [column for column in RUN.columns if column.name not in ("id", "flow_id")]
#: In the order of PartitionRow's fields: there may be tens of thousands of rows.
_PARTITION_COLUMNS = (
    TOPIC.c.name,
    TOPIC.c.remote_topic,
    PARTITION.c.number,
    PARTITION.c.position,
    PARTITION.c.end_offset,
    PARTITION.c.lag,
    PARTITION.c.newest_record_ms,
    PARTITION.c.latency_ms_min,
    PARTITION.c.latency_ms_avg,
    PARTITION.c.latency_ms_max,
    PARTITION.c.reported_ms,
    PARTITION.c.error,
    PARTITION.c.records_total,
    PARTITION.c.bytes_total,
    PARTITION.c.skipped_records_total,
    PARTITION.c.dead_letters_total,
    PARTITION.c.error_kind,
    PARTITION.c.latencies,
    PARTITION.c.record_rate,
    PARTITION.c.byte_rate,
)


def flow_rows(connection: Connection, only: Collection[str] | None) -> list[FlowRow]:
    newest = and_(RUN.c.flow_id == FLOW.c.id, RUN.c.run_id == FLOW.c.run_id)
    wanted = select(FLOW).where(FLOW.c.reported_ms.is_not(None))
    runs = select(FLOW.c.name.label("flow"), *_RUN_COLUMNS).select_from(FLOW.join(RUN, newest))
    if only is not None:
        wanted, runs = wanted.where(FLOW.c.name.in_(only)), runs.where(FLOW.c.name.in_(only))
    last = {row["flow"]: _run(row) for row in connection.execute(runs).mappings()}
    rows = [_flow(row, last[row["name"]]) for row in connection.execute(wanted).mappings() if row["name"] in last]
    # Sorted here: databases sort names by their locale.
    return sorted(rows, key=lambda row: row.flow)


def partition_page(
    connection: Connection, flow: str, topic: str | None, failed_only: bool, offset: int, limit: int
) -> Page[PartitionRow]:
    wanted = [FLOW.c.name == flow, listed()]
    if topic is not None:
        wanted.append(TOPIC.c.name == topic)
    if failed_only:
        wanted.append(PARTITION.c.error.is_not(None))
    joined = FLOW.join(TOPIC, TOPIC.c.flow_id == FLOW.c.id).join(
        PARTITION, and_(PARTITION.c.topic_id == TOPIC.c.id, PARTITION.c.reported_ms == TOPIC.c.reported_ms)
    )
    rows = select(*_PARTITION_COLUMNS).select_from(joined).where(*wanted).order_by(TOPIC.c.name, PARTITION.c.number)
    # All at once: one by one takes twice as long.
    found = connection.execute(rows.offset(offset).limit(limit)).all()
    counted = select(func.count()).select_from(joined).where(*wanted)
    return Page(
        [PartitionRow(flow, *row) for row in found], total(connection, counted, len(found), offset, limit), offset
    )


def group_page(connection: Connection, flow: str, search: str, offset: int, limit: int) -> Page[GroupRow]:
    wanted = [FLOW.c.name == flow]
    if search:
        wanted.append(GROUP.c.folded.contains(search.lower(), autoescape=True))
    joined = FLOW.join(GROUP, GROUP.c.flow_id == FLOW.c.id)
    rows = select(GROUP).select_from(joined).where(*wanted)
    rows = rows.order_by(GROUP.c.translated >= GROUP.c.positions, GROUP.c.name)
    mappings = connection.execute(rows.offset(offset).limit(limit)).mappings().all()
    counted = select(func.count()).select_from(joined).where(*wanted)
    return Page(
        [_group(flow, row) for row in mappings], total(connection, counted, len(mappings), offset, limit), offset
    )


def run_page(connection: Connection, flow: str, offset: int, limit: int) -> Page[RunRow]:
    joined = FLOW.join(RUN, RUN.c.flow_id == FLOW.c.id)
    rows: Select[Any] = select(FLOW.c.name.label("flow"), *_RUN_COLUMNS).select_from(joined).where(FLOW.c.name == flow)
    rows = rows.order_by(RUN.c.reported_ms.desc(), RUN.c.id.desc())
    mappings = connection.execute(rows.offset(offset).limit(limit)).mappings().all()
    counted = select(func.count()).select_from(joined).where(FLOW.c.name == flow)
    return Page([_run(row) for row in mappings], total(connection, counted, len(mappings), offset, limit), offset)


def documents(connection: Connection, flow: str, keys: Collection[str]) -> Mapping[str, Document]:
    joined = FLOW.join(DOCUMENT, DOCUMENT.c.flow_id == FLOW.c.id)
    wanted = select(DOCUMENT).select_from(joined).where(FLOW.c.name == flow)
    if keys:
        wanted = wanted.where(DOCUMENT.c.key.in_(keys))
    result = connection.execute(wanted).mappings()
    return {row["key"]: Document(flow, row["key"], json.loads(row["value"]), row["reported_ms"]) for row in result}


def total(connection: Connection, counted: Select[int], found: int, offset: int, limit: int) -> int:
    """The number of all rows. The database counts them only if a page of ``found`` rows does not show it."""
    if found < limit and (found or not offset):
        return offset + found
    return int(connection.execute(counted).scalar_one())


def listed() -> Any:
    """Topics in the newest report with figures; others are no longer copied."""
    return TOPIC.c.reported_ms >= FLOW.c.figures_ms


def _flow(row: RowMapping, last_run: RunRow) -> FlowRow:
    return FlowRow(
        flow=row["name"],
        reported_ms=row["reported_ms"],
        last_run=last_run,
        topics=row["topics"],
        partitions=row["partitions"],
        failed_partitions=row["failed_partitions"],
        history=FlowHistory.from_json(_json(row["history"]) or {}),
        groups=row["consumer_groups"],
        warnings=_texts(row["warnings"]),
        heartbeats=_json(row["heartbeats"]),
        clock=_json(row["clock"]),
        **{name: row[name] for name in TOTALS},
        latencies_total=None if row["latencies_total"] is None else LatencyHistogram.parse(row["latencies_total"]),
    )


def _run(row: RowMapping) -> RunRow:
    values = {**row, "notes": _texts(row["notes"]), "partition_errors": _texts(row["partition_errors"])}
    del values["lag_unknown"]
    values |= {name: row[name] or 0 for name in ("dropped_records", "skipped_records", "dead_letters")}
    return RunRow(**{**values, "ok": bool(row["ok"]), "lag": kept_lag(dict(row))})


def _group(flow: str, row: RowMapping) -> GroupRow:
    sample = GroupSample(
        row["name"],
        row["positions"],
        row["translated"],
        row["reason"],
        bool(row["synced"]),
        row["checkpoint_latency_ms"],
        row["checkpoint_ms"],
    )
    return GroupRow(flow, row["reported_ms"], sample)


def _texts(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


def _json(text: str | None) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = json.loads(text) if text else None
    return found


# The topics of a flow in their current state, with statistics over a range.


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
    """Topics that are copied now. If the range ended before the newest report, or with ``gone``, also those whose last
    report lies within the range.

    Args:
        lags: by topic, newer than those of the report: the rows are sorted by them.
        metrics: which statistics to return; None: all.
    """
    of_flow = select(FLOW.c.id, FLOW.c.reported_ms, FLOW.c.topics).where(FLOW.c.name == flow)
    reported = connection.execute(of_flow.where(FLOW.c.reported_ms.is_not(None))).one_or_none()
    if reported is None:
        return Page((), 0, offset)
    flow_id, newest_ms, copied = reported
    tier = tier_for_statistics(span, newest_ms, retention.of(Level.TOPIC))
    within = and_(TOPIC.c.reported_ms >= span.start_ms, TOPIC.c.reported_ms < span.end_ms)
    wanted = select(TOPIC).select_from(FLOW.join(TOPIC, TOPIC.c.flow_id == FLOW.c.id))
    if not gone:
        # A range that reaches to now shows only what is still copied.
        within = and_(within, FLOW.c.figures_ms >= span.end_ms)
    wanted = wanted.where(FLOW.c.id == flow_id, or_(listed(), within))
    if search:
        wanted = wanted.where(TOPIC.c.folded.contains(search.lower(), autoescape=True))
    key, falling = order.removeprefix("-"), order.startswith("-")
    if key == "topic" or (key == "lag" and not lags):
        column = TOPIC.c.name if key == "topic" else TOPIC.c.lag
        # Topics without a figure come last, either way; SQLite has NULLS LAST only since 3.30.
        sorted_rows = wanted.order_by(column.is_(None), column.desc() if falling else column.asc(), TOPIC.c.name)
        rows = connection.execute(sorted_rows.offset(offset).limit(limit)).mappings().all()
        counted = select(func.count()).select_from(wanted.subquery())
        topics = total(connection, counted, len(rows), offset, limit)
    else:
        # All topics are read with what they are sorted by, those of the page in full.
        names = connection.execute(
            wanted.with_only_columns(TOPIC.c.id, TOPIC.c.name, TOPIC.c.lag).order_by(TOPIC.c.name)
        ).all()
        values: dict[int, float | None]
        if key == "lag":
            newer = lags or {}
            values = {row.id: newer.get(row.name, row.lag) for row in names}
        else:
            scope = Scope(Level.TOPIC, [flow_id], metrics=[Metric(key)])
            averages = {row.topic_id: row.total / row.figures for row in statistics(connection, scope, span, tier)}
            values = {row.id: averages.get(row.id) for row in names}
        sign = -1 if falling else 1
        # Topics without a figure come last, either way.
        ids = sorted(values, key=lambda one: ((value := values[one]) is None, sign * (value or 0)))
        topics, ids = len(ids), ids[offset : offset + limit]
        by_id = {row["id"]: row for row in connection.execute(select(TOPIC).where(TOPIC.c.id.in_(ids))).mappings()}
        rows = [by_id[one] for one in ids]
    figures: dict[int, dict[Metric, Stats]] = {row["id"]: {} for row in rows}
    # If most of the flow's topics are wanted, naming each takes longer than reading the others, too.
    wanted_ids = list(figures) if 2 * len(figures) < copied else None
    scope, measured = Scope(Level.TOPIC, [flow_id], topic_ids=wanted_ids, metrics=metrics), covered(span, tier)
    for row in statistics(connection, scope, span, tier) if figures else ():
        known, mine = METRICS.get(row.metric), figures.get(row.topic_id)
        if known is not None and mine is not None:
            mine[known] = stats(known, measured, row)
    return Page([_topic(flow, row, figures[row["id"]]) for row in rows], topics, offset)


def _topic(flow: str, row: RowMapping, figures: Mapping[Metric, Stats]) -> TopicRow:
    return TopicRow(
        flow=flow,
        topic=row["name"],
        remote_topic=row["remote_topic"],
        partitions=row["partitions"],
        failed_partitions=row["failed_partitions"],
        lag=kept_lag(dict(row)),
        reported_ms=row["reported_ms"],
        newest_record_ms=row["newest_record_ms"],
        stats=figures,
        error=row["error"],
        **{name: row[name] for name in TOTALS},
        consumer_groups=row["consumer_groups"],
    )
