from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.cli.commands.status import status_text
from srm_common.domain.amount import Amount, duration
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.health.health import HealthState
from srm_common.domain.health.judge import judge
from srm_common.domain.health.status_report import make_report
from srm_common.domain.monitoring.flow_lag import FlowLag, PartitionLag
from srm_common.domain.monitoring.heartbeat_report import make_heartbeat_report
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.usecases.monitoring.list_flows import observe_status

RUN = RunRecord(
    "a->b",
    "r1",
    1_000_000,
    1_060_000,
    3,
    RunState.FAILED,
    partitions=(
        PartitionRecord("t", "a.t", 1, position=5, end=9, error="it broke", error_kind="DataLost"),
        PartitionRecord("t", "a.t", 0, position=40, end=40, last_record_timestamp_ms=1_055_000),
        PartitionRecord("t", "a.t", 2),
    ),
)
#: The source has a partition more than the run knew.
LAG = FlowLag(
    1_099_000, {TopicPartition("t", 0): PartitionLag(42, 50, 1_040_000), TopicPartition("t", 3): PartitionLag(0, 6)}
)


def test_live_ends_win_over_those_of_the_run() -> None:
    report = make_report("a->b", 1_100_000, RUN, LAG, None)
    rows = {row.partition: row for row in report.partitions}
    assert [row.partition for row in report.partitions] == [0, 1, 2, 3]
    assert (rows[0].end, rows[0].lag, rows[0].live, rows[0].age_seconds) == (50, 8, True, 45.0)
    assert (rows[0].behind_seconds, rows[3].behind_seconds) == (60.0, None)
    assert (rows[3].downstream_topic, rows[3].lag, rows[3].live) == ("a.t", 6, True)
    assert (rows[1].end, rows[1].lag, rows[1].live) == (9, 4, False)
    assert (rows[2].end, rows[2].lag) == (None, None)
    assert report.lag == Amount.sum([*map(Amount.exactly, (8, 4, 6)), Amount.not_known()])
    assert report.behind_seconds is None, "a partition that nobody can tell of may hold an older record"
    assert (
        report.headline() == "a->b: run r1 is failed, ended 40 s ago, lag at least 18, unknown in 1 of 4 partitions; "
        "1 of 4 partitions failed"
    )
    document = report.to_json()
    assert (document["lag"], document["lag_bounds"]["least"]) == (None, 18)


def test_nothing_that_failed_looks_healthy() -> None:
    done = replace(RUN, state=RunState.DONE, partitions=RUN.partitions[1:])
    assert make_report("a->b", 0, done, None, None).healthy
    assert not make_report("a->b", 0, RUN, None, None).healthy
    assert not make_report("a->b", 0, replace(done, partitions=RUN.partitions), None, None).healthy
    assert not make_report("a->b", 0, done, None, "the source is away").healthy


def test_heartbeats_that_stay_away_are_no_health() -> None:
    done = replace(RUN, state=RunState.DONE, partitions=())
    flow = FlowSettings(
        FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings.plaintext("b", "h:2")
    )
    silent = make_heartbeat_report(flow, 1_100_000)
    report = make_report("a->b", 1_100_000, done, None, None, silent)
    assert not report.healthy
    assert silent.silence in status_text(report)
    assert report.to_json()["heartbeats"]["silent"]
    assert make_report("a->b", 1_100_000, None, None, None, silent).healthy  # nothing can have come before a run


def test_before_the_first_run() -> None:
    report = make_report("a->b", 0, None, None, None)
    assert report.healthy
    assert report.headline() == "a->b: it has not run yet"
    assert report.to_json()["run"] is None
    flow = FlowSettings(
        FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings.plaintext("b", "h:2")
    )
    judged = replace(report, health=judge(observe_status(flow, report)).health)
    assert "srm-control run --flow 'a->b'" in str(status_text(judged)[1])
    assert judged.to_json()["health"]["state"] == "not_run"


def test_a_flow_that_copies_heartbeats_only() -> None:
    flow = FlowSettings(
        FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings.plaintext("b", "h:2")
    )
    beats = PartitionRecord("heartbeats", "a.heartbeats", 0, records=1, position=5, end=5)
    now_ms = (RUN.finished_ms or 0) + 1_000
    report = make_report("a->b", now_ms, replace(RUN, state=RunState.DONE, partitions=(beats,)), None, None)
    judged = replace(report, health=judge(observe_status(flow, report)).health)
    assert judged.to_json()["health"]["state"] == "heartbeat_only"
    assert "only heartbeats are copied" in judged.headline()
    assert "srm-control topics --explain --flow 'a->b'" in str(status_text(judged)[1])
    more = replace(report, run=replace(RUN, state=RunState.DONE, partitions=(beats, RUN.partitions[1])))
    assert judge(observe_status(flow, make_report("a->b", now_ms, more.run, None, None))).health.state is not (
        HealthState.HEARTBEAT_ONLY
    )


def test_a_partition_that_the_source_could_not_tell_of_is_unknown() -> None:
    lag = FlowLag(
        1_099_000,
        {TopicPartition("t", 0): PartitionLag(42, 50)},
        "t-1 has no leader",
        frozenset({TopicPartition("t", 1)}),
    )
    report = make_report("a->b", 1_100_000, RUN, lag, lag.fault)
    assert {row.partition: row.lag for row in report.partitions}[1] is None, "whatever the run saw"
    assert report.to_json()["lag"] is None
    assert "at least 8, unknown in" in report.headline()
    assert report.behind_seconds is None


def test_a_run_that_goes_on() -> None:
    running = replace(RUN, state=RunState.RUNNING, finished_ms=None, partitions=())
    assert make_report("a->b", 9_000_000, running, None, None).headline() == (
        "a->b: run r1 is running, started 2 h ago, lag 0"
    )


def test_records_that_transforms_could_not_take_are_summed_over_partitions() -> None:
    first, second = RUN.partitions[0], replace(RUN.partitions[0], partition=7, skipped_records=1)
    skipped = replace(RUN, partitions=(replace(first, skipped_records=3, dead_letters=2), second))
    for run, expected in ((RUN, (0, 0)), (skipped, (4, 2))):
        told = make_report("a->b", 1_100_000, run, LAG, None).to_json()["run"]
        assert (told["skipped_records"], told["dead_letters"]) == expected


def test_text_and_json_tell_the_same() -> None:
    report = make_report("a->b", 1_100_000, RUN, LAG, "cluster 'a' did not respond")
    text = [part for part in status_text(report) if isinstance(part, str)]
    assert "t-1: it broke" in text
    assert any("cluster 'a' did not respond" in line for line in text)
    document = report.to_json()
    assert document["healthy"] is False
    assert document["partitions"][1] == {
        "topic": "t",
        "remote_topic": "a.t",
        "partition": 1,
        "position": 5,
        "end": 9,
        "live": False,
        "lag": 4,
        "behind_seconds": None,
        "age_seconds": None,
        "error": "it broke",
    }


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "0 s"), (999, "0 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (172_800_000, "2 d")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text
