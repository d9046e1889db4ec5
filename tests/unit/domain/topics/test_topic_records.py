"""Topic records: what is written is what is read, and who feeds what."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.topics.topic_records import (
    Ancestor,
    ClusterBinding,
    Knowledge,
    TopicRecord,
    TopicRecords,
    TopicState,
    new_bindings,
)
from srm_common.errors import ConfigError

A, B, C = Ancestor("id-a", "a", "t"), Ancestor("id-b", "b", "a.t"), Ancestor("id-c", "c", "t")
RECORD = TopicRecord(
    flow="a->b",
    upstream_topic="t",
    downstream_topic="a.t",
    upstream_topic_id="up",
    downstream_topic_id="down",
    upstream_cluster_id="id-a",
    downstream_cluster_id="id-b",
    policy="DefaultReplicationPolicy(separator='.')",
    state=TopicState.REPLICATING,
    since_ms=1_700_000_000_000,
    lineage=(A,),
)

text = st.text(max_size=20)
records = st.builds(
    TopicRecord,
    *[text] * 8,
    state=st.sampled_from(TopicState),
    since_ms=st.integers(0, 1 << 50),
    lineage=st.lists(st.builds(Ancestor, text, text, text), max_size=4).map(tuple),
    previous_upstream_ids=st.lists(text, max_size=3).map(tuple),
    reason=text,
    former_downstream_topics=st.lists(text, max_size=2).map(tuple),
    previous_downstream_ids=st.lists(text, max_size=3).map(tuple),
)


@given(records)
def test_round_trip_through_json(record: TopicRecord) -> None:
    assert TopicRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@given(st.builds(ClusterBinding, text, text, st.integers(0, 1 << 50)))
def test_round_trip_of_a_binding(binding: ClusterBinding) -> None:
    assert ClusterBinding.from_json(json.loads(json.dumps(binding.to_json()))) == binding


@pytest.mark.parametrize("missing", ["flow", "lineage", "state", "since_ms"])
def test_a_record_without_a_field_is_refused(missing: str) -> None:
    found = RECORD.to_json()
    del found[missing]
    with pytest.raises(KeyError):
        TopicRecord.from_json(found)


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="sleeping"):
        TopicRecord.from_json(RECORD.to_json() | {"state": "sleeping"})


def test_records_are_found_by_flow_and_topic_and_by_what_they_feed() -> None:
    other = replace(RECORD, flow="c->b", lineage=(C,))
    renamed = replace(RECORD, flow="d->b", downstream_topic="t", former_downstream_topics=("d.t",))
    records = TopicRecords.of([RECORD, other, renamed], [ClusterBinding("a", "id-a")])
    assert records.find("a->b", "t") == RECORD
    assert records.find("a->b", "u") is None
    assert records.of_flow("c->b") == {"t": other}
    assert records.feeding("a.t") == (RECORD, other)
    assert records.feeding("t") == records.feeding("d.t") == (renamed,)
    assert records.feeding("u") == ()


def test_the_lineage_of_a_copy_is_the_topic_and_all_that_came_into_it() -> None:
    records = TopicRecords.of([RECORD, replace(RECORD, flow="c->b", lineage=(C, A))])
    assert records.lineage("a.t", "id-b", "b") == (B, A, C)
    assert records.lineage("local", "id-b", "b") == (Ancestor("id-b", "b", "local"),)


def test_data_that_was_copied_before_a_topic_was_taken_off_the_list_still_counts() -> None:
    delisted = TopicRecords.of([replace(RECORD, state=TopicState.DELISTED)])
    assert delisted.lineage("a.t", "id-b", "b") == (B, A)


CLUSTER_A, CLUSTER_B, CLUSTER_C = (ClusterSettings.plaintext(alias, f"{alias}:1") for alias in "abc")
FLOW = FlowSettings(FlowName("a", "b"), CLUSTER_A, CLUSTER_B)
IN_FILE = replace(
    FLOW,
    graph=(
        GraphFlow.of(FlowName("a", "b"), FLOW.policy, CLUSTER_A, CLUSTER_B),
        GraphFlow.of(FlowName("c", "b"), FLOW.policy, CLUSTER_C, CLUSTER_B),
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
    with pytest.raises(ConfigError, match=r"'a' leads to the Kafka cluster new, but led to id-a .*rebind --alias a"):
        new_bindings(FLOW, known("new", a="id-a"))
    # What the source knows of its own flows counts as well.
    elsewhere = Knowledge("id-a", "new", {"a": TopicRecords.of((), [ClusterBinding("b", "id-b")]), "b": TopicRecords()})
    with pytest.raises(ConfigError, match=r"'b' leads to the Kafka cluster new, but led to id-b .* recorded on 'a'"):
        new_bindings(FLOW, elsewhere)


def test_a_flow_from_a_cluster_to_itself_under_two_names() -> None:
    with pytest.raises(ConfigError, match="'a' and 'b' lead to the same Kafka cluster id-a, so that flow a->b"):
        new_bindings(FLOW, known("id-a", "id-a"))


def test_two_aliases_of_one_cluster_in_a_file() -> None:
    with pytest.raises(ConfigError, match="'a' and 'c' lead to the same Kafka cluster id-a"):
        new_bindings(IN_FILE, known(c="id-a"))
    # Another file may call it as it likes.
    assert new_bindings(FLOW, known(a="id-a", b="id-b", c="id-a")) == ()
