"""The rows that the store returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from srm_common.domain.amount import Amount
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import PERCENTILES, Stats, within
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.domain.monitoring.flow_lag import FlowLag
from srm_common.domain.monitoring.run_report import GroupSample
from srm_common.domain.runs.latency_histogram import LatencyHistogram

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """``rows`` from ``offset`` on, of ``total``."""

    rows: Sequence[T]
    total: int
    offset: int


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as it was reported. Times are epoch milliseconds, counts of this run."""

    flow: str
    run_id: str
    started_ms: int | None
    finished_ms: int | None
    reported_ms: int
    ok: bool
    error: str | None
    passes: int
    partitions: int
    failed_partitions: int
    records: int
    bytes: int
    #: None where the run could not look.
    lag: Amount | None
    transactions: int
    retries: int
    reencoded_records: int
    lost_records: int
    notes: tuple[str, ...] = ()
    #: "topic-partition: sentence", at most 20.
    partition_errors: tuple[str, ...] = ()
    #: class of the run's error in srm_common.errors, else of the first partition's.
    error_kind: str | None = None
    #: that a transform dropped; that one could not handle, and those of them that are in the dead letter topic.
    dropped_records: int = 0
    skipped_records: int = 0
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow's newest report, and its history, which health is judged by."""

    flow: str
    reported_ms: int
    last_run: RunRow
    topics: int
    partitions: int
    failed_partitions: int
    history: FlowHistory
    groups: int
    warnings: tuple[str, ...] = ()
    #: HeartbeatReport.to_json() of the newest report.
    heartbeats: Mapping[str, Any] | None = None
    clock: Mapping[str, Any] | None = None
    #: copied by all runs together, of topics that are not copied any more, too; None if no run has reported it.
    records_total: int | None = None
    bytes_total: int | None = None
    skipped_records_total: int | None = None
    dead_letters_total: int | None = None
    #: of all runs that were reported; None if none has reported a histogram of latencies.
    latencies_total: LatencyHistogram | None = None
    #: queried from the clusters since, if any.
    live: FlowLag | None = None

    @property
    def newer(self) -> FlowLag | None:
        """What is known of its lag since the report."""
        return None if self.live is None or self.live.taken_ms <= self.reported_ms else self.live

    @property
    def lag_now(self) -> Amount | None:
        """The newest known value; None if neither a report nor a query since has one."""
        return self.history.lag if self.newer is None else self.newer.whole.records

    @property
    def lag_ms(self) -> int:
        """When that was taken, epoch milliseconds."""
        return self.reported_ms if self.newer is None else self.newer.taken_ms

    @property
    def behind_ms(self) -> float | None:
        """Age of the oldest record that is not copied; None if it is unknown."""
        return None if self.newer is None else self.newer.whole.behind_ms(self.newer.taken_ms)


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One upstream topic; figures of its newest report at ``reported_ms``, statistics over the requested range."""

    flow: str
    topic: str
    remote_topic: str
    partitions: int
    failed_partitions: int
    lag: Amount | None
    reported_ms: int
    newest_record_ms: int | None = None
    stats: Mapping[Metric, Stats] = field(default_factory=dict)
    error: str | None = None
    #: copied by all runs together.
    records_total: int | None = None
    bytes_total: int | None = None
    skipped_records_total: int | None = None
    dead_letters_total: int | None = None
    #: with a position on it; None before the first round of checkpoints.
    consumer_groups: int | None = None
    #: when the lag was taken, if after the report, and the age of the oldest record that is not copied.
    lag_ms: int | None = None
    behind_ms: float | None = None


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition, as it was reported last at ``reported_ms``."""

    flow: str
    topic: str
    remote_topic: str
    partition: int
    position: int | None
    end: int | None
    lag: int | None
    newest_record_ms: int | None
    latency_ms_min: float | None
    latency_ms_avg: float | None
    latency_ms_max: float | None
    reported_ms: int
    error: str | None = None
    #: copied by all runs together.
    records_total: int | None = None
    bytes_total: int | None = None
    skipped_records_total: int | None = None
    dead_letters_total: int | None = None
    error_kind: str | None = None
    #: LatencyHistogram.text(); None where it is not known.
    latencies: str | None = None
    #: per second of the newest run; None where it copied nothing at all.
    record_rate: float | None = None
    byte_rate: float | None = None
    #: as for a topic; position and end are then of that time, too.
    lag_ms: int | None = None
    behind_ms: float | None = None

    def at(
        self, lag_ms: int, position: int | None, end: int | None, lag: int | None, behind_ms: float | None
    ) -> PartitionRow:
        """With the lag of another time. Written out, as ``replace`` takes four times as long for tens of thousands."""
        return PartitionRow(
            flow=self.flow,
            topic=self.topic,
            remote_topic=self.remote_topic,
            partition=self.partition,
            position=position,
            end=end,
            lag=lag,
            newest_record_ms=self.newest_record_ms,
            latency_ms_min=self.latency_ms_min,
            latency_ms_avg=self.latency_ms_avg,
            latency_ms_max=self.latency_ms_max,
            reported_ms=self.reported_ms,
            error=self.error,
            records_total=self.records_total,
            bytes_total=self.bytes_total,
            skipped_records_total=self.skipped_records_total,
            dead_letters_total=self.dead_letters_total,
            error_kind=self.error_kind,
            latencies=self.latencies,
            record_rate=self.record_rate,
            byte_rate=self.byte_rate,
            lag_ms=lag_ms,
            behind_ms=behind_ms,
        )

    @property
    def latency_percentiles(self) -> dict[str, float | None]:
        """By name (``p50`` and so on), milliseconds."""
        histogram = LatencyHistogram() if self.latencies is None else LatencyHistogram.parse(self.latencies)
        low, high = self.latency_ms_min, self.latency_ms_max
        return {name: within(histogram.percentile(share), low, high) for name, share in PERCENTILES.items()}


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group of a flow, as it was reported last."""

    flow: str
    reported_ms: int
    sample: GroupSample


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document that a flow keeps of itself: ``decisions``, ``plan``, ``filters``."""

    flow: str
    key: str
    value: Mapping[str, Any]
    reported_ms: int
