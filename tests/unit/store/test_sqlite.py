"""The metrics store in SQLite."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from srm_common.errors import StoreError
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.schema import VERSION_TABLE, bring_up_to_date
from tests.unit.store.samples import SamplesBehaviour
from tests.unit.store.standing import StandingBehaviour
from tests.unit.store.writers import WritersBehaviour
from tests.unit.store.wrong_clocks import WrongClocksBehaviour

#: What the oldest SQLite that the store takes does not have, and since which version SQLite has it.
_NEWER = {
    "window functions (3.25)": r"\bOVER\s*\(",
    "RENAME COLUMN (3.25)": r"\bRENAME\s+COLUMN\b",
    "FILTER (3.30)": r"\bFILTER\s*\(",
    "NULLS FIRST or LAST (3.30)": r"\bNULLS\s+(FIRST|LAST)\b",
    "generated columns (3.31)": r"\bGENERATED\s+ALWAYS\b",
    "iif (3.32)": r"\biif\s*\(",
    "UPDATE FROM (3.33)": r"^\s*UPDATE\b(?:(?!\bSELECT\b).)*\bFROM\b",
    "DROP COLUMN (3.35)": r"\bDROP\s+COLUMN\b",
    "RETURNING (3.35)": r"\bRETURNING\b",
    "MATERIALIZED (3.35)": r"\bMATERIALIZED\b",
    "STRICT (3.37)": r"\)\s*(WITHOUT\s+ROWID\s*,\s*)?STRICT\b",
    "JSON (built in since 3.38)": r"->|\bjson_\w+\s*\(",
    "RIGHT and FULL JOIN (3.39)": r"\b(RIGHT|FULL)\s+(OUTER\s+)?JOIN\b",
}


@pytest.fixture(scope="module", autouse=True)
def statements() -> Iterator[set[str]]:
    """All that the store sends in this module, the migrations among it; SQLite of RHEL 8 and 9 understands it."""
    sent = set[str]()

    def keep(_connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        # SQLAlchemy adds RETURNING to Alembic's own statements only where there is one.
        if VERSION_TABLE not in statement:
            sent.add(statement)

    event.listen(Engine, "before_cursor_execute", keep)
    yield sent
    event.remove(Engine, "before_cursor_execute", keep)
    used = [
        f"{what}: {statement}"
        for what, pattern in _NEWER.items()
        for statement in sent
        if re.search(pattern, statement, re.IGNORECASE | re.DOTALL)
    ]
    assert not used


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the tables: the migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "metrics.db"
    store = MetricsStore(f"sqlite:///{path}")
    bring_up_to_date(store.engine)
    store.close()
    return path


@pytest.fixture
def url(empty: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(empty, tmp_path / 'metrics.db')}"


@pytest.fixture
def url_of_nothing(tmp_path: Path) -> str:
    """No file is there yet."""
    return f"sqlite:///{tmp_path / 'metrics.db'}"


class TestStanding(StandingBehaviour):
    @pytest.fixture
    def url(self, url_of_nothing: str) -> str:
        return url_of_nothing


class TestSamples(SamplesBehaviour):
    pass


class TestWrongClocks(WrongClocksBehaviour):
    pass


class TestWriters(WritersBehaviour):
    @pytest.fixture
    def url(self, url_of_nothing: str) -> str:
        """Which of the writers makes the tables is part of the test."""
        return url_of_nothing


def test_the_migrations_are_among_the_statements(statements: set[str], url_of_nothing: str) -> None:
    store = MetricsStore(url_of_nothing)
    bring_up_to_date(store.engine)
    store.close()
    assert any("DROP TABLE flow" in statement for statement in statements)


def test_an_sqlite_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 22, 0))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.22.0")
    with pytest.raises(StoreError, match=r"m\.db cannot be used: this Python has SQLite 3\.22\.0, .* needs 3\.24 or"):
        MetricsStore("sqlite:////var/m.db")
    MetricsStore("postgresql+psycopg2://srm@db/srm")


def test_foreign_keys_hold_after_a_migration(url_of_nothing: str) -> None:
    """They are off during one, on the same connection."""
    store = MetricsStore(url_of_nothing)
    bring_up_to_date(store.engine)
    with store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
    store.close()
