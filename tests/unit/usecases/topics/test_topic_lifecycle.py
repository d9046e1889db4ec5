"""Topics deleted and made again on either side, changes that are undone, and plans applied from a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.cli.main import run
from srm_common.domain.flow import FlowSettings, OnDataLoss
from srm_common.domain.plans.plan import Plan, PlanFile, plan_file_text
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.topics.actions import AlterConfigs, CreateTopic, Job, StartOver, failed
from srm_common.domain.topics.recording import RecordTopic
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.errors import ConfigError
from srm_common.kafka.admin.cluster_admin import ClusterAdmin, ClusterTopics
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.topics.apply import apply_printed
from srm_common.usecases.topics.plan_topics import decide_topics, plan_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.unit.domain.access.test_acl_bindings import binding
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides, properties_of


class Scenario:
    """One flow of one topic, run step by step."""

    def __init__(self, sides: Sides) -> None:
        self.sides, self.source, self.target = sides, sides.source, sides.target
        self.topic, self.remote = "orders", "a.orders"
        sides.set(topics=("orders",), sync_topic_acls=True)
        self.source.create_topic(self.topic, 2)

    @property
    def flow(self) -> FlowSettings:
        return self.sides.flow

    def refresh(self, **options: object) -> Plan:
        done = refresh_topics(self.flow, at_once=True, **options)  # type: ignore[arg-type]
        assert [str(result) for result in failed(done.results)] == []
        assert done.plan is not None
        return done.plan

    def copy(self) -> RunRecord:
        return self.sides.run()

    def record(self) -> TopicRecord:
        with TopicRegistry(self.flow.target) as registry:
            record = registry.read().find(self.flow.name, self.topic)
        assert record is not None
        return record

    def begin(self) -> None:
        """Three records are copied."""
        self.refresh()
        write(self.source, self.topic, [b"1", b"2", b"3"])
        assert self.copy().records == 3

    def seen(self) -> list[bytes | None]:
        return self.sides.values(self.remote)


@pytest.fixture
def scenario(steady_sides: Sides) -> Scenario:
    return Scenario(steady_sides)


@pytest.fixture
def guarded() -> Iterator[Scenario]:
    """The same, of clusters with an authorizer."""
    with (
        FakeCluster(authorizer=True) as source,
        FakeCluster(authorizer=True) as target,
        closing(Sides(source, target)) as sides,
    ):
        sides.set(admin_timeout_ms=60_000, retry_timeout_seconds=60.0)
        yield Scenario(sides)


def write(kafka: FakeCluster, topic: str, values: list[bytes]) -> None:
    kafka.write(topic, [(None, value) for value in values])


def test_a_deleted_copy_comes_back_only_when_somebody_says_so(scenario: Scenario) -> None:
    scenario.begin()
    scenario.target.delete_topic(scenario.remote)
    plan = scenario.refresh()
    assert [decision.code for decision in plan.lost] == ["target_deleted"]
    assert f"--recreate {scenario.topic}" in plan.lost[0].reason
    assert scenario.record().state is TopicState.TARGET_DELETED
    assert replicated_topics(scenario.flow) == []
    record = scenario.copy()
    assert (record.records, record.state) == (0, RunState.FAILED)
    assert f"{scenario.remote} was deleted on b" in str(record.error)
    assert scenario.remote not in scenario.target.topics()
    # Not settled: that nothing is due does not hide it.
    waiting = refresh_topics(scenario.flow)
    assert waiting.due == frozenset()
    assert f"{scenario.remote} was deleted on b" in str(waiting.fault)

    plan = scenario.refresh(restore={scenario.topic: OnDataLoss.RESET})
    assert {type(action) for action in plan.actions} == {StartOver, RecordTopic, CreateTopic}
    assert scenario.record().state is TopicState.REPLICATING
    assert plan_topics(scenario.flow).actions == ()
    write(scenario.source, scenario.topic, [b"4"])
    assert scenario.copy().records == 4
    assert scenario.seen() == [b"1", b"2", b"3", b"4"]
    waiting = refresh_topics(scenario.flow)
    assert (waiting.due, waiting.fault) == (frozenset(), None)


def test_a_copy_comes_back_though_its_topic_has_fewer_partitions_now(scenario: Scenario) -> None:
    scenario.begin()
    scenario.source.write(scenario.topic, [(None, b"former")], partition=1)
    scenario.copy()
    scenario.source.delete_topic(scenario.topic)
    scenario.target.delete_topic(scenario.remote)
    scenario.source.create_topic(scenario.topic, 1)
    write(scenario.source, scenario.topic, [b"4"])
    scenario.refresh(restore={scenario.topic: OnDataLoss.RESET})
    assert scenario.copy().records == 1
    # What it gets later is copied from its start.
    scenario.source.grow_topic(scenario.topic, 2)
    scenario.source.write(scenario.topic, [(None, b"5"), (None, b"6")], partition=1)
    scenario.refresh()
    assert scenario.copy().records == 2
    assert (scenario.seen(), scenario.sides.values(scenario.remote, 1)) == ([b"4"], [b"5", b"6"])


@pytest.mark.parametrize("choice", OnDataLoss)
def test_a_topic_that_was_deleted_on_both_sides_and_made_again(scenario: Scenario, choice: OnDataLoss) -> None:
    """Its owner has deleted it, or the source was lost and restored: ``on.data.loss`` is about both."""
    scenario.begin()
    scenario.sides.set(on_data_loss=choice)
    scenario.source.delete_topic(scenario.topic)
    scenario.refresh()
    scenario.target.delete_topic(scenario.remote)
    assert scenario.refresh().lost == ()
    scenario.source.create_topic(scenario.topic, 2)
    write(scenario.source, scenario.topic, [b"4"])
    plan = scenario.refresh()
    if choice is OnDataLoss.FAIL:
        assert [decision.code for decision in plan.lost] == ["target_deleted"]
        return
    told = f"{scenario.topic} was created again on a, after it and its copy {scenario.remote} were deleted"
    assert any(notice.startswith(told) for notice in plan.notices)
    assert scenario.copy().records == 1
    assert scenario.seen() == [b"4"]


def test_a_copy_made_again_by_somebody_is_left_alone_until_somebody_says_so(scenario: Scenario) -> None:
    scenario.begin()
    scenario.target.delete_topic(scenario.remote)
    scenario.target.create_topic(scenario.remote, 2)
    write(scenario.source, scenario.topic, [b"4"])
    plan = plan_topics(scenario.flow)
    (lost,) = plan.lost
    assert lost.reason.startswith(f"{scenario.remote} on b was deleted and re-created by others (id ")
    assert replicated_topics(scenario.flow) == []
    assert scenario.copy().records == 0
    # By the copy's name, too.
    plan = scenario.refresh(restore={scenario.remote: OnDataLoss.SKIP})
    assert any("continues where the flow stopped" in notice for notice in plan.notices)
    assert scenario.copy().records == 1
    assert scenario.seen() == [b"4"]
    assert plan_topics(scenario.flow).actions == ()
    with pytest.raises(ConfigError, match=f"nonsense is neither a topic that flow {scenario.flow.name} copies nor"):
        plan_topics(scenario.flow, restore={"nonsense": OnDataLoss.SKIP})


def test_the_setting_restores_every_topic(scenario: Scenario) -> None:
    scenario.begin()
    scenario.target.delete_topic(scenario.remote)
    scenario.sides.set(on_target_loss=OnDataLoss.RESET)
    scenario.refresh()
    assert scenario.copy().records == 3
    assert scenario.seen() == [b"1", b"2", b"3"]


@pytest.mark.parametrize("choice", OnDataLoss)
@pytest.mark.parametrize("code", [0, 7, TOPIC_AUTHORIZATION_FAILED])
def test_a_copy_that_one_answer_lacks_is_not_lost(
    guarded: Scenario, monkeypatch: pytest.MonkeyPatch, choice: OnDataLoss, code: int
) -> None:
    """As of a broker that is cut off from the controller, which knows better if it may be asked. Its readers stay."""
    guarded.sides.clusters().source.acls.create([binding("ALLOW READ bob orders")])
    guarded.begin()
    readers = frozenset({binding("ALLOW READ bob a.orders")})
    assert guarded.sides.clusters().target.acls.topic_bindings() == readers
    guarded.sides.set(on_target_loss=choice)
    if code:
        guarded.target.refuse("CreateTopics", code, when=guarded.remote)
    whole, listings = ClusterAdmin.topics, 0

    def stale(admin: ClusterAdmin) -> ClusterTopics:
        nonlocal listings
        found = whole(admin)
        if admin.cluster.alias == "b" and (listings := listings + 1) == 1:
            found = replace(found, partitions=dict(found.partitions.items() - {(guarded.remote, 2)}))
        return found

    monkeypatch.setattr(ClusterAdmin, "topics", stale)
    plan = guarded.refresh()
    assert not {StartOver, CreateTopic} & {type(action) for action in plan.actions}
    (doubt,) = [decision for decision in plan.decisions if decision.topic == guarded.topic]
    assert (doubt.accepted, doubt.code, plan.lost) == (False, "target_doubtful", ())
    assert f"{guarded.topic} is not changed: {doubt.reason}" in plan.notices
    assert guarded.sides.clusters().target.acls.topic_bindings() == readers
    write(guarded.source, guarded.topic, [b"4"])
    assert guarded.copy().records == 1
    assert guarded.seen() == [b"1", b"2", b"3", b"4"]


def test_a_copy_is_lost_though_the_controller_may_not_be_asked(scenario: Scenario) -> None:
    scenario.begin()
    scenario.target.delete_topic(scenario.remote)
    scenario.target.refuse("CreateTopics", TOPIC_AUTHORIZATION_FAILED, when=scenario.remote)
    assert [decision.code for decision in scenario.refresh().lost] == ["target_deleted"]


def test_a_source_topic_deleted_and_made_again(scenario: Scenario) -> None:
    scenario.begin()
    scenario.source.delete_topic(scenario.topic)
    plan = scenario.refresh()
    gone = next(decision for decision in plan.decisions if decision.topic == scenario.topic)
    assert (gone.code, gone.reason) == (
        "source_deleted",
        f"deleted on {scenario.flow.name.source}; its copy {scenario.remote} is kept",
    )
    assert scenario.record().state is TopicState.SOURCE_DELETED
    assert scenario.seen() == [b"1", b"2", b"3"]
    assert plan_topics(scenario.flow).actions == ()

    scenario.source.create_topic(scenario.topic, 2)
    write(scenario.source, scenario.topic, [b"new"])
    former = scenario.record().upstream_topic_id
    plan = scenario.refresh()
    assert any("on.data.loss = fail: its partitions are not copied until" in notice for notice in plan.notices)
    assert (scenario.record().state, scenario.record().upstream_topic_id) == (TopicState.RECREATED, former)
    record = scenario.copy()
    assert (record.records, record.state) == (0, RunState.FAILED)

    scenario.sides.set(on_data_loss=OnDataLoss.RESET)
    scenario.refresh()
    assert scenario.record().state is TopicState.REPLICATING
    assert scenario.record().previous_upstream_ids == (former,)
    assert scenario.copy().records == 1
    assert scenario.seen() == [b"1", b"2", b"3", b"new"]


def test_a_topic_taken_off_the_filters_and_put_back(scenario: Scenario) -> None:
    scenario.begin()
    scenario.sides.set(topics_exclude=(scenario.topic,))
    scenario.refresh()
    assert scenario.record().state is TopicState.DELISTED
    shown = {decision.topic: decision for decision in decide_topics(scenario.flow)}[scenario.topic]
    assert shown.reason == f"excluded by '{scenario.topic}' of topics.exclude; its copy {scenario.remote} is kept"
    assert scenario.copy().records == 0
    scenario.sides.set(topics_exclude=())
    write(scenario.source, scenario.topic, [b"4"])
    scenario.refresh()
    assert scenario.record().state is TopicState.REPLICATING
    assert scenario.copy().records == 1


def test_a_change_that_is_undone_each_time_is_said(scenario: Scenario) -> None:
    scenario.refresh()
    for times in range(3):
        scenario.target.topic_config(scenario.remote)["retention.ms"] = "1000"
        plan = scenario.refresh()
        assert sum(isinstance(action, AlterConfigs) for action in plan.actions) == 1
        said = [notice for notice in plan.notices if notice.startswith(f"{scenario.remote}: retention.ms was set to ")]
        assert len(said) == (times > 0)
        assert all(f" {times} time" in notice for notice in said)
    with FlowState(scenario.flow) as state:
        stored = state.read("plan")
    assert stored is not None
    assert stored["actions"][0]["before"] == {"retention.ms": "1000"}
    assert stored["notices"] == list(plan.notices)


def test_intervals_and_edits(scenario: Scenario) -> None:
    assert refresh_topics(scenario.flow).due == frozenset(Job) - {Job.SCHEMAS}
    waiting = refresh_topics(scenario.flow)
    assert (waiting.due, waiting.plan) == (frozenset(), None)
    assert "nothing is due; the next refresh is in " in str(waiting)
    often = scenario.sides.set(sync_topic_configs_interval_seconds=0.0)
    refresh_topics(often)
    scenario.target.topic_config(scenario.remote)["retention.ms"] = "1000"
    scenario.source.create_topic(f"{scenario.topic}-later")
    again = refresh_topics(often)
    assert again.due == {Job.CONFIGS}
    assert [result.action.kind for result in again.results] == ["alter_configs"]
    edited = refresh_topics(scenario.sides.set(topics=(f"{scenario.topic}.*",)))
    assert f"{scenario.remote}-later" in {result.action.topic for result in edited.results}


def test_a_file_is_applied_exactly_or_not_at_all(scenario: Scenario) -> None:
    scenario.sides.set(topics=(f"{scenario.topic}.*",))
    printed = PlanFile.parse(plan_file_text(plan_topics(scenario.flow), 1), "plan.json")
    scenario.source.create_topic(f"{scenario.topic}-more")
    refused = apply_printed(scenario.flow, printed)
    assert refused.results == ()
    assert f"{scenario.topic}-more is copied now" in refused.changed
    assert scenario.remote not in scenario.target.topics()

    printed = PlanFile.parse(plan_file_text(plan_topics(scenario.flow), 1), "plan.json")
    done = apply_printed(scenario.flow, printed)
    assert (failed(done.results), done.changed, done.done) == ([], (), ())
    assert len(replicated_topics(scenario.flow)) == 2
    again = apply_printed(scenario.flow, printed)
    assert (again.results, again.changed, len(again.done)) == ((), (), len(printed.actions))


def test_commands(
    scenario: Scenario, configuration_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configuration_file(properties_of(scenario.flow))
    file = tmp_path / "plan.json"

    def srm_control(*arguments: str) -> tuple[int, str, str]:
        code = run(["--config", str(config), *arguments])
        return code, *capsys.readouterr()

    code, shown, said = srm_control("plan", "--out", str(file))
    assert (code, said) == (0, "")
    assert shown.rstrip().endswith(f'srm-control apply --flow "{scenario.flow.name}" {file}')
    code, shown, _ = srm_control("apply", str(file), "--output", "json")
    answer = json.loads(shown)
    assert (code, answer["applied"], answer["done_before"]) == (0, True, [])
    assert {result["action"] for result in answer["results"]} >= {"create_topic"}
    code, shown, _ = srm_control("apply", str(file))
    assert code == 0
    assert f"no longer needed: create topic {scenario.remote}" in shown

    scenario.target.delete_topic(scenario.remote)
    code, shown, _ = srm_control("apply", str(file))
    assert code == 1
    assert shown.startswith("The file is outdated, so nothing was changed:\n")
    code, shown, _ = srm_control("apply")
    assert code == 1
    assert f"Not copied: {scenario.topic}: {scenario.remote} was deleted on b; " in shown
    code, _, _ = srm_control("apply", "--recreate", scenario.topic, "--resume", scenario.topic)
    assert code == 2
    code, _, said = srm_control("apply", "--resume", scenario.topic)
    assert (code, said) == (0, "")
    assert scenario.remote in scenario.target.topics()
