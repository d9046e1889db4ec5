from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.monitoring.heartbeat_report import CopiedHeartbeat, HeartbeatReport, Hop
from srm_common.domain.monitoring.run_report import ClockSkew, GroupSample, RunReport, TopicGroups
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.errors import CorruptRecord

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
