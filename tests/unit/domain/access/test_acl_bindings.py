from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.access.acl_bindings import (
    EVERYONE,
    AclBinding,
    Operation,
    Permission,
    TopicPattern,
    beginning,
    literal,
    prefixed,
)

REPLICATOR = "User:srm"
PRINCIPALS = ("User:bob", "User:eve", REPLICATOR, EVERYONE)
HOSTS = ("*", "10.0.0.1")
TOPICS = ("a", "ab", "abc", "b", "b.c", "heartbeats", "b.heartbeats")

patterns = st.one_of(
    st.sampled_from([literal("*"), *map(literal, TOPICS)]),
    st.sampled_from(["a", "ab", "b", "b.", "h", "c", "ax"]).map(prefixed),
)
bindings = st.builds(
    AclBinding,
    patterns,
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)


def binding(text: str) -> AclBinding:
    """``ALLOW READ bob ord*`` or ``DENY ALL * orders 10.0.0.1``; a pattern that ends in ``*`` is a prefix."""
    permission, operation, user, name, *host = text.split()
    pattern = prefixed(name[:-1]) if name.endswith("*") and name != "*" else literal(name)
    return AclBinding(pattern, f"User:{user}", host[0] if host else "*", Operation(operation), Permission(permission))


@given(bindings)
def test_a_binding_survives_json(one: AclBinding) -> None:
    assert AclBinding.from_json(one.to_json()) == one


@given(patterns, patterns)
def test_patterns_overlap_when_a_name_is_covered_by_both(one: TopicPattern, other: TopicPattern) -> None:
    names = [*TOPICS, "a-", "ab-", "b-", "b.-", "h-", "c-", "ax-"]
    both = [name for name in names if one.covers(name) and other.covers(name)]
    assert one.overlaps(other) == bool(both)


@given(patterns)
def test_among_finds_what_is_covered(one: TopicPattern) -> None:
    names = sorted(TOPICS)
    assert list(one.among(names)) == [name for name in names if one.covers(name)]


def test_words() -> None:
    assert [str(literal("orders")), str(prefixed("ord"))] == ["orders", "ord (prefixed)"]
    assert beginning(["a", "ab", "b"], "a") == ["a", "ab"]
