"""State topics on clusters that do not take all of their settings."""

from __future__ import annotations

from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.errors import AccessDenied, ClusterError
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.configs import Policy
from tests.flow_settings import small_flow
from tests.managed_clusters import cleanup_alone, confluent_cloud, msk_serverless

OFFSETS, SEGMENTS, FLOW_STATE = "mm2-offsets.a.internal", "mm2-offset-segments.a.internal", "srm-flow-state.a.internal"
POLICY_VIOLATION, TOPIC_AUTHORIZATION_FAILED = 44, 29


@pytest.fixture
def flow(target_kafka: FakeCluster) -> FlowSettings:
    """All of its state topics are on its target."""
    source, target = (ClusterSettings.plaintext(alias, target_kafka.bootstrap_servers) for alias in ("a", "b"))
    return small_flow(source, target, "t", offset_syncs_topic_location="target")


def notes_about(flow: FlowSettings, *words: str) -> list[str]:
    return [note for note in ensure_state_topics(flow).notes if all(word in note for word in words)]


def test_a_cluster_with_limits_gives_what_is_nearest(flow: FlowSettings, target_kafka: FakeCluster) -> None:
    target_kafka.limit_settings(confluent_cloud)
    (offsets,) = notes_about(flow, OFFSETS)
    assert offsets.startswith(
        f"created state topic {OFFSETS} on cluster 'b' with segment.bytes=52428800 instead of 1048576, with "
        "max.compaction.lag.ms=21600000 instead of 3600000, because the cluster refused more: Config property "
        "'max.compaction.lag.ms' with value '3600000' is lower than the minimum allowed value of 21600000."
    )
    assert offsets.endswith("(POLICY_VIOLATION); it takes longer to read than necessary")
    made = {topic: target_kafka.topic_config(topic) for topic in (OFFSETS, SEGMENTS, FLOW_STATE)}
    assert made == {
        OFFSETS: {
            "cleanup.policy": "compact",
            "segment.bytes": "52428800",
            "max.compaction.lag.ms": "21600000",
        },
        SEGMENTS: {
            "cleanup.policy": "compact",
            "segment.bytes": "52428800",
            "segment.ms": "14400000",
            "delete.retention.ms": "3600000",
            "max.message.bytes": "1048588",
        },
        FLOW_STATE: {
            "cleanup.policy": "compact",
            "segment.bytes": "52428800",
            "max.message.bytes": "8388608",
        },
    }
    target_kafka.forget_requests()
    assert ensure_state_topics(flow).notes == ()
    assert target_kafka.changes() == []


@pytest.mark.parametrize(("policy", "largest"), [(msk_serverless, "8388608"), (cleanup_alone, None)])
def test_a_cluster_with_a_list_of_settings_gives_the_topics_that_can_be_used(
    flow: FlowSettings, target_kafka: FakeCluster, policy: Policy, largest: str | None
) -> None:
    target_kafka.limit_settings(policy)
    notes = ensure_state_topics(flow).notes
    for topic in target_kafka.topics():
        config = dict(target_kafka.topic_config(topic))
        assert config.pop("cleanup.policy") == "compact"
        assert config.keys() <= {"max.message.bytes"}
        assert len([note for note in notes if f" {topic} " in note]) == 1
    assert target_kafka.topic_config(FLOW_STATE).get("max.message.bytes") == largest
    # Settings that later runs ask for again are refused again.
    again = ensure_state_topics(flow).notes
    assert [note.partition(":")[0] for note in again] == [
        f"state topic {OFFSETS} takes longer to read than necessary",
        *(
            []
            if largest
            else [
                f"state topic {FLOW_STATE} takes no record that is larger than its max.message.bytes, such as the run "
                "record of a flow with very many partitions"
            ]
        ),
    ]


@pytest.mark.parametrize("code", [40, 42, 44])
def test_topics_that_an_administrator_has_created_are_enough(
    flow: FlowSettings, target_kafka: FakeCluster, code: int
) -> None:
    target_kafka.limit_settings(cleanup_alone)
    ensure_state_topics(flow)
    target_kafka.refuse("CreateTopics", code)
    target_kafka.refuse("IncrementalAlterConfigs", code)
    assert len(ensure_state_topics(flow).notes) == 2


def test_rights_that_are_lacking_do_not_stop_a_flow_that_does_without(
    flow: FlowSettings, target_kafka: FakeCluster
) -> None:
    ensure_state_topics(flow)
    del target_kafka.topic_config(FLOW_STATE)["max.message.bytes"]
    with target_kafka.refuse("IncrementalAlterConfigs", TOPIC_AUTHORIZATION_FAILED):
        (note,) = ensure_state_topics(flow).notes
        assert f"needs the permission AlterConfigs on topic '{FLOW_STATE}'" in note or "lacks the permission" in note
        assert note.endswith(f"--entity-name {FLOW_STATE} --add-config max.message.bytes=16777216")
        # What a topic cannot do without is another matter.
        target_kafka.topic_config("a.checkpoints.internal")["cleanup.policy"] = "delete"
        with pytest.raises(AccessDenied, match=r"alter the settings of state topic a\.checkpoints\.internal"):
            ensure_state_topics(flow)


def test_a_refusal_that_is_about_no_setting_ends_the_flow_with_the_clusters_words(
    flow: FlowSettings, target_kafka: FakeCluster
) -> None:
    target_kafka.limit_settings(lambda settings: "Topic replication factor must be 3")
    with pytest.raises(ClusterError, match=r"create state topic \S+: Topic replication factor must be 3 \(POLICY_VIO"):
        ensure_state_topics(flow)
    assert target_kafka.topics() == {}


def test_a_name_that_the_cluster_does_not_take_is_not_told_as_a_policy(
    flow: FlowSettings, target_kafka: FakeCluster
) -> None:
    target_kafka.create_topic(OFFSETS.replace(".a", "_a"))
    with pytest.raises(AccessDenied, match=rf"topic {OFFSETS}: the name is not allowed there: .* collides") as raised:
        ensure_state_topics(flow)
    assert "policy" not in str(raised.value)


def test_a_request_that_is_too_much_for_the_controller_is_not_told_as_a_policy(
    flow: FlowSettings, target_kafka: FakeCluster
) -> None:
    """Both have the same code."""
    target_kafka.limit_settings(lambda settings: "Unable to perform excessively large batch operation.")
    with pytest.raises(ClusterError, match="excessively large batch operation") as raised:
        ensure_state_topics(flow)
    assert not isinstance(raised.value, AccessDenied)
    assert "create.topic.policy.class.name" not in str(raised.value)


def rows(partitions: int) -> list[list[Any]]:
    return [[f"topic-{number // 8}", number % 8, number * 7919 % 1_000_003] for number in range(partitions)]


def test_records_are_as_large_as_the_topic_takes(flow: FlowSettings, target_kafka: FakeCluster) -> None:
    target_kafka.limit_settings(cleanup_alone)
    ensure_state_topics(flow)
    with FlowState(flow) as store:
        large = rows(100_000)
        assert len(str(large)) > 2_500_000
        store.write("run", large)
        assert store.read("run") == large
        with pytest.raises(ClusterError) as raised:
            store.write("run", rows(700_000))
        assert f"max.message.bytes of state topic {FLOW_STATE} at cluster 'b' is too small" in str(raised.value)
        assert store.read("run") == large
