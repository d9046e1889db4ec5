"""What the runs of a flow say together: since when it fails, since when it is too far behind, what it lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from srm_common.domain.monitoring.run_report import RunReport
from srm_common.store.report_rows import Row
from srm_common.store.tables import RUN


def history_columns(connection: Connection, flow_id: int, report: RunReport, flow: Mapping[str, Any]) -> Row:
    """Columns of the flow, from all runs that are kept, this one included, and from what was known before of runs that
    are not kept any more (``flow``, the row)."""
    mine = RUN.c.flow_id == flow_id

    def first(*conditions: Any) -> int | None:
        found: int | None = connection.execute(
            select(func.min(RUN.c.reported_ms)).where(mine, *conditions)
        ).scalar_one()
        return found

    def last(*conditions: Any) -> int | None:
        found: int | None = connection.execute(
            select(func.max(RUN.c.reported_ms)).where(mine, *conditions)
        ).scalar_one()
        return found

    good_ms = last(RUN.c.ok)
    failing = first(~RUN.c.ok, RUN.c.reported_ms > (good_ms or 0))
    if failing is not None and good_ms is None:
        failing = min(failing, flow["failing_since_ms"] or failing)
    ended = select(func.coalesce(RUN.c.finished_ms, RUN.c.reported_ms)).where(mine, RUN.c.reported_ms == good_ms)
    objective, over = report.lag_objective_records, None
    if objective is not None:
        within_ms = last(RUN.c.lag <= objective)
        over = first(RUN.c.lag > objective, RUN.c.reported_ms > (within_ms or 0))
        if over is not None and within_ms is None:
            over = min(over, flow["lag_over_since_ms"] or over)
    newest = select(RUN.c.lag).where(mine).order_by(RUN.c.reported_ms.desc(), RUN.c.id.desc()).limit(2)
    lags = connection.execute(newest).scalars().all()
    lost_since, lost = _lost(connection, flow_id, flow)
    return {
        "lag": lags[0],
        "lag_before": lags[1] if len(lags) > 1 else None,
        "failing_since_ms": failing,
        "good_run_ended_ms": flow["good_run_ended_ms"]
        if good_ms is None
        else connection.execute(ended.limit(1)).scalar_one(),
        "lag_over_since_ms": over,
        "lost_since_ms": lost_since,
        "lost_records": lost,
    }


def _lost(connection: Connection, flow_id: int, flow: Mapping[str, Any]) -> tuple[int | None, int]:
    """When the newest loss began and how many records it cost: of the runs that lost some, without a good one that lost
    none between them.

    A run that stands still for a loss finds the same one again each time, and so does the first that goes on; runs
    after that each find another.
    """
    mine = RUN.c.flow_id == flow_id
    newest = select(func.max(RUN.c.reported_ms)).where(mine, RUN.c.lost_records > 0)
    newest_ms = connection.execute(newest).scalar_one()
    if newest_ms is None:
        return flow["lost_since_ms"], int(flow["lost_records"] or 0)
    sound = (RUN.c.lost_records == 0) & RUN.c.ok & (RUN.c.reported_ms < newest_ms)
    sound_ms = connection.execute(select(func.max(RUN.c.reported_ms)).where(mine, sound)).scalar_one()
    of_loss = (RUN.c.lost_records > 0) & (RUN.c.reported_ms > (sound_ms or 0))
    row = connection.execute(
        select(
            func.min(RUN.c.reported_ms),
            func.coalesce(func.sum(RUN.c.lost_records).filter(RUN.c.ok), 0),
            func.coalesce(func.max(RUN.c.lost_records).filter(~RUN.c.ok), 0),
        ).where(mine, of_loss)
    ).one()
    since, lost = int(row[0]), max(int(row[1]), int(row[2]))
    if sound_ms is None and flow["lost_since_ms"] is not None:
        # It may have begun with runs that are not kept any more.
        return min(since, flow["lost_since_ms"]), max(lost, int(flow["lost_records"]))
    return since, lost
