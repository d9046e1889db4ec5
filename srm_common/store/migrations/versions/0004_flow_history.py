"""The history of each flow as one document, in place of columns; how many partitions' lag is unknown."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: They become fields of the document, by the same names.
_FIELDS = (
    "reported_ms",
    "run_id",
    "lag",
    "lag_before",
    "failing_since_ms",
    "good_run_ended_ms",
    "lost_records",
    "lost_since_ms",
    "lag_over_since_ms",
    "untranslated_groups",
    "untranslated_text",
    "schedule_interval_seconds",
    "lag_objective_records",
    "foreign_writers",
)
#: What the newest run says of itself, and its name in the document.
_OF_RUN = {
    "error": "error",
    "error_kind": "error_kind",
    "records": "records",
    "partitions": "partitions",
    "failed_partitions": "failed_partitions",
    "lost_records": "lost_now",
}


def upgrade() -> None:
    op.add_column("flow", sa.Column("history", sa.Text))
    for table in ("run", "topic"):
        op.add_column(table, sa.Column("lag_unknown", sa.Integer))
    connection = op.get_bind()
    data = sa.MetaData()
    flow, run = (sa.Table(name, data, autoload_with=connection) for name in ("flow", "run"))
    for row in connection.execute(sa.select(flow).where(flow.c.reported_ms.is_not(None))).mappings().all():
        history = {name: row[name] for name in _FIELDS if row[name]}
        if row["lag"] is not None:
            history["lag"] = row["lag"]
        mine = (run.c.flow_id == row["id"]) & (run.c.run_id == row["run_id"])
        last = connection.execute(sa.select(run).where(mine)).mappings().one_or_none()
        if last is not None:
            history |= {name: last[column] for column, name in _OF_RUN.items() if last[column]}
            history["ended_ms"] = last["finished_ms"] or last["reported_ms"]
            history["records"], history["ok"] = last["records"], bool(last["ok"])
            if last["error"]:
                history.pop("failed_partitions", None)
            elif last["partition_errors"]:
                history["error"] = json.loads(last["partition_errors"])[0]
            if last["lost_records"]:
                history["losing"] = True
                texts = [*json.loads(last["partition_errors"] or "[]"), *json.loads(last["notes"] or "[]")]
                text = next((one for one in texts if "on.data.loss" in one), None)
                history |= {} if text is None else {"lost_text": text}
                if not last["ok"]:
                    history["lost_held"] = last["lost_records"]
        beats = json.loads(row["heartbeats"] or "{}")
        if beats.get("silent"):
            history["heartbeat_silence"] = beats.get("sentence")
        document = json.dumps(history, ensure_ascii=False)
        connection.execute(sa.update(flow).where(flow.c.id == row["id"]).values(history=document))
    # SQLite has DROP COLUMN only since 3.35: there, Alembic puts a copy of the table in its place. Foreign keys are not
    # enforced meanwhile (srm_common.store.engine.migrating): runs, topics and samples would go with the old one.
    with op.batch_alter_table("flow") as columns:
        for name in _FIELDS[2:]:
            columns.drop_column(name)
