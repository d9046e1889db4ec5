"""The tables of the metrics store in this version; ``migrations`` creates them.

Times are epoch milliseconds. ``flow``, ``topic``, ``partition`` and ``consumer_group`` have the state as of the newest
report, ``run`` what each run did, ``sample`` figures over time.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    TypeDecorator,
    UniqueConstraint,
    types,
)
from sqlalchemy.dialects import postgresql, sqlite

from srm_common.domain.metrics.metric import Metric

# The numbers of metrics in the database; none is ever reused.


CODES: dict[Metric, int] = {
    Metric.BYTE_RATE: 1,
    Metric.RECORD_RATE: 2,
    Metric.REPLICATION_LATENCY: 3,
    Metric.CHECKPOINT_LATENCY: 4,
    Metric.RECORDS_LAG: 5,
    Metric.RECORD_AGE: 6,
    Metric.HEARTBEAT_LATENCY: 7,
    Metric.HEARTBEAT_AGE: 8,
    Metric.RUN_DURATION: 9,
    Metric.PASSES: 10,
    Metric.TRANSACTIONS: 11,
    Metric.RETRIES: 12,
    Metric.REENCODED_SHARE: 13,
    Metric.LOST_RECORDS: 14,
    Metric.LOST_DATA_EVENTS: 15,
    Metric.UNTRANSLATED_GROUPS: 16,
    Metric.FAILED_PARTITIONS: 17,
    Metric.REPLICATION_LATENCY_CORRECTED: 18,
    Metric.LAG_AGE: 19,
    Metric.UNKNOWN_LAGS: 20,
    Metric.SKIPPED_RECORDS: 21,
    Metric.DEAD_LETTERS: 22,
    Metric.DROPPED_RECORDS: 23,
    Metric.CERTIFICATE_REMAINING: 24,
}
METRICS = {code: metric for metric, code in CODES.items()}


METADATA = MetaData()

#: What all runs together have copied and left out; never less than before. None if no run has reported it.
TOTALS = ("records_total", "bytes_total", "skipped_records_total", "dead_letters_total")


def storable(text: str) -> str:
    """``text`` with a replacement character for each character that a database rejects: NUL (PostgreSQL), and lone
    surrogates, which stand for bytes that are not UTF-8."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Text(TypeDecorator[str]):
    """Any text that a report or a query has; see :func:`storable`."""

    impl = types.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Name(Text):
    """A name that is sorted as Python sorts it: SQLite does so by itself, PostgreSQL would sort by its locale."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> types.TypeEngine[str]:
        return dialect.type_descriptor(postgresql.TEXT(collation="C") if dialect.name == "postgresql" else types.Text())


def inserting(dialect: str, table: Table) -> postgresql.Insert | sqlite.Insert:
    """With ``ON CONFLICT``, which both databases have in the same form."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def _totals() -> tuple[Column[int], ...]:
    return tuple(Column(name, BigInteger) for name in TOTALS)


def _flow_id(*, primary_key: bool = False) -> Column[int]:
    return Column("flow_id", Integer, ForeignKey("flow.id", ondelete="CASCADE"), primary_key=primary_key)


FLOW = Table(
    "flow",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
    # Of the newest report; None while the first one is being written, and once the flow is being deleted.
    Column("reported_ms", BigInteger),
    Column("run_id", Text),
    # Of the newest report with partitions.
    Column("figures_ms", BigInteger),
    Column("groups_ms", BigInteger),
    Column("topics", Integer, nullable=False, default=0),
    Column("partitions", Integer, nullable=False, default=0),
    Column("failed_partitions", Integer, nullable=False, default=0),
    Column("consumer_groups", Integer, nullable=False, default=0),
    # JSON from here on. A srm_common.domain.monitoring.flow_history.FlowHistory.
    Column("history", Text),
    Column("warnings", Text),
    Column("heartbeats", Text),
    Column("clock", Text),
    # Of topics that are not copied any more, too.
    *_totals(),
    # LatencyHistogram.text() of all runs that were reported together.
    Column("latencies_total", Text),
)

