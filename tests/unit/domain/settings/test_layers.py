"""Aliases in keys, and entries that concern all flows, against the plain reading of the rules, one alias at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow import ARROW, FlowName
from srm_common.domain.settings.key import Level
from srm_common.domain.settings.layers import Aliases, Entry, Layers, current_spelling, split_flow_key

# Few letters, so that aliases begin like each other and like the words around them.
PIECES = st.sampled_from(["a", "b", "aa", "cluster", "workers", "connector"])
ALIASES = st.lists(st.lists(PIECES, min_size=1, max_size=3).map(".".join), min_size=1, max_size=6, unique=True)
KEYS = st.lists(
    st.sampled_from(["a", "b", "aa", "cluster", "workers", "connector", ".", ".", ".", ARROW, " ", "broker.list"]),
    max_size=10,
).map("".join)


def plainly_before(key: str, aliases: list[str]) -> list[str]:
    return [alias for alias in sorted(aliases, key=len, reverse=True) if key.startswith(f"{alias}.")]


@given(ALIASES, KEYS)
def test_aliases_before_a_key(aliases: list[str], key: str) -> None:
    expected = plainly_before(key, aliases)
    assert list(Aliases(aliases).all_before(key)) == expected
    assert Aliases(aliases).before(key) == next(iter(expected), None)


@given(ALIASES, KEYS)
def test_the_flow_of_a_key(aliases: list[str], key: str) -> None:
    left, _, right = key.partition(ARROW)
    source, right = left.strip(), right.strip()
    for alias in sorted(aliases, key=len, reverse=True):
        if right == alias or right.startswith(f"{alias}."):
            expected: tuple[FlowName | None, str] = FlowName(source, alias), right[len(alias) + 1 :]
            break
    else:
        target, _, rest = right.partition(".")
        known = bool(source) and bool(target.strip())
        expected = (FlowName(source, target.strip()), rest) if known else (None, key)
    assert split_flow_key(key, Aliases(aliases)) == expected


@given(ALIASES, KEYS)
def test_spellings_of_kip_382(aliases: list[str], rest: str) -> None:
    expected = rest if plainly_before(rest, aliases) else f"cluster.{rest}"
    if rest.endswith(".broker.list") and rest.removesuffix(".broker.list") in aliases:
        expected = rest.removesuffix(".broker.list") + ".bootstrap.servers"
    if "cluster" in aliases:
        expected = f"cluster.{rest}"
    assert current_spelling(f"cluster.{rest}", Aliases(aliases)) == expected


@given(
    ALIASES, st.lists(KEYS, max_size=12), st.sampled_from(["", "a.", "aa", "cluster."]), st.sampled_from(list(Level))
)
def test_entries_of_a_level(aliases: list[str], keys: list[str], beginning: str, level: Level) -> None:
    layers = Layers.of([Entry(key, "x", "file", line) for line, key in enumerate(keys, 1)], aliases)
    for flow in [FlowName("a", "b"), *layers.flows]:
        scope, prefix = layers.scope(level, flow)
        start = prefix + beginning
        for _ in range(2):  # the second time as remembered
            assert list(layers.beginning(level, flow, beginning)) == [
                (key[len(start) :], entry) for key, entry in scope.items() if key.startswith(start)
            ]


def test_wanted_entries_are_remembered_apart_from_all() -> None:
    layers = Layers.of([Entry("a.x", "1", "file", 1), Entry("a.y", "2", "file", 2)], ["b"])
    every = [rest for rest, _ in layers.shared(Level.TOP, "a.")]
    some = [rest for rest, _ in layers.shared(Level.TOP, "a.", "y".__eq__)]
    assert (every, some) == (["x", "y"], ["y"])
