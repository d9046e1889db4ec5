"""From finer to coarser buckets, and forgetting what is too old; for one flow, within the transaction of a report."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, literal, select

from srm_common.store.level import Level
from srm_common.store.tables import RUN, SAMPLE
from srm_common.store.tiers import BUCKETS_MS, COARSEST, Retention, bucket_start

_KEY = ("topic_id", "number", "metric")


def roll_up(connection: Connection, flow_id: int, before_ms: int, now_ms: int, retention: Retention) -> None:
    """Make the buckets that ended since the newest report was of ``before_ms``, now that it is of ``now_ms``."""
    ended = False
    for tier in range(1, COARSEST + 1):
        start, end = bucket_start(before_ms, tier), bucket_start(now_ms, tier)
        if start == end:
            break  # buckets of coarser tiers end where some of this one end
        ended = True
        for level in Level:
            if retention.makes(level, tier):
                _make(connection, flow_id, level, tier, start, end)
    if ended:
        _forget(connection, flow_id, now_ms, retention)


def make_again(
    connection: Connection, flow_id: int, times: Collection[int], newest_ms: int, retention: Retention
) -> None:
    """Make those buckets of the past anew that samples of ``times`` belong to, where what they are made of is still
    kept as a whole; else they stay as they are."""
    for tier in range(1, COARSEST + 1):
        for start in sorted({bucket_start(at, tier) for at in times}):
            end = start + BUCKETS_MS[tier]
            if end > bucket_start(newest_ms, tier):
                continue
            for level in Level:
                kept = retention.of(level)
                if not retention.makes(level, tier) or start < newest_ms - kept[tier - 1]:
                    continue
                connection.execute(delete(SAMPLE).where(_within(flow_id, level, tier, start, end)))
                _make(connection, flow_id, level, tier, start, end)


def _within(flow_id: int, level: Level, tier: int, start: int, end: int) -> ColumnElement[bool]:
    c = SAMPLE.c
    return and_(c.flow_id == flow_id, c.level == int(level), c.tier == tier, c.at_ms >= start, c.at_ms < end)


def _make(connection: Connection, flow_id: int, level: Level, tier: int, start: int, end: int) -> None:
    """The buckets of ``tier`` from ``start`` to ``end``, from the tier below."""
    c = SAMPLE.c
    length = BUCKETS_MS[tier]
    bucket = (c.at_ms - c.at_ms % literal(length)).label("bucket")
    parts = (
        select(
            bucket,
            *(c[name] for name in _KEY),
            func.sum(c.count).label("count"),
            func.min(func.coalesce(c.low, c.latest)).label("low"),
            func.max(func.coalesce(c.high, c.latest)).label("high"),
            func.sum(func.coalesce(c.total, c.latest)).label("total"),
            func.max(c.at_ms).label("last_ms"),
        )
        .where(_within(flow_id, level, tier - 1, start, end))
        .group_by(bucket, *(c[name] for name in _KEY))
        .subquery()
    )
    last = SAMPLE.alias()
    newest = and_(
        last.c.flow_id == flow_id,
        last.c.level == int(level),
        last.c.tier == tier - 1,
        last.c.at_ms == parts.c.last_ms,
        *(last.c[name] == parts.c[name] for name in _KEY),
    )
    rows = select(
        literal(flow_id),
        literal(int(level)),
        literal(tier),
        parts.c.bucket,
        *(parts.c[name] for name in _KEY),
        parts.c.count,
        func.nullif(parts.c.low, last.c.latest),
        func.nullif(parts.c.high, last.c.latest),
        func.nullif(parts.c.total, last.c.latest),
        last.c.latest,
        func.coalesce(last.c.latest_ms, last.c.at_ms),
    ).select_from(parts.join(last, newest))
    connection.execute(insert(SAMPLE).from_select([column.name for column in SAMPLE.columns], rows))


def _forget(connection: Connection, flow_id: int, now_ms: int, retention: Retention) -> None:
    for level in Level:
        for tier, kept_ms in enumerate(retention.of(level)):
            before = now_ms - kept_ms
            if tier < COARSEST:
                # What a coming bucket of the next tier is made of.
                before = min(before, bucket_start(now_ms, tier + 1))
            connection.execute(delete(SAMPLE).where(_within(flow_id, level, tier, 0, before)))
    connection.execute(delete(RUN).where(RUN.c.flow_id == flow_id, RUN.c.reported_ms < now_ms - retention.runs_ms))
