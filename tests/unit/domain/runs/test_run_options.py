from __future__ import annotations

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.plans.plan import Plan
from srm_common.domain.runs.partition_track import Progress, TopicProgress, by_topic
from srm_common.domain.runs.run_options import RunOptions, RunSelection, narrowed
from srm_common.domain.topics.actions import CreateTopic
from srm_common.domain.topics.selection import select_topics
from srm_common.errors import ConfigError


def test_without_expressions_everything_is_wanted() -> None:
    assert RunOptions("r").wants("orders")


def test_expressions_narrow() -> None:
    options = RunOptions("r", topics=("orders.*", "clicks"), topics_exclude=("orders-eu",))
    assert [topic for topic in ("orders-us", "orders-eu", "clicks", "clicks-2") if options.wants(topic)] == [
        "orders-us",
        "clicks",
    ]
    # An empty list of topics is a list, and matches nothing.
    assert not RunOptions("r", topics=()).wants("orders")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_a_run_lasts_a_finite_time(seconds: float) -> None:
    with pytest.raises(ConfigError, match=f"run.max.seconds of this run must be a finite number.* but is {seconds:g}$"):
        RunOptions("r", max_seconds=seconds)
    assert RunOptions("r", max_seconds=0).max_seconds == 0


def test_topics_add_up_their_partitions() -> None:
    parts = [TopicProgress("b", 1, 2, 3, 4), TopicProgress("a", 1, 1, 1, 1), TopicProgress("b", 10, 20, 30, 40, 1)]
    topics = by_topic(parts)
    assert topics == (TopicProgress("a", 1, 1, 1, 1), TopicProgress("b", 11, 22, 33, 44, 1))
    progress = Progress("a->b", 1, True, 2.0, topics)
    assert (progress.done, progress.left, progress.records, progress.bytes) == (12, 23, 34, 45)


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
