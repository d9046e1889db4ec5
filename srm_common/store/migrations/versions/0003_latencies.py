"""How latencies are spread: of samples, of partitions, and of all runs of a flow together; how fast partitions are
copied, and how many groups read a topic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sample", sa.Column("latencies", sa.Text))
    op.add_column("partition", sa.Column("latencies", sa.Text))
    op.add_column("partition", sa.Column("record_rate", sa.Double))
    op.add_column("partition", sa.Column("byte_rate", sa.Double))
    op.add_column("topic", sa.Column("consumer_groups", sa.Integer))
    op.add_column("flow", sa.Column("latencies_total", sa.Text))
