"""Records that transforms could not handle, and dead letters, of all runs: of flows, topics and partitions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("skipped_records", "dead_letters"):
        for table in ("flow", "topic", "partition"):
            op.add_column(table, sa.Column(f"{name}_total", sa.BigInteger))
        op.add_column("partition", sa.Column(f"{name}_told", sa.BigInteger))
