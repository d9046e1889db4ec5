from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.monitoring.group_samples import CheckpointRound, groups_from, groups_record, topics_from
from srm_common.domain.monitoring.run_report import GroupSample, TopicGroups
from srm_common.domain.offsets.checkpoints import Untranslated


def test_a_round_of_checkpoints() -> None:
    found = CheckpointRound(
        at_ms=5_000,
        positions={"done": 2, "partly": 3, "quiet": 1},
        untranslated=[
            Untranslated("partly", "orders", 1, 90, "it is not copied yet"),
            Untranslated("partly", "orders", 2, 70, "the map does not go back so far"),
        ],
        latencies_ms={"done": 12.34, "partly": 20.0},
        synced={"done"},
    )
    before = [
        GroupSample("quiet", 1, 1, synced=True, checkpoint_latency_ms=7.0, checkpoint_ms=1_000),
        GroupSample("gone", 1, 1),
    ]
    assert found.samples(before) == [
        GroupSample("done", 2, 2, None, True, 12.3, 5_000),
        GroupSample(
            "partly", 3, 1, "2 positions without a place, the first orders-1: it is not copied yet", False, 20.0, 5_000
        ),
        GroupSample("quiet", 1, 1, None, False, 7.0, 1_000),
    ]


def test_topics_of_a_round() -> None:
    found = CheckpointRound(
        at_ms=5_000,
        positions={"a": 2, "b": 1, "c": 1},
        untranslated=[],
        latencies_ms={"a": 12.34, "b": 20.0},
        topics={"orders": {"a", "b", "c"}, "clicks": {"a"}, "quiet": {"c"}},
        checkpointed={("a", "orders"), ("b", "orders")},
    )
    before = [TopicGroups("clicks", 3, 1, 1_000, 7.0, 7.0, 7.0), TopicGroups("gone", 1)]
    topics = found.topic_groups(before)
    assert topics == [
        TopicGroups("clicks", 1, 1, 1_000, 7.0, 7.0, 7.0),
        TopicGroups("orders", 3, 2, 5_000, 12.3, 20.0, 32.3),
        TopicGroups("quiet", 1),
    ]
    assert topics_from(json.loads(json.dumps(groups_record([], topics)))) == tuple(topics)
    assert topics_from({"columns": [], "rows": []}) is None, "of older software"
    assert topics_from(None) is None
    newer = groups_record([], topics)
    newer["topics"] = [[*row, "more"] for row in newer["topics"]]
    assert topics_from(newer) == tuple(topics)


def test_what_was_not_due_stays_as_it_was() -> None:
    found = CheckpointRound(5_000, {"g": 1}, [Untranslated("g", "orders", 0, 9, "no map")], {})
    assert found.samples([GroupSample("g", 1, 1, synced=True)]) == [GroupSample("g", 1, 0, "orders-0: no map", True)]


@given(
    st.lists(
        st.builds(GroupSample, st.text(), st.integers(0, 9), st.integers(0, 9), st.none() | st.text(), st.booleans()),
        max_size=20,
        unique_by=lambda one: one.group,
    )
)
def test_samples_are_kept_in_the_flows_state(samples: list[GroupSample]) -> None:
    assert set(groups_from(json.loads(json.dumps(groups_record(samples))))) == set(samples)


def test_groups_that_need_somebody_are_kept_first() -> None:
    many = [GroupSample(f"g{number:05}", 2, 2) for number in range(5_000)] + [GroupSample("z", 2, 1, "no map")]
    record = groups_record(many)
    assert (record["rows"][0][0], len(record["rows"]), record["left_out"]) == ("z", 5_000, 1)


@pytest.mark.parametrize("record", [None, {}, {"columns": ["group"], "rows": [[1, 2]]}, [1]])
def test_no_groups_in_what_is_no_record(record: Any) -> None:
    assert groups_from(record) == ()
