from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.plans.plan import Plan
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_selection import RunSelection, narrowed
from srm_common.domain.topics.actions import CreateTopic
from srm_common.domain.topics.selection import select_topics
from srm_common.errors import ConfigError

FLOW = FlowSettings(
    FlowName("a", "b"), ClusterSettings.plaintext("a", "127.0.0.1:1"), ClusterSettings.plaintext("b", "127.0.0.1:2")
)


def test_a_selection_comes_through_whole() -> None:
    lists = FilterLists.of({"topics": ["ä,b{1,2}", *(f"t{number}" for number in range(50_000))], "topics.exclude": []})
    selection = RunSelection(lists, "the variable", ("x,y",), None, ("a note",))
    again = RunSelection.parse(selection.format())
    assert again == selection
    assert again.applied_to(FLOW).topics_exclude == ()
    assert len(again.applied_to(FLOW).topics) == 50_001


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"filters": {"topics": ["("]}, "origin": ""}'])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        RunSelection.parse(text)


def created(plan: Plan) -> list[str]:
    return [action.topic for action in plan.actions]


def test_a_narrowed_plan_makes_less_and_decides_the_same() -> None:
    decisions = tuple(select_topics(FLOW, ["orders", "orders.x", "clicks", "__private"]))
    actions = [CreateTopic("b", name, 1, 1, (), "") for name in ("a.orders", "a.orders.x", "a.clicks", "other")]
    plan = Plan(FLOW.name, decisions, tuple(actions))
    run = RunOptions("r1", topics=("orders.*", "__private"), topics_exclude=("orders.x",))
    assert created(narrowed(plan, run.wants)) == ["a.orders", "other"]
    assert narrowed(plan, run.wants).decisions == plan.decisions
    assert narrowed(plan, RunOptions("r2").wants) == plan
