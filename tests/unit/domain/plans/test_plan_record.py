from __future__ import annotations

import json
from dataclasses import replace

from srm_common.domain.flow import FlowName
from srm_common.domain.plans.plan import Plan
from srm_common.domain.plans.plan_record import plan_notes, plan_record
from srm_common.domain.topics.actions import ActionResult, GrowPartitions
from srm_common.domain.topics.selection import TopicDecision

GROW = GrowPartitions("B", "A.t", 1, 4, "t has 4 on A")
PLAN = Plan(
    FlowName("A", "B"),
    (TopicDecision("t", True, "matches", "A.t"), TopicDecision("u", False, "A.u is gone", "A.u", "target_deleted")),
    (GROW,),
    ("a note",),
)


def test_a_plan_is_kept_with_its_results_failed_ones_first() -> None:
    results = [ActionResult(replace(GROW, topic="A.s")), ActionResult(GROW, error="no right")]
    record = json.loads(json.dumps(plan_record(PLAN, results, 5)))
    assert {key: record[key] for key in ("made_ms", "copied", "topics", "failed", "lost", "notices")} == {
        "made_ms": 5,
        "copied": 1,
        "topics": 2,
        "failed": 1,
        "lost": ["u: A.u is gone"],
        "notices": ["a note"],
    }
    assert [(action["topic"], action["error"]) for action in record["actions"]] == [("A.t", "no right"), ("A.s", None)]
    assert plan_notes(record, since_ms=5) == [
        "refresh_topics: FAILED: grow topic A.t on B from 1 to 4 partitions (t has 4 on A): no right",
        "refresh_topics: done: grow topic A.s on B from 1 to 4 partitions (t has 4 on A)",
        "refresh_topics: a note",
    ]
    assert plan_notes(record, since_ms=6) == plan_notes(None, 0) == []


def test_a_plan_of_thousands_is_kept_in_part() -> None:
    record = plan_record(PLAN, [ActionResult(replace(GROW, after=number)) for number in range(2, 1502)], 5)
    assert (len(record["actions"]), record["actions_left_out"]) == (500, 1000)
    notes = plan_notes(record, 0)
    assert (len(notes), notes[20]) == (22, "refresh_topics: 1480 more changes of topics")
