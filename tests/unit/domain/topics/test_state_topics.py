from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.policy import DefaultReplicationPolicy
from srm_common.domain.topics.state_topics import (
    Create,
    Fine,
    FoundTopic,
    Refuse,
    Repair,
    StateTopic,
    Verdict,
    created_text,
    heartbeats,
    judge,
    state_topics,
)

FLOW = FlowSettings(FlowName("a", "b"), ClusterSettings.plaintext("a", "a:1"), ClusterSettings.plaintext("b", "b:1"))


def topic(name: str) -> StateTopic:
    (state_topic,) = [topic for topic in (*state_topics(FLOW), heartbeats(FLOW)) if topic.name == name]
    return state_topic


def verdict(name: str, partitions: int = 1, in_sync: int = 1, zero: bool | None = None, **settings: str) -> Verdict:
    found = {"cleanup.policy": "compact", "min.insync.replicas": str(in_sync), "max.message.bytes": "1048588"}
    found |= {key.replace("_", "."): value for key, value in settings.items()}
    return judge(topic(name), FoundTopic(partitions, 1, found, zero), "b:1")


def test_names_places_and_partitions_are_mirror_makers() -> None:
    found = {(t.name, t.location, t.partitions) for t in state_topics(FLOW)}
    assert found == {
        ("mm2-offsets.a.internal", "target", 25),
        ("mm2-status.a.internal", "target", 5),
        ("mm2-configs.a.internal", "target", 1),
        ("mm2-offset-syncs.b.internal", "source", 1),
        ("a.checkpoints.internal", "target", 1),
        ("mm2-offset-segments.a.internal", "target", 25),
        ("srm-flow-state.a.internal", "target", 1),
        ("srm-meta.internal", "target", 1),
    }


def test_offset_syncs_follow_their_location_and_switch() -> None:
    at_target = state_topics(replace(FLOW, offset_syncs_topic_location="target"))
    assert ("mm2-offset-syncs.a.internal", "target") in {(t.name, t.location) for t in at_target}
    without = state_topics(replace(FLOW, emit_offset_syncs=False))
    assert not [t for t in without if "offset-syncs" in t.name]
    separated = replace(FLOW, policy=DefaultReplicationPolicy("__"))
    found = {t.name for t in state_topics(separated)}
    assert {"a__checkpoints__internal", "mm2-offset-syncs__b__internal", "mm2-offsets.a.internal"} <= found


def test_all_are_compacted() -> None:
    assert all(t.needs == {"cleanup.policy": "compact"} for t in (*state_topics(FLOW), heartbeats(FLOW)))


def test_a_missing_topic_is_created() -> None:
    assert judge(topic("heartbeats"), None, "b:1") == Create(topic("heartbeats"))


def test_mirror_makers_own_topic_is_fine() -> None:
    assert verdict("mm2-offsets.a.internal", 7, retention_ms="-1") == Fine(topic("mm2-offsets.a.internal"))


def test_offsets_are_superseded_soon_also_in_a_topic_of_mirror_maker() -> None:
    soon = {"segment.bytes": "1048576", "max.compaction.lag.ms": "3600000"}
    assert soon == topic("mm2-offsets.a.internal").wishes
    never = "9223372036854775807"
    as_made = verdict("mm2-offsets.a.internal", 7, segment_bytes="1073741824", max_compaction_lag_ms=never)
    assert as_made == Repair(topic("mm2-offsets.a.internal"), {}, soon)
    assert isinstance(verdict("mm2-offsets.a.internal", segment_bytes="1048576", max_compaction_lag_ms="60000"), Fine)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_precious_records_that_may_be_gone_are_refused(policy: str) -> None:
    refused = verdict("mm2-offsets.a.internal", 25, zero=False, cleanup_policy=policy)
    assert isinstance(refused, Refuse)
    assert refused.setting == "cleanup.policy"
    assert policy in refused.reason
    assert refused.command == (
        "kafka-configs.sh --bootstrap-server b:1 --alter --entity-type topics "
        "--entity-name mm2-offsets.a.internal --add-config cleanup.policy=compact"
    )
    assert refused.then == "srm-control repair --flow 'a->b'"
    no_remedy = verdict("mm2-offset-segments.a.internal", zero=False, cleanup_policy=policy)
    assert isinstance(no_remedy, Refuse)
    assert no_remedy.then == ""


def test_a_wrong_policy_is_mended_where_nothing_was_lost() -> None:
    mended = verdict("mm2-offsets.a.internal", 25, zero=True, cleanup_policy="delete")
    assert mended == Repair(topic("mm2-offsets.a.internal"), {"cleanup.policy": "compact"})


def test_a_wrong_policy_is_mended_where_all_can_be_derived_again() -> None:
    mended = verdict("a.checkpoints.internal", cleanup_policy="delete")
    assert mended == Repair(topic("a.checkpoints.internal"), {"cleanup.policy": "compact"})


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_the_policy_of_heartbeats_is_their_owners(policy: str) -> None:
    assert verdict("heartbeats", cleanup_policy=policy) == Fine(topic("heartbeats"))


def test_the_record_size_of_the_flow_state_is_mended() -> None:
    assert verdict("srm-flow-state.a.internal") == Repair(
        topic("srm-flow-state.a.internal"), {}, {"max.message.bytes": "16777216"}
    )
    assert isinstance(verdict("srm-flow-state.a.internal", max_message_bytes="20000000"), Fine)


def test_what_managed_clusters_take_at_best_is_not_asked_for_again() -> None:
    assert isinstance(verdict("srm-flow-state.a.internal", max_message_bytes="8388608"), Fine)
    found = verdict("mm2-offsets.a.internal", segment_bytes="52428800", max_compaction_lag_ms="21600000")
    assert isinstance(found, Fine)
    assert verdict("mm2-offsets.a.internal", segment_bytes="104857600") == Repair(
        topic("mm2-offsets.a.internal"), {}, {"segment.bytes": "1048576"}
    )


def test_a_topic_that_was_created_with_less_is_told_with_the_price() -> None:
    offsets, flow_state = topic("mm2-offsets.a.internal"), topic("srm-flow-state.a.internal")
    created = "created state topic mm2-offsets.a.internal on cluster 'b'"
    assert created_text(offsets, "b", offsets.wishes, "") == created
    assert created_text(offsets, "b", {"segment.bytes": "52428800"}, "no") == (
        f"{created} with segment.bytes=52428800 instead of 1048576, without max.compaction.lag.ms=3600000, because the "
        "cluster refused more: no; it takes longer to read than necessary"
    )
    text = created_text(flow_state, "b", {}, "no")
    assert "without segment.bytes=16777216, without max.message.bytes=16777216, because" in text
    assert text.endswith(
        "; it takes longer to read than necessary and takes no record that is larger than its max.message.bytes, such "
        "as the run record of a flow with very many partitions"
    )


def test_more_replicas_in_sync_than_replicas_is_mended() -> None:
    assert verdict("heartbeats", in_sync=2) == Repair(topic("heartbeats"), {}, {"min.insync.replicas": "1"})


@pytest.mark.parametrize("name", ["mm2-configs.a.internal", "srm-flow-state.a.internal", "srm-meta.internal"])
def test_topics_of_one_partition_are_refused_with_more(name: str) -> None:
    refused = verdict(name, 3)
    assert isinstance(refused, Refuse)
    assert "3 partitions" in refused.reason
    assert refused.command == f"kafka-topics.sh --bootstrap-server b:1 --delete --topic {name}"
