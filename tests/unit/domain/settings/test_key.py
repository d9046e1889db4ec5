from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.key import BadValue, Key, Kind, Level
from srm_common.domain.settings.layers import Entry, Layers
from srm_common.domain.settings.table import BY_NAME, FLOW_KEYS, KEYS

FLOW = FlowName("A", "B")
PREFIX = {
    Level.TOP: "",
    Level.WORKERS: "workers.",
    Level.CONNECTORS: "connectors.",
    Level.SOURCE: "A.",
    Level.CLUSTER: "B.",
    Level.FLOW: "A->B.",
    Level.FLOW_WORKER: "A->B.worker.",
}


def entry(written: str, value: str = "x", line: int = 1) -> Entry:
    return Entry(written, value, "f", line)


def test_every_field_of_a_flow_has_one_key_and_the_same_default() -> None:
    built = {"name", "source", "target", "policy", "aliases", "graph"}
    built |= {
        "disabled",
        "alarm_notifiers",
        "transforms",
        "statements",
        "topic_filter_class",
        "group_filter_class",
        "config_property_filter_class",
    }
    by_field = {key.field: key for key in FLOW_KEYS}
    assert len(by_field) == len(FLOW_KEYS)
    assert set(by_field) == {found.name for found in fields(FlowSettings)} - built
    special = {"exactly_once": ("enabled", True), "read_committed": ("read_committed", True)}
    for found in fields(FlowSettings):
        if found.name not in built:
            key = by_field[found.name]
            assert key.default is not None
            value = key.parse(key.default)
            expected = special.get(found.name)
            assert (value, found.default) == expected if expected else value == found.default, key.name


def test_keys_are_complete_and_unique() -> None:
    assert len({key.name for key in KEYS}) == len(KEYS)
    for key in KEYS:
        assert key.doc.endswith("."), key.name
        if key.default is not None and not key.note:
            assert (key.parse(key.default) is None) == (key.default in ("none", "auto") and not key.choices)
        assert key.reason or key.note, f"{key.name} gives no reason for its default"
        assert (key.kind in (Kind.CHOICE, Kind.CHOICES)) == bool(key.choices)
        if key.name.endswith(("seconds", "bytes", ".ms")) and not key.note:
            assert key.unit, key.name


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("tasks.max", "four", "must be a whole number, but is 'four'"),
        ("tasks.max", "1_0", "whole number"),
        ("tasks.max", "0", "must be at least 1, but is 0"),
        ("tasks.max", "-" + "9" * 400, "must be at least 1, but is -999"),
        ("fetch.bytes", str(2**31), "must be at most 2147483647 bytes, but is 2147483648"),
        ("offset.storage.partitions", "9" * 400, "must be at most 2147483647, but is 999"),
        ("chunk.bytes", "64MB", "whole number of bytes, but is '64MB'"),
        ("chunk.seconds", "nan", "finite number of seconds"),
        ("enabled", "yes", "must be true or false, but is 'yes'"),
        ("on.data.loss", "ignore", "must be one of fail, skip, reset"),
        ("provenance.headers", "none, topic", "must be none alone or a list without it, but is 'none, topic'"),
        ("topics", "a, b(", r"'b\(' is not a usable expression: .* at position 3"),
    ],
)
def test_a_wrong_value_says_what_is_right(key: str, text: str, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        BY_NAME[key].parse(text)


def test_values_are_typed() -> None:
    assert BY_NAME["tasks.max"].parse(" 4 ") == 4
    assert BY_NAME["enabled"].parse("TRUE") is True
    assert BY_NAME["chunk.seconds"].parse("0.5") == 0.5
    assert BY_NAME["topics"].parse(" a , b ") == ("a", "b")


@given(
    st.sampled_from([key for key in KEYS if not key.also and not key.legacy]),
    st.sets(st.sampled_from(list(Level))),
    st.sampled_from(["false", "0", "", "x"]),
)
def test_the_longest_prefix_that_is_present_counts_whatever_its_value(
    key: Key, written: set[Level], value: str
) -> None:
    entries = [entry(PREFIX[level] + key.name, value if level is max(written, key=list(Level).index) else "weaker")
               for level in written]  # fmt: skip
    found = Layers.of(entries, ("A", "B")).find(key, FLOW)
    expected = [level for level in reversed(Level) if level in written and level in key.levels]
    assert found.level is (expected[0] if expected else None)
    assert [level for level, _ in found.overridden] == expected[1:]
    if expected:
        assert found.entry is not None
        assert found.entry.written == PREFIX[expected[0]] + key.name


def test_the_last_of_repeated_keys_counts() -> None:
    layers = Layers.of([entry("tasks.max", "1"), entry("tasks.max", "2", 2)], ("A", "B"))
    found = layers.find(BY_NAME["tasks.max"], FLOW).entry
    assert found is not None
    assert (found.value, found.place) == ("2", "f:2")


def test_an_older_name_yields_to_the_new_one_at_its_level() -> None:
    key = BY_NAME["topics.exclude"]
    both = Layers.of([entry("A->B.topics.blacklist"), entry("A->B.topics.exclude")], ("A", "B")).find(key, FLOW).entry
    old = Layers.of([entry("A->B.topics.blacklist"), entry("topics.exclude")], ("A", "B")).find(key, FLOW).entry
    assert both is not None
    assert old is not None
    assert (both.written, old.written) == ("A->B.topics.exclude", "A->B.topics.blacklist")


def test_aliases_with_dots_and_spaces_and_unknown_ones() -> None:
    layers = Layers.of(
        [
            entry("us.east->us.west.topics"),
            entry("us.east -> us.tasks.max"),
            entry("us->eu.x"),
            entry("us.west.topics"),
        ],
        ("us", "us.east", "us.west"),
    )
    assert set(layers.flows) == {FlowName("us.east", "us.west"), FlowName("us.east", "us")}
    assert layers.flows[FlowName("us.east", "us")].keys() == {"tasks.max"}
    assert set(layers.strangers) == {FlowName("us", "eu")}
    assert layers.clusters["us.west"].keys() == {"topics"}


def test_an_alias_may_be_spelled_like_the_beginning_of_a_key() -> None:
    layers = Layers.of([entry("topics.exclude"), entry("topics.bootstrap.servers")], ("topics", "B"))
    assert layers.find(BY_NAME["topics.exclude"], FlowName("topics", "B")).entry is not None
    assert "bootstrap.servers" in layers.clusters["topics"]


def test_repr_hides_values() -> None:
    assert "hush" not in repr(entry("A.sasl.password", "hush"))
