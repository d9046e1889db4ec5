from __future__ import annotations

import json
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, GrowPartitions, Job, SettingChange
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alterations, RefreshMemory

FLOW = FlowSettings(
    FlowName("A", "B"),
    ClusterSettings.plaintext("A", "a:1"),
    ClusterSettings.plaintext("B", "b:1"),
    sync_schemas=True,
    sync_schemas_interval_seconds=600.0,
)  # every interval 600 s, a run each 30 s
START = 1_700_000_000_000
DONE = RefreshMemory().after(FLOW, EVERYTHING, [], START)


def at(seconds: float) -> int:
    return START + int(seconds * 1000)


def change(after: str | None = "1000", *, error: str | None = None) -> ActionResult:
    return ActionResult(AlterConfigs("B", "A.t", (SettingChange("retention.ms", "5", after, "why"),), "r"), error)


def test_the_first_run_does_everything_and_the_next_ones_wait_for_the_interval() -> None:
    assert RefreshMemory().due(FLOW, START) == EVERYTHING
    assert DONE.due(FLOW, at(30)) == frozenset()
    assert DONE.next_seconds(FLOW, at(30)) == 570
    assert DONE.due(FLOW, at(599)) == EVERYTHING


@pytest.mark.parametrize("seconds", [0, 5, 30])
def test_an_interval_up_to_the_period_of_runs_means_each_run(seconds: float) -> None:
    flow = replace(FLOW, refresh_topics_interval_seconds=seconds)
    memory = RefreshMemory().after(flow, EVERYTHING, [], START)
    assert memory.due(flow, at(1)) == {Job.TOPICS}


def test_each_job_has_its_own_interval_and_switch() -> None:
    flow = replace(
        FLOW,
        sync_topic_configs_interval_seconds=60,
        sync_topic_acls=False,
        sync_schemas=False,
        refresh_topics_interval_seconds=-1,
    )
    memory = RefreshMemory().after(flow, EVERYTHING, [], START)
    assert memory.due(flow, at(61)) == {Job.CONFIGS}
    assert memory.due(flow, at(6000)) == {Job.CONFIGS}


def test_topics_are_made_once_even_where_refreshing_is_off() -> None:
    # MirrorMaker 2 creates topics when it starts, whatever refresh.topics.enabled says.
    flow = replace(FLOW, refresh_topics=False, sync_topic_configs=False, sync_topic_acls=False, sync_schemas=False)
    assert RefreshMemory().due(flow, START) == {Job.TOPICS}
    memory = RefreshMemory().after(flow, {Job.TOPICS}, [], START)
    assert memory.due(flow, at(9000)) == frozenset()
    assert memory.next_seconds(flow, at(9000)) is None


def test_a_negative_interval_turns_a_job_off_at_the_first_run_and_after_an_edit_too() -> None:
    flow = replace(FLOW, sync_topic_configs_interval_seconds=-1, sync_topic_acls_interval_seconds=-1)
    assert RefreshMemory().due(flow, START) == {Job.TOPICS, Job.SCHEMAS}
    memory = RefreshMemory().after(flow, {Job.TOPICS, Job.SCHEMAS}, [], START)
    assert memory.due(replace(flow, topics=("x",)), at(1)) == {Job.TOPICS, Job.SCHEMAS}


@pytest.mark.parametrize("edit", [{"topics": ("x",)}, {"topics_exclude": ()}, {"use_defaults_from": "source"}])
def test_an_edit_acts_at_the_next_run(edit: dict[str, object]) -> None:
    assert DONE.due(replace(FLOW, **edit), at(1)) == EVERYTHING  # type: ignore[arg-type]


def refused(topic: str = "A.t", *, error: str = "no") -> ActionResult:
    return ActionResult(GrowPartitions("B", topic, 1, 2, "why"), error)


