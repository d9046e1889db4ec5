"""Topics whose settings may not be read: each is a matter of its own, and no other topic waits for it."""

from __future__ import annotations

import pytest

from srm_common.cli.commands.plan import plan_text
from srm_common.domain.flow import OnDataLoss
from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import AlterConfigs, CreateTopic, GrowPartitions, StartOver, UnknownSettings
from srm_common.domain.topics.topic_records import TopicState
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing.fake_cluster.configs import TOPIC_SETTINGS
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.refresh_topics import Refreshed
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides

_UNKNOWN_SERVER_ERROR, _KILOBYTE = -1, 1024


def faults(refreshed: Refreshed) -> dict[str, str]:
    return {one.action.topic: one.error for one in refreshed.results if one.error is not None}


def kinds(plan: Plan) -> dict[str, set[str]]:
    """The kinds of actions by topic, without records."""
    found: dict[str, set[str]] = {}
    for action in plan.actions:
        if action.kind != "record_topic":
            found.setdefault(action.topic, set()).add(action.kind)
    return found


def both(sides: Sides) -> None:
    """Two topics, copied."""
    for topic in ("orders", "orders-eu"):
        sides.source.create_topic(topic, config={"retention.ms": "1000000"})
    assert faults(sides.refresh()) == {}
    write_both(sides, b"1")
    assert sides.run().records == 2


def write_both(sides: Sides, value: bytes) -> None:
    for topic in ("orders", "orders-eu"):
        sides.source.write(topic, [(b"k", value)])


