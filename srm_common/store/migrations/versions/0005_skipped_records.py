"""For each run: the records that transforms could not handle, and how many of them are in the dead letter topic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("skipped_records", "dead_letters"):
        op.add_column("run", sa.Column(name, sa.BigInteger))
