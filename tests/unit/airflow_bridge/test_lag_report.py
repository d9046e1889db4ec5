from __future__ import annotations

import json
from dataclasses import replace

from srm_common.airflow_bridge.lag_report import (
    MAX_STATE_BYTES,
    AirflowMetric,
    LagReport,
    MetricKind,
    with_short_names,
)
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.health.health import HealthState
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport, make_heartbeat_report
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.latency_histogram import LatencyHistogram
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState

COPIED = PartitionRecord(
    "orders",
    "a.orders",
    0,
    records=10,
    bytes=1000,
    position=90,
    end=100,
    latency_ms_avg=12.5,
    last_record_timestamp_ms=7,
)
FAILED = PartitionRecord("orders", "a.orders", 1, position=5, end=5, error="records were lost", error_kind="DataLost")
IDLE = PartitionRecord("clicks", "a.clicks", 0, position=3, end=3)
UNKNOWN = PartitionRecord("clicks", "a.clicks", 1)
DONE = RunRecord("a->b", "run-2", 1_000, 2_000, 1, RunState.DONE, partitions=(COPIED, IDLE, UNKNOWN))


LEFT_NO_RECORD = RunRecord(
    "a->b",
    "run-3",
    3_000,
    3_000,
    0,
    RunState.FAILED,
    error="no record",
    partitions=(replace(COPIED.carried(), end=120),),
)


def report(
    record: RunRecord | None,
    fault: str | None = None,
    warnings: tuple[str, ...] = (),
    heartbeats: HeartbeatReport | None = None,
) -> LagReport:
    run_id = "run-3" if record is None else record.run_id
    return LagReport.of(RunReport("a->b", run_id, 5_000, record, fault, warnings, heartbeats))


def by_name(found: LagReport, name: str) -> list[AirflowMetric]:
    return [metric for metric in found.metrics() if metric.name == name]


def test_a_run_that_copied_is_ok() -> None:
    assert (report(DONE).health.state, report(DONE).reason) == (HealthState.RUNNING, None)


def test_a_failed_run_says_why() -> None:
    record = replace(DONE, state=RunState.FAILED, partitions=(COPIED, FAILED))
    assert report(record).health.state is HealthState.FAILING
    assert report(record).reason == "1 of 2 partitions failed, the first orders-1: records were lost"
    assert report(replace(record, error="no broker answered")).reason == "the last run failed: no broker answered"


def test_a_run_without_a_record_of_its_own_failed() -> None:
    lag_report = report(LEFT_NO_RECORD, fault="cluster 'a' did not respond")
    assert lag_report.health.state is HealthState.FAILING
    assert lag_report.reason == "the last run failed: cluster 'a' did not respond"


def test_heartbeats_are_told_and_missed() -> None:
    flow = FlowSettings(
        FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings.plaintext("b", "h:2")
    )
    beat = CopiedHeartbeat("a.heartbeats", ("a", "b"), Heartbeat("a", "b", 1_000_000), 1_000_250)
    fresh = report(DONE, heartbeats=make_heartbeat_report(flow, 1_005_000, [beat]))
    tags = {"flow": "a/b", "cluster": "a", "hops": "1"}
    assert by_name(fresh, "srm.heartbeat_age_ms") == [
        AirflowMetric("srm.heartbeat_age_ms", MetricKind.GAUGE, 5000.0, tags)
    ]
    assert [metric.value for metric in by_name(fresh, "srm.heartbeat_latency_ms")] == [250.0]
    assert fresh.warning is None
    assert "after 250 ms on its way" in fresh.text()
    silent = report(DONE, warnings=("w",), heartbeats=make_heartbeat_report(flow, 9_000_000, [beat]))
    assert str(silent.warning).startswith("w; the newest heartbeat of 'a' copied by a->b is 2 h old")
    assert silent.asset_state(None, 0)["heartbeats"]["silent"]


