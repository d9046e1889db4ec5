"""Versions of the store's schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from srm_common import store as package
from srm_common.domain.amount import Amount
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import TimeRange
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.errors import StoreTooNew
from srm_common.store.metrics_store import MetricsStore
from srm_common.store.schema import HEAD, VERSION_TABLE
from srm_common.store.tables import CODES, METADATA, METRICS
from tests.unit.store.made_up import MIDNIGHT, partition, report


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'folder' / 'of its own' / 'metrics.db'}"


def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    MetricsStore(url).write(report(MIDNIGHT, partition()))
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []
        for table in METADATA.sorted_tables:
            found = {column["name"]: column for column in inspect(connection).get_columns(table.name)}
            for column in table.columns:
                assert str(found[column.name]["type"]) == str(column.type.compile(engine.dialect)), column
                assert found[column.name]["nullable"] == column.nullable, column
    engine.dispose()


def test_the_code_knows_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(str(package.__file__)).with_name("migrations")))
    script = ScriptDirectory.from_config(config)
    assert script.get_current_head() == HEAD
    versions = [revision.revision for revision in script.walk_revisions()]
    assert versions == sorted(versions, reverse=True), "later versions must compare as larger"


def test_a_schema_of_newer_software_is_left_alone(url: str) -> None:
    store = MetricsStore(url)
    store.write(report(MIDNIGHT, partition()))
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    engine.dispose()
    newer = MetricsStore(url)
    for question in (newer.flows, lambda: newer.write(report(MIDNIGHT + 1, partition()))):
        with pytest.raises(StoreTooNew, match=r"schema 9999, this one knows .*; update srm-kafka here"):
            question()


def test_history_of_older_software_is_kept(url: str) -> None:
    """What 0001 made and filled; the first one to ask brings it up to date."""
    store = MetricsStore(url)
    store.write(report(MIDNIGHT, partition()))
    store.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in ("flow", "topic", "partition"):
            for name in ("records_total", "bytes_total"):
                connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {name}"))
        _without_0004(connection)
        connection.execute(text("ALTER TABLE run DROP COLUMN error_kind"))
        connection.execute(text("ALTER TABLE sample DROP COLUMN latencies"))
        connection.execute(text("ALTER TABLE flow DROP COLUMN latencies_total"))
        connection.execute(text("ALTER TABLE topic DROP COLUMN consumer_groups"))
        for name in ("records_told", "bytes_told", "error_kind", "latencies", "record_rate", "byte_rate"):
            connection.execute(text(f"ALTER TABLE partition DROP COLUMN {name}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    engine.dispose()
    newer = MetricsStore(url)
    assert [(row.reported_ms, row.records_total) for row in newer.flows()] == [(MIDNIGHT, None)]
    (flow,) = newer.flows()
    latency = newer.flow_stats(TimeRange(MIDNIGHT, MIDNIGHT + 1))["east->west"][Metric.REPLICATION_LATENCY]
    assert (flow.latencies_total, latency.count, latency.p99) == (None, 1, None)
    newer.write(report(MIDNIGHT + 1, partition(records_total=100, bytes_total=1000)))
    assert [(row.records_total, row.bytes_total) for row in newer.partitions("east->west").rows] == [(100, 1000)]
    newer.close()


def _without_0004(connection: Connection) -> None:
    """The columns of before, of a flow that fails and stands still for a loss."""
    connection.execute(text("ALTER TABLE run DROP COLUMN dropped_records"))
    for name in ("skipped_records", "dead_letters"):
        connection.execute(text(f"ALTER TABLE run DROP COLUMN {name}"))
        connection.execute(text(f"ALTER TABLE partition DROP COLUMN {name}_told"))
        for table in ("flow", "topic", "partition"):
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {name}_total"))
    connection.execute(text("ALTER TABLE flow DROP COLUMN history"))
    for table in ("run", "topic"):
        connection.execute(text(f"ALTER TABLE {table} DROP COLUMN lag_unknown"))
    for name in ("lag", "lag_before", "failing_since_ms", "good_run_ended_ms", "lost_since_ms", "lag_over_since_ms"):
        connection.execute(text(f"ALTER TABLE flow ADD COLUMN {name} BIGINT"))
    connection.execute(text("ALTER TABLE flow ADD COLUMN lag_objective_records BIGINT"))
    for name in ("lost_records", "untranslated_groups"):
        connection.execute(text(f"ALTER TABLE flow ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0"))
    for name in ("untranslated_text", "foreign_writers"):
        connection.execute(text(f"ALTER TABLE flow ADD COLUMN {name} TEXT"))
    connection.execute(text("ALTER TABLE flow ADD COLUMN schedule_interval_seconds DOUBLE PRECISION"))
    connection.execute(
        text(
            "UPDATE flow SET lag = 0, lag_before = 4, failing_since_ms = 5, good_run_ended_ms = 4, lost_records = 9, "
            "lost_since_ms = 6, untranslated_groups = 1, untranslated_text = 'g', schedule_interval_seconds = 30"
        )
    )
    connection.execute(text("UPDATE run SET ok = 0, lost_records = 9, error = 'on.data.loss says so'"))


def test_what_columns_told_of_the_past_becomes_a_history(url: str) -> None:
    store = MetricsStore(url)
    store.write(report(MIDNIGHT, partition()))
    kept = sum(store.samples_kept().values())
    store.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        _without_0004(connection)
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0003'"))
    engine.dispose()
    newer = MetricsStore(url)
    (row,) = newer.flows()
    # In SQLite a copy takes the place of the table that all others refer to.
    assert (newer.runs(row.flow).total, newer.partitions(row.flow).total) == (1, 1)
    assert sum(newer.samples_kept().values()) == kept
    assert row.history == FlowHistory(
        reported_ms=MIDNIGHT,
        run_id=f"run-{MIDNIGHT}",
        ok=False,
        ended_ms=MIDNIGHT,
        error="on.data.loss says so",
        records=100,
        partitions=1,
        lag=Amount.exactly(0),
        lag_before=Amount.exactly(4),
        good_run_ended_ms=4,
        failing_since_ms=5,
        losing=True,
        lost_now=9,
        lost_records=9,
        lost_held=9,
        lost_since_ms=6,
        lost_ms=6,
        untranslated_groups=1,
        untranslated_text="g",
        schedule_interval_seconds=30.0,
    )
    assert row.last_run.lag is not None
    assert row.last_run.lag.most == 0
    newer.close()


def test_every_metric_has_a_number_of_its_own() -> None:
    assert set(CODES) == set(Metric)
    assert len(METRICS) == len(CODES)
