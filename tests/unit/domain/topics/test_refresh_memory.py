from __future__ import annotations

import json
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, SettingChange
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alterations, Job, RefreshMemory

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


def test_a_failed_action_is_tried_again_at_the_next_run() -> None:
    memory = RefreshMemory().after(FLOW, EVERYTHING, [change(), change("7", error="no")], START)
    assert memory.due(FLOW, at(1)) == EVERYTHING
    later = DONE.after(FLOW, {Job.CONFIGS}, [change(error="no")], at(5))
    assert later.due(FLOW, at(6)) == EVERYTHING
    assert DONE.after(FLOW, EVERYTHING, [], at(5), unsettled=True).due(FLOW, at(6)) == EVERYTHING


def test_a_clock_that_was_set_back_switches_nothing_off() -> None:
    assert DONE.due(FLOW, at(-86400)) == EVERYTHING


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
    memory = replace(DONE.after(FLOW, {Job.CONFIGS}, [change(), change(None)], at(5)), decisions="abc")
    assert RefreshMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory
    assert RefreshMemory.from_json(None) == RefreshMemory()
    assert RefreshMemory.from_json({"last_ms": {"unheard of": 1}}) == RefreshMemory()