def test_every_partition_with_a_known_lag_is_a_gauge() -> None:
    lags = by_name(report(DONE), "srm.records_lag")
    assert {(m.tags["topic"], m.tags["partition"]): m.value for m in lags} == {("orders", "0"): 10, ("clicks", "0"): 0}
    assert all(m.kind is MetricKind.GAUGE and m.tags["flow"] == "a/b" for m in lags)


def test_flows_and_topics_have_metrics_of_their_own() -> None:
    sent = {(m.name, m.tags.get("topic")): m.value for m in report(replace(DONE, transactions=4)).metrics()}
    assert sent["srm.run_duration_ms", None] == 1_000
    assert (sent["srm.byte_rate", "orders"], sent["srm.record_rate", "orders"]) == (1_000, 10)
    assert sent["srm.byte_rate", "clicks"] == 0
    # Reported at 5,000; the newest copied record is of 7.
    assert (sent["srm.record_age_ms_min", "orders"], sent["srm.record_age_ms_max", "orders"]) == (4_993, 4_993)
    assert ("srm.record_age_ms_min", "clicks") not in sent
    assert sent["srm.transactions", None] == 4
    assert (sent["srm.failed_partitions", None], sent["srm.untranslated_groups", None]) == (0, 0)


def test_latencies_are_sent_only_where_something_was_copied() -> None:
    (metric,) = by_name(report(DONE), "srm.latency_ms_avg")
    assert (metric.value, metric.tags) == (12.5, {"flow": "a/b", "topic": "orders", "partition": "0"})


def test_percentiles_are_sent_of_the_flow_where_they_are_known() -> None:
    spread = LatencyHistogram(((22, 98), (40, 2)))
    copied = replace(COPIED, latencies=spread, latency_ms_min=99.0, latency_ms_max=2_100.0)
    told = replace(DONE, partitions=(copied, IDLE))
    (metric,) = by_name(report(told), "srm.latency_ms_p99")
    assert (metric.kind, metric.value, metric.tags) == (MetricKind.GAUGE, 2_100.0, {"flow": "a/b"})
    assert [airflow_metric.value for airflow_metric in by_name(report(told), "srm.latency_ms_p50")] == [104.0]
    assert by_name(report(DONE), "srm.latency_ms_p50") == []


def test_counts_are_of_this_run_and_only_of_what_happened() -> None:
    counters = [metric for metric in report(DONE).metrics() if metric.kind is MetricKind.COUNTER]
    assert {(m.name, m.tags["topic"], m.value) for m in counters} == {
        ("srm.records", "orders", 10),
        ("srm.bytes", "orders", 1000),
    }


def test_records_that_transforms_could_not_take_are_counted() -> None:
    skipped = replace(DONE, partitions=(replace(COPIED, skipped_records=3, dead_letters=2), IDLE))
    (left_out,) = by_name(report(skipped), "srm.skipped_records")
    (letters,) = by_name(report(skipped), "srm.dead_letters")
    assert left_out.tags == letters.tags == {"flow": "a/b", "topic": "orders", "partition": str(COPIED.partition)}
    assert [(metric.kind, metric.value) for metric in (left_out, letters)] == [
        (MetricKind.COUNTER, 3),
        (MetricKind.COUNTER, 2),
    ]


def test_a_stalled_run_counts_nothing_again_but_still_shows_the_lag() -> None:
    stalled = report(LEFT_NO_RECORD, fault="no record")
    assert not [metric for metric in stalled.metrics() if metric.kind is MetricKind.COUNTER]
    assert [metric.value for metric in by_name(stalled, "srm.records_lag")] == [30]
    assert [metric.value for metric in by_name(stalled, "srm.flow_ok")] == [0.0]


