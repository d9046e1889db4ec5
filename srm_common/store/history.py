"""Metrics over time: statistics of ranges, series, sparklines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy.sql.selectable import Subquery

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.store.tables import CODES, FLOW, METRICS, RUN, SAMPLE, TOPIC
from srm_common.store.tiers import (
    BUCKETS_MS,
    RAW,
    Level,
    Retention,
    bucket_start,
    step_for_series,
    tier_for_series,
    tier_for_statistics,
)

# Samples of a range as SQL: from the tier that the range needs, the newest ones from the tiers below.


RATES = (Metric.BYTE_RATE, Metric.RECORD_RATE)
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

    @property
    def bounds(self) -> dict[str, Any]:
        """The conditions for samples, by the names of SAMPLE's columns."""
        metrics = None if self.metrics is None else [CODES[metric] for metric in self.metrics]
        named = {"flow_id": self.flow_ids, "topic_id": self.topic_ids, "number": self.number, "metric": metrics}
        return {"level": int(self.level)} | {name: bound for name, bound in named.items() if bound is not None}


def covered(span: TimeRange, tier: int) -> TimeRange:
    """What the answer to ``span`` covers: from the beginning of its first bucket."""
    return TimeRange(bucket_start(span.start_ms, tier), span.end_ms)


def statistics(connection: Connection, scope: Scope, span: TimeRange, tier: int) -> list[Row[Any]]:
    """One row for each series with samples: its identity, figures, low, high, total, latest, latest_ms, latencies."""
    bounds = scope.bounds
    statement = _grouped(frozenset(bounds), tier, bucketed=False)
    return list(connection.execute(statement, bounds | _ends(span, tier)).all())


def buckets(connection: Connection, scope: Scope, span: TimeRange, tier: int, step_ms: int) -> list[Row[Any]]:
    """The same for each series and each bucket of ``step_ms``, counted from the start of what is covered; with
    ``bucket``, its number. Sorted by it."""
    bounds = scope.bounds
    statement = _grouped(frozenset(bounds), tier, bucketed=True)
    return list(connection.execute(statement, bounds | _ends(span, tier) | {"step_ms": step_ms}).all())


def _ends(span: TimeRange, tier: int) -> dict[str, int]:
    return {"start_ms": covered(span, tier).start_ms, "end_ms": span.end_ms}


def bucket_span(span: TimeRange, tier: int, step_ms: int, bucket: int) -> TimeRange:
    start = covered(span, tier).start_ms + bucket * step_ms
    return TimeRange(start, min(start + step_ms, span.end_ms))


def stats(metric: Metric, span: TimeRange, row: Row[Any]) -> Stats:
    spread = None if row.latencies is None else LatencyHistogram.parse(row.latencies)
    return Stats(metric, span, int(row.figures), row.low, row.high, row.total, row.latest, row.latest_ms, spread)


def _conditions(bounds: Collection[str]) -> list[ColumnElement[bool]]:
    """Conditions by which samples lie within the bounds of these names."""
    # Flows without a time are being forgotten.
    found: list[ColumnElement[bool]] = [FLOW.c.reported_ms.is_not(None)]
    for name in sorted(bounds):
        if name in ("level", "number"):
            found.append(SAMPLE.c[name] == bindparam(name))
        else:
            found.append(SAMPLE.c[name].in_(bindparam(name, expanding=True)))
    if "flow_id" in bounds:
        # For both tables: whichever is read first, neither is read as a whole.
        found.append(FLOW.c.id.in_(bindparam("flow_id", expanding=True)))
    return found


def _samples(bounds: Collection[str], tier: int) -> Subquery:
    """Tier by tier: each from where the coarser one ends, which is where the bucket of the flow's newest report begins,
    to where it ends itself."""
    return union_all(*(_of_tier(bounds, tier, one) for one in range(tier, RAW - 1, -1))).subquery()


