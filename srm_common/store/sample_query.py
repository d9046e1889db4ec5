"""Samples of a range as SQL: each time from the finest tier that the range needs, the newest from the tiers below."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, and_, case, func, literal, select, union_all
from sqlalchemy.sql.selectable import Subquery

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.store.level import Level
from srm_common.store.metric_codes import CODES
from srm_common.store.tables import FLOW, SAMPLE
from srm_common.store.tiers import BUCKETS_MS, RAW, bucket_start

#: What identifies a series of samples.
_SERIES = ("flow_id", "topic_id", "number", "metric")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which samples: of which level, of which things. None: of all."""

    level: Level
    flow_ids: Collection[int] | None = None
    topic_ids: Collection[int] | None = None
    number: int | None = None
    metrics: Collection[Metric] | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        c = SAMPLE.c
        # Flows without a time are being forgotten.
        found = [c.level == int(self.level), FLOW.c.reported_ms.is_not(None)]
        if self.flow_ids is not None:
            # Of both tables: whichever one is looked at first, none is read as a whole.
            found += [FLOW.c.id.in_(self.flow_ids), c.flow_id.in_(self.flow_ids)]
        if self.topic_ids is not None:
            found.append(c.topic_id.in_(self.topic_ids))
        if self.number is not None:
            found.append(c.number == self.number)
        if self.metrics is not None:
            found.append(c.metric.in_([CODES[metric] for metric in self.metrics]))
        return found


def covered(span: TimeRange, tier: int) -> TimeRange:
    """What the answer to ``span`` covers: from the beginning of its first bucket."""
    return TimeRange(bucket_start(span.start_ms, tier), span.end_ms)


def statistics(connection: Connection, scope: Scope, span: TimeRange, tier: int) -> list[Row[Any]]:
    """One row for each series with samples: its identity, figures, low, high, total, latest, latest_ms, latencies."""
    return list(connection.execute(_grouped(scope, _samples(scope, span, tier), None)).all())


def buckets(connection: Connection, scope: Scope, span: TimeRange, tier: int, step_ms: int) -> list[Row[Any]]:
    """The same for each series and each bucket of ``step_ms``, counted from the start of what is covered; with
    ``bucket``, its number. Sorted by it."""
    samples = _samples(scope, span, tier)
    bucket = (samples.c.at_ms - literal(covered(span, tier).start_ms, BigInteger)) // literal(step_ms, BigInteger)
    return list(connection.execute(_grouped(scope, samples, bucket).order_by("bucket")).all())


def bucket_span(span: TimeRange, tier: int, step_ms: int, bucket: int) -> TimeRange:
    start = covered(span, tier).start_ms + bucket * step_ms
    return TimeRange(start, min(start + step_ms, span.end_ms))


def stats(metric: Metric, span: TimeRange, row: Row[Any]) -> Stats:
    spread = None if row.latencies is None else LatencyHistogram.parse(row.latencies)
    return Stats(metric, span, int(row.figures), row.low, row.high, row.total, row.latest, row.latest_ms, spread)


def _samples(scope: Scope, span: TimeRange, tier: int) -> Subquery:
    """Tier by tier: each from where the coarser one ends, which is where the bucket of the flow's newest report begins,
    to where it ends itself."""
    parts = [_of_tier(scope, span, tier, one) for one in range(tier, RAW - 1, -1)]
    return union_all(*parts).subquery()


def _of_tier(scope: Scope, span: TimeRange, coarsest: int, tier: int) -> Select[Any]:
    c = SAMPLE.c
    start: ColumnElement[int] = literal(bucket_start(span.start_ms, coarsest), BigInteger)
    end: ColumnElement[int] = literal(span.end_ms, BigInteger)
    if tier < coarsest:
        ends_there = _newest_bucket(tier + 1)
        start = case((ends_there > start, ends_there), else_=start)
    if tier > RAW:
        ends_here = _newest_bucket(tier)
        end = case((ends_here < end, ends_here), else_=end)
    return (
        select(
            *(c[name] for name in _SERIES),
            c.tier,
            c.at_ms,
            c.count,
            func.coalesce(c.low, c.latest).label("low"),
            func.coalesce(c.high, c.latest).label("high"),
            func.coalesce(c.total, c.latest).label("total"),
            c.latest,
            func.coalesce(c.latest_ms, c.at_ms).label("latest_ms"),
            c.latencies,
        )
        .select_from(FLOW.join(SAMPLE, c.flow_id == FLOW.c.id))
        .where(*scope.conditions(), c.tier == tier, c.at_ms >= start, c.at_ms < end)
    )


def _newest_bucket(tier: int) -> ColumnElement[int]:
    return FLOW.c.reported_ms - FLOW.c.reported_ms % literal(BUCKETS_MS[tier])


def _grouped(scope: Scope, samples: Subquery, bucket: ColumnElement[int] | None) -> Select[Any]:
    """Statistics by series, and by bucket; the newest sample is found again by its time."""
    c = samples.c
    keys = [c[name] for name in _SERIES]
    by = keys if bucket is None else [*keys, bucket.label("bucket")]
    groups = (
        select(
            *by,
            func.sum(c.count).label("figures"),
            func.min(c.low).label("low"),
            func.max(c.high).label("high"),
            func.sum(c.total).label("total"),
            func.max(c.at_ms).label("last_ms"),
            # Finer tiers have what is newer, so the newest sample is of the finest tier there is.
            func.min(c.tier).label("last_tier"),
            func.aggregate_strings(c.latencies, ";").label("latencies"),
        )
        .group_by(*keys, *([] if bucket is None else [bucket]))
        .subquery()
    )
    last = SAMPLE.alias()
    found = and_(
        last.c.level == int(scope.level),
        last.c.tier == groups.c.last_tier,
        last.c.at_ms == groups.c.last_ms,
        *(last.c[name] == groups.c[name] for name in _SERIES),
    )
    newest = (last.c.latest, func.coalesce(last.c.latest_ms, last.c.at_ms).label("latest_ms"))
    columns = [column for column in groups.c if column.name not in ("last_ms", "last_tier")]
    return select(*columns, *newest).select_from(groups.join(last, found))
