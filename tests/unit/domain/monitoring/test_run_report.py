from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport, Hop
from srm_common.domain.monitoring.run_report import (
    CheckpointRound,
    ClockSkew,
    GroupSample,
    RunReport,
    TopicGroups,
    groups_from,
    groups_record,
    topics_from,
)
from srm_common.domain.offsets.checkpoints import Untranslated
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.verification.summary import VerificationSummary
from srm_common.domain.verification.verification import Against, Verdict
from srm_common.errors import CorruptRecord
from tests.unit.domain.monitoring.reports import report

RUN = RunRecord(
    "a->b",
    "run-1",
    1_000,
    2_000,
    1,
    RunState.DONE,
    partitions=(PartitionRecord("orders", "a.orders", 0, records=3, position=3, end=5),),
    transactions=2,
    retries=1,
)
BEATS = HeartbeatReport(
    "a->c",
    "b",
    9_000,
    1_000,
    60_000,
    (
        CopiedHeartbeat("b.heartbeats", ("b", "c"), Heartbeat("a", "b", 8_000), 8_040, (Hop("b", "c", 40),)),
        CopiedHeartbeat("b.a.heartbeats", ("a", "b", "c"), Heartbeat("a", "b", 7_000), None, (Hop("a", "b"),)),
        CopiedHeartbeat("b.x.heartbeats", ("x", "b", "c")),
    ),
)
REPORT = RunReport(
    "a->b",
    "run-1",
    9_000,
    RUN,
    warnings=("w",),
    heartbeats=BEATS,
    groups=(GroupSample("g", 2, 1, "no map", checkpoint_latency_ms=12.5, checkpoint_ms=8_500),),
    clock=ClockSkew(3.5, -2.0, 0.5),
    schedule_interval_seconds=30.0,
    decisions={"decisions": [{"topic": "orders"}]},
    verification=VerificationSummary(Against.MAP, 7_000, 8_000, {Verdict.PROVED: 2}, 40, 7_500),
    topic_groups=(TopicGroups("orders", 2, 1, 8_500, 12.5, 12.5, 12.5),),
)


def through_json(document: Any) -> Any:
    return json.loads(json.dumps(document))


def test_a_report_comes_back_as_it_was() -> None:
    assert RunReport.from_json(through_json(REPORT.to_json())) == REPORT


def test_a_report_without_a_run_comes_back() -> None:
    bare = RunReport("a->b", "run-2", 1, None, fault="no broker answered")
    assert RunReport.from_json(through_json(bare.to_json())) == bare


def test_fields_of_newer_software_are_left_out() -> None:
    document = through_json(REPORT.to_json())
    document["new"] = 1
    document["clock"]["new"] = 1
    document["group_columns"].append("new")
    for row in document["groups"]:
        row.append(1)
    document["topic_groups"][0].append(1)
    assert RunReport.from_json(document) == REPORT


def test_a_report_of_older_software_does_not_know_of_topics_groups() -> None:
    document = through_json(REPORT.to_json())
    del document["topic_groups"]
    assert RunReport.from_json(document) == replace(REPORT, topic_groups=None)


@pytest.mark.parametrize("broken", [{}, {"version": 2}, {"version": 1}, {**REPORT.to_json(), "groups": 7}])
def test_what_is_no_report_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(CorruptRecord, match="the report of a run"):
        RunReport.from_json(broken)


def test_a_round_of_checkpoints() -> None:
    checkpoint_round = CheckpointRound(
        at_ms=5_000,
        positions={"done": 2, "partly": 3, "quiet": 1},
        untranslated=[
            Untranslated("partly", "orders", 1, 90, "it is not copied yet"),
            Untranslated("partly", "orders", 2, 70, "the map does not go back so far"),
        ],
        latencies_ms={"done": 12.34, "partly": 20.0},
        synced={"done"},
    )
    before = [
        GroupSample("quiet", 1, 1, synced=True, checkpoint_latency_ms=7.0, checkpoint_ms=1_000),
        GroupSample("gone", 1, 1),
    ]
    assert checkpoint_round.samples(before) == [
        GroupSample("done", 2, 2, None, True, 12.3, 5_000),
        GroupSample(
            "partly", 3, 1, "2 positions without a place, the first orders-1: it is not copied yet", False, 20.0, 5_000
        ),
        GroupSample("quiet", 1, 1, None, False, 7.0, 1_000),
    ]


