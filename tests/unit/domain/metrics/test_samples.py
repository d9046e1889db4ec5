"""Every metric against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.metrics.metric import BY_METRIC, DEFINITIONS, Level, Metric
from srm_common.domain.metrics.samples import by_topic, flow_samples, partition_samples
from srm_common.domain.metrics.stats import Sample, pooled
from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport
from srm_common.domain.monitoring.run_report import ClockSkew, GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState

# A run of 4 s, reported at 20,000.
ORDERS_0 = PartitionRecord(
    "orders",
    "a.orders",
    0,
    records=300,
    bytes=6_000,
    position=1_000,
    end=1_100,
    latency_ms_min=10.0,
    latency_ms_avg=20.0,
    latency_ms_max=90.0,
    last_record_timestamp_ms=18_000,
    transactions=3,
    reencoded_records=75,
    oldest_ms=17_500,
)
ORDERS_1 = PartitionRecord(
    "orders",
    "a.orders",
    1,
    records=100,
    bytes=2_000,
    position=50,
    end=70,
    latency_ms_min=5.0,
    latency_ms_avg=40.0,
    latency_ms_max=60.0,
    last_record_timestamp_ms=19_000,
    transactions=3,
    lost_records=7,
    oldest_ms=12_000,
)
IDLE = PartitionRecord("clicks", "a.clicks", 0, position=9, end=9, last_record_timestamp_ms=1_000)
STUCK = PartitionRecord("clicks", "a.clicks", 1, position=4, end=10, last_record_timestamp_ms=5_000, error="broken")
UNPLACED = PartitionRecord("clicks", "a.clicks", 2, error="no leader")
PARTITIONS = (ORDERS_0, ORDERS_1, IDLE, STUCK, UNPLACED)
RUN = RunRecord("a->b", "r", 10_000, 14_000, 2, RunState.FAILED, partitions=PARTITIONS, transactions=3, retries=1)
BEATS = HeartbeatReport(
    "a->b",
    "a",
    20_000,
    1_000,
    60_000,
    (CopiedHeartbeat("a.heartbeats", ("a", "b"), Heartbeat("a", "b", 13_500), 14_100),),
)
GROUPS = (
    GroupSample("g1", 2, 2, checkpoint_latency_ms=100.0, checkpoint_ms=15_000),
    GroupSample("g2", 3, 1, "no map", checkpoint_latency_ms=300.0, checkpoint_ms=15_000),
    GroupSample("g3", 1, 1),
    GroupSample("g4", 1, 1, checkpoint_latency_ms=900.0, checkpoint_ms=9_999),  # of an earlier run
)
REPORT = RunReport("a->b", "r", 20_000, RUN, heartbeats=BEATS, groups=GROUPS)


def test_a_partition() -> None:
    assert partition_samples(REPORT, [ORDERS_0]) == {
        Metric.BYTE_RATE: Sample.of(1_500),  # 6,000 in 4 s
        Metric.RECORD_RATE: Sample.of(75),
        Metric.RECORDS_LAG: Sample.of(100),
        Metric.UNKNOWN_LAGS: Sample.of(0),
        Metric.LAG_AGE: Sample.of(2_500),
        Metric.REPLICATION_LATENCY: Sample(10.0, 90.0, 20.0),
        Metric.RECORD_AGE: Sample.of(2_000),
        Metric.REENCODED_SHARE: Sample.of(0.25),
        Metric.LOST_RECORDS: Sample.of(0),
        Metric.LOST_DATA_EVENTS: Sample.of(0),
        Metric.FAILED_PARTITIONS: Sample.of(0),
    }


def test_a_topic() -> None:
    topics = by_topic(PARTITIONS)
    assert list(topics) == ["clicks", "orders"]
    assert partition_samples(REPORT, topics["orders"]) == {
        Metric.BYTE_RATE: Sample.of(2_000),  # 8,000 in 4 s
        Metric.RECORD_RATE: Sample.of(100),
        Metric.RECORDS_LAG: Sample.of(120),
        Metric.UNKNOWN_LAGS: Sample.of(0),
        Metric.LAG_AGE: Sample(2_500, 8_000, 10_500, 2),
        Metric.REPLICATION_LATENCY: Sample(5.0, 90.0, 60.0, 2),  # both partitions weigh the same: 30 on average
        Metric.RECORD_AGE: Sample(1_000, 2_000, 3_000, 2),
        Metric.REENCODED_SHARE: Sample.of(0.1875),  # 75 of 400 records, not the average of 0.25 and 0
        Metric.LOST_RECORDS: Sample.of(7),
        Metric.LOST_DATA_EVENTS: Sample.of(1),
        Metric.FAILED_PARTITIONS: Sample.of(0),
    }


def test_partitions_where_nothing_came_have_neither_age_nor_latency() -> None:
    samples = partition_samples(REPORT, [IDLE])
    assert Metric.RECORD_AGE not in samples
    assert Metric.REPLICATION_LATENCY not in samples
    assert Metric.REENCODED_SHARE not in samples
    assert (samples[Metric.RECORDS_LAG], samples[Metric.BYTE_RATE]) == (Sample.of(0), Sample.of(0))
    assert samples[Metric.LAG_AGE] == Sample.of(0)


def test_what_waits_gets_older_and_what_is_not_known_has_no_lag() -> None:
    assert partition_samples(REPORT, [STUCK])[Metric.RECORD_AGE] == Sample.of(15_000)
    assert Metric.RECORDS_LAG not in partition_samples(REPORT, [UNPLACED])
    assert Metric.LAG_AGE not in partition_samples(REPORT, [STUCK]), "the source's log did not tell"
    assert partition_samples(REPORT, [UNPLACED])[Metric.FAILED_PARTITIONS] == Sample.of(1)


def test_a_flow() -> None:
    samples = flow_samples(REPORT)
    assert not {Metric.RECORDS_LAG, Metric.LAG_AGE} & samples.keys(), "what is known of a sum is not the sum"
    assert samples[Metric.UNKNOWN_LAGS] == Sample.of(1)
    known = flow_samples(replace(REPORT, run=replace(RUN, partitions=PARTITIONS[:-1])))
    assert (known[Metric.RECORDS_LAG], known[Metric.UNKNOWN_LAGS]) == (Sample.of(126), Sample.of(0))
    assert samples[Metric.BYTE_RATE] == Sample.of(2_000)
    assert samples[Metric.RECORD_AGE] == Sample(1_000, 15_000, 18_000, 3)
    assert samples[Metric.FAILED_PARTITIONS] == Sample.of(2)
    assert samples[Metric.CHECKPOINT_LATENCY] == Sample(100.0, 300.0, 400.0, 2)
    assert samples[Metric.UNTRANSLATED_GROUPS] == Sample.of(1)
    assert samples[Metric.RUN_DURATION] == Sample.of(4_000)
    assert samples[Metric.PASSES] == Sample.of(2)
    # Counted once, although each of two partitions was in all three.
    assert samples[Metric.TRANSACTIONS] == Sample.of(3)
    assert samples[Metric.RETRIES] == Sample.of(1)
    assert samples[Metric.HEARTBEAT_LATENCY] == Sample.of(600)
    assert samples[Metric.HEARTBEAT_AGE] == Sample.of(6_500)


@pytest.mark.parametrize(("ahead", "least", "average"), [(250.0, 255.0, 280.0), (-250.0, -245.0, -220.0)])
def test_latencies_are_corrected_by_the_sources_clock(ahead: float, least: float, average: float) -> None:
    report = replace(REPORT, clock=ClockSkew(source_ms=ahead, target_ms=9_999.0))
    raw, corrected = (
        flow_samples(report)[metric] for metric in (Metric.REPLICATION_LATENCY, Metric.REPLICATION_LATENCY_CORRECTED)
    )
    assert raw == Sample(5.0, 90.0, 60.0, 2)
    assert (corrected.min, corrected.value, corrected.count) == (least, average, 2)


def test_a_run_that_could_not_copy_has_a_lag_and_no_rates() -> None:
    standing = replace(RUN, passes=0, started_ms=20_000, finished_ms=20_000, partitions=(ORDERS_0.carried(),))
    samples = flow_samples(replace(REPORT, run=standing, fault="no record"))
    assert samples[Metric.RECORDS_LAG] == Sample.of(100)
    assert not {Metric.BYTE_RATE, Metric.RECORD_RATE, Metric.RUN_DURATION, Metric.REPLICATION_LATENCY} & samples.keys()


def test_the_first_certificate_to_end_counts_and_its_time_is_negative_when_it_has() -> None:
    ends = (CertificateEnd("a", 90_000, "x"), CertificateEnd("b", 15_000, "y"), CertificateEnd("c"))
    assert flow_samples(replace(REPORT, certificates=ends))[Metric.CERTIFICATE_REMAINING] == Sample.of(-5_000)
    assert Metric.CERTIFICATE_REMAINING not in flow_samples(replace(REPORT, certificates=ends[2:]))


def test_nothing_is_known_of_a_run_that_nobody_saw() -> None:
    assert flow_samples(RunReport("a->b", "r", 1, None, fault="no broker answered")) == {}


def test_the_table_has_every_metric_once_and_every_sample_a_level_of_it() -> None:
    assert [definition.metric for definition in DEFINITIONS] == list(BY_METRIC)
    assert set(BY_METRIC) == set(Metric)
    ends = (CertificateEnd("a", 9_000, "x"), CertificateEnd("b", 8_000, "y"), CertificateEnd("c"))
    run = replace(RUN, transforms="a digest")
    report = replace(REPORT, clock=ClockSkew(source_ms=1.0), run=run, certificates=ends)
    of_partition = partition_samples(report, [ORDERS_0])
    assert set(of_partition) == {
        definition.metric for definition in DEFINITIONS if Level.PARTITION in definition.levels
    }
    report = replace(report, run=replace(RUN, partitions=PARTITIONS[:-1], transforms="a digest"))
    assert set(flow_samples(report)) == {
        definition.metric for definition in DEFINITIONS if Level.FLOW in definition.levels
    }


@given(st.lists(st.integers(-1_000, 1_000).map(Sample.of), max_size=20), st.integers(0, 20))
def test_pooling_parts_is_pooling_all(samples: list[Sample], at: int) -> None:
    assert pooled([pooled(samples[:at]), pooled(samples[at:])]) == pooled(samples)
