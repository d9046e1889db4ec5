"""Flows with every figure that can be exported, for tests of what Prometheus and others are told."""

from __future__ import annotations

from srm_common.domain.amount import Amount
from srm_common.domain.flow import FlowName
from srm_common.domain.health.health import Alarm, AlarmKind, Health, HealthState, Severity
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.monitoring.flow_history import FlowHistory
from srm_common.domain.monitoring.flow_lag import FlowLag, PartitionLag
from srm_common.domain.monitoring.run_report import GroupSample
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.topic_partition import TopicPartition
from srm_common.rest.prometheus.series import FlowFigures
from srm_common.store.rows import FlowRow, GroupRow, PartitionRow, RunRow, TopicRow

T = 1_700_000_000_000
FLOW = FlowName("east", "west")


def run_row(flow: FlowName = FLOW) -> RunRow:
    lag = Amount.exactly(12)
    return RunRow(str(flow), "r1", T - 5000, T - 2500, T, True, None, 2, 2, 0, 70, 9000, lag, 3, 1, 5, 0)


def flow_row(flow: FlowName = FLOW) -> FlowRow:
    beat = {"cluster": "east", "hops": 1, "written_ms": T - 1500, "latency_ms": 250}
    older = {**beat, "written_ms": T - 2500}
    return FlowRow(
        str(flow),
        T,
        run_row(flow),
        topics=1,
        partitions=2,
        failed_partitions=1,
        history=FlowHistory(
            lag=Amount.exactly(12),
            lag_before=Amount.exactly(3),
            good_run_ended_ms=T - 2500,
            lag_over_since_ms=T - 60_000,
            untranslated_groups=1,
            untranslated_text="group g has no place",
            proved_partitions=2,
            unproved_partitions=1,
            uncompared_partitions=4,
            verified_ms=T - 60_000,
            schedule_interval_seconds=30.0,
            lag_objective_records=10,
        ),
        groups=1,
        heartbeats={"heartbeats": [older, beat]},
        clock={"source_ms": 12.5, "target_ms": None},
        records_total=12_345_678_901_234_567,
        bytes_total=98_765,
        skipped_records_total=17,
        dead_letters_total=16,
        latencies_total=LatencyHistogram(((22, 90), (40, 10))),
        live=FlowLag(
            T + 9_000,
            {
                TopicPartition("orders", 0): PartitionLag(100, 106, T - 1_000),
                TopicPartition("orders", 1): PartitionLag(101, 109),
            },
        ),
    )


def partition(number: int, *, topic: str = "orders", flow: FlowName = FLOW, error: str | None = None) -> PartitionRow:
    return PartitionRow(
        str(flow),
        topic,
        f"{flow.source}.{topic}",
        number,
        position=100 + number,
        end=106 + number,
        lag=6,
        newest_record_ms=T - 4000,
        latency_ms_min=100.0,
        latency_ms_avg=250.0,
        latency_ms_max=1500.0 + number,
        reported_ms=T,
        error=error,
        latencies="22,90,-17,10",
        record_rate=20.0 + number,
        byte_rate=200.0 + number,
        records_total=500 + number,
        bytes_total=60_000 + number,
        skipped_records_total=6 + number,
        dead_letters_total=5 + number,
        behind_ms=10_000.0,
    )


def figures(flow: FlowName = FLOW) -> FlowFigures:
    """Behind its objective, one of two partitions failed."""
    alarm = Alarm(AlarmKind.LAG_OBJECTIVE, Severity.WARNING, str(flow), "12 records behind")
    span = TimeRange(T - 300_000, T)
    rate = Stats(Metric.BYTE_RATE, span, 2, 100.0, 300.0, 400.0, 300.0, T)
    spread = LatencyHistogram(((22, 90), (36, 10)))
    latency = Stats(Metric.REPLICATION_LATENCY, span, 4, 100.0, 1501.0, 2000.0, 250.0, T, spread)
    topic = TopicRow(
        str(flow),
        "orders",
        f"{flow.source}.orders",
        2,
        1,
        Amount.exactly(12),
        T,
        T - 4000,
        {Metric.BYTE_RATE: rate, Metric.REPLICATION_LATENCY: latency},
        records_total=1001,
        bytes_total=120_001,
        skipped_records_total=13,
        dead_letters_total=11,
        behind_ms=10_000.0,
    )
    group = GroupSample("billing", positions=2, translated=1, checkpoint_latency_ms=40.0, checkpoint_ms=T - 3000)
    return FlowFigures(
        flow,
        Health(HealthState.CATCHING_UP, "12 records behind", T - 60_000),
        [alarm],
        flow_row(flow),
        {Metric.BYTE_RATE: rate},
        [topic],
        [partition(0), partition(1, error="not enough replicas")],
        [GroupRow(str(flow), T, group)],
    )