RUN = Table(
    "run",
    METADATA,
    # SQLite numbers rows itself only in an INTEGER, which has 64 bits there.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    _flow_id(),
    Column("run_id", Text, nullable=False),
    Column("reported_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("finished_ms", BigInteger),
    Column("ok", Boolean, nullable=False),
    Column("error", Text),
    Column("passes", Integer, nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("failed_partitions", Integer, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    # Of the partitions where it is known; of how many it is not.
    Column("lag", BigInteger),
    Column("lag_unknown", Integer),
    Column("transactions", BigInteger, nullable=False),
    Column("retries", BigInteger, nullable=False),
    Column("reencoded_records", BigInteger, nullable=False),
    Column("lost_records", BigInteger, nullable=False),
    # JSON: lists of sentences.
    Column("notes", Text),
    Column("partition_errors", Text),
    # The error's class, or that of the first partition's.
    Column("error_kind", Text),
    # None in rows of before they were kept.
    Column("skipped_records", BigInteger),
    Column("dead_letters", BigInteger),
    Column("dropped_records", BigInteger),
    UniqueConstraint("flow_id", "run_id", name="run_once"),
    Index("run_by_time", "flow_id", "reported_ms"),
)

TOPIC = Table(
    "topic",
    METADATA,
    Column("id", Integer, primary_key=True),
    _flow_id(),
    Column("name", Name, nullable=False),
    Column("remote_topic", Text, nullable=False),
    # Both names in lower case, to search in: what a database takes for lower case depends on its locale.
    Column("folded", Text, nullable=False),
    Column("reported_ms", BigInteger, nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("failed_partitions", Integer, nullable=False),
    Column("lag", BigInteger),
    Column("lag_unknown", Integer),
    Column("newest_record_ms", BigInteger),
    Column("error", Text),
    *_totals(),
    # With a position on it; None before the first round of checkpoints.
    Column("consumer_groups", Integer),
    UniqueConstraint("flow_id", "name", name="topic_once"),
)

PARTITION = Table(
    "partition",
    METADATA,
    Column("topic_id", Integer, ForeignKey("topic.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("reported_ms", BigInteger, nullable=False),
    Column("position", BigInteger),
    Column("end_offset", BigInteger),
    Column("lag", BigInteger),
    Column("newest_record_ms", BigInteger),
    Column("latency_ms_min", Double),
    Column("latency_ms_avg", Double),
    Column("latency_ms_max", Double),
    Column("error", Text),
    *_totals(),
    # The flow's own count when it reported last: it restarts with a topic that was left out for a while.
    Column("records_told", BigInteger),
    Column("bytes_told", BigInteger),
    Column("skipped_records_told", BigInteger),
    Column("dead_letters_told", BigInteger),
    Column("error_kind", Text),
    # LatencyHistogram.text() of the newest report.
    Column("latencies", Text),
    # Per second of the newest run; None where it copied nothing at all or has not ended.
    Column("record_rate", Double),
    Column("byte_rate", Double),
    sqlite_with_rowid=False,
)

GROUP = Table(
    "consumer_group",
    METADATA,
    _flow_id(primary_key=True),
    Column("name", Name, primary_key=True),
    Column("folded", Text, nullable=False),
    Column("reported_ms", BigInteger, nullable=False),
    Column("positions", Integer, nullable=False),
    Column("translated", Integer, nullable=False),
    Column("reason", Text),
    Column("synced", Boolean, nullable=False),
    Column("checkpoint_latency_ms", Double),
    Column("checkpoint_ms", BigInteger),
    sqlite_with_rowid=False,
)

DOCUMENT = Table(
    "document",
    METADATA,
    _flow_id(primary_key=True),
    Column("key", Text, primary_key=True),
    Column("reported_ms", BigInteger, nullable=False),
    Column("value", Text, nullable=False),
)

# Time comes before topic in the key: a report is written in one place, a range of time read and deleted in one.
SAMPLE = Table(
    "sample",
    METADATA,
    _flow_id(primary_key=True),
    # A srm_common.store.tiers.Level.
    Column("level", SmallInteger, primary_key=True, autoincrement=False),
    # 0: as reported; others: as srm_common.store.tiers has them.
    Column("tier", SmallInteger, primary_key=True, autoincrement=False),
    # Of the report; in other tiers where the bucket begins.
    Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
    # 0 at the level of flows; ``number`` is -1 where the sample is not of a partition.
    Column("topic_id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("metric", SmallInteger, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    # None where they are equal to ``latest``: most samples are of one figure, and space is what history costs.
    Column("low", Double),
    Column("high", Double),
    Column("total", Double),
    Column("latest", Double, nullable=False),
    # None where it is ``at_ms``.
    Column("latest_ms", BigInteger),
    # LatencyHistogram.text(), of latencies only.
    Column("latencies", Text),
    sqlite_with_rowid=False,
)
