"""A metrics store as it is after flows have reported for a month: filled by SQL, already rolled up.

To write the reports themselves would take days. Rows lie as reports would have left them: SQLite sorts them by their
key anyway, so they are made in its order; in PostgreSQL they lie in the order of time, those of all flows side by side.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, create_engine, text

from srm_common.domain.metrics.metric import Metric
from srm_common.store.engine import sqlite_file
from srm_common.store.report_rows import NO_PARTITION, NO_TOPIC, PARTITION_METRICS
from srm_common.store.tables import CODES
from srm_common.store.tiers import BUCKETS_MS, RAW, Level, Retention, bucket_start

_DAY = 86_400_000
_KEPT = Retention()
#: Of a topic whose records are copied, some of them re-encoded, while clocks are known and nothing fails.
TOPIC_METRICS = (
    Metric.BYTE_RATE,
    Metric.RECORD_RATE,
    Metric.REPLICATION_LATENCY,
    Metric.REPLICATION_LATENCY_CORRECTED,
    Metric.RECORDS_LAG,
    Metric.RECORD_AGE,
    Metric.REENCODED_SHARE,
)
#: Samples of these are of several figures even as reported.
_POOLED = (Metric.REPLICATION_LATENCY, Metric.REPLICATION_LATENCY_CORRECTED, Metric.RECORD_AGE)
_RUNS = -1
_KEY = ("flow_id", "level", "tier", "at_ms", "topic_id", "number", "metric")
_VALUE = "CAST((times.at_ms / 1000 + series.topic_id * 37 + series.metric * 101) % 977 AS DOUBLE PRECISION)"
_SPREAD = f"CASE WHEN times.tier > 0 OR series.metric IN ({', '.join(str(CODES[one]) for one in _POOLED)}) THEN "
_SAMPLES = f"""
INSERT INTO sample ({", ".join(_KEY)}, count, low, high, total, latest, latest_ms)
SELECT series.flow_id, series.level, times.tier, times.at_ms, series.topic_id, series.number, series.metric,
       times.reports, {_SPREAD} {_VALUE} * 0.5 END, {_SPREAD} {_VALUE} * 2 END,
       {_SPREAD} {_VALUE} * times.reports END, {_VALUE},
       CASE WHEN times.tier > 0 THEN times.at_ms + 30000 * (times.reports - 1) END
FROM fill_times times CROSS JOIN fill_series series
"""
_RUN_ROWS = """
INSERT INTO run (flow_id, run_id, reported_ms, started_ms, finished_ms, ok, passes, partitions, failed_partitions,
                 records, bytes, lag, transactions, retries, reencoded_records, lost_records)
SELECT flow.id, 'scheduled__' || times.at_ms, times.at_ms, times.at_ms - 4000, times.at_ms - 1000, times.at_ms % 7 > 0,
       1, 100, 0, 5000, 1500000, times.at_ms / 1000 % 977, 3, 0, 50, 0
