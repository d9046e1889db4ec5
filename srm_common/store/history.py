"""How figures went: statistics of ranges, series, sparklines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, func, select

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.store.level import Level
from srm_common.store.metric_codes import METRICS
from srm_common.store.sample_query import Scope, bucket_span, buckets, covered, statistics, stats
from srm_common.store.tables import FLOW, SAMPLE, TOPIC
from srm_common.store.tiers import Retention, step_for_series, tier_for_series, tier_for_statistics

Figures = Mapping[str, Mapping[Metric, Stats]]


def flow_stats(connection: Connection, span: TimeRange, retention: Retention, only: Collection[str] | None) -> Figures:
    names = flow_names(connection, only)
    found: dict[str, dict[Metric, Stats]] = {name: {} for name in names.values()}
    tier = tier_for_statistics(span, newest_report(connection, names), retention.of(Level.FLOW))
    # By their ids: else SQLite, which keeps no statistics here, reads all of the samples and looks for their flows.
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
    # Half as fine as there is room for: they are small pictures, of all flows at once.
    tier = tier_for_series(span, max(1, points // 2), newest_report(connection, names), retention.of(Level.FLOW))
    step = step_for_series(span, points, tier)
    for row in buckets(connection, Scope(Level.FLOW, list(names), metrics=metrics), span, tier, step):
        metric = METRICS[row.metric]
        found[names[row.flow_id]][metric].append(stats(metric, bucket_span(span, tier, step, row.bucket), row))
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
