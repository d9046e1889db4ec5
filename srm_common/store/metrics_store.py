"""The only interface to the history: reports in, figures out."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.errors import StoreError
from srm_common.store import current_rows, history
from srm_common.store.current_rows import TopicOrder, topic_page
from srm_common.store.engine import file_identity, open_engine, parsed_url, reading, shown, sqlite_file, writing
from srm_common.store.report_writer import write_report
from srm_common.store.rows import Document, FlowRow, GroupRow, Page, PartitionRow, RunRow, TopicRow
from srm_common.store.schema import bring_up_to_date, has_tables, is_current
from srm_common.store.tiers import BUCKETS_MS, RAW, Level, Retention

__all__ = ["MetricsStore", "TopicOrder"]


class MetricsStore:
    """Opens lazily; safe for several threads and processes. Every method raises :class:`StoreError` (or
    :class:`StoreTooNew`) in one sentence when the database is down, locked for too long, or newer than this code.

    A store that was never written to is empty. Retention is counted from a flow's newest report; a flow that no longer
    reports is deleted as a whole, some time after the newest report of any flow.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 5.0,
        retention: Retention | None = None,
        configured: Collection[str] = (),
    ) -> None:
        """``url`` is SQLAlchemy's. The schema is created or migrated at the first write. ``configured``: names of flows
        that are kept however long they do not report.

        Raises:
            ConfigError: ``url`` is not the address of a supported database.
        """
        self._open = open_engine(parsed_url(url), timeout_seconds)
        self._retention = retention or Retention()
        self._configured = frozenset(configured)
        self._unusable: str | None = None
        self._current = False
        self._file: tuple[int, int] | None = None
        self._opening = threading.Lock()

    @classmethod
    def unusable(cls, reason: str) -> MetricsStore:
        """A store whose methods all raise :class:`StoreError` with ``reason``: a web app reports that its store is
        misconfigured instead of failing to start."""
        store = cls("sqlite://")
        store._unusable = reason
        return store

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's. Raises :class:`StoreError` for a store that is misconfigured."""
        if self._unusable is not None:
            raise StoreError(self._unusable)
        return self._open

    @property
    def location(self) -> str:
        """For people; without a password."""
        return shown(self._open.url)

    def write(self, report: RunReport, *, now_ms: int | None = None) -> None:
        """Store a report, in place of an earlier one of the same flow and run id. In one transaction. Rolls up and
        prunes what is due.

        A report that is older than the newest one of its flow is late, and leaves the current state as it is; unless
        the newest one is from more than a minute after ``now_ms`` (epoch milliseconds; by this host's clock if None),
        because the clock that gave it its time was wrong.
        """
        if not self._is_current():
            with self._opening:
                bring_up_to_date(self.engine)
        with writing(self.engine) as connection:
            at_ms = int(time.time() * 1000) if now_ms is None else now_ms
            write_report(connection, report, self._retention, self._configured, at_ms)

    def flows(self, only: Collection[str] | None = None) -> list[FlowRow]:
        """All flows that have reported and were not deleted since, sorted by name."""
        with self._reading() as connection:
            return current_rows.flow_rows(connection, only) if connection is not None else []

    def flow_stats(self, span: TimeRange, only: Collection[str] | None = None) -> Mapping[str, Mapping[Metric, Stats]]:
        """By flow and metric; figures of a flow are aggregated from its partitions (docs/metrics.md)."""
        with self._reading() as connection:
            return history.flow_stats(connection, span, self._retention, only) if connection is not None else {}

    def average_rates(
        self, flow: str, now_ms: int, window_ms: int, levels: Collection[Level]
    ) -> Mapping[str, Mapping[Metric, float]]:
        """Bytes and records copied per second, by topic, and under ``""`` by the flow: averages over the window up to
        now, or over as much of it as samples are kept for as they were reported. What is not in it copied nothing."""
        window_ms = min(window_ms, max(self._retention.tiers_ms[RAW], BUCKETS_MS[RAW + 1]))
        with self._reading() as connection:
            if connection is None:
                return {}
            return history.average_rates(connection, flow, now_ms, window_ms, levels)

    def topics(
        self,
        flow: str,
        span: TimeRange,
        *,
        search: str = "",
        order: TopicOrder = "topic",
        offset: int = 0,
        limit: int = 100,
        gone: bool = False,
        lags: Mapping[str, int] | None = None,
        metrics: Collection[Metric] | None = None,
    ) -> Page[TopicRow]:
        """``search`` is a part of a topic's or remote topic's name, in any case; ``gone``: also topics that are no
        longer copied, and reported last within the range; ``lags``: newer than the report's, to sort by; ``metrics``:
        which statistics to return, None: all."""
        with self._reading() as connection:
            if connection is None:
                return Page((), 0, offset)
            return topic_page(
                *(connection, flow, span, self._retention, search, order, offset, limit),
                gone=gone,
                lags=lags,
                metrics=metrics,
            )

    def partitions(
        self, flow: str, *, topic: str | None = None, failed_only: bool = False, offset: int = 0, limit: int = 100
    ) -> Page[PartitionRow]:
        """Sorted by topic and partition."""
        with self._reading() as connection:
            if connection is None:
                return Page((), 0, offset)
            return current_rows.partition_page(connection, flow, topic, failed_only, offset, limit)

    def groups(self, flow: str, *, search: str = "", offset: int = 0, limit: int = 100) -> Page[GroupRow]:
        """Sorted by name, those that are not translated completely first."""
        with self._reading() as connection:
            if connection is None:
                return Page((), 0, offset)
            return current_rows.group_page(connection, flow, search, offset, limit)

    def runs(self, flow: str, *, offset: int = 0, limit: int = 50) -> Page[RunRow]:
        """Newest first."""
        with self._reading() as connection:
            if connection is None:
                return Page((), 0, offset)
            return current_rows.run_page(connection, flow, offset, limit)

    def documents(self, flow: str, *keys: str) -> Mapping[str, Document]:
        """Those of ``keys`` that were reported; without keys, all of them."""
        with self._reading() as connection:
            return current_rows.documents(connection, flow, keys) if connection is not None else {}

    def series(
        self,
        flow: str,
        metric: Metric,
        span: TimeRange,
        *,
        topic: str | None = None,
        partition: int | None = None,
        points: int = 200,
    ) -> Sequence[Stats]:
        """At most ``points`` buckets of equal length that have samples, oldest first."""
        with self._reading() as connection:
            if connection is None:
                return []
            return history.series(connection, flow, metric, span, self._retention, topic, partition, points)

    def sparklines(
        self, metrics: Collection[Metric], span: TimeRange, *, points: int = 40
    ) -> Mapping[str, Mapping[Metric, Sequence[Stats]]]:
        """Series of all flows at once."""
        with self._reading() as connection:
            return history.sparklines(connection, metrics, span, self._retention, points) if connection else {}

    def samples_kept(self) -> Mapping[tuple[Level, int], int]:
        """How many rows the history has, by level and tier (:mod:`srm_common.store.tiers`)."""
        with self._reading() as connection:
            return history.samples_kept(connection) if connection is not None else {}

    def close(self) -> None:
        """Ends its connections; a later call opens new ones."""
        self._open.dispose()

    def _is_current(self) -> bool:
        # A file that was deleted, or re-created, is another database; open connections would keep the old one.
        file = sqlite_file(self.engine.url)
        found = file_identity(file) if file is not None else None
        if found != self._file:
            self.engine.dispose()
            self._file, self._current = found, False
        if not self._current:
            self._current = is_current(self.engine)
        return self._current

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """None: nothing was ever written."""
        if not self._is_current():
            if not has_tables(self.engine):
                yield None
                return
            with self._opening:
                bring_up_to_date(self.engine)
        with reading(self.engine) as connection:
            yield connection
