"""Topic records: what is written is what is read, and who feeds what."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.topics.topic_records import Ancestor, ClusterBinding, TopicRecord, TopicRecords, TopicState

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


def test_changes_return_another_value() -> None:
    records = TopicRecords.of([RECORD])
    moved = replace(RECORD, downstream_topic="t")
    assert records.with_topics([moved]).feeding("t") == (moved,)
    assert records.without_topics([RECORD.key]).topics == {}
    assert records.with_bindings([ClusterBinding("a", "x")]).bindings == {"a": ClusterBinding("a", "x")}
    assert records == TopicRecords.of([RECORD])
