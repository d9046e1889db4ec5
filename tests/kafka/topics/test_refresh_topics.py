"""Discovery, planning and applying on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, CreateTopic, GrowPartitions
from srm_common.domain.topics.recording import RecordTopic
from srm_common.domain.topics.topic_settings import AFTER_MAX, BEFORE_MAX, LONG_MAX, Source
from srm_common.errors import UnreachableCluster
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.testing import LocalKafka, ReservedPort
from srm_common.usecases.flows.copied_topics import replicated_topics
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import decide_topics, plan_topics
from tests.kafka.records import eventually, grow

pytestmark = pytest.mark.kafka

MakeFlow = Callable[..., FlowSettings]


@pytest.fixture
def make_flow(source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> MakeFlow:
    """A flow that copies the topics of this test alone."""

    def make(**settings: object) -> FlowSettings:
        flow = FlowSettings(
            FlowName("here", "there"),
            ClusterSettings.plaintext("here", source_kafka.bootstrap_servers),
            ClusterSettings.plaintext("there", target_kafka.bootstrap_servers),
            enabled=True,
            topics=(f"{name}.*",),
            replication_factor=1,
            heartbeats_replication=False,
            emit_heartbeats=False,
            sync_topic_acls=False,
        )
        return replace(flow, **settings)  # type: ignore[arg-type]

    return make


def settings_of(kafka: LocalKafka, topic: str) -> dict[str, tuple[str | None, Source]]:
    admin = ClusterAdmin(ClusterSettings.plaintext("x", kafka.bootstrap_servers))
    return {key: (found.value, found.source) for key, found in admin.topic_settings([topic])[topic].items()}


def alter(kafka: LocalKafka, topic: str, changes: Mapping[str, str | None]) -> None:
    """Set settings of a topic, or remove them, and wait until the broker shows it."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    kafka.admin().incremental_alter_configs([resource])[resource].result(60)

    def shown() -> bool:
        found = settings_of(kafka, topic)
        own = {key: value if source is Source.TOPIC else None for key, (value, source) in found.items()}
        return all(own.get(key) == value for key, value in changes.items())

    eventually(shown, 120, f"{topic} does not show {changes}")


def applied(flow: FlowSettings) -> Plan:
    plan = plan_topics(flow)
    results = apply_plan(flow, plan)
    assert [str(result) for result in results if result.error] == []
    settings_shown(flow)
    return plan


def settings_shown(flow: FlowSettings) -> None:
    """Until the brokers show altered settings, a moment after they have taken them."""
    eventually(
        lambda: not any(isinstance(action, AlterConfigs) for action in plan_topics(flow).actions),
        120,
        "there are always settings left to alter",
    )


def changes(plan: Plan | Sequence[ActionResult]) -> list[Any]:
    """The actions of a plan, or the results of applied ones, without those that write records of topics."""
    if isinstance(plan, Plan):
        return [action for action in plan.actions if not isinstance(action, RecordTopic)]
    return [result for result in plan if not isinstance(result.action, RecordTopic)]