def _of_tier(bounds: Collection[str], coarsest: int, tier: int) -> Select[Any]:
    c = SAMPLE.c
    start: ColumnElement[int] = bindparam("start_ms", type_=BigInteger)
    end: ColumnElement[int] = bindparam("end_ms", type_=BigInteger)
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
        .where(*_conditions(bounds), c.tier == tier, c.at_ms >= start, c.at_ms < end)
    )


def _newest_bucket(tier: int) -> ColumnElement[int]:
    return FLOW.c.reported_ms - FLOW.c.reported_ms % literal(BUCKETS_MS[tier])


@cache
def _grouped(bounds: frozenset[str], tier: int, *, bucketed: bool) -> Select[Any]:
    """Statistics by series, and by bucket; the newest sample is found again by its time. Cached, since there are few
    such statements, and building one takes longer than executing it."""
    c = (samples := _samples(bounds, tier)).c
    keys = [c[name] for name in _SERIES]
    bucket = (samples.c.at_ms - bindparam("start_ms", type_=BigInteger)) // bindparam("step_ms", type_=BigInteger)
    groups = (
        select(
            *keys,
            *([bucket.label("bucket")] if bucketed else ()),
            func.sum(c.count).label("figures"),
            func.min(c.low).label("low"),
            func.max(c.high).label("high"),
            func.sum(c.total).label("total"),
            func.max(c.at_ms).label("last_ms"),
            # Finer tiers have what is newer, so the newest sample is of the finest tier there is.
            func.min(c.tier).label("last_tier"),
            func.aggregate_strings(c.latencies, ";").label("latencies"),
        )
        .group_by(*keys, *([bucket] if bucketed else ()))
        .subquery()
    )
    last = SAMPLE.alias()
    found = and_(
        last.c.level == bindparam("level"),
        last.c.tier == groups.c.last_tier,
        last.c.at_ms == groups.c.last_ms,
        *(last.c[name] == groups.c[name] for name in _SERIES),
    )
    newest = (last.c.latest, func.coalesce(last.c.latest_ms, last.c.at_ms).label("latest_ms"))
    columns = [column for column in groups.c if column.name not in ("last_ms", "last_tier")]
    statement = select(*columns, *newest).select_from(groups.join(last, found))
    return statement.order_by("bucket") if bucketed else statement


Figures = Mapping[str, Mapping[Metric, Stats]]


def flow_stats(connection: Connection, span: TimeRange, retention: Retention, only: Collection[str] | None) -> Figures:
    names = flow_names(connection, only)
    found: dict[str, dict[Metric, Stats]] = {name: {} for name in names.values()}
    tier = tier_for_statistics(span, newest_report(connection, names), retention.of(Level.FLOW))
    # By their ids: otherwise SQLite, which has no statistics here, reads all samples and looks up their flows.
    scope = Scope(Level.FLOW, list(names))
    for row in statistics(connection, scope, span, tier):
        metric = METRICS.get(row.metric)
        if metric is not None:
            found[names[row.flow_id]][metric] = stats(metric, covered(span, tier), row)
    return found


def series(
    connection: Connection,
    flow: str,
    metric: Metric,
    span: TimeRange,
    retention: Retention,
    topic: str | None,
    partition: int | None,
    points: int,
) -> Sequence[Stats]:
    names = flow_names(connection, [flow])
    if not names or span.milliseconds <= 0 or points < 1:
        return []
    (flow_id,) = names
    level, topic_ids = Level.FLOW, None
    if topic is not None:
        level = Level.TOPIC if partition is None else Level.PARTITION
        same = select(TOPIC.c.id).where(TOPIC.c.flow_id == flow_id, TOPIC.c.name == topic)
        topic_ids = list(connection.execute(same).scalars())
    tier = tier_for_series(span, points, newest_report(connection, names), retention.of(level))
    step = step_for_series(span, points, tier)
    scope = Scope(level, [flow_id], topic_ids, partition, [metric])
    rows = buckets(connection, scope, span, tier, step)
    return [stats(metric, bucket_span(span, tier, step, row.bucket), row) for row in rows]


