from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow, names
from srm_common.domain.flow.names import FLOW_TAG, MISCONFIGURED_TAG, flow_of, tags_of
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from srm_common.errors import ConfigError

A, B = ClusterSettings.plaintext("A", "a:1"), ClusterSettings.plaintext("B", "b:1")
flow = FlowSettings(FlowName("A", "B"), A, B)


def test_offset_syncs_are_named_after_the_cluster_that_does_not_host_them() -> None:
    assert names.offset_syncs_topic(flow) == "mm2-offset-syncs.B.internal"
    assert names.offset_syncs_topic(flow, "target") == "mm2-offset-syncs.A.internal"


def test_connect_topics_keep_their_dots() -> None:
    custom = FlowSettings(FlowName("A", "B"), A, B, policy=DefaultReplicationPolicy("__"))
    assert names.checkpoints_topic(custom) == "A__checkpoints__internal"
    assert names.offset_syncs_topic(custom) == "mm2-offset-syncs__B__internal"
    assert names.offsets_topic("A") == "mm2-offsets.A.internal"
    assert names.status_topic("A") == "mm2-status.A.internal"
    assert names.configs_topic("A") == "mm2-configs.A.internal"
    assert names.heartbeats_topic() == "heartbeats"


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("heartbeats", True),
        ("C.heartbeats", True),
        ("C.D.heartbeats", True),
        ("device.heartbeats", False),
        ("C.device.heartbeats", False),
        ("device.C.heartbeats", False),
        ("A.heartbeats", False),
        ("C.A.heartbeats", False),
        ("C.C.heartbeats", False),
        (".heartbeats", False),
        ("heartbeats.", False),
        ("my-heartbeats", False),
    ],
)
@pytest.mark.parametrize("policy", [DefaultReplicationPolicy(), IdentityReplicationPolicy(source_alias="A")])
def test_heartbeats_come_along_known_clusters(policy: DefaultReplicationPolicy, topic: str, expected: bool) -> None:
    assert names.has_heartbeats(replace(flow, policy=policy, aliases=("A", "B", "C", "D")), topic) == expected


def test_heartbeats_come_along_clusters_of_enabled_flows() -> None:
    known = GraphFlow.of(FlowName("C", "A"), flow.policy, A, A)
    assert not names.has_heartbeats(flow, "C.heartbeats")
    assert names.has_heartbeats(replace(flow, graph=(known,)), "C.heartbeats")


def test_a_policy_that_does_not_end_finds_no_heartbeats() -> None:
    class Endless(DefaultReplicationPolicy):
        def is_heartbeats_topic(self, topic: str) -> bool:
            return True

        def topic_source(self, topic: str) -> str:
            return "C"

        def upstream_topic(self, topic: str) -> str:
            return topic

    assert not names.has_heartbeats(replace(flow, policy=Endless(), aliases=("C",)), "orders")


def test_transactional_ids() -> None:
    assert names.task_transactional_id(flow.name, 3) == "A-mm2-MirrorSourceConnector-3"
    assert names.driver_transactional_id(flow.name) == "srm.A->B.driver"


def test_flow_names() -> None:
    assert FlowName.parse("a->b") == FlowName("a", "b")
    assert FlowName.parse(" a.x -> b ") == FlowName("a.x", "b")
    assert str(FlowName("a", "b")) == "a->b"
    assert FlowName("a", "b").dag_id == "srm.a.b"


@pytest.mark.parametrize("text", ["", "a", "a->", "->b", "a->b->c", "a>b"])
def test_what_is_not_a_flow_name(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a flow"):
        FlowName.parse(text)


@pytest.mark.parametrize("flow", [FlowName("a", "b"), FlowName("source:x", "eu:1")])
def test_tags_lead_back_to_their_flow(flow: FlowName) -> None:
    assert flow_of({*tags_of(flow), MISCONFIGURED_TAG, "somebody's own"}) == flow


@pytest.mark.parametrize("tags", [[], [FLOW_TAG], [FLOW_TAG, "source:a"], ["source:a", "target:b"]])
def test_dags_of_something_else_have_no_flow(tags: list[str]) -> None:
    assert flow_of(tags) is None
