"""The connection to the database, SQLite or PostgreSQL, and its errors as sentences."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, literal, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from srm_common.errors import ConfigError, StoreError, installing

_DIALECTS = ("sqlite", "postgresql")
#: For INSERT ... ON CONFLICT; tests/unit/store/test_sqlite.py looks for what is newer.
OLDEST_SQLITE = (3, 24)
_WRITES = "srm_writes"
#: Each query looks up the key of ``sample``, within bounds that come from the flow's row. PostgreSQL cannot know how
#: narrow they are; it would read the whole table instead, for a hash join.
_PLANNING = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
#: A parameter of PostgreSQL's address that is ours, not the driver's: schemas, separated by commas.
_SEARCH_PATH = "search_path"


def parsed_url(text: str) -> URL:
    """Parse the address of a supported database.

    Raises:
        ConfigError: it is not one; the message shows no password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # ValueError: a port that is not a number
        raise ConfigError(
            "the metrics store needs the address of a database: sqlite:////path/to/file.db or "
            "postgresql+psycopg2://user:password@host:5432/database"
        ) from None
    if url.get_backend_name() not in _DIALECTS:
        raise ConfigError(
            f"the metrics store is kept in {' or '.join(_DIALECTS)}, not in a database of kind "
            f"'{url.get_backend_name()}'"
        )
    return url


def open_engine(url: URL, timeout_seconds: float) -> Engine:
    """Connects at the first use. Waits ``timeout_seconds`` for locks and for a connection.

    Raises:
        StoreError: the driver that the address names is not installed, or Python has an SQLite that is too old.
    """
    if url.get_backend_name() == "sqlite" and sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"the metrics store at {shown(url)} cannot be used: this Python has SQLite {sqlite3.sqlite_version}, and "
            f"the store needs {'.'.join(map(str, OLDEST_SQLITE))} or newer; install a newer SQLite, or name a "
            "PostgreSQL database in metrics.database.url"
        )
    try:
        return _sqlite(url, timeout_seconds) if url.get_backend_name() == "sqlite" else _postgres(url, timeout_seconds)
    except (ImportError, SQLAlchemyError) as error:
        help_ = "name its file as in sqlite:////path/to/file.db"
        if url.get_backend_name() == "postgresql":
            help_ = f"install its driver ({installing('postgres')})"
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise StoreError(f"the metrics store at {shown(url)} cannot be used: {reason}; {help_}") from error


def _postgres(url: URL, timeout_seconds: float) -> Engine:
    milliseconds = int(timeout_seconds * 1000)
    # Statements get more time than locks: the first roll-up after a long time moves a lot.
    settings = {"lock_timeout": f"{milliseconds}", "statement_timeout": f"{12 * milliseconds}", **_PLANNING}
    path = ",".join(url.normalized_query.get(_SEARCH_PATH, ()))
    if path:
        settings[_SEARCH_PATH] = path
        url = url.difference_update_query([_SEARCH_PATH])
    arguments: dict[str, Any] = {"connect_timeout": max(1, round(timeout_seconds))}
    if url.get_driver_name() == "psycopg" and "prepare_threshold" not in url.query:
        # A pooler gives the next transaction another server, which does not know what was prepared.
        arguments["prepare_threshold"] = None
    engine = create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=5, connect_args=arguments)
    # Poolers such as PgBouncer refuse options of the connection, and give what is set for a session to others as well:
    # so in each transaction, which costs a round trip.
    begun = select(*(func.set_config(name, value, literal(True)) for name, value in settings.items()))

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.execute(begun)

    return engine


def _sqlite(url: URL, timeout_seconds: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": timeout_seconds})

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
        # Transactions begin where this module says so, not where Python's driver would begin them.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        # With a write-ahead log readers never wait for a writer. A power cut may take the last report, nothing else.
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA cache_size=-16000")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A reader that becomes a writer does not wait for another writer but fails at once; so a writer begins as one.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection in a transaction that sees one state of the database, whatever is written in the meantime."""
    with faults(engine.url), engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            # By default each of PostgreSQL's statements would see the state of its own time.
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A connection in a transaction that is committed at the end, or undone by an exception."""
    with faults(engine.url), engine.connect() as plain:
        connection = plain.execution_options(**{_WRITES: True})
        with connection.begin():
            yield connection


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """As :func:`writing`, to change tables. SQLite does not enforce foreign keys meanwhile: it changes some tables by
    replacing them, and whatever refers to a row of a table that is dropped would be deleted."""
    if engine.url.get_backend_name() != "sqlite":
        with writing(engine) as connection:
            yield connection
        return
    with faults(engine.url), engine.connect() as plain:
        driver = plain.connection.driver_connection
        assert driver is not None
        # Without effect within a transaction.
        driver.execute("PRAGMA foreign_keys=OFF")
        try:
            connection = plain.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection
        finally:
            driver.execute("PRAGMA foreign_keys=ON")


@contextmanager
def faults(url: URL) -> Iterator[None]:
    """Turns what SQLAlchemy raises into :class:`StoreError`."""
    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(_sentence(url, error)) from error


def shown(url: URL) -> str:
    """The address without its password; of SQLite the file."""
    if url.get_backend_name() == "sqlite":
        return url.database or "memory"
    return url.render_as_string(hide_password=True)


def sqlite_file(url: URL) -> Path | None:
    """None for databases that are not a file."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def file_identity(file: Path) -> tuple[int, int] | None:
    """Changes when the file is re-created under its name; None while it does not exist."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sentence(url: URL, error: SQLAlchemyError) -> str:
    reason = str(error.orig if isinstance(error, DBAPIError) else error).strip()
    first = next(iter(reason.splitlines()), type(error).__name__)
    place = f"the metrics store at {shown(url)}"
    if url.get_backend_name() == "sqlite":
        if "locked" in first:
            return f"{place} is locked: another process has been writing to it for too long; try again"
        if "unable to open" in first:
            return f"{place} cannot be opened; its folder must exist and this user must be allowed to write there"
        if "malformed" in first or "not a database" in first:
            return f"{place} is damaged ({first}); move the file away, only history is lost with it"
        if "full" in first or "readonly" in first or "read-only" in first:
            return f"{place} cannot be written to ({first}); free some space, or give this user permission to write"
    elif isinstance(error, DBAPIError) and error.connection_invalidated:
        return f"{place} closed the connection ({first}); see whether the database runs, then try again"
    return f"{place} cannot be used now: {first}"