def sparklines(
    connection: Connection, metrics: Collection[Metric], span: TimeRange, retention: Retention, points: int
) -> Mapping[str, Mapping[Metric, Sequence[Stats]]]:
    names = flow_names(connection, None)
    found: dict[str, dict[Metric, list[Stats]]] = {name: {one: [] for one in metrics} for name in names.values()}
    if span.milliseconds <= 0 or points < 1:
        return found
    # Half as fine as there is room for: they are small charts, of all flows at once.
    tier = tier_for_series(span, max(1, points // 2), newest_report(connection, names), retention.of(Level.FLOW))
    step = step_for_series(span, points, tier)
    for row in buckets(connection, Scope(Level.FLOW, list(names), metrics=metrics), span, tier, step):
        metric = METRICS[row.metric]
        found[names[row.flow_id]][metric].append(stats(metric, bucket_span(span, tier, step, row.bucket), row))
    return found


def average_rates(
    connection: Connection, flow: str, now_ms: int, window_ms: int, levels: Collection[Level]
) -> dict[str, dict[Metric, float]]:
    """What the runs that reported within the window copied, per second of the window; by topic, of the flow as a whole
    under ``""``. A run that was longer than the window counts with a part of that length.

    Samples are per second of a run, and only those as reported tell how long that was.
    """
    took = RUN.c.finished_ms - RUN.c.started_ms
    ms = case((took < 1, 1), (took > window_ms, window_ms), else_=took)
    of_run = and_(RUN.c.flow_id == SAMPLE.c.flow_id, RUN.c.reported_ms == SAMPLE.c.at_ms)
    topic = and_(SAMPLE.c.level == int(Level.TOPIC), TOPIC.c.id == SAMPLE.c.topic_id)
    wanted = (
        select(TOPIC.c.name, SAMPLE.c.metric, func.sum(SAMPLE.c.latest * ms).label("copied"))
        .select_from(FLOW.join(SAMPLE, SAMPLE.c.flow_id == FLOW.c.id).join(RUN, of_run).outerjoin(TOPIC, topic))
        .where(
            FLOW.c.name == flow,
            SAMPLE.c.level.in_([int(level) for level in levels]),
            SAMPLE.c.tier == RAW,
            SAMPLE.c.at_ms > now_ms - window_ms,
            SAMPLE.c.metric.in_([CODES[metric] for metric in RATES]),
        )
        .group_by(TOPIC.c.name, SAMPLE.c.metric)
    )
    found: dict[str, dict[Metric, float]] = defaultdict(dict)
    for row in connection.execute(wanted):
        found[row.name or ""][METRICS[row.metric]] = row.copied / window_ms
    return found


def samples_kept(connection: Connection) -> dict[tuple[Level, int], int]:
    """How many rows there are, by level and tier."""
    c = SAMPLE.c
    counted = select(c.level, c.tier, func.count().label("rows")).group_by(c.level, c.tier).order_by(c.level, c.tier)
    return {(Level(row.level), row.tier): row.rows for row in connection.execute(counted)}


def flow_names(connection: Connection, only: Collection[str] | None) -> dict[int, str]:
    """Names by id of the flows that have reported."""
    wanted = select(FLOW.c.id, FLOW.c.name).where(FLOW.c.reported_ms.is_not(None))
    if only is not None:
        wanted = wanted.where(FLOW.c.name.in_(only))
    return {row.id: row.name for row in connection.execute(wanted)}


def newest_report(connection: Connection, flows: Collection[int]) -> int:
    """The time of the newest report of the flows, epoch milliseconds; 0 without any."""
    newest = select(func.max(FLOW.c.reported_ms)).where(FLOW.c.id.in_(flows))
    return connection.execute(newest).scalar_one() or 0
