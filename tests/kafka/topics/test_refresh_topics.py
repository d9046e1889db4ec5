"""Discovery, planning and applying on real brokers: what they take and show. The rules are in
``tests/unit/usecases/topics/test_refresh_topics.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, CreateTopic
from srm_common.domain.topics.recording import RecordTopic
from srm_common.domain.topics.topic_settings import AFTER_MAX, BEFORE_MAX, LONG_MAX, Source
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.testing import LocalKafka
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.kafka.records import eventually

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
        settings = settings_of(kafka, topic)
        own = {key: value if source is Source.TOPIC else None for key, (value, source) in settings.items()}
        return all(own.get(key) == value for key, value in changes.items())

    eventually(shown, 300, f"{topic} does not show {changes}")


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
    assert (mapping.max_message_bytes, mapping.compacted) == (2_000_000, True)
    assert len({mapping.upstream_topic_id, mapping.downstream_topic_id}) == 2
    assert min(len(mapping.upstream_topic_id), len(mapping.downstream_topic_id)) > 10


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
