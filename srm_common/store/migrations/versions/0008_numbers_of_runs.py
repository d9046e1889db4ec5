"""Numbers of runs that do not end after 2^31 runs, as with 1,000 flows every 30 seconds after two years.

A new database gets 64 bits. In one with runs that would rewrite their whole table, which could not be read or written
meanwhile: minutes, and twice the space, where runs are kept for a year. There the numbers begin again at 1 instead,
whose run was deleted long ago (``metrics.retention.runs.days``); nothing but the row itself has the number. In SQLite
they have 64 bits already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    if connection.execute(sa.text("SELECT EXISTS (SELECT FROM run)")).scalar_one():
        op.execute("ALTER SEQUENCE run_id_seq CYCLE")
    else:
        op.alter_column("run", "id", type_=sa.BigInteger)
        op.execute("ALTER SEQUENCE run_id_seq AS bigint")
