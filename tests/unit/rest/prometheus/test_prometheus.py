from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from srm_common.domain.flow import FlowName
from srm_common.domain.health.health import Health, HealthState
from srm_common.domain.metrics.metric import TOTALS
from srm_common.domain.metrics.mirror_maker import MIRROR_MAKER_METRICS
from srm_common.domain.runs.latency_histogram import LatencyHistogram, bucket_start
from srm_common.rest.prometheus.families import Detail, ServiceFigures, render
from srm_common.rest.prometheus.series import FlowFigures
from tests.unit.rest.figures import FLOW, T, figures, partition

SERVICE = ServiceFigures("1.2.3", store_up=True, scheduler_up=False)


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """As a Prometheus client reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, frozenset({"source": "east", "target": "west", **labels}.items())]


def test_every_figure_has_its_hand_computed_value() -> None:
    text = render(SERVICE, [figures()])
    flow = {
        "srm_flow_health_since_timestamp_seconds": T / 1000 - 60,
        "srm_flow_reported_timestamp_seconds": T / 1000,
        "srm_flow_good_run_timestamp_seconds": T / 1000 - 2.5,
        # Asked of the clusters 9 s after the report.
        "srm_flow_lag_records": 14,
        "srm_flow_lag_unknown_partitions": 0,
        "srm_flow_lag_seconds": 10,
        "srm_flow_lag_timestamp_seconds": T / 1000 + 9,
        "srm_flow_lag_objective_records": 10,
        "srm_flow_copied_bytes_per_second": 200,
        "srm_flow_copied_records_total": 12_345_678_901_234_567,
        "srm_flow_copied_bytes_total": 98_765,
        "srm_flow_skipped_records_total": 17,
        "srm_flow_dead_letters_total": 16,
        "srm_flow_topics": 1,
        "srm_flow_partitions": 2,
        "srm_flow_failed_partitions": 1,
        "srm_flow_groups": 1,
        "srm_flow_untranslated_groups": 1,
        "srm_flow_lost_records": 0,
        "srm_flow_skipped_records": 0,
        "srm_flow_dead_letters": 0,
        "srm_flow_proved_partitions": 2,
        "srm_flow_unproved_partitions": 1,
        "srm_flow_uncompared_partitions": 4,
        "srm_flow_different_partitions": 0,
        "srm_flow_verified_timestamp_seconds": T / 1000 - 60,
        "srm_flow_schedule_interval_seconds": 30,
        "srm_flow_last_run_ok": 1,
        "srm_flow_last_run_duration_seconds": 2.5,
        "srm_flow_last_run_passes": 2,
        "srm_flow_last_run_records": 70,
        "srm_flow_last_run_bytes": 9000,
        "srm_flow_last_run_transactions": 3,
        "srm_flow_last_run_retries": 1,
        "srm_flow_last_run_reencoded_records": 5,
        "srm_flow_source_clock_skew_seconds": 0.0125,
        "srm_flow_replication_latency_seconds_count": 100,
        "srm_flow_replication_latency_seconds_sum": (90 * 104 + 10 * 2304) / 1000,
    }
    found = {name: number for (name, inside), number in samples(text).items() if len(inside) == 2}
    assert found == flow
    assert value(text, "srm_flow_heartbeat_timestamp_seconds", cluster="east", hops="1") == T / 1000 - 1.5
    assert value(text, "srm_flow_heartbeat_latency_seconds", cluster="east", hops="1") == 0.25
    assert text.count("srm_flow_heartbeat_timestamp_seconds{") == 1
    assert value(text, "srm_group_positions", group="billing") == 2
    assert value(text, "srm_group_translated_positions", group="billing") == 1
    assert value(text, "srm_topic_lag_records", topic="orders") == 12
    assert value(text, "srm_topic_lag_seconds", topic="orders") == 10
    assert value(text, "srm_topic_failed_partitions", topic="orders") == 1
    assert value(text, "srm_topic_newest_record_timestamp_seconds", topic="orders") == T / 1000 - 4
    assert value(text, "srm_topic_copied_bytes_per_second", topic="orders") == 200
    assert value(text, "srm_topic_replication_latency_max_seconds", topic="orders") == 1.501
    assert value(text, "srm_topic_replication_latency_p50_seconds", topic="orders") == 0.104
    assert value(text, "srm_topic_replication_latency_p95_seconds", topic="orders") == 1.152
    assert value(text, "srm_topic_copied_records_total", topic="orders") == 1001
    assert value(text, "srm_topic_copied_bytes_total", topic="orders") == 120_001
    assert value(text, "srm_topic_skipped_records_total", topic="orders") == 13
    assert value(text, "srm_topic_dead_letters_total", topic="orders") == 11
    place = {"topic": "orders", "partition": "1"}
    assert value(text, "srm_partition_lag_records", **place) == 6
    assert value(text, "srm_partition_lag_seconds", **place) == 10
    assert value(text, "srm_partition_position", **place) == 101
    assert value(text, "srm_partition_source_end", **place) == 107
    assert value(text, "srm_partition_copied_records_total", **place) == 501
    assert value(text, "srm_partition_copied_bytes_total", **place) == 60_001
    assert value(text, "srm_partition_skipped_records_total", **place) == 7
    assert value(text, "srm_partition_dead_letters_total", **place) == 6
    assert value(text, "srm_partition_failed", **place) == 1
    assert value(text, "srm_partition_replication_latency_avg_seconds", **place) == 0.25
    assert "on average in the last run; absent if it copied none." in text
    idle = partition(0)
    idle = replace(idle, latency_ms_min=None, latency_ms_avg=None, latency_ms_max=None)
    assert "srm_partition_replication_latency" not in render(SERVICE, [replace(figures(), partitions=(idle,))])


def test_mirror_makers_series_name_the_remote_topic_and_count_in_milliseconds() -> None:
    text = render(SERVICE, [figures()])
    prefix = "kafka_connect_mirror_mirrorsourceconnector"
    place = {"topic": "east.orders", "partition": "0"}
    assert value(text, f"{prefix}_replication_latency_ms_max", **place) == 1500
    assert value(text, f"{prefix}_record_age_ms", **place) == 4000
    assert value(text, f"{prefix}_record_age_ms_max", **place) == 1500
    assert value(text, f"{prefix}_replication_records_lag", **place) == 6
    assert value(text, f"{prefix}_byte_rate", **place) == 200
    assert value(text, f"{prefix}_record_rate", **place) == 20
    slower = render(SERVICE, [replace(figures(), rate_factor=0.1)])
    assert (value(slower, f"{prefix}_byte_rate", **place), value(slower, f"{prefix}_record_rate", **place)) == (20, 2)
    assert value(slower, f"{prefix}_record_count", **place) == 500
    assert value(render(SERVICE, [figures()], Detail.TOPIC), f"{prefix}_byte_rate", topic="east.orders") == 200
    assert value(text, f"{prefix}_record_count", **place) == 500
    assert value(text, f"{prefix}_byte_count", **place) == 60_000
    checkpoint = "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"
    assert [value(text, checkpoint + end, group="billing") for end in ("", "_min", "_avg", "_max")] == [40] * 4
    assert "kafka_connect" not in render(SERVICE, [figures()], mirror_maker=False)


def test_every_metric_of_mirror_maker_is_told_under_the_names_that_the_flow_has_chosen() -> None:
    attributes = {metric.attribute.replace("-", "_") for metric in MIRROR_MAKER_METRICS}
    both = replace(figures(), names_formats=("legacy", "new"))
    new = replace(figures(FlowName("west", "east")), names_formats=("new",))
    text = render(SERVICE, [both, new, figures(FlowName("a", "b"))])
    told: dict[str, set[str]] = {}
    flows: dict[str, set[str | None]] = {}
    for name, inside in samples(text):
        found = re.fullmatch(r"kafka_connect_(mirror_mirror(?:source|checkpoint)connector|plugins)_(\w+)", name)
        if found:
            told.setdefault(found[1], set()).add(found[2])
            flows.setdefault(found[1], set()).add(dict(inside)["source"])
    assert told["plugins"] == attributes
    assert told["mirror_mirrorsourceconnector"] | told["mirror_mirrorcheckpointconnector"] == attributes
    assert flows["plugins"] == {"east", "west"}
    assert flows["mirror_mirrorsourceconnector"] == flows["mirror_mirrorcheckpointconnector"] == {"east", "a"}
    place = {"connector": "MirrorSourceConnector", "task": "0", "topic": "east.orders", "partition": "1"}
    assert value(text, "kafka_connect_plugins_record_count", **place) == 501
    group = {"connector": "MirrorCheckpointConnector", "task": "0", "group": "billing"}
    assert value(text, "kafka_connect_plugins_checkpoint_latency_ms_max", **group) == 40


@given(st.dictionaries(st.integers(0, 163), st.integers(1, 10**12)))
def test_a_histogram_only_grows_towards_its_end(counts: dict[int, int]) -> None:
    row = figures().row
    assert row is not None
    flow = replace(figures(), row=replace(row, latencies_total=LatencyHistogram.of(counts)))
    families = text_string_to_metric_families(render(SERVICE, [flow], Detail.FLOW))
    (metric,) = [family for family in families if family.type == "histogram"]
    assert metric.name == "srm_flow_replication_latency_seconds"
    buckets = [
        (float(sample.labels["le"]), sample.value) for sample in metric.samples if sample.name.endswith("_bucket")
    ]
    assert buckets == sorted(buckets)
    assert [most for _, most in buckets] == sorted(most for _, most in buckets)
    last, all_records = buckets.pop()
    assert (last, all_records) == (float("inf"), sum(counts.values()))
    for edge, most in buckets:
        assert most == sum(count for bucket, count in counts.items() if bucket_start(bucket + 1) <= edge * 1000)


def test_what_no_run_has_told_is_not_zero() -> None:
    row = figures().row
    assert row is not None
    assert "replication_latency_seconds_bucket" not in render(
        SERVICE, [replace(figures(), row=replace(row, latencies_total=None))]
    )


def test_totals_are_counters_under_the_names_of_their_table() -> None:
    text = render(SERVICE, [figures()])
    kinds = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    own = {f"srm_{level}_{total.series}" for total in TOTALS for level in total.levels}
    assert {name for name, kind in kinds.items() if kind == "counter"} == own
    assert {name for name, kind in kinds.items() if kind == "untyped"} == {
        definition.mirror_maker for definition in TOTALS if definition.mirror_maker is not None
    }
    assert 'srm_flow_copied_records_total{source="east",target="west"} 12345678901234567' in text


def test_a_flow_is_in_one_state_and_has_each_alarm_or_not() -> None:
    text = render(SERVICE, [figures()])
    states = {state: value(text, "srm_flow_health", state=state) for state in HealthState}
    assert [state for state, held in states.items() if held] == [HealthState.CATCHING_UP]
    assert value(text, "srm_flow_alarm", kind="lag_objective") == 1
    assert value(text, "srm_flow_alarm", kind="lost_data") == 0


def test_a_flow_that_never_reported_has_a_state_and_no_figures() -> None:
    text = render(SERVICE, [FlowFigures(FLOW, Health(HealthState.UNKNOWN, "no run yet"))])
    assert {name for name, _ in samples(text)} == {
        "srm_build_info",
        "srm_store_up",
        "srm_scheduler_up",
        "srm_flow_health",
        "srm_flow_alarm",
    }


@pytest.mark.parametrize(
    ("detail", "there", "not_there"),
    [(Detail.FLOW, "srm_flow_lag_records", "srm_topic"), (Detail.TOPIC, "srm_topic_lag_records", "_partition_lag")],
)
def test_details_may_be_left_out(detail: Detail, there: str, not_there: str) -> None:
    text = render(SERVICE, [figures()], detail)
    assert there in text
    assert not_there not in text


def test_families_of_several_flows_stay_together() -> None:
    """As the format demands; a parser that meets a family again would take it for another one."""
    text = render(SERVICE, [figures(), figures(FlowName("west", "east"))])
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    current = ""
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            current = line.split()[2]
        elif not line.startswith("#"):
            assert re.match(rf"{current}(_bucket|_sum|_count)?{{", line)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1) | st.sampled_from(['a"b', "a\\", "a\nb", "<b>"])
)
def test_any_name_is_read_as_it_was(name: str) -> None:
    flow = replace(figures(), partitions=[partition(0, topic=name)])
    assert value(render(SERVICE, [flow]), "srm_partition_lag_records", topic=name, partition="0") == 6


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool; scripts/setup.sh --tests")
def test_promtool_finds_nothing_to_say() -> None:
    text = render(SERVICE, [figures()], mirror_maker=False)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
