from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.copied_to import CopiedTo
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import ChosenStart, Pin, SourceTopic, SourceTopics
from srm_common.errors import CorruptRecord

offsets = st.integers(0, 1 << 62)
pins = st.builds(Pin, offsets, st.none() | offsets, st.none() | offsets)
memories = st.builds(
    SourceTopics,
    st.dictionaries(
        st.text(min_size=1, max_size=5),
        st.builds(
            SourceTopic,
            st.none() | st.text(),
            st.dictionaries(st.integers(0, 9), pins, max_size=3),
            st.none() | st.builds(ChosenStart, st.text(), st.text(), offsets, st.integers(1, 9)),
            st.lists(st.text(min_size=1), max_size=3).map(tuple),
        ),
        max_size=4,
    ),
)


@given(memories)
def test_a_state_record_reads_back_as_it_was_written(memory: SourceTopics) -> None:
    assert SourceTopics.from_json(json.loads(json.dumps(memory.to_json()))) == memory


@given(memories, pins, st.none() | offsets, st.none() | offsets.map(lambda end: CopiedTo(0, end)))
def test_a_pin_holds_until_something_else_is_committed(
    memory: SourceTopics, pin: Pin, committed: int | None, copied_to: CopiedTo | None
) -> None:
    place = TopicPartition("t", 1)
    pinned = memory.with_pins({place: pin})
    moved = pin.copied_to is not None and copied_to is not None and copied_to.downstream_end != pin.copied_to
    expected = pin.offset if committed == pin.instead_of and not moved else committed
    assert pinned.position(*place, committed, copied_to) == expected
    commits = {} if committed is None else {place: committed}
    ends = {} if copied_to is None else {place: copied_to}
    assert pinned.without_spent_pins(commits, ends).position(*place, committed, copied_to) == expected
    assert pinned.without_pins({place}).position(*place, committed, copied_to) == committed


def test_a_commit_that_comes_to_the_same_offset_spends_a_pin() -> None:
    """As in a topic that was created again with as many records."""
    memory = SourceTopics().with_pins({TopicPartition("t", 0): Pin(0, 20, copied_to=21)})
    assert memory.position("t", 0, 20, CopiedTo(20, 21)) == 0
    assert memory.position("t", 0, 20, CopiedTo(20, 42)) == 20


def test_a_former_id_is_no_new_topic() -> None:
    """A broker that lags behind lists it for a while."""
    memory = SourceTopics()
    for number in range(6):
        memory = memory.with_ids({"t": f"id-{number}"})
    assert [memory.is_other("t", f"id-{number}") for number in range(8)] == [True, True, *[False] * 4, True, True]
    assert memory.is_former("t", "id-4")
    assert not memory.is_former("t", "id-5")
    assert not memory.is_other("t", None)
    assert not memory.is_other("u", "id-1")


def test_pins_of_earlier_versions_are_read() -> None:
    memory = SourceTopics.from_json({"t": {"id": None, "pins": {"0": [5, 20]}}})
    assert memory.pin("t", 0) == Pin(5, 20)
    assert memory.to_json()["t"]["pins"] == {"0": [5, 20]}


def test_nothing_remembered() -> None:
    memory = SourceTopics.from_json(None)
    assert memory.position("t", 0, None, None) is None
    assert memory.position("t", 0, 7, None) == 7
    assert memory.topic_id("t") is None


def test_an_id_that_is_not_known_now_does_not_wipe_the_remembered_one() -> None:
    memory = SourceTopics().with_ids({"t": "first"}).with_pins({TopicPartition("t", 0): Pin(5, None)})
    assert memory.with_ids({"t": None}).topic_id("t") == memory.with_ids({"t": ""}).topic_id("t") == "first"
    assert memory.with_ids({"t": "second"}).topic_id("t") == "second"
    assert memory.with_ids({"t": "second"}).pin("t", 0) == Pin(5, None)


@pytest.mark.parametrize("record", [[1], "x", {"t": 1}, {"t": {"pins": {"x": [1, 2]}}}, {"t": {"pins": {"0": [1]}}}])
def test_another_s_record_is_named(record: Any) -> None:
    with pytest.raises(CorruptRecord, match=r"\(key 'topics' of its state\) cannot be read"):
        SourceTopics.from_json(record)