FROM flow CROSS JOIN fill_times times WHERE times.tier = -1
"""


@dataclass(frozen=True, slots=True)
class Month:
    """What is to be held: flows that are in the store already, each with its newest report at ``end_ms``, reported for
    ``days``, once in ``interval_ms``."""

    end_ms: int
    days: float = 30.0
    interval_ms: int = 30_000
    partitions: int = 1
    retention: Retention = _KEPT

    def times(self, level: Level, tier: int) -> Sequence[tuple[int, int]]:
        """When samples are of, and of how many reports; without the newest report, which is there."""
        kept = self.retention.of(level)
        if not self.retention.makes(level, tier):
            return ()
        start = self.end_ms - kept[tier]
        if tier + 1 < len(kept):
            start = min(start, bucket_start(self.end_ms, tier + 1))
        length = self.interval_ms if tier == RAW else BUCKETS_MS[tier]
        start = max(start, self.end_ms - int(self.days * _DAY))
        start += (self.end_ms - start) % length if tier == RAW else -start % length
        end = self.end_ms if tier == RAW else bucket_start(self.end_ms, tier)
        return [(at, max(1, length // self.interval_ms)) for at in range(start, end, length)]

    def runs(self) -> Sequence[int]:
        """When runs were reported that are kept."""
        length = int(min(self.retention.runs_ms, self.days * _DAY))
        return range(self.end_ms - length // self.interval_ms * self.interval_ms, self.end_ms, self.interval_ms)


def fill(url: str, month: Month) -> None:
    """Add the month to a store whose flows have each reported once, at its end."""
    engine = create_engine(url)
    if sqlite_file(engine.url) is not None:
        with engine.connect() as connection:
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-200000"):
                connection.exec_driver_sql(f"PRAGMA {setting}")
            _fill_by_key(connection, month)
            connection.commit()
    else:
        with engine.begin() as connection:
            _fill_by_time(connection, month)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM (ANALYZE)"))  # as the server does by itself, later
    engine.dispose()


def _fill_by_key(connection: Connection, month: Month) -> None:
    _prepare(connection, month)
    flows = list(connection.execute(text("SELECT id FROM flow ORDER BY id")).scalars())
    # Appended in the order of the key, a tree's pages are filled one after the other, and never read again.
    which = "WHERE times.level = :level AND times.tier = :tier AND series.flow_id = :flow AND series.level = :level"
    for flow, level in itertools.product(flows, Level):
        for tier in range(len(BUCKETS_MS)):
            connection.execute(text(_SAMPLES + which), {"flow": flow, "level": int(level), "tier": tier})
    connection.execute(text(_RUN_ROWS))


def _fill_by_time(connection: Connection, month: Month) -> None:
    standing = list(connection.execute(text("SELECT * FROM sample")).mappings())
    # A table that is emptied in the same transaction needs no write-ahead log, and no index until it is full.
    connection.execute(text("TRUNCATE sample"))
    connection.execute(text("ALTER TABLE sample DROP CONSTRAINT sample_pkey, DROP CONSTRAINT sample_flow_id_fkey"))
    _prepare(connection, month)
    connection.execute(text("ANALYZE fill_series"))
    which = "WHERE times.tier = :tier AND times.at_ms = :at AND times.level = series.level"
    for tier in range(len(BUCKETS_MS)):
        for at in sorted({at for level in Level for at, _ in month.times(level, tier)}):
            connection.execute(text(_SAMPLES + which), {"tier": tier, "at": at})
    columns = [str(name) for name in standing[0]]
    places = ", ".join(f":{name}" for name in columns)
    connection.execute(
        text(f"INSERT INTO sample ({', '.join(columns)}) VALUES ({places})"), [dict(row) for row in standing]
    )
    connection.execute(text(_RUN_ROWS))
    connection.execute(text("SET LOCAL maintenance_work_mem = '1GB'"))
    connection.execute(text(f"ALTER TABLE sample ADD PRIMARY KEY ({', '.join(_KEY)})"))
    connection.execute(
        text("ALTER TABLE sample ADD FOREIGN KEY (flow_id) REFERENCES flow (id) ON DELETE CASCADE NOT VALID")
    )


def _prepare(connection: Connection, month: Month) -> None:
    """Temporary tables of the times and of the series, in the order of their keys."""
    connection.execute(text("CREATE TEMPORARY TABLE fill_times (level INT, tier INT, at_ms BIGINT, reports INT)"))
    rows: list[dict[str, Any]] = [
        {"level": int(level), "tier": tier, "at": at, "reports": reports}
        for level in Level
        for tier in range(len(BUCKETS_MS))
        for at, reports in month.times(level, tier)
    ]
    rows += [{"level": _RUNS, "tier": _RUNS, "at": at, "reports": 1} for at in month.runs()]
    connection.execute(text("INSERT INTO fill_times VALUES (:level, :tier, :at, :reports)"), rows)
    connection.execute(text("CREATE INDEX fill_by_tier ON fill_times (level, tier, at_ms)"))
    connection.execute(
        text(
            "CREATE TEMPORARY TABLE fill_series "
            "(flow_id INT, level INT, topic_id INT, number INT, metric INT, PRIMARY KEY (flow_id, level, topic_id, "
            "number, metric))"
        )
    )
    topics: dict[int, list[int]] = {}
    for flow, topic in connection.execute(text("SELECT flow_id, id FROM topic ORDER BY flow_id, id")):
        topics.setdefault(flow, []).append(topic)
    for flow, ids in topics.items():
        connection.execute(
            text("INSERT INTO fill_series VALUES (:flow, :level, :topic, :number, :metric)"),
            list(_series(flow, ids, month.partitions)),
        )


def _series(flow: int, topics: Sequence[int], partitions: int) -> Iterator[dict[str, int]]:
    def one(level: Level, topic: int, number: int, metric: Metric) -> dict[str, int]:
        return {"flow": flow, "level": int(level), "topic": topic, "number": number, "metric": CODES[metric]}

    for metric in Metric:
        yield one(Level.FLOW, NO_TOPIC, NO_PARTITION, metric)
    for topic in topics:
        for metric in TOPIC_METRICS:
            yield one(Level.TOPIC, topic, NO_PARTITION, metric)
        for number in range(partitions):
            for metric in PARTITION_METRICS:
                yield one(Level.PARTITION, topic, number, metric)
