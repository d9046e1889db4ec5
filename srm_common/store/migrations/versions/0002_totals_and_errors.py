"""What all runs together have copied, of flows, topics and partitions; and the class of errors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("flow", "topic", "partition"):
        op.add_column(table, sa.Column("records_total", sa.BigInteger))
        op.add_column(table, sa.Column("bytes_total", sa.BigInteger))
    op.add_column("partition", sa.Column("records_told", sa.BigInteger))
    op.add_column("partition", sa.Column("bytes_told", sa.BigInteger))
    for table in ("run", "partition"):
        op.add_column(table, sa.Column("error_kind", sa.Text))