def test_an_unreachable_target_keeps_the_last_known_figures() -> None:
    lag_report = LagReport.of(RunReport("a->b", "run-3", 5, None, "no broker of 'b' answered"))
    state = lag_report.asset_state(None, now_ms=5)
    assert list(state) == ["status"]
    assert (state["status"]["state"], state["status"]["reason"]) == (
        "failing",
        "the last run failed: no broker of 'b' answered",
    )
    assert [metric.name for metric in lag_report.metrics()] == ["srm.flow_ok"]


def test_since_when_moves_only_with_the_state() -> None:
    first = report(DONE).asset_state(None, now_ms=100)["status"]
    second = report(DONE).asset_state(first, now_ms=200)["status"]
    third = report(None, fault="no record").asset_state(second, now_ms=300)["status"]
    assert [status["since_ms"] for status in (first, second, third)] == [100, 100, 300]


def test_topics_are_summed() -> None:
    state = report(DONE).asset_state(None, now_ms=1)
    assert [(topic["topic"], topic["partitions"], topic["lag"]) for topic in state["topics"]] == [
        ("clicks", 2, None),
        ("orders", 1, 10),
    ]
    # Of a partition of clicks nobody knows.
    assert (state["figures"]["lag"], state["figures"]["lag_bounds"]) == (
        None,
        {"least": 10, "most": None, "known_most": 10, "parts": 3, "unknown": 1},
    )
    lines = report(DONE).text().splitlines()
    assert [line.split()[4] for line in lines[2:4]] == ["unknown", "10"]
    unknown = {metric.tags.get("topic"): metric.value for metric in by_name(report(DONE), "srm.lag_unknown_partitions")}
    assert unknown == {"clicks": 1, "orders": 0}


def test_the_topics_furthest_behind_fit_into_airflows_limit() -> None:
    many = tuple(
        PartitionRecord(f"topic-{number}", f"a.topic-{number}", 0, position=0, end=number) for number in range(5000)
    )
    state = report(replace(DONE, partitions=many)).asset_state(None, now_ms=1)
    assert len(json.dumps(state["topics"])) <= MAX_STATE_BYTES
    assert state["figures"]["topics_left_out"] == 5000 - len(state["topics"]) > 0
    assert min(topic["lag"] for topic in state["topics"]) == state["figures"]["topics_left_out"]


def test_the_text_names_topics_and_errors() -> None:
    text = report(replace(DONE, state=RunState.FAILED, partitions=(COPIED, FAILED))).text()
    assert text.splitlines()[0].startswith("a->b: failing: 1 of 2 partitions failed")
    assert any(line.split()[:2] == ["orders", "2"] for line in text.splitlines())
    assert "orders-1: records were lost" in text


def test_a_warning_does_not_make_a_flow_unwell() -> None:
    lag_report = report(DONE, warnings=("Airflow variable srm_filters__a__b cannot be used",))
    status = lag_report.asset_state(None, 1)["status"]
    assert (status["state"], status["warning"]) == (
        "running",
        "Airflow variable srm_filters__a__b cannot be used",
    )
    assert report(DONE).asset_state(status, 2)["status"]["warning"] is None


def test_names_that_airflow_refuses_are_left_out_in_one_sentence() -> None:
    def metric(topic: str, name: str = "srm.records_lag") -> AirflowMetric:
        return AirflowMetric(name, MetricKind.GAUGE, 1, {"flow": "east/west", "topic": topic, "partition": "12"})

    # Airflow: srm.records_lag,flow=east/west,topic=...,partition=12
    longest = 250 - len("srm.records_lag,flow=east/west,topic=,partition=12")
    fits, first, other = metric("x" * longest), metric("x" * (longest + 1)), metric("y" * 249)
    assert with_short_names([fits]) == ([fits], None)
    short, sentence = with_short_names([first, fits, other, metric("y" * 249, "srm.records")])
    assert short == [fits]
    assert sentence == (
        "3 figures of 2 topics cannot be sent to StatsD, because their names have more than 250 characters with tags, "
        f"the first topic: {'x' * (longest + 1)}"
    )
