from __future__ import annotations

import json
from dataclasses import replace

import pytest

from srm_common.domain.flow import FlowName
from srm_common.domain.plans.plan import Plan, PlanChanges, PlanFile, plan_file_text, plan_notes, plan_record
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, CreateTopic, GrowPartitions, SettingChange
from srm_common.domain.topics.selection import TopicDecision
from srm_common.errors import ConfigError

CREATE = CreateTopic("B", "A.new", 3, 2, (("retention.ms", "5"),), "copy of new")
GROW = GrowPartitions("B", "A.t", 1, 4, "t has 4 on A")
ALTER = AlterConfigs("B", "A.t", (SettingChange("retention.ms", "5", None, "why"),), "keep it like t")
PLAN = Plan(
    FlowName("A", "B"),
    (
        TopicDecision("new", True, "matches", "A.new"),
        TopicDecision("t", True, "matches", "A.t"),
        TopicDecision("x", False, "excluded by 'x'"),
    ),
    (CREATE, GROW, ALTER),
    ("a note",),
    "id-a",
    "id-b",
)


def printed(plan: Plan = PLAN) -> PlanFile:
    return PlanFile.parse(plan_file_text(plan, 17), "plan.json")


def test_a_file_holds_while_nothing_changes() -> None:
    assert printed().compare(PLAN) == PlanChanges()
    assert printed().made_ms == 17
    # Only the words differ.
    assert printed().compare(replace(PLAN, actions=(CREATE, replace(GROW, reason="otherwise"), ALTER))) == PlanChanges()


def test_what_was_done_meanwhile_is_not_needed_any_more() -> None:
    changes = printed().compare(replace(PLAN, actions=(ALTER,)))
    assert changes == PlanChanges((), (str(CREATE), str(GROW)))


def test_everything_that_would_not_have_been_printed_is_named() -> None:
    other = replace(GROW, before=2)
    now = replace(
        PLAN,
        decisions=(
            TopicDecision("t", True, "matches", "A.t"),
            TopicDecision("x", True, "matches", "A.x"),
            TopicDecision("new", False, "excluded by 'new'"),
        ),
        actions=(other, ALTER),
        target_cluster_id="id-c",
    )
    assert printed().compare(now).changed == (
        "the target is another cluster (id id-c instead of id-b)",
        "x is copied now",
        "new is not copied now: excluded by 'new'",
        f"not in the file: {other}",
        f"in the file only: {CREATE}",
        f"in the file only: {GROW}",
    )
    gone = printed().compare(replace(PLAN, decisions=PLAN.decisions[1:], actions=(GROW, ALTER)))
    assert gone.changed[0] == "new is not copied now: it is gone from the source"


def test_the_plan_of_another_flow() -> None:
    assert printed().compare(replace(PLAN, flow=FlowName("A", "C"))).changed == (
        "the file is a plan of A->B, not of A->C",
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"plan": 1}', '{"plan": 1, "flow": "A->B", "actions": 3}'])
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(ConfigError, match=r"p\.json: this is not a plan; create one with"):
        PlanFile.parse(text, "p.json")


def test_a_plan_of_another_version() -> None:
    document = {**json.loads(plan_file_text(PLAN, 1)), "plan": 2}
    with pytest.raises(ConfigError, match="the plan has version 2"):
        PlanFile.parse(json.dumps(document), "p.json")


RECORDED = Plan(
    FlowName("A", "B"),
    (TopicDecision("t", True, "matches", "A.t"), TopicDecision("u", False, "A.u is gone", "A.u", "target_deleted")),
    (GROW,),
    ("a note",),
)


def test_a_plan_is_kept_with_its_results_failed_ones_first() -> None:
    results = [ActionResult(replace(GROW, topic="A.s")), ActionResult(GROW, error="no right")]
    record = json.loads(json.dumps(plan_record(RECORDED, results, 5)))
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
    record = plan_record(RECORDED, [ActionResult(replace(GROW, after=number)) for number in range(2, 1502)], 5)
    assert (len(record["actions"]), record["actions_left_out"]) == (500, 1000)
    notes = plan_notes(record, 0)
    assert (len(notes), notes[20]) == (22, "refresh_topics: 1480 more changes of topics")


def test_a_record_keeps_some_hundred_notices() -> None:
    notices = plan_record(replace(RECORDED, notices=tuple(map(str, range(700)))), [], 5)["notices"]
    assert (len(notices), notices[499:]) == (501, ["499", "200 more notes"])
