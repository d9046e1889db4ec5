from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.offsets.offset_edits import (
    CopyEnd,
    LogRange,
    OffsetEdit,
    edited_memory,
    offset_edit,
    parse_offsets_file,
    refuse_parts_of_new_topics,
    repair_action,
)
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.source_topics import Pin, SourceTopics
from srm_common.errors import ConfigError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
offsets = st.integers(0, 50)


@given(offsets, st.none() | offsets, st.none() | offsets, st.none() | offsets)
def test_what_is_set_counts_whatever_was_pinned(
    pinned: int, instead_of: int | None, before: int | None, after: int | None
) -> None:
    memory = SourceTopics().with_pins({T0: Pin(pinned, instead_of), T1: Pin(5, None)})
    edited = edited_memory(memory, [offset_edit(T0, before, after, LogRange(0, 50))], {})
    # The record has no number for 0: such a partition has nothing committed.
    committed = after or None
    assert edited.position("t", 0, committed, None) == after
    assert edited.position("t", 1, None, None) == 5


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (20, 15, "goes back by 5 offsets: the next run copies them after the end of the copy"),
        (20, 28, "leaves 8 offsets out"),
        (20, 20, "as it is"),
        (None, 20, "starts at 20"),
        (20, None, "forgotten: the next run starts it like a partition without progress"),
        (20, 31, "offset 31 is not in the log, which has the offsets 10 to 30"),
        (20, 9, "offset 9 is not in the log, which has the offsets 10 to 30"),
    ],
)
def test_effects(before: int | None, after: int | None, effect: str) -> None:
    edit = offset_edit(T0, before, after, LogRange(10, 30))
    assert edit.effect == effect
    assert edit.changes == (before != after and edit.problem is None)
    assert edit.to_json()["effect"] == effect


def test_a_log_that_cannot_be_looked_at_lets_nothing_be_set_there() -> None:
    assert offset_edit(T0, 1, 2, "no leader").problem == "no leader"
    assert offset_edit(T0, 1, 2, None).problem == "the source has no such partition"
    assert offset_edit(T0, 1, None, "no leader").problem is None


def test_a_topic_created_again_is_moved_as_a_whole() -> None:
    memory = SourceTopics().with_ids({"t": "old"})
    edit = OffsetEdit("t", 0, 20, 3)
    (refused,) = refuse_parts_of_new_topics([edit], memory, {"t": "new"}, [T0, T1])
    assert refused.problem == "the topic was created again at the source: move all its partitions at once, also 1"
    for same in ({"t": "old"}, {"t": None}):
        assert refuse_parts_of_new_topics([edit], memory, same, [T0, T1]) == [edit]
    assert refuse_parts_of_new_topics([edit], memory, {"t": "new"}, [T0]) == [edit]
    assert edited_memory(memory, [edit], {"t": "new"}).topic_id("t") == "new"
    assert edited_memory(memory, [refused], {"t": "new"}).topic_id("t") == "old"


@pytest.mark.parametrize(
    "text",
    [
        "t,0,5\nt,1,0\n",
        "Topic, Partition, Offset\r\n# a note\r\n\r\nt, 0, 5\r\nt, 1, 0\r\n",
        json.dumps([{"topic": "t", "partition": 0, "offset": 5}, {"topic": "t", "partition": "1", "offset": 0}]),
        json.dumps(
            {
                "offsets": [
                    {"topic": "t", "partition": 0, "offset": 5, "lag": 3},
                    {"topic": "t", "partition": 1, "offset": 0},
                    {"topic": "t", "partition": 2, "offset": None},
                ]
            }
        ),
    ],
)
def test_files(text: str) -> None:
    assert parse_offsets_file(text, "f") == {T0: 5, T1: 0}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "f: the file contains no offsets"),
        ("topic,partition,offset\n", "f: the file contains no offsets"),
        ("t,0\n", "f: line 1 has 2 columns"),
        ("t,0,5\nt,x,5\n", "f: line 2 is not a topic, a partition and an offset: 't', 'x', '5'"),
        ("t,0,-1\n", "f: line 1 is not"),
        ("t,0,5\nt,0,6\n", "f: line 2 names t-0 twice"),
        ("{", "f: the file is not JSON"),
        ("{}", "f: the file is not a list"),
        ('[{"topic": "t"}]', "f: entry 1 is not an object"),
        ('[{"topic": "t", "partition": true, "offset": 1}]', "f: entry 1 is not a topic"),
    ],
)
def test_bad_files_are_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offsets_file(text, "f")
    assert str(caught.value).startswith(sentence)


LAST = Segment("t", 2, 50, 103, 51, 101, (OffsetSpan(50, 50, 51, 50),))


def test_the_end_of_the_map_is_the_position() -> None:
    action = repair_action(LAST, CopyEnd(102, 0))
    assert (action.topic, action.partition, action.next_offset) == ("t", 2, 103)
    assert "upstream 102 at downstream 100" in action.proof


@pytest.mark.parametrize(
    ("end", "reason"),
    [(CopyEnd(90, 0), "gone"), (CopyEnd(200, 5), "5 or more records"), ("it is away", "it is away")],
)
def test_what_the_copy_contradicts_is_not_written(end: CopyEnd | str, reason: str) -> None:
    action = repair_action(LAST, end)
    assert action.next_offset is None
    assert reason in action.proof


@pytest.mark.parametrize("text", ["a\rb", "[" * 100_000, "topic,partition,offset\norders,0," + "9" * 5000])
def test_a_file_that_is_no_table_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^file"):
        parse_offsets_file(text, "file")
