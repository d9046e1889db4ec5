"""Planning and applying on fake clusters: each rule, and what goes wrong between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.plans.plan import Plan
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, CreateTopic, GrowPartitions, Job
from srm_common.domain.topics.recording import RecordTopic
from srm_common.domain.topics.topic_settings import AFTER_MAX, LONG_MAX
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import decide_topics, plan_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.unit.usecases.fakes import CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, Sides


def changes(plan: Plan | Sequence[ActionResult]) -> list[Any]:
    """The actions of a plan, or the results of applied ones, without those that write records of topics."""
    if isinstance(plan, Plan):
        return [action for action in plan.actions if not isinstance(action, RecordTopic)]
    return [result for result in plan if not isinstance(result.action, RecordTopic)]


def errors(results: Sequence[ActionResult]) -> dict[str, str]:
    return {result.action.topic: result.error for result in results if result.error is not None}


def copies(sides: Sides) -> dict[str, int]:
    return {name: count for name, count in sides.target.topics().items() if name.startswith("a.orders")}


# ---- rules


def test_a_dry_run_asks_for_no_change(sides: Sides) -> None:
    sides.source.create_topic("orders", 3, config={"retention.ms": "1000"})
    plan = plan_topics(sides.flow)
    assert [type(action) for action in changes(plan)] == [CreateTopic]
    assert sides.source.changes() == sides.target.changes() == []
    assert sides.target.topics() == {}


def test_a_new_topic_is_created_like_the_source_and_then_nothing_is_left_to_do(sides: Sides) -> None:
    sides.source.create_topic("orders", 3, config={"cleanup.policy": "compact", "retention.ms": "1234567"})
    plan = sides.refresh().plan
    assert plan is not None
    (action,) = changes(plan)
    assert (action.topic, action.partitions) == ("a.orders", 3)
    assert copies(sides) == {"a.orders": 3}
    made = sides.target.topic_config("a.orders")
    assert made["cleanup.policy"] == "compact"
    assert made["retention.ms"] == "1234567"
    assert made["message.timestamp.type"] == "CreateTime"
    assert plan_topics(sides.flow).actions == ()
    (mapping,) = replicated_topics(sides.flow)
    assert (mapping.upstream, mapping.downstream, mapping.partitions) == ("orders", "a.orders", 3)
    with TopicRegistry(sides.flow.target) as registry:
        (record,) = registry.read().of_flow(str(sides.flow.name)).values()
    assert record.downstream_topic_id == mapping.downstream_topic_id != ""


def test_growth_is_followed_and_extra_partitions_are_left(sides: Sides) -> None:
    sides.source.create_topic("orders", 3)
    sides.refresh()
    sides.source.grow_topic("orders", 6)
    plan = sides.refresh().plan
    assert plan is not None
    assert plan.actions == (GrowPartitions("b", "a.orders", 3, 6, "orders has 6 on a"),)
    assert copies(sides) == {"a.orders": 6}
    sides.target.grow_topic("a.orders", 8)
    plan = plan_topics(sides.flow)
    assert plan.actions == ()
    assert "on a: a.orders (8 instead of 6); the extra ones get nothing from this flow" in plan.notices[0]
    assert replicated_topics(sides.flow)[0].partitions == 6


def test_a_plan_that_was_applied_already_does_no_harm(sides: Sides) -> None:
    sides.source.create_topic("orders", 3)
    plan = plan_topics(sides.flow)
    assert [type(action) for action in changes(plan)] == [CreateTopic]
    assert "a.orders" in plan.render()
    assert errors(apply_plan(sides.flow, plan)) == {}
    (again,) = changes(apply_plan(sides.flow, plan))
    assert (again.error, again.note) == (None, "it exists already; the next refresh compares it")
    sides.source.grow_topic("orders", 6)
    plan = plan_topics(sides.flow)
    assert replicated_topics(sides.flow)[0].partitions == 3
    assert errors(apply_plan(sides.flow, plan)) == {}
    (again,) = changes(apply_plan(sides.flow, plan))
    assert (again.error, again.note) == (None, "it has as many already")
    assert replicated_topics(sides.flow)[0].partitions == 6


def test_settings_follow_the_source_and_manual_ones_are_reverted(sides: Sides) -> None:
    sides.source.create_topic("orders", config={"retention.bytes": "1000", "delete.retention.ms": "1000"})
    sides.set(config_properties_exclude=(r"delete\.retention\..*",))
    sides.refresh()
    there = sides.target.topic_config("a.orders")
    assert there["retention.bytes"] == "1000"
    assert "delete.retention.ms" not in there
    there |= {"retention.bytes": "2000", "delete.retention.ms": "2000", "segment.bytes": "9999999"}
    plan = sides.refresh().plan
    assert plan is not None
    (action,) = changes(plan)
    assert isinstance(action, AlterConfigs)
    assert {change.key: (change.before, change.after) for change in action.changes} == {
        "retention.bytes": ("2000", "1000"),
        "segment.bytes": ("9999999", None),
    }
    assert there["retention.bytes"] == "1000"
    assert there["delete.retention.ms"] == "2000"
    assert "segment.bytes" not in there
    del sides.source.topic_config("orders")["retention.bytes"]
    sides.refresh()
    assert "retention.bytes" not in there
    assert plan_topics(sides.flow).actions == ()


def test_too_many_replicas_are_lowered_and_said(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.set(replication_factor=3)
    plan = sides.refresh().plan
    assert plan is not None
    (action,) = changes(plan)
    assert action.replication_factor == 1
    assert action.reason == "copy of orders; 3 replicas requested, but the target has 1 broker"


def test_what_brokers_were_started_with_counts_as_set(sides: Sides) -> None:
    with FakeCluster(settings={"log.retention.hours": "2"}) as source:
        source.create_topic("orders")
        other = Sides(source, sides.target)
        other.refresh()
        assert sides.target.topic_config("a.orders")["retention.ms"] == "7200000"
        assert plan_topics(other.flow).actions == ()


def test_topics_that_are_not_copied_have_a_reason(sides: Sides) -> None:
    for topic in ("orders", "orders-internal", "b.orders", "orders-x", "payments"):
        sides.source.create_topic(topic)
    sides.set(topics=(r"(b\.)?orders.*",), topics_exclude=("orders-x",))
    decisions = {decide_topic.topic: decide_topic for decide_topic in decide_topics(sides.flow)}
    assert decisions["orders"].remote_topic == "a.orders"
    refused = {topic: one.reason for topic, one in decisions.items() if not one.accepted and "orders" in topic}
    assert refused == {
        "orders-internal": "internal topics are never copied",
        "b.orders": "it came from 'b' and would form a loop",
        "orders-x": "excluded by 'orders-x' of topics.exclude",
    }


def test_defaults_of_the_source(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.set(use_defaults_from="source")
    sides.refresh()
    there = sides.target.topic_config("a.orders")
    there["retention.bytes"] = "2000"
    sides.refresh()
    assert there["retention.bytes"] == "-1"
    assert plan_topics(sides.flow).actions == ()


def test_a_copy_that_would_recompress_or_falsify_times(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.source.create_topic("orders-log-append")
    sides.target.create_topic("a.orders", config={"compression.type": "gzip", AFTER_MAX: "1000"})
    sides.target.create_topic("a.orders-log-append", config={"message.timestamp.type": "LogAppendTime"})
    plan = sides.refresh().plan
    assert plan is not None
    (action,) = changes(plan)
    assert isinstance(action, AlterConfigs)
    assert {change.key: change.after for change in action.changes} == {"compression.type": None, AFTER_MAX: LONG_MAX}
    assert "compression.type" not in sides.target.topic_config("a.orders")
    decisions = {decision.topic: decision for decision in plan.decisions}
    assert decisions["orders"].accepted
    assert "LogAppendTime, which would replace every record's timestamp" in decisions["orders-log-append"].reason
    assert [mapping.upstream for mapping in replicated_topics(sides.flow)] == ["orders"]
    assert plan_topics(sides.set(sync_topic_configs=False)).actions == ()


def test_without_config_sync_harm_is_noted(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.target.create_topic("a.orders", config={"retention.ms": "1000"})
    plan = plan_topics(sides.set(sync_topic_configs=False))
    assert changes(plan) == []
    assert plan.notices == (
        "sync.topic.configs.enabled is off, so retention.ms stays as it is on a.orders (1000 instead of the "
        "cluster's default): shorter ones delete old records as soon as they are copied",
    )


def test_one_bad_action_does_not_stop_the_others(sides: Sides) -> None:
    # Clusters refuse two names that differ in '.' and '_' only.
    sides.source.create_topic("orders-a")
    sides.source.create_topic("orders-b_c")
    sides.target.create_topic("a.orders-b.c")
    failures = errors(sides.refresh().results)
    assert list(failures) == ["a.orders-b_c"]
    assert "collide" in failures["a.orders-b_c"]
    assert [mapping.upstream for mapping in replicated_topics(sides.flow)] == ["orders-a"]


def test_heartbeats(sides: Sides) -> None:
    sides.set(emit_heartbeats=True)
    plan = sides.refresh().plan
    assert plan is not None
    assert all(action.topic == "heartbeats" for action in changes(plan))
    assert sides.target.topic_config("heartbeats")["cleanup.policy"] == "compact"
    assert plan_topics(sides.flow).actions == ()


def test_what_is_not_due_is_not_asked_for(sides: Sides) -> None:
    sides.source.create_topic("orders")
    assert refresh_topics(sides.flow).due == {Job.TOPICS, Job.CONFIGS}
    sides.source.forget_requests()
    again = refresh_topics(sides.flow)
    assert (again.due, again.plan) == (frozenset(), None)
    # An admin client of the first refresh may still ask for the brokers, which is a Metadata request without topics.
    asked = [call for call in sides.source.requests if call.api != "Metadata" or call.body.topics != []]
    assert asked == []


# ---- rights


def test_a_topic_that_may_not_be_created_does_not_stop_the_others(sides: Sides) -> None:
    for topic in ("orders", "orders-eu", "orders-us"):
        sides.source.create_topic(topic)
    with sides.target.refuse("CreateTopics", TOPIC_AUTHORIZATION_FAILED, when="a.orders-eu"):
        results = sides.refresh().results
    assert list(errors(results)) == ["a.orders-eu"]
    assert "needs the permission Create on topic 'a.orders-eu'" in errors(results)["a.orders-eu"]
    assert copies(sides) == {"a.orders": 1, "a.orders-us": 1}
    assert {mapping.upstream for mapping in replicated_topics(sides.flow)} == {"orders", "orders-us"}
    with FlowState(sides.flow) as state:
        plan = state.read("plan")
    assert "needs the permission Create" in str(plan)
    assert errors(sides.refresh().results) == {}
    assert copies(sides) == {"a.orders": 1, "a.orders-eu": 1, "a.orders-us": 1}


@pytest.mark.parametrize(
    ("api", "right"),
    [
        ("CreatePartitions", "Alter on topic 'a.orders'"),
        ("IncrementalAlterConfigs", "AlterConfigs on topic 'a.orders'"),
    ],
)
def test_missing_rights_to_change_a_copy_are_named(sides: Sides, api: str, right: str) -> None:
    sides.source.create_topic("orders")
    sides.refresh()
    sides.source.grow_topic("orders", 2)
    sides.source.topic_config("orders")["retention.ms"] = "5"
    sides.target.refuse(api, TOPIC_AUTHORIZATION_FAILED, when="a.orders", times=1)
    (error,) = errors(sides.refresh().results).values()
    assert f"needs the permission {right}" in error
    assert errors(sides.refresh().results) == {}
    assert copies(sides) == {"a.orders": 2}
    assert sides.target.topic_config("a.orders")["retention.ms"] == "5"


def test_a_registry_that_may_not_be_made_fails_the_refresh(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.target.refuse("CreateTopics", CLUSTER_AUTHORIZATION_FAILED)
    results: Sequence[ActionResult] = ()
    with pytest.raises(AccessDenied):
        results = sides.refresh().results
    assert results == ()
    assert copies(sides) == {}


# ---- clusters that go


def test_a_target_that_goes_after_the_plan_was_made(sides: Sides) -> None:
    sides.source.create_topic("orders")
    plan = plan_topics(sides.impatient())
    sides.target.go_away()
    with pytest.raises(UnreachableCluster, match="cluster 'b'"):
        apply_plan(sides.flow, plan)
    sides.target.come_back()
    assert sides.target.topics() == {}
    assert errors(apply_plan(sides.flow, plan)) == {}
    assert copies(sides) == {"a.orders": 1}


def test_a_target_that_goes_after_the_copy_was_made_is_gone_on_with(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.refresh()
    sides.source.create_topic("orders-eu")
    sides.source.grow_topic("orders", 2)
    sides.impatient()
    sides.target.after(1, "CreateTopics").go_away()
    with pytest.raises(UnreachableCluster):
        sides.refresh()
    assert copies(sides) == {"a.orders": 1, "a.orders-eu": 1}
    sides.target.come_back()
    sides.close()
    assert errors(sides.refresh().results) == {}
    assert copies(sides) == {"a.orders": 2, "a.orders-eu": 1}
    assert plan_topics(sides.flow).actions == ()


def test_a_lost_answer_to_a_creation_is_no_fault(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.refresh()
    sides.source.create_topic("orders-eu")
    sides.target.drop_answer("CreateTopics")
    plan = plan_topics(sides.flow)
    apply_plan(replace(sides.flow, admin_timeout_ms=1500), plan)
    assert copies(sides) == {"a.orders": 1, "a.orders-eu": 1}
    assert errors(sides.refresh().results) == {}
    assert {mapping.upstream for mapping in replicated_topics(sides.flow)} == {"orders", "orders-eu"}


def test_a_source_that_is_gone_is_one_sentence(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.source.go_away()
    address = sides.source.bootstrap_servers
    with pytest.raises(UnreachableCluster, match=rf"cluster 'a' \({address}\) is not reachable") as caught:
        plan_topics(sides.impatient())
    assert "\n" not in str(caught.value)
    assert sides.target.changes() == []


@pytest.mark.parametrize("code", [17, 44, TOPIC_AUTHORIZATION_FAILED])
def test_a_source_that_takes_none_of_our_topics_is_copied_all_the_same(sides: Sides, code: int) -> None:
    """Its policy may demand other names (KIP-108)."""
    sides.set(emit_heartbeats=True, heartbeats_topic_location="both")
    sides.source.create_topic("orders")
    sides.source.write("orders", [(None, b"1"), (None, b"2")])
    sides.source.commit("g", {("orders", 0): 1})
    sides.source.refuse("CreateTopics", code)
    assert sides.refresh().fault is None
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 2)
    (note,) = [note for note in record.notes if "no offset syncs on 'a'" in note]
    assert "or set offset-syncs.topic.location = target" in note
    report = sync_checkpoints(sides.clusters(), at_once=True)
    assert report.checkpoints == 1
    assert "or set offset-syncs.topic.location = target" in report.faults[0]
    with pytest.raises(AccessDenied, match=r"or set heartbeats\.topic\.location = target"):
        emit_heartbeat(sides.clusters())
    assert sides.source.topics().keys() == {"orders"}
