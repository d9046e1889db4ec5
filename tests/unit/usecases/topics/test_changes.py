"""Copies on targets that do not take all of their settings."""

from __future__ import annotations

import pytest

from srm_common.domain.topics.actions import ActionResult, AlterConfigs, CreateTopic
from srm_common.domain.topics.topic_settings import AFTER_MAX, BEFORE_MAX, LONG_MAX, TIMESTAMP_TYPE
from srm_common.domain.transforms.chain import Step, StepKind
from srm_common.testing.fake_cluster.configs import Policy
from srm_common.usecases.flows.cluster_records import replicated_topics
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.managed_clusters import cleanup_alone, confluent_cloud, msk_serverless
from tests.unit.usecases.fakes import Sides

PRICE = "the target may refuse records whose timestamps are old, or in the future"


def result(sides: Sides, kind: type[CreateTopic] | type[AlterConfigs], topic: str = "a.orders") -> ActionResult:
    (found,) = [one for one in sides.refresh().results if isinstance(one.action, kind) and one.action.topic == topic]
    return found


@pytest.mark.parametrize("code", [40, 42, 44])
def test_a_copy_does_without_limits_of_timestamps(sides: Sides, code: int) -> None:
    sides.source.create_topic("orders", config={"retention.ms": "1234567"})
    sides.target.refuse("CreateTopics", code, when="a.orders", times=1)
    created = result(sides, CreateTopic)
    assert created.error is None
    assert created.note is not None
    assert created.note.startswith(f"it was created without {AFTER_MAX}={LONG_MAX}, without {BEFORE_MAX}={LONG_MAX}, ")
    assert created.note.endswith(f"; {PRICE}")
    assert sides.target.topic_config("a.orders") == {"retention.ms": "1234567", TIMESTAMP_TYPE: "CreateTime"}
    assert len(replicated_topics(sides.flow)) == 1


def test_what_a_refusal_names_is_left_out_alone(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.target.limit_settings(lambda settings: f"not {AFTER_MAX}!" if AFTER_MAX in settings else None)
    created = result(sides, CreateTopic)
    assert created.note == (
        f"it was created without {AFTER_MAX}={LONG_MAX}, because the target refused more: not {AFTER_MAX}! "
        f"(POLICY_VIOLATION); {PRICE}"
    )
    assert sides.target.topic_config("a.orders") == {BEFORE_MAX: LONG_MAX, TIMESTAMP_TYPE: "CreateTime"}


def test_a_target_with_a_list_of_settings_gives_copies_without(sides: Sides) -> None:
    sides.source.create_topic("orders", config={"cleanup.policy": "compact"})
    sides.target.limit_settings(cleanup_alone)
    created = result(sides, CreateTopic)
    assert created.error is None
    assert str(created.note).endswith(f"; {PRICE}, and it is not used if the cluster's default is LogAppendTime")
    assert sides.target.topic_config("a.orders") == {"cleanup.policy": "compact"}
    # Each refresh asks again, and remembers nothing that was not done.
    for _ in range(2):
        refreshed = sides.refresh()
        assert refreshed.plan is not None
        assert refreshed.plan.notices == ()
        (altered,) = refreshed.results
        assert altered.error is None
        assert str(altered.note).startswith(f"it stays without {AFTER_MAX}={LONG_MAX}, because the target refused more")
        assert str(altered.note).endswith("; config.properties.exclude leaves it to the target")
    sides.set(config_properties_exclude=(r"message\.timestamp\..*",))
    plan = plan_topics(sides.flow)
    assert (plan.actions, plan.notices) == ((), ())


def test_other_settings_are_altered_all_the_same(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.refresh()
    del sides.target.topic_config("a.orders")[AFTER_MAX]
    sides.source.topic_config("orders")["retention.ms"] = "77"
    sides.target.limit_settings(lambda settings: "no" if AFTER_MAX in settings else None)
    altered = result(sides, AlterConfigs)
    assert (altered.error, altered.left_out) == (None, frozenset({AFTER_MAX}))
    assert str(altered.note).startswith(f"it was altered without {AFTER_MAX}")
    assert sides.target.topic_config("a.orders")["retention.ms"] == "77"


def test_settings_that_make_the_copy_what_it_is_are_not_left_out(sides: Sides) -> None:
    sides.source.create_topic("orders", config={"retention.ms": "1234567"})
    sides.target.limit_settings(lambda settings: "no retention.ms" if "retention.ms" in settings else None)
    created = result(sides, CreateTopic)
    assert created.error is not None
    assert "no retention.ms (POLICY_VIOLATION)" in created.error
    assert "config.properties.exclude" in created.error
    assert "a.orders" not in sides.target.topics()


def test_a_copy_with_append_time_is_not_used_and_told(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.target.limit_settings(cleanup_alone)
    sides.target.refuse("IncrementalAlterConfigs", 44, when="a.orders")
    assert result(sides, CreateTopic).error is None
    sides.target.limit_settings(None)
    sides.target.topic_config("a.orders")[TIMESTAMP_TYPE] = "LogAppendTime"
    assert replicated_topics(sides.flow) == []
    (decision,) = plan_topics(sides.flow).decisions
    assert "LogAppendTime, which would replace every record's timestamp" in decision.reason


@pytest.mark.parametrize(
    ("policy", "largest"), [(confluent_cloud, "8388608"), (msk_serverless, "8388608"), (cleanup_alone, None)]
)
def test_dead_letters_are_as_large_as_the_target_takes(sides: Sides, policy: Policy, largest: str | None) -> None:
    sides.source.create_topic("orders")
    chain = (Step("trace", StepKind.DROP_HEADERS, ("trace",)),)
    sides.set(transforms=chain, errors_tolerance="all", errors_deadletterqueue_topic_name="dead")
    sides.target.limit_settings(policy)
    created = result(sides, CreateTopic, "dead")
    assert created.error is None
    assert str(created.note).endswith("it takes no record that is larger than its max.message.bytes")
    assert sides.target.topic_config("dead").get("max.message.bytes") == largest