def test_a_new_topic_waits_for_its_settings_and_the_others_do_not_wait_for_it(sides: Sides) -> None:
    for topic in ("orders", "orders-eu", "orders-us"):
        sides.source.create_topic(topic)
        sides.source.write(topic, [(b"k", b"1")])
    with sides.source.refuse("DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when="orders-eu"):
        plan = plan_topics(sides.clusters())
        refreshed = sides.refresh()
        assert sides.run().records == 2
        assert faults(sides.refresh()).keys() == {"a.orders-eu"}
    (refused,) = [decision for decision in plan.decisions if not decision.accepted and decision.remote_topic]
    assert (refused.topic, refused.code) == ("orders-eu", "settings_unreadable")
    assert "its settings cannot be read, so a.orders-eu is not created" in refused.reason
    assert "needs the permission DescribeConfigs on topic 'orders-eu'" in refused.reason
    assert f"Refused: orders-eu: {refused.reason}" in plan_text(plan)
    assert faults(refreshed) == {"a.orders-eu": refused.reason}
    assert {name for name in sides.target.topics() if name.startswith("a.o")} == {"a.orders", "a.orders-us"}
    with FlowState(sides.flow) as state:
        written = state.read("plan")
    assert written is not None
    assert written["actions"][0]["text"].startswith("FAILED: sync settings of topic a.orders-eu on b: ")
    with TopicRegistry(sides.flow.target) as registry:
        assert registry.read().of_flow(str(sides.flow.name)).keys() == {"orders", "orders-us"}
    assert faults(sides.refresh()) == {}
    assert sides.run("again").records == 1
    assert sides.values("a.orders-eu") == [b"1"]


@pytest.mark.parametrize("code", [TOPIC_AUTHORIZATION_FAILED, _UNKNOWN_SERVER_ERROR])
def test_a_topic_that_is_copied_goes_on_without_its_settings(sides: Sides, code: int) -> None:
    both(sides)
    for topic in ("orders", "orders-eu"):
        sides.source.topic_config(topic)["retention.ms"] = "5000000"
        sides.source.grow_topic(topic, 2)
    with sides.source.refuse("DescribeConfigs", code, when="orders-eu"):
        refreshed = sides.refresh()
        write_both(sides, b"2")
        assert sides.run("again").records == 2
    assert refreshed.plan is not None
    assert kinds(refreshed.plan) == {
        "a.orders": {GrowPartitions.kind, AlterConfigs.kind},
        "a.orders-eu": {GrowPartitions.kind, UnknownSettings.kind},
    }
    assert faults(refreshed).keys() == {"a.orders-eu"}
    assert "records are copied all the same: cluster 'a'" in faults(refreshed)["a.orders-eu"]
    assert sides.values("a.orders-eu") == [b"1", b"2"]
    assert sides.target.topics()["a.orders-eu"] == 2
    assert sides.target.topic_config("a.orders-eu")["retention.ms"] == "1000000"
    assert faults(sides.refresh()) == {}
    assert sides.target.topic_config("a.orders-eu")["retention.ms"] == "5000000"


def test_a_copy_whose_settings_may_not_be_read_is_copied_into(sides: Sides) -> None:
    """Its limit is not known, so that batches go as they come."""
    large = str(4 * _KILOBYTE * _KILOBYTE)
    for topic in ("orders", "orders-eu"):
        sides.source.create_topic(topic, config={"max.message.bytes": large})
        sides.source.write(topic, [(b"k", bytes(2 * _KILOBYTE * _KILOBYTE))])
    with sides.target.refuse("DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when="a.orders-eu"):
        assert faults(sides.refresh()) == {}
        assert sides.target.topic_config("a.orders-eu")["max.message.bytes"] == large
        refreshed = sides.refresh()
        assert sides.run().records == 2
        assert {one.upstream for one in replicated_topics(sides.clusters())} == {"orders", "orders-eu"}
    assert faults(refreshed).keys() == {"a.orders-eu"}
    assert "DescribeConfigs on topic 'a.orders-eu'" in faults(refreshed)["a.orders-eu"]
    assert len(sides.values("a.orders-eu")) == 1


def test_a_batch_that_such_a_copy_does_not_take_fails_its_partition_alone(sides: Sides) -> None:
    both(sides)
    sides.source.topic_config("orders-eu")["max.message.bytes"] = str(4 * _KILOBYTE * _KILOBYTE)
    sides.source.write("orders", [(b"k", b"2")])
    sides.source.write("orders-eu", [(b"k", bytes(2 * _KILOBYTE * _KILOBYTE))])
    with sides.target.refuse("DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when="a.orders-eu"):
        record = sides.run("again")
    assert record.records == 1
    (failed,) = record.failed_partitions
    assert "a.orders-eu-0" in str(failed.trouble)
    assert "or may not be read" in str(failed.trouble)


@pytest.mark.parametrize("hidden", ["ledger", "all"])
def test_which_settings_the_target_knows_is_asked_of_topics_that_may_be_described(sides: Sides, hidden: str) -> None:
    sides.source.create_topic("orders", config={"retention.ms": "1000000"})
    for topic in ("ledger", "payments"):
        sides.target.create_topic(topic)
    with sides.target.refuse(
        "DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when=lambda name: hidden == "all" or name == hidden
    ):
        plan = plan_topics(sides.clusters())
    (created,) = [action for action in plan.actions if isinstance(action, CreateTopic)]
    assert dict(created.configs).items() >= {"retention.ms": "1000000"}.items()
    assert dict(created.configs).keys() <= TOPIC_SETTINGS.keys()


def test_without_config_sync_it_is_a_note(sides: Sides) -> None:
    both(sides)
    sides.set(sync_topic_configs=False)
    with sides.source.refuse("DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when="orders-eu"):
        plan = plan_topics(sides.clusters())
    assert plan.actions == ()
    (notice,) = plan.notices
    assert "whether the copies of 1 topic expire or reject records" in notice
    assert "a.orders-eu: cluster 'a'" in notice


def test_a_lost_copy_does_not_start_over_before_it_can_be_created(sides: Sides) -> None:
    both(sides)
    sides.target.delete_topic("a.orders-eu")
    sides.set(on_target_loss=OnDataLoss.RESET)
    with sides.source.refuse("DescribeConfigs", TOPIC_AUTHORIZATION_FAILED, when="orders-eu"):
        refreshed = sides.refresh()
    assert refreshed.plan is not None
    assert kinds(refreshed.plan) == {"a.orders-eu": {UnknownSettings.kind}}
    with TopicRegistry(sides.flow.target) as registry:
        record = registry.read().find(sides.flow.name, "orders-eu")
    assert record is not None
    assert record.state is TopicState.REPLICATING
    again = sides.refresh()
    assert again.plan is not None
    assert kinds(again.plan) == {"a.orders-eu": {StartOver.kind, CreateTopic.kind}}
    assert sides.run("again").records == 1
    assert sides.values("a.orders-eu") == [b"1"]
