"""The version of the database's schema, and its migration. Versions are Alembic's, in ``migrations``."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from srm_common.errors import StoreError, StoreTooNew
from srm_common.store.engine import migrating, reading, shown, sqlite_file

#: The newest version this software knows; a test holds it to the migrations.
HEAD = "0008"
#: A name of its own, so that the tables may share Airflow's database.
VERSION_TABLE = "srm_metrics_version"
#: For PostgreSQL's advisory lock: two processes never change the schema at the same time.
_LOCK = 7_201_903_441


def is_current(engine: Engine) -> bool:
    """False when there are no tables yet, or older ones.

    Raises:
        StoreTooNew: newer software made them.
        StoreError: the database does not respond.
    """
    file = sqlite_file(engine.url)
    if file is not None and not file.exists():
        return False
    with reading(engine) as connection:
        return _version(connection) == HEAD


def has_tables(engine: Engine) -> bool:
    """Whether anything was ever written. Raises as :func:`is_current`."""
    file = sqlite_file(engine.url)
    if file is not None and not file.exists():
        return False
    with reading(engine) as connection:
        return _version(connection) is not None


def bring_up_to_date(engine: Engine) -> None:
    """Creates the tables or migrates them to the newest version, in one transaction. Raises as :func:`is_current`."""
    file = sqlite_file(engine.url)
    if file is not None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the folder of the metrics store at {file} cannot be created: {error.strerror}; set "
                "metrics.database.url or SRM_DATABASE to another place"
            ) from error
    # Alembic takes a while to load, and is needed once.
    from alembic import command
    from alembic.config import Config

    with migrating(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        if _version(connection) == HEAD:
            return  # another process was faster
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()
    if found is not None and found > HEAD:
        raise StoreTooNew(
            f"the metrics store at {shown(connection.engine.url)} was created by newer software (schema {found}, this "
            f"one knows {HEAD}); update srm-kafka here, or name another database in metrics.database.url"
        )
    return found
