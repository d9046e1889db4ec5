"""Policies of brokers that limit the settings of topics (KIP-108, KIP-133), and what becomes of state topics then."""

from __future__ import annotations

from confluent_kafka import KafkaError

from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.state.state_topics import ensure_state_topics
from tests.contract.parts import Cluster, settings, shown
from tests.contract.topics_contract import alter, codes_of, create, own_settings
from tests.flow_settings import small_flow


class LimitsContract:
    """The fixture ``limited`` is a node with the limits of ``tests.managed_clusters.confluent_cloud``."""

    def test_policies_look_at_what_is_set_and_say_what_is_wrong(self, limited: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(limited))
        results = admin.create_topics(
            [create(f"{name}.a", segment_bytes="1048576"), create(f"{name}.b", segment_bytes="52428800")]
        )
        assert codes_of(results) == [KafkaError.POLICY_VIOLATION, 0]
        assert results[0] is not None
        assert results[0].str() == (
            "Config property 'segment.bytes' with value '1048576' is lower than the minimum allowed value of 52428800."
        )
        assert admin.await_leaders({f"{name}.b": 1}, seconds=60) == set()
        changes: list[tuple[dict[str, str | None], int]] = [
            ({"max.message.bytes": "8388609"}, KafkaError.POLICY_VIOLATION),
            ({"max.message.bytes": "8388608", "segment.ms": "3600000"}, KafkaError.POLICY_VIOLATION),
            ({"max.message.bytes": "8388608", "segment.bytes": None}, 0),
        ]
        for change, code in changes:
            assert codes_of(admin.alter_configs([alter(f"{name}.b", change)])) == [code]
        wanted = {"max.message.bytes": "8388608"}
        assert shown(lambda: own_settings(admin, f"{name}.b"), wanted) == wanted

    def test_state_topics_get_what_is_allowed(self, limited: Cluster, name: str) -> None:
        alias = name.replace("-", "")
        source, target = settings(limited, alias), settings(limited, "limited")
        flow = small_flow(source, target, "t", offset_syncs_topic_location="target")
        flow_state, offsets = f"srm-flow-state.{alias}.internal", f"mm2-offsets.{alias}.internal"
        # As an administrator, or MirrorMaker 2, has made it.
        limited.create_topic(offsets, 3, config={"cleanup.policy": "compact"})
        notes = ensure_state_topics(flow).notes
        changed = "segment.bytes=52428800, max.compaction.lag.ms=21600000"
        assert f"set {changed} on state topic {offsets} of cluster 'limited'" in notes
        (created,) = [note for note in notes if f"created state topic {flow_state} " in note]
        assert "with max.message.bytes=8388608 instead of 16777216" in created
        assert "(POLICY_VIOLATION); it takes longer to read than necessary" in created
        admin = ClusterAdmin(target)
        wanted = {"cleanup.policy": "compact", "segment.bytes": "52428800", "max.message.bytes": "8388608"}
        assert shown(lambda: own_settings(admin, flow_state), wanted) == wanted
        assert shown(lambda: len(own_settings(admin, offsets)), 3) == 3
        assert ensure_state_topics(flow).notes == ()