def test_what_failed_is_tried_again_after_growing_pauses_up_to_the_interval() -> None:
    memory = RefreshMemory().after(FLOW, EVERYTHING, [change(), change("7", error="no")], START)
    assert memory.due(FLOW, at(30)) == frozenset()
    now, pauses = 0.0, []
    for _ in range(6):
        pause = memory.retry_seconds(FLOW, at(now))
        assert pause is not None
        assert Job.CONFIGS not in memory.due(FLOW, at(now + pause - 31))
        now += pause
        assert Job.CONFIGS in memory.due(FLOW, at(now))
        memory = memory.after(FLOW, {Job.CONFIGS}, [change("7", error="still not")], at(now))
        pauses.append(pause)
    assert pauses == [60, 120, 240, 480, 600, 600]
    assert memory.standing(FLOW)[Job.CONFIGS].sentences == (str(change("7", error="still not")),)
    done = memory.after(FLOW, {Job.CONFIGS}, [], at(now + 600))
    assert (done.standing(FLOW), done.retry_seconds(FLOW, at(now + 600))) == ({}, None)


def test_only_the_job_that_failed_is_done_again() -> None:
    memory = RefreshMemory().after(FLOW, EVERYTHING, [refused()], START)
    assert memory.due(FLOW, at(60)) == {Job.TOPICS}
    assert memory.next_seconds(FLOW, at(20)) == 40
    memory = memory.after(FLOW, {Job.TOPICS}, [refused(), refused("A.other")], at(60))
    assert memory.due(FLOW, at(90)) == frozenset()
    # Something else is missing than before, so it is not waited for longer.
    assert memory.due(FLOW, at(120)) == {Job.TOPICS}
    assert memory.due(FLOW, at(600)) == EVERYTHING


def test_a_failure_outside_of_its_jobs_turn_is_noted_and_puts_nothing_off() -> None:
    memory = DONE
    for seconds in range(30, 600, 30):
        memory = memory.after(FLOW, {Job.CONFIGS}, [refused()], at(seconds))
        assert (Job.TOPICS in memory.due(FLOW, at(seconds + 1))) == (seconds + 1 >= 30 + 57)
        assert memory.standing(FLOW)[Job.TOPICS].times == 1
    assert Job.TOPICS in memory.due(FLOW, at(600))


@pytest.mark.parametrize("seconds", [0, 5, 30])
def test_what_is_done_in_each_run_is_done_in_each_run_when_it_fails(seconds: float) -> None:
    flow = replace(FLOW, refresh_topics_interval_seconds=seconds)
    memory = RefreshMemory().after(flow, EVERYTHING, [refused()], START)
    memory = memory.after(flow, {Job.TOPICS}, [refused()], at(1))
    assert memory.due(flow, at(2)) == {Job.TOPICS}


def test_an_interval_of_less_than_the_pause_counts() -> None:
    flow = replace(FLOW, refresh_topics_interval_seconds=40)
    assert RefreshMemory().after(flow, EVERYTHING, [refused()], START).due(flow, at(40)) == {Job.TOPICS}


def test_an_edit_acts_at_once_also_after_a_failure() -> None:
    memory = RefreshMemory().after(FLOW, EVERYTHING, [refused()], START)
    assert memory.due(replace(FLOW, topics=("x",)), at(1)) == EVERYTHING


def test_a_topic_that_an_operator_has_to_decide_about_stands_like_a_failure() -> None:
    memory = DONE.after(FLOW, EVERYTHING, [], at(5), lost={"orders": "orders: its copy is gone"})
    assert memory.standing(FLOW)[Job.TOPICS].sentences == ("orders: its copy is gone",)
    assert memory.due(FLOW, at(6)) == frozenset()
    assert memory.due(FLOW, at(65)) == {Job.TOPICS}
    # It is seen whatever is planned.
    again = memory.after(FLOW, {Job.CONFIGS}, [], at(30), lost={"orders": "orders: its copy is gone"})
    assert again.due(FLOW, at(65)) == {Job.TOPICS}


