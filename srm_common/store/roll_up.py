"""Rolls samples up into coarser buckets, and deletes what has expired, within the transaction of a report: of
its flow, and flows that no longer report."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Delete,
    Insert,
    Integer,
    Select,
    Update,
    and_,
    bindparam,
    delete,
    func,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.store.tables import FLOW, RUN, SAMPLE, TOPIC, inserting
from srm_common.store.tiers import BUCKETS_MS, COARSEST, Level, Retention, bucket_start

_KEY = ("topic_id", "number", "metric")
#: About how many samples of silent flows are deleted with one report: a flow may have millions, and other writers wait.
_SAMPLES = 20_000


def roll_up(connection: Connection, flow_id: int, before_ms: int, now_ms: int, retention: Retention) -> bool:
    """Compute the buckets that ended between the newest report so far, of ``before_ms``, and the one of ``now_ms``;
    whether there were any."""
    ended = False
    for tier in range(1, COARSEST + 1):
        start, end = bucket_start(before_ms, tier), bucket_start(now_ms, tier)
        if start == end:
            break  # buckets of coarser tiers end where some of this one end
        ended = True
        for level in Level:
            if retention.makes(level, tier):
                _make(connection, level, tier, _span(flow_id, start, end))
    if ended:
        _forget(connection, flow_id, now_ms, retention)
    return ended


def recompute(
    connection: Connection, flow_id: int, times: Collection[int], newest_ms: int, retention: Retention
) -> None:
    """Recompute the past buckets that samples of ``times`` belong to, if all that they are made of is still kept;
    otherwise they stay as they are."""
    for tier in range(1, COARSEST + 1):
        for start in sorted({bucket_start(at, tier) for at in times}):
            end = start + BUCKETS_MS[tier]
            if end > bucket_start(newest_ms, tier):
                continue
            for level in Level:
                kept = retention.of(level)
                if not retention.makes(level, tier) or start < newest_ms - kept[tier - 1]:
                    continue
                connection.execute(_deleting(level, tier), _span(flow_id, start, end))
                _make(connection, level, tier, _span(flow_id, start, end))


def _make(connection: Connection, level: Level, tier: int, span: dict[str, int]) -> None:
    connection.execute(_making(connection.dialect.name, level, tier), span)
    # SQL can only concatenate histograms; merged, they are shorter.
    changed = [
        {**row, "flow": span["flow"], "added": LatencyHistogram.parse(row["joined"]).text()}
        for row in connection.execute(_joined(level, tier), span).mappings()
    ]
    if changed:
        connection.execute(_adding(level, tier), changed)


@cache
def _joined(level: Level, tier: int) -> Select[Any]:
    c = SAMPLE.c
    keys = [c[name].label(f"its_{name}") for name in ("at_ms", *_KEY)]
    return select(*keys, c.latencies.label("joined")).where(_within(level, tier), c.latencies.contains(";"))


@cache
def _adding(level: Level, tier: int) -> Update:
    c = SAMPLE.c
    mine = [c[name] == bindparam(f"its_{name}") for name in ("at_ms", *_KEY)]
    of = (c.flow_id == bindparam("flow"), c.level == int(level), c.tier == tier, *mine)
    return update(SAMPLE).where(*of).values(latencies=bindparam("added"))


def _within(level: Level, tier: int) -> ColumnElement[bool]:
    """Of one flow, from :start to before :end."""
    c = SAMPLE.c
    begins, ends = bindparam("start", type_=BigInteger), bindparam("end", type_=BigInteger)
    mine = and_(c.flow_id == bindparam("flow", type_=Integer), c.level == int(level), c.tier == tier)
    return and_(mine, c.at_ms >= begins, c.at_ms < ends)


@cache
def _deleting(level: Level, tier: int) -> Delete:
    return delete(SAMPLE).where(_within(level, tier))


@cache
def _making(dialect: str, level: Level, tier: int) -> Insert:
    """The buckets of ``tier`` from :start to :end, from the tier below.

    There is one already only after a report whose time was wrong, which closed it too early or opens it again: the one
    with more samples counts.
    """
    c = SAMPLE.c
    bucket = (c.at_ms - c.at_ms % literal(BUCKETS_MS[tier], BigInteger)).label("bucket")
    keys = [c[name] for name in _KEY]
    parts = (
        select(
            bucket,
            *keys,
            func.sum(c.count).label("count"),
            func.min(func.coalesce(c.low, c.latest)).label("low"),
            func.max(func.coalesce(c.high, c.latest)).label("high"),
            func.sum(func.coalesce(c.total, c.latest)).label("total"),
            func.max(c.at_ms).label("last_ms"),
            func.aggregate_strings(c.latencies, ";").label("latencies"),
        )
        .where(_within(level, tier - 1))
        .group_by(bucket, *keys)
        .subquery()
    )
    last = SAMPLE.alias()
    newest = and_(
        last.c.flow_id == bindparam("flow", type_=Integer),
        last.c.level == int(level),
        last.c.tier == tier - 1,
        last.c.at_ms == parts.c.last_ms,
        *(last.c[name] == parts.c[name] for name in _KEY),
    )
    rows = select(
        bindparam("flow", type_=Integer),
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
        parts.c.latencies,
    )
    # A WHERE and no JOIN ... ON: SQLite would take the ON of ON CONFLICT for part of the join.
    making = inserting(dialect, SAMPLE).from_select(list(SAMPLE.columns), rows.where(newest))
    key = [column.name for column in SAMPLE.primary_key]
    return making.on_conflict_do_update(
        index_elements=key,
        set_={column.name: making.excluded[column.name] for column in SAMPLE.columns if column.name not in key},
        where=making.excluded["count"] >= c.count,
    )


def _forget(connection: Connection, flow_id: int, now_ms: int, retention: Retention) -> None:
    for level in Level:
        for tier, kept_ms in enumerate(retention.of(level)):
            before = now_ms - kept_ms
            if tier < COARSEST:
                # Kept for the coming bucket of the next tier.
                before = min(before, bucket_start(now_ms, tier + 1))
            connection.execute(_deleting(level, tier), _span(flow_id, 0, before))
    connection.execute(delete(RUN).where(RUN.c.flow_id == flow_id, RUN.c.reported_ms < now_ms - retention.runs_ms))
    # Topics and their partitions go with their last samples, since a new topic may get the id of a deleted one.
    longest_ms = max(*retention.tiers_ms, *retention.partitions_ms)
    connection.execute(delete(TOPIC).where(TOPIC.c.flow_id == flow_id, TOPIC.c.reported_ms < now_ms - longest_ms))


def forget_silent_flows(connection: Connection, silent_since_ms: int, configured: Collection[str]) -> None:
    """Deletes a part of the samples of one flow without a report since ``silent_since_ms``, and the flow itself with
    the last part. From the first part on the flow is not shown; one that reports again in the meantime stays.

    Args:
        configured: names of flows that stay, however long they have not reported: they may be paused.
    """
    c = FLOW.c
    # Without a time: some of its samples are deleted already.
    silent = or_(c.reported_ms < silent_since_ms, c.reported_ms.is_(None))
    wanted = select(c.id).where(silent, c.name.not_in(configured)).order_by(c.id).limit(1)
    # Another writer may be deleting it.
    flow_id = connection.execute(wanted.with_for_update(skip_locked=True)).scalar_one_or_none()
    if flow_id is None:
        return
    samples: ColumnElement[bool] = SAMPLE.c.flow_id == flow_id
    key = (SAMPLE.c.level, SAMPLE.c.tier, SAMPLE.c.at_ms)
    part = select(*key).where(samples).order_by(*key).offset(_SAMPLES).limit(1)
    last = connection.execute(part).one_or_none()
    if last is None:
        # Everything else goes with it.
        connection.execute(delete(FLOW).where(c.id == flow_id))
        return
    end = tuple_(*(literal(value, column.type) for value, column in zip(last, key, strict=True)))
    connection.execute(delete(SAMPLE).where(samples, tuple_(*key) <= end))
    connection.execute(update(FLOW).where(c.id == flow_id).values(reported_ms=None))


def _span(flow_id: int, start: int, end: int) -> dict[str, int]:
    return {"flow": flow_id, "start": start, "end": end}