def test_topics_of_a_round() -> None:
    checkpoint_round = CheckpointRound(
        at_ms=5_000,
        positions={"a": 2, "b": 1, "c": 1},
        untranslated=[],
        latencies_ms={"a": 12.34, "b": 20.0},
        topics={"orders": {"a", "b", "c"}, "clicks": {"a"}, "quiet": {"c"}},
        checkpointed={("a", "orders"), ("b", "orders")},
    )
    before = [TopicGroups("clicks", 3, 1, 1_000, 7.0, 7.0, 7.0), TopicGroups("gone", 1)]
    topics = checkpoint_round.topic_groups(before)
    assert topics == [
        TopicGroups("clicks", 1, 1, 1_000, 7.0, 7.0, 7.0),
        TopicGroups("orders", 3, 2, 5_000, 12.3, 20.0, 32.3),
        TopicGroups("quiet", 1),
    ]
    assert topics_from(json.loads(json.dumps(groups_record([], topics)))) == tuple(topics)
    assert topics_from({"columns": [], "rows": []}) is None, "of older software"
    assert topics_from(None) is None
    newer = groups_record([], topics)
    newer["topics"] = [[*row, "more"] for row in newer["topics"]]
    assert topics_from(newer) == tuple(topics)


def test_what_was_not_due_stays_as_it_was() -> None:
    checkpoint_round = CheckpointRound(5_000, {"g": 1}, [Untranslated("g", "orders", 0, 9, "no map")], {})
    assert checkpoint_round.samples([GroupSample("g", 1, 1, synced=True)]) == [
        GroupSample("g", 1, 0, "orders-0: no map", True)
    ]


@given(
    st.lists(
        st.builds(GroupSample, st.text(), st.integers(0, 9), st.integers(0, 9), st.none() | st.text(), st.booleans()),
        max_size=20,
        unique_by=lambda one: one.group,
    )
)
def test_samples_are_kept_in_the_flows_state(samples: list[GroupSample]) -> None:
    assert set(groups_from(json.loads(json.dumps(groups_record(samples))))) == set(samples)


def test_groups_that_need_somebody_are_kept_first() -> None:
    many = [GroupSample(f"g{number:05}", 2, 2) for number in range(5_000)] + [GroupSample("z", 2, 1, "no map")]
    record = groups_record(many)
    assert (record["rows"][0][0], len(record["rows"]), record["left_out"]) == ("z", 5_000, 1)


@pytest.mark.parametrize("record", [None, {}, {"columns": ["group"], "rows": [[1, 2]]}, [1]])
def test_no_groups_in_what_is_no_record(record: Any) -> None:
    assert groups_from(record) == ()


@pytest.mark.parametrize(
    ("source", "target", "correction"),
    [
        (None, None, 0),
        (5.0, -3.0, 0),
        # This host's clock is an hour ahead; the source's; the target's.
        (-3_600_000.4, -3_600_001.0, -3_600_000),
        (3_600_000.0, 2.0, 0),
        (-2.0, 3_600_000.0, 0),
        # Two of three are all there is.
        (None, -3_600_000.0, -3_600_000),
        (7_000.0, None, 7_000),
        (None, 1_400.0, 0),
    ],
)
def test_one_wrong_clock_of_three_does_not_count(source: float | None, target: float | None, correction: int) -> None:
    assert ClockSkew(source, target, uncertainty_ms=500.0).correction_ms == correction


def test_no_run_ended_after_it_was_reported() -> None:
    one = report(60)
    assert one.run is not None
    ahead = replace(one, run=replace(one.run, finished_ms=one.reported_ms + 3_600_000))
    assert (one.ended_ms, ahead.ended_ms) == (one.reported_ms, one.reported_ms)
