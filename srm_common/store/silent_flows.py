"""Deletes flows that no longer report and are not configured: all that is kept of them, a part at a time."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, delete, literal, or_, select, tuple_, update

from srm_common.store.tables import FLOW, SAMPLE

#: About how many samples are deleted with one report: a flow may have millions, and other writers wait.
_SAMPLES = 20_000


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