def test_a_new_topic_is_created_like_the_source_and_then_nothing_is_left_to_do(
    make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    config = {"cleanup.policy": "compact", "retention.ms": "1234567", "max.message.bytes": "2000000",
              "min.insync.replicas": "1", "segment.bytes": "33333333"}  # fmt: skip
    source_kafka.create_topic(name, partitions=3, config=config)
    flow = make_flow()
    plan = plan_topics(flow)
    (action,) = changes(plan)
    assert isinstance(action, CreateTopic)
    assert (action.topic, action.partitions, action.replication_factor) == (f"here.{name}", 3, 1)
    assert f"here.{name}" in plan.render()
    assert f"here.{name}" not in ClusterAdmin(flow.target).topics().partitions
    (result,) = changes(apply_plan(flow, plan))
    assert result.error is None
    (again,) = changes(apply_plan(flow, plan))
    assert (again.error, again.note) == (None, "it exists already; the next refresh compares it")

    there = settings_of(target_kafka, f"here.{name}")
    for key in ("cleanup.policy", "retention.ms", "max.message.bytes", "segment.bytes"):
        assert there[key] == (config[key], Source.TOPIC)
    assert there["compression.type"][0] == "producer"
    assert there["message.timestamp.type"] == ("CreateTime", Source.TOPIC)
    assert there[BEFORE_MAX][0] == there[AFTER_MAX][0] == LONG_MAX
    assert there["min.insync.replicas"][1] is not Source.TOPIC
    assert plan_topics(flow).actions == ()
    (mapping,) = replicated_topics(flow)
    assert (mapping.upstream, mapping.downstream, mapping.partitions) == (name, f"here.{name}", 3)
    assert mapping.max_message_bytes == 2_000_000
    assert len({mapping.upstream_topic_id, mapping.downstream_topic_id}) == 2
    assert min(len(mapping.upstream_topic_id), len(mapping.downstream_topic_id)) > 10


def test_growth_is_followed(make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str) -> None:
    source_kafka.create_topic(name, partitions=3)
    flow = make_flow()
    applied(flow)
    grow(source_kafka, name, 6)
    plan = plan_topics(flow)
    assert plan.actions == (GrowPartitions("there", f"here.{name}", 3, 6, f"{name} has 6 on here"),)
    assert replicated_topics(flow)[0].partitions == 3
    assert [result.error for result in apply_plan(flow, plan)] == [None]
    (again,) = changes(apply_plan(flow, plan))
    assert (again.error, again.note) == (None, "it has as many already")
    assert replicated_topics(flow)[0].partitions == 6

    grow(target_kafka, f"here.{name}", 8)
    plan = plan_topics(flow)
    assert plan.actions == ()
    assert plan.notices == (
        f"here.{name} has 8 partitions on there, but {name} has 6 on here; the extra ones stay empty",
    )
    assert replicated_topics(flow)[0].partitions == 6


def test_settings_follow_the_source_and_manual_ones_are_reverted(
    make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name, config={"retention.bytes": "1000", "delete.retention.ms": "1000"})
    flow = make_flow(config_properties_exclude=(r"delete\.retention\..*",))
    applied(flow)
    remote = f"here.{name}"
    there = settings_of(target_kafka, remote)
    assert there["retention.bytes"] == ("1000", Source.TOPIC)
    assert there["delete.retention.ms"][1] is not Source.TOPIC

    alter(target_kafka, remote, {"retention.bytes": "2000", "delete.retention.ms": "2000", "segment.bytes": "9999999"})
    plan = applied(flow)
    (action,) = changes(plan)
    assert isinstance(action, AlterConfigs)
    assert {change.key: (change.before, change.after) for change in action.changes} == {
        "retention.bytes": ("2000", "1000"),
        "segment.bytes": ("9999999", None),
    }
    there = settings_of(target_kafka, remote)
    assert there["retention.bytes"] == ("1000", Source.TOPIC)
    assert there["delete.retention.ms"] == ("2000", Source.TOPIC)

    alter(source_kafka, name, {"retention.bytes": None})
    applied(flow)
    assert settings_of(target_kafka, remote)["retention.bytes"] == ("-1", Source.DEFAULT)
    assert plan_topics(flow).actions == ()


def test_defaults_of_the_source(
    make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name)
    flow = make_flow(use_defaults_from="source")
    applied(flow)
    remote = f"here.{name}"
    alter(target_kafka, remote, {"retention.bytes": "2000"})
    applied(flow)
    assert settings_of(target_kafka, remote)["retention.bytes"] == ("-1", Source.TOPIC)
    assert plan_topics(flow).actions == ()


def test_a_copy_that_would_recompress_or_falsify_times(
    make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name)
    source_kafka.create_topic(f"{name}-log-append")
    target_kafka.create_topic(f"here.{name}", config={"compression.type": "gzip", AFTER_MAX: "1000"})
    target_kafka.create_topic(f"here.{name}-log-append", config={"message.timestamp.type": "LogAppendTime"})
    flow = make_flow()
    plan = applied(flow)
    (action,) = changes(plan)
    assert isinstance(action, AlterConfigs)
    assert {change.key: change.after for change in action.changes} == {"compression.type": None, AFTER_MAX: LONG_MAX}
    assert settings_of(target_kafka, f"here.{name}")["compression.type"][0] == "producer"
    decisions = {decision.topic: decision for decision in plan.decisions}
    assert decisions[name].accepted
    assert "LogAppendTime, which would replace every record's timestamp" in decisions[f"{name}-log-append"].reason
    assert [mapping.upstream for mapping in replicated_topics(flow)] == [name]
    still = plan_topics(make_flow(sync_topic_configs=False))
    assert still.actions == ()


def test_without_config_sync_harm_is_noted(
    make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    source_kafka.create_topic(name)
    target_kafka.create_topic(f"here.{name}", config={"retention.ms": "1000"})
    plan = plan_topics(make_flow(sync_topic_configs=False))
    assert changes(plan) == []
    (notice,) = plan.notices
    assert notice == (
        f"sync.topic.configs.enabled is false, so retention.ms stays as it is on here.{name} (1000 instead of the "
        "cluster's default): shorter ones delete old records as soon as they are copied"
    )


def test_one_bad_action_does_not_stop_the_others(
    make_flow: MakeFlow, source_kafka: LocalKafka, target_kafka: LocalKafka, name: str
) -> None:
    # A broker refuses two names that differ in '.' and '_' only.
    source_kafka.create_topic(f"{name}-a")
    source_kafka.create_topic(f"{name}-b_c")
    target_kafka.create_topic(f"here.{name}-b.c")
    flow = make_flow()
    results = {result.action.topic: result for result in apply_plan(flow, plan_topics(flow))}
    assert results[f"here.{name}-a"].error is None
    error = results[f"here.{name}-b_c"].error
    assert error is not None
    assert "collide" in error
    assert [mapping.upstream for mapping in replicated_topics(flow)] == [f"{name}-a"]


def test_too_many_replicas_are_lowered_and_said(make_flow: MakeFlow, source_kafka: LocalKafka, name: str) -> None:
    source_kafka.create_topic(name)
    plan = applied(make_flow(replication_factor=3))
    (action,) = changes(plan)
    assert isinstance(action, CreateTopic)
    assert action.replication_factor == 1
    assert action.reason == f"copy of {name}; 3 replicas requested, but the target has 1 broker"


def test_heartbeats(make_flow: MakeFlow, target_kafka: LocalKafka, name: str) -> None:
    flow = make_flow(emit_heartbeats=True)
    first = applied(flow)
    assert all(action.topic == "heartbeats" for action in changes(first))
    assert settings_of(target_kafka, "heartbeats")["cleanup.policy"][0] == "compact"
    assert plan_topics(flow).actions == ()


def test_decisions(make_flow: MakeFlow, source_kafka: LocalKafka, name: str) -> None:
    for topic in (name, f"{name}-internal", f"there.{name}", f"{name}-x"):
        source_kafka.create_topic(topic)
    flow = make_flow(topics=(rf"(there\.)?{name}.*",), topics_exclude=(f"{name}-x",))
    decisions = {found.topic: found for found in decide_topics(flow) if name in found.topic}
    assert decisions[name].remote_topic == f"here.{name}"
    assert {topic: found.reason for topic, found in decisions.items() if not found.accepted} == {
        f"{name}-internal": "internal topics are never copied",
        f"there.{name}": "it came from 'there' and would form a loop",
        f"{name}-x": f"excluded by '{name}-x' of topics.exclude",
    }


def test_an_unreachable_cluster_is_one_sentence(make_flow: MakeFlow) -> None:
    port = ReservedPort()
    try:
        flow = make_flow(source=ClusterSettings.plaintext("here", port.address), admin_timeout_ms=3000)
        with pytest.raises(UnreachableCluster, match=rf"cluster 'here' \({port.address}\) did not respond") as caught:
            plan_topics(flow)
    finally:
        port.release()
    assert "\n" not in str(caught.value)
