"""Run by Alembic, in the transaction that :mod:`srm_common.store.schema` began."""

from alembic import context

from srm_common.store.schema import VERSION_TABLE
from srm_common.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
context.run_migrations()
