from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.groups.group_offsets_file import GroupOffset, parse_offsets_file, write_offsets_file
from srm_common.errors import ConfigError

_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8)
_TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,8}", fullmatch=True)
_OFFSETS = st.lists(
    st.builds(GroupOffset, _NAMES, _TOPICS, st.integers(0, 1000), st.integers(0, (1 << 63) - 1)),
    min_size=1,
    unique_by=lambda one: (one.group, one.topic, one.partition),
)


def test_both_layouts() -> None:
    one = [GroupOffset("g", "a.t", 0, 30), GroupOffset("g", "a.t", 1, 20)]
    assert write_offsets_file(one, one_group=True) == "a.t,0,30\na.t,1,20\n"
    assert write_offsets_file(one, one_group=False) == "g,a.t,0,30\ng,a.t,1,20\n"
    assert parse_offsets_file("a.t,0,30\r\n\na.t, 1 , 20\n", "f", ["g"]) == one
    # As Kafka's tool: the groups that are asked for, of a file that has more.
    assert parse_offsets_file("g,a.t,0,30\nh,a.t,0,7\ng,a.t,1,20\n", "f", ["g"]) == one


@given(_OFFSETS)
def test_what_is_written_is_read(offsets: list[GroupOffset]) -> None:
    assert parse_offsets_file(write_offsets_file(offsets, one_group=False), "f", []) == offsets
    alone = [one for one in offsets if one.group == offsets[0].group]
    assert parse_offsets_file(write_offsets_file(alone, one_group=True), "f", [offsets[0].group]) == alone


@pytest.mark.parametrize(
    ("text", "groups", "reason"),
    [
        ("", ["g"], "f: there are no offsets in it"),
        ("a.t,0\n", ["g"], "f:1: 2 columns where topic,partition,offset or group,topic,partition,offset is expected"),
        ("a.t,0,1\n", [], "f: the lines name no group; say which one is meant with --group G"),
        ("a.t,0,1\n", ["g", "h"], "f: the lines name no group"),
        ("a.t,0,1\ng,a.t,0,1\n", ["g"], "f:2: 4 columns, but the lines before have 3"),
        ("a.t,0,-1\n", ["g"], "f:1: the offset -1 is negative"),
        ("a.t,-3,1\n", ["g"], "f:1: the partition -3 is negative"),
        ("a.t,0,1\n\na.t,one,1\n", ["g"], "f:3: the partition 'one' is no number"),
        ("a.t,0,9223372036854775808\n", ["g"], "f:1: the offset '9223372036854775808' is no number"),
        ("a.t,0,²\n", ["g"], "f:1: the offset '²' is no number"),
        (",0,1\n", ["g"], "f:1: the topic is missing"),
        (",a.t,0,1\n", [], "f:1: the group is missing"),
        ("a.t,0,1\na.t,0,2\n", ["g"], "f:2: a.t-0 of group g comes twice"),
        ("h,a.t,0,1\n", ["g"], "f: it has no offsets of group g"),
    ],
)
def test_bad_lines_are_one_sentence(text: str, groups: list[str], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_offsets_file(text, "f", groups)
    assert str(caught.value).startswith(reason)