def test_what_is_found_beside_a_failure_neither_hides_it_nor_puts_it_off() -> None:
    memory = DONE.after(FLOW, EVERYTHING, [refused("A.new")], at(5), lost={"orders": "orders: its copy is gone"})
    failed = memory.standing(FLOW)[Job.TOPICS]
    lost = {"orders": "orders: its copy is gone", "other": "other: its copy is gone"}
    beside = memory.after(FLOW, {Job.CONFIGS}, [], at(30), lost=lost).standing(FLOW)[Job.TOPICS]
    assert (beside.times, beside.tried_ms) == (failed.times, failed.tried_ms)
    assert (beside.sentences, beside.count) == ((*failed.sentences, "other: its copy is gone"), 3)
    many = {str(number): f"{number}: its copy is gone" for number in range(100)}
    twice = memory
    for second in (30, 40):
        twice = twice.after(FLOW, {Job.CONFIGS}, [], at(second), lost=many)
    assert twice.standing(FLOW)[Job.TOPICS].count <= 102


def test_what_fails_of_a_job_that_is_switched_off_does_not_stand() -> None:
    off = replace(FLOW, sync_topic_configs=False, refresh_topics=False)
    memory = RefreshMemory().after(FLOW, EVERYTHING, [change(error="no"), refused()], START)
    assert memory.standing(off).keys() == {Job.TOPICS}, "topics are made once even then"
    memory = memory.after(off, {Job.TOPICS}, [refused()], at(60))
    assert memory.failures.keys() == {Job.TOPICS}
    assert memory.due(off, at(150)) == frozenset()
    assert Job.TOPICS in memory.due(off, at(180))
    assert memory.after(off, {Job.TOPICS}, [], at(180)).due(off, at(500)) == frozenset()


def test_a_refresh_that_leaves_something_out_leaves_what_is_due() -> None:
    assert RefreshMemory().after(FLOW, (), [], START).due(FLOW, START) == EVERYTHING
    edited = replace(FLOW, topics=("x",))
    memory = DONE.after(edited, (), [refused()], at(5))
    assert memory.due(edited, at(6)) == EVERYTHING
    assert memory.standing(edited).keys() == {Job.TOPICS}


def test_few_of_many_failures_are_kept() -> None:
    memory = DONE.after(FLOW, EVERYTHING, [refused(f"A.t{number}") for number in range(1000)], at(5))
    failure = memory.standing(FLOW)[Job.TOPICS]
    assert (failure.count, len(failure.sentences)) == (1000, 20)


def test_a_clock_that_was_set_back_switches_nothing_off() -> None:
    assert DONE.due(FLOW, at(-86400)) == EVERYTHING
    often_refused = DONE
    for _ in range(3):
        often_refused = often_refused.after(FLOW, {Job.TOPICS}, [refused()], at(0))
    assert often_refused.due(replace(FLOW), at(-10)) == EVERYTHING


def test_a_change_to_the_same_value_was_undone_meanwhile() -> None:
    memory = Alterations().and_done([change()], at(0)).and_done([change()], at(10))
    alteration = memory.undone("A.t", "retention.ms", "1000")
    assert alteration is not None
    assert (alteration.times, alteration.first_ms, alteration.last_ms) == (2, at(0), at(10))
    assert memory.undone("A.t", "retention.ms", "2000") is None
    assert memory.and_done([change("2000")], at(20)).undone("A.t", "retention.ms", "1000") is None
    assert memory.and_done([change(error="no")], at(20)) == memory
    assert memory.and_done([], at(8 * 86400)) == Alterations()


def test_stored_and_read_again() -> None:
    results = [change(), change(None), change("7", error="no"), refused()]
    memory = replace(DONE.after(FLOW, {Job.CONFIGS}, results, at(5)), decisions="abc")
    assert memory.failures.keys() == {Job.CONFIGS, Job.TOPICS}
    assert RefreshMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory
    assert RefreshMemory.from_json(None) == RefreshMemory()
    assert RefreshMemory.from_json({"last_ms": {"unheard of": 1}}) == RefreshMemory()
    assert RefreshMemory.from_json({"failures": {"topics": [1]}}) == RefreshMemory()
