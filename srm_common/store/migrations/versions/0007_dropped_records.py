"""Records that transforms dropped, of each run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run", sa.Column("dropped_records", sa.BigInteger))
