"""The metrics store in a real PostgreSQL."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.pool import StaticPool

from srm_common.errors import StoreError
from srm_common.store.engine import reading, writing
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.schema import VERSION_TABLE
from srm_common.store.tables import METADATA
from srm_common.testing.local_postgres import LocalPostgres
from tests.unit.store.made_up import DAY, FLOW, MIDNIGHT, MINUTE, partition, report
from tests.unit.store.samples import SamplesBehaviour
from tests.unit.store.standing import StandingBehaviour
from tests.unit.store.writers import WritersBehaviour
from tests.unit.store.wrong_clocks import WrongClocksBehaviour

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[LocalPostgres]:
    programs = LocalPostgres.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server; scripts/setup.sh --tests installs it, or says how")
    with LocalPostgres(programs) as server:
        yield server


@pytest.fixture
def url(server: LocalPostgres) -> str:
    return server.create(f"metrics{next(_numbers)}")


class TestStanding(StandingBehaviour):
    pass


class TestSamples(SamplesBehaviour):
    pass


class TestWrongClocks(WrongClocksBehaviour):
    pass


class TestWriters(WritersBehaviour):
    pass


def test_a_server_that_goes_away_and_comes_back(server: LocalPostgres, url: str) -> None:
    """A store that was open goes on by itself."""
    store = MetricsStore(url, timeout_seconds=60.0)
    store.write(report(MIDNIGHT, partition()))
    server.stop()
    try:
        for question in (store.flows, lambda: store.write(report(MIDNIGHT + MINUTE, partition()))):
            with pytest.raises(StoreError, match=r"^the metrics store at postgresql\+psycopg2://srm@"):
                question()
    finally:
        server.start()
    store.write(report(MIDNIGHT + MINUTE, partition()))
    (flow,) = store.flows()
    assert store.runs(flow.flow).total == 2
    store.close()


def test_a_lock_that_nobody_gives_back(url: str) -> None:
    store, hasty = MetricsStore(url), MetricsStore(url, timeout_seconds=0.5)
    store.write(report(MIDNIGHT, partition()))
    engine = create_engine(url)
    with engine.begin() as other:
        other.execute(text("SELECT * FROM flow FOR UPDATE"))
        with pytest.raises(StoreError, match="lock timeout"):
            hasty.write(report(MIDNIGHT + MINUTE, partition()))
        assert len(store.flows()) == 1
    engine.dispose()
    store.close()
    hasty.close()


def test_a_read_sees_one_state(url: str) -> None:
    """Pages are put together from several statements, between which runs report and old topics are deleted."""
    store = MetricsStore(url)
    store.write(report(MIDNIGHT, partition()))
    counted = text("SELECT count(*) FROM topic")
    with reading(store.engine) as connection:
        before = connection.execute(counted).scalar_one()
        store.write(report(MIDNIGHT + MINUTE, partition(), partition("payments")))
        assert connection.execute(counted).scalar_one() == before
    with reading(store.engine) as connection:
        assert connection.execute(counted).scalar_one() == before + 1
    store.close()


def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    MetricsStore(url).write(report(MIDNIGHT, partition()))
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_settings_are_in_force_in_each_transaction_and_not_beyond(url: str) -> None:
    """A pooler gives the session to others."""
    store = MetricsStore(f"{url}&search_path=history,public", timeout_seconds=2.0)
    known = {"lock_timeout": "2s", "statement_timeout": "24s", "enable_seqscan": "off", "search_path": "history,public"}

    def settings(connection: Connection) -> dict[str, str]:
        return {name: connection.execute(text(f"SHOW {name}")).scalar_one() for name in known}

    for transaction in (reading, writing):
        with transaction(store.engine) as connection:
            assert settings(connection) == known
            session = connection.connection.driver_connection
    outside = create_engine("postgresql+psycopg2://", creator=lambda: session, poolclass=StaticPool)
    with outside.connect() as connection:
        assert settings(connection) == {
            "lock_timeout": "0",
            "statement_timeout": "0",
            "enable_seqscan": "on",
            "search_path": '"$user", public',
        }
    outside.dispose()
    store.close()


@pytest.mark.parametrize("named", ["options=-csearch_path%3Dhistory", "search_path=history"])
def test_a_schema_of_its_own(url: str, named: str) -> None:
    """Beside Airflow's tables, say."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA history"))
        connection.execute(text("CREATE TABLE flow (other TEXT)"))
    store = MetricsStore(f"{url}&{named}")
    store.write(report(MIDNIGHT, partition()))
    assert len(store.flows()) == 1
    store.close()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM history.flow")).scalar_one() == 1
    engine.dispose()


def test_numbers_are_not_used_up(url: str) -> None:
    """They have 32 bits for flows, of which each gets one; runs have 64."""
    store = MetricsStore(url)
    for number in range(5):
        store.write(report(MIDNIGHT + number * MINUTE, partition()))
    with store.engine.begin() as connection:
        for table, column, used in (("flow", "id", 1), ("topic", "id", 1), ("run", "id", 5)):
            last = connection.execute(text(f"SELECT last_value FROM {table}_{column}_seq")).scalar_one()
            assert (table, last) == (table, used)
        connection.execute(text("SELECT setval('run_id_seq', 2147483647)"))
        connection.execute(text("SELECT setval('flow_id_seq', 2147483647)"))
    store.write(report(MIDNIGHT + DAY, partition()))
    assert store.runs(FLOW).total == 6
    store.close()


def test_numbers_of_older_software_begin_again(url: str) -> None:
    """Its runs have 32 bits, and keep them."""
    store = MetricsStore(url)
    store.write(report(MIDNIGHT, partition()))
    with store.engine.begin() as connection:
        connection.execute(text("ALTER TABLE run ALTER COLUMN id TYPE integer"))
        connection.execute(text("ALTER SEQUENCE run_id_seq AS integer"))
        connection.execute(text("UPDATE run SET id = 5"))
        connection.execute(text("SELECT setval('run_id_seq', 2147483647)"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0007'"))
    store.close()
    newer = MetricsStore(url)
    newer.write(report(MIDNIGHT + MINUTE, partition()))
    with newer.engine.connect() as connection:
        assert sorted(connection.execute(text("SELECT id FROM run")).scalars()) == [1, 5]
    newer.close()


def test_the_composed_set_up_makes_the_stores_database_unless_it_is_there(url: str) -> None:
    store = make_url(url).set(database="metrics-of-flows").render_as_string(hide_password=False)
    environment = {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url, "SRM_DATABASE": store}
    script = [sys.executable, str(Path(__file__).parents[2] / "docker/database.py")]
    for said in ("made the database metrics-of-flows\n", ""):
        done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, said), done.stderr
    opened = MetricsStore(store)
    opened.write(report(MIDNIGHT, partition()))
    assert len(opened.flows()) == 1
    opened.close()
