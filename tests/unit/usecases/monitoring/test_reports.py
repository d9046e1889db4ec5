"""Reports of real runs: lag, groups, clocks, history, and raw metrics in a topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType

from srm_common.domain.amount import Amount
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.samples import flow_samples
from srm_common.domain.metrics.stats import TimeRange
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topics.actions import failed
from srm_common.kafka.state.metrics_log import MetricsLog
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.monitoring.list_flows import status
from srm_common.usecases.monitoring.raw_metrics import follow_metrics_topic, publish_report
from srm_common.usecases.monitoring.report_run import keep_report, make_report
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.checkpoint_rounds import copy, values
from tests.kafka.flows import flow_between, write
from tests.kafka.group_commits import commit


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    source_kafka.create_topic(name, 3)
    return flow_between(source_kafka, target_kafka, name, topics=(name,), groups=(f"{name}.*",), metrics_topic=True)


@pytest.fixture
def store(tmp_path: Path) -> MetricsStore:
    return MetricsStore(f"sqlite:///{tmp_path}/metrics.db")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def lags(report: RunReport) -> dict[int, int | None]:
    assert report.run is not None
    return {partition.partition: partition.lag for partition in report.run.partitions}


def test_a_flow_that_stopped_is_behind_by_what_was_written_since(
    flow: FlowSettings,
    source_kafka: FakeCluster,
    store: MetricsStore,
    name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    for partition in range(3):
        write(source_kafka, name, values(0, 10), partition=partition)
    commit(source_kafka, f"{name}-g", TopicPartition(name, 0, 4), TopicPartition(name, 1, 10))
    copy(flow)
    sync_checkpoints(flow)
    report = make_report(flow, "r")
    assert keep_report(report, store) is None
    assert report.run is not None
    assert (report.run.state, report.fault, lags(report)) == (RunState.DONE, None, {0: 0, 1: 0, 2: 0})
    assert (report.run.records, report.run.transactions) == (30, 1)
    (group,) = report.groups
    assert (group.group, group.positions, group.translated, group.reason) == (f"{name}-g", 2, 2, None)
    assert group.checkpoint_latency_ms is not None
    assert 0 < group.checkpoint_latency_ms < 60_000
    assert report.topic_groups is not None
    (read,) = report.topic_groups
    assert (read.topic, read.groups, read.checkpointed, read.checkpoint_ms) == (name, 1, 1, group.checkpoint_ms)
    assert read.latency_ms_max == group.checkpoint_latency_ms
    (topic,) = store.topics(str(flow.name), TimeRange(report.reported_ms - 1, report.reported_ms + 1)).rows
    assert topic.consumer_groups == 1
    assert topic.stats[Metric.CHECKPOINT_LATENCY].max == group.checkpoint_latency_ms
    latency = topic.stats[Metric.REPLICATION_LATENCY]
    assert latency.latencies is not None
    assert latency.latencies.records == 30
    assert latency.min is not None
    told = [latency.min, latency.p50, latency.p95, latency.p99, latency.max]
    assert told == sorted(one for one in told if one is not None)
    assert keep_report(report, store) is None
    assert [row.latencies_total for row in store.flows()] == [latency.latencies], "told twice, copied once"
    # All clocks are this host's, so that a measurement is off by its error at most.
    clock = report.clock
    assert clock.source_ms is not None
    assert clock.target_ms is not None
    assert clock.uncertainty_ms is not None
    assert abs(clock.source_ms) <= clock.uncertainty_ms + 0.1
    assert abs(clock.target_ms) <= clock.uncertainty_ms + 0.1

    # Nobody runs it from here on.
    write(source_kafka, name, values(0, 12), partition=0)
    write(source_kafka, name, values(0, 5), partition=2)
    assert status(flow).lag.most == 17
    later = make_report(flow, "r")
    assert (later.fault, lags(later)) == (None, {0: 12, 1: 0, 2: 5}), "what came after the run's last look counts, too"
    behind = flow_samples(later)[Metric.LAG_AGE]
    assert (behind.count, behind.min) == (3, 0)
    assert 0 <= behind.max < 600_000
    stopped = make_report(flow, "r2", unable="cluster 'x' is away")
    assert keep_report(stopped, store) is None
    assert (stopped.fault, lags(stopped)) == ("cluster 'x' is away", {0: 12, 1: 0, 2: 5})
    (row,) = store.flows()
    known = row.history
    assert (known.lag, known.lag_before, row.last_run.ok) == (Amount(17, 17, 3), Amount(0, 0, 3), False)
    span = TimeRange(report.reported_ms - 1, stopped.reported_ms + 1)
    stats = store.flow_stats(span)[str(flow.name)]
    assert (stats[Metric.RECORDS_LAG].latest, stats[Metric.RECORDS_LAG].max) == (17, 17)
    assert stats[Metric.CHECKPOINT_LATENCY].count == 1
    raw, corrected = stats[Metric.REPLICATION_LATENCY], stats[Metric.REPLICATION_LATENCY_CORRECTED]
    assert raw.avg is not None
    assert corrected.avg == pytest.approx(raw.avg + clock.source_ms, abs=1.0)

    # With the source away, the ends are as somebody saw them last.
    request.getfixturevalue("impatient")
    away = replace(flow, source=ClusterSettings.plaintext(flow.source.alias, "127.0.0.1:1"), admin_timeout_ms=1500)
    blind = make_report(away, "r3")
    assert blind.clock.source_ms is None
    assert (lags(blind), len(blind.warnings)) == ({0: 0, 1: 0, 2: 0}, 1)

    # A second attempt of the first run: its report has what both have copied, also for a history that is new.
    copy(flow)
    again = make_report(flow, "r")
    assert lags(again) == {0: 0, 1: 0, 2: 0}
    assert again.run is not None
    assert again.run.records == 17
    other = MetricsStore(f"sqlite:///{tmp_path}/other.db")
    for metrics_store in (store, other):
        assert keep_report(again, metrics_store) is None
        assert keep_report(again, metrics_store) is None
        assert metrics_store.flows()[0].records_total == 47
        assert [row.records_total for row in metrics_store.partitions(str(flow.name)).rows] == [22, 10, 15]
    assert store.flows()[0].bytes_total == other.flows()[0].bytes_total
    spread = store.flows()[0].latencies_total
    assert spread is not None
    assert spread.records == 47
    other.close()


def test_raw_metrics_are_read_back_into_a_store(
    flow: FlowSettings, source_kafka: FakeCluster, target_kafka: FakeCluster, store: MetricsStore, name: str
) -> None:
    flow = replace(flow, metrics_topic_retention_ms=3_600_000)
    topic = names.metrics_topic(flow.name.source)
    write(source_kafka, name, values(0, 10))
    assert not failed(refresh_topics(flow).results)
    copy(flow)
    first = make_report(flow, "r")
    assert publish_report(flow, first) is None
    resource = ConfigResource(ResourceType.TOPIC, topic)
    settings = target_kafka.admin().describe_configs([resource])[resource].result()
    assert (settings["cleanup.policy"].value, settings["retention.ms"].value) == ("delete", "3600000")
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers})
    producer.produce(topic, b"no report")
    assert producer.flush(60) == 0

    stop = threading.Event()
    follower = threading.Thread(target=follow_metrics_topic, args=([flow], store, stop), kwargs={"every_seconds": 0.1})
    follower.start()
    try:
        wait_for(lambda: len(store.flows()) == 1)
        second = make_report(flow, "r2", unable="stopped")
        assert publish_report(flow, second) is None
        wait_for(lambda: store.flows()[0].last_run.run_id == "r2")
    finally:
        stop.set()
        follower.join(60)
    assert not follower.is_alive()
    assert [row.run_id for row in store.runs(str(flow.name)).rows] == ["r2", "r"]
    assert first.decisions is not None
    assert store.documents(str(flow.name), "decisions")["decisions"].value == first.decisions

    # Who comes later goes on after what the store has.
    log = MetricsLog(flow, first.reported_ms)
    with FlowClusters(flow) as clusters:
        reader = clusters.target.reader
        assert list(log.new_reports(reader)) == [second]
        assert (list(log.new_reports(reader)), log.unreadable) == ([], 1)
        assert list(MetricsLog(flow, second.reported_ms).new_reports(reader)) == []


def test_metrics_that_cannot_be_written_are_told_and_harm_nobody(flow: FlowSettings, tmp_path: Path) -> None:
    away = replace(flow, target=ClusterSettings.plaintext("target", "127.0.0.1:1"), admin_timeout_ms=1500)
    report = RunReport(str(flow.name), "r", 1, None, "nothing is known")
    assert "127.0.0.1:1" in str(publish_report(away, report))
    (tmp_path / "file").touch()
    assert keep_report(report, MetricsStore(f"sqlite:///{tmp_path}/file/metrics.db")) is not None
    assert publish_report(replace(away, metrics_topic=False), report) is None
