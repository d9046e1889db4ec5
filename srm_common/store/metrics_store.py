"""The one door to the history: reports in, figures out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from srm_common.domain.monitoring.metric import Metric
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.monitoring.stats import Stats
from srm_common.domain.monitoring.time_range import TimeRange
from srm_common.store.rows import Document, FlowRow, GroupRow, Page, PartitionRow, RunRow, TopicRow

TopicOrder = Literal[
    "topic", "-topic", "lag", "-lag", "byte-rate", "-byte-rate", "replication-latency-ms", "-replication-latency-ms"
]


class MetricsStore:
    """Opens lazily; safe for several threads and processes. Every method raises :class:`StoreError` (or
    :class:`StoreTooNew`) in one sentence when the database is down, locked for too long, or newer than this code."""

    def __init__(self, url: str, *, timeout_seconds: float = 5.0) -> None:
        """``url`` is SQLAlchemy's. The schema is made or brought up to date at the first write."""
        raise NotImplementedError

    def write(self, report: RunReport) -> None:
        """Keep a report; one that was kept before (flow, run id) is replaced. In one transaction. Rolls up and prunes
        what is due."""
        raise NotImplementedError

    def flows(self, only: Collection[str] | None = None) -> list[FlowRow]:
        """All flows that ever reported, sorted by name."""
        raise NotImplementedError

    def flow_stats(self, span: TimeRange, only: Collection[str] | None = None) -> Mapping[str, Mapping[Metric, Stats]]:
        """By flow and metric; figures of a flow are put together from its partitions (docs/metrics.md)."""
        raise NotImplementedError

    def topics(
        self,
        flow: str,
        span: TimeRange,
        *,
        search: str = "",
        order: TopicOrder = "topic",
        offset: int = 0,
        limit: int = 100,
    ) -> Page[TopicRow]:
        """``search`` is a part of a topic's or remote topic's name, any case."""
        raise NotImplementedError

    def partitions(
        self, flow: str, *, topic: str | None = None, failed_only: bool = False, offset: int = 0, limit: int = 100
    ) -> Page[PartitionRow]:
        """Sorted by topic and partition."""
        raise NotImplementedError

    def groups(self, flow: str, *, search: str = "", offset: int = 0, limit: int = 100) -> Page[GroupRow]:
        """Sorted by name, those that are not translated completely first."""
        raise NotImplementedError

    def runs(self, flow: str, *, offset: int = 0, limit: int = 50) -> Page[RunRow]:
        """Newest first."""
        raise NotImplementedError

    def documents(self, flow: str, *keys: str) -> Mapping[str, Document]:
        raise NotImplementedError

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
        raise NotImplementedError

    def sparklines(
        self, metrics: Collection[Metric], span: TimeRange, *, points: int = 40
    ) -> Mapping[str, Mapping[Metric, Sequence[Stats]]]:
        """Series of all flows at once."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
