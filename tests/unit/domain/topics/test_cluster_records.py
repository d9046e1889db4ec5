"""An alias means one Kafka cluster, and a cluster has one alias in a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.topics.cluster_records import Knowledge, new_bindings
from srm_common.domain.topics.topic_records import ClusterBinding, TopicRecords
from srm_common.errors import ConfigError

A, B, C = (ClusterSettings.plaintext(alias, f"{alias}:1") for alias in "abc")
FLOW = FlowSettings(FlowName("a", "b"), A, B)
IN_FILE = replace(
    FLOW,
    graph=(
        GraphFlow(FlowName("a", "b"), FLOW.policy, A, B),
        GraphFlow(FlowName("c", "b"), FLOW.policy, C, B),
    ),
)


def known(source: str = "id-a", target: str = "id-b", **bound: str) -> Knowledge:
    """What the target has recorded, by alias."""
    records = TopicRecords.of((), [ClusterBinding(alias, cluster_id) for alias, cluster_id in bound.items()])
    return Knowledge(source, target, {"a": TopicRecords(), "b": records}, now_ms=7)


def test_first_contact_binds_both() -> None:
    assert new_bindings(FLOW, known()) == (ClusterBinding("a", "id-a", 7), ClusterBinding("b", "id-b", 7))
    assert new_bindings(FLOW, known(a="id-a", b="id-b")) == ()


def test_a_cluster_that_does_not_tell_its_id_is_not_bound() -> None:
    assert new_bindings(FLOW, known("", "", a="id-a")) == ()


def test_another_cluster_than_before() -> None:
    with pytest.raises(ConfigError, match=r"'a' leads to the Kafka cluster new, but it meant id-a .*rebind --alias a"):
        new_bindings(FLOW, known("new", a="id-a"))
    # What the source knows of its own flows counts as well.
    elsewhere = Knowledge("id-a", "new", {"a": TopicRecords.of((), [ClusterBinding("b", "id-b")]), "b": TopicRecords()})
    with pytest.raises(ConfigError, match=r"'b' leads to the Kafka cluster new, but it meant id-b .* recorded on 'a'"):
        new_bindings(FLOW, elsewhere)


def test_a_flow_from_a_cluster_to_itself_under_two_names() -> None:
    with pytest.raises(ConfigError, match="'a' and 'b' lead to the same Kafka cluster id-a, so that flow a->b"):
        new_bindings(FLOW, known("id-a", "id-a"))


def test_two_aliases_of_one_cluster_in_a_file() -> None:
    with pytest.raises(ConfigError, match="'a' and 'c' lead to the same Kafka cluster id-a"):
        new_bindings(IN_FILE, known(c="id-a"))
    # Another file may call it as it likes.
    assert new_bindings(FLOW, known(a="id-a", b="id-b", c="id-a")) == ()
