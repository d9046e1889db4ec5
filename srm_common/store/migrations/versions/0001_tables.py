"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


# Sorted alike by all databases.
_NAME = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def _flow(*, primary_key: bool = False) -> sa.Column[int]:
    return sa.Column("flow_id", sa.Integer, sa.ForeignKey("flow.id", ondelete="CASCADE"), primary_key=primary_key)


def upgrade() -> None:
    op.create_table(
        "flow",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", _NAME, nullable=False, unique=True),
        sa.Column("reported_ms", sa.BigInteger),
        sa.Column("run_id", sa.Text),
        sa.Column("figures_ms", sa.BigInteger),
        sa.Column("groups_ms", sa.BigInteger),
        sa.Column("topics", sa.Integer, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("failed_partitions", sa.Integer, nullable=False),
        sa.Column("lag", sa.BigInteger),
        sa.Column("lag_before", sa.BigInteger),
        sa.Column("failing_since_ms", sa.BigInteger),
        sa.Column("good_run_ended_ms", sa.BigInteger),
        sa.Column("lost_records", sa.BigInteger, nullable=False),
        sa.Column("lost_since_ms", sa.BigInteger),
        sa.Column("lag_over_since_ms", sa.BigInteger),
        sa.Column("consumer_groups", sa.Integer, nullable=False),
        sa.Column("untranslated_groups", sa.Integer, nullable=False),
        sa.Column("untranslated_text", sa.Text),
        sa.Column("schedule_interval_seconds", sa.Double),
        sa.Column("lag_objective_records", sa.BigInteger),
        sa.Column("foreign_writers", sa.Text),
        sa.Column("warnings", sa.Text),
        sa.Column("heartbeats", sa.Text),
        sa.Column("clock", sa.Text),
    )
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, primary_key=True),
        _flow(),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("reported_ms", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger),
        sa.Column("finished_ms", sa.BigInteger),
        sa.Column("ok", sa.Boolean, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("passes", sa.Integer, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("failed_partitions", sa.Integer, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("lag", sa.BigInteger),
        sa.Column("transactions", sa.BigInteger, nullable=False),
        sa.Column("retries", sa.BigInteger, nullable=False),
        sa.Column("reencoded_records", sa.BigInteger, nullable=False),
        sa.Column("lost_records", sa.BigInteger, nullable=False),
        sa.Column("notes", sa.Text),
        sa.Column("partition_errors", sa.Text),
        sa.UniqueConstraint("flow_id", "run_id", name="run_once"),
    )
    op.create_index("run_by_time", "run", ["flow_id", "reported_ms"])
    op.create_table(
        "topic",
        sa.Column("id", sa.Integer, primary_key=True),
        _flow(),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("remote_topic", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("reported_ms", sa.BigInteger, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("failed_partitions", sa.Integer, nullable=False),
        sa.Column("lag", sa.BigInteger),
        sa.Column("newest_record_ms", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.UniqueConstraint("flow_id", "name", name="topic_once"),
    )
    op.create_table(
        "partition",
        sa.Column("topic_id", sa.Integer, sa.ForeignKey("topic.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("reported_ms", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger),
        sa.Column("end_offset", sa.BigInteger),
        sa.Column("lag", sa.BigInteger),
        sa.Column("newest_record_ms", sa.BigInteger),
        sa.Column("latency_ms_min", sa.Double),
        sa.Column("latency_ms_avg", sa.Double),
        sa.Column("latency_ms_max", sa.Double),
        sa.Column("error", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "consumer_group",
        _flow(primary_key=True),
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("reported_ms", sa.BigInteger, nullable=False),
        sa.Column("positions", sa.Integer, nullable=False),
        sa.Column("translated", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("synced", sa.Boolean, nullable=False),
        sa.Column("checkpoint_latency_ms", sa.Double),
        sa.Column("checkpoint_ms", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "document",
        _flow(primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("reported_ms", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "sample",
        _flow(primary_key=True),
        sa.Column("level", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("tier", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("at_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("topic_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("metric", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("low", sa.Double),
        sa.Column("high", sa.Double),
        sa.Column("total", sa.Double),
        sa.Column("latest", sa.Double, nullable=False),
        sa.Column("latest_ms", sa.BigInteger),
        sqlite_with_rowid=False,
    )
