"""What becomes of a flow's current state that was reported at a time that is yet to come."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, case, select, update

from srm_common.store.tables import DOCUMENT, FLOW, GROUP, PARTITION, TOPIC


def take_back(connection: Connection, flow_id: int, before_ms: int) -> None:
    """Let what was reported at ``before_ms`` (epoch milliseconds) or later have been reported just before, so that the
    report of that time is newer. Only the current state: runs and samples keep their times, which may be right."""
    last_ms = before_ms - 1
    flow = FLOW.c
    times: dict[str, Any] = {
        name: case((flow[name] > last_ms, last_ms), else_=flow[name]) for name in ("figures_ms", "groups_ms")
    }
    connection.execute(update(FLOW).where(flow.id == flow_id).values(**times))
    mine = select(TOPIC.c.id).where(TOPIC.c.flow_id == flow_id)
    for table, of_flow in (
        (TOPIC, TOPIC.c.flow_id == flow_id),
        (PARTITION, PARTITION.c.topic_id.in_(mine)),
        (GROUP, GROUP.c.flow_id == flow_id),
        (DOCUMENT, DOCUMENT.c.flow_id == flow_id),
    ):
        later = of_flow & (table.c.reported_ms > last_ms)
        connection.execute(update(table).where(later).values(reported_ms=last_ms))
