"""Replication policies against the vectors of Kafka's own unit tests, and as properties."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
    policy_name,
)

default = DefaultReplicationPolicy()


@pytest.mark.parametrize(
    ("topic", "source", "upstream"),
    [
        ("foo", None, None),
        ("A.foo", "A", "foo"),
        ("A.", None, None),
        ("A..", None, None),
        (".", None, None),
        ("", None, None),
        (".foo", "", "foo"),
        ("A..b", "A", ".b"),
        ("A.b.", "A", "b."),
        ("my.topic.x", "my", "topic.x"),
    ],
)
def test_default_policy_splits_as_java_does(topic: str, source: str | None, upstream: str | None) -> None:
    assert default.topic_source(topic) == source
    assert default.upstream_topic(topic) == upstream


def test_default_policy_with_a_separator_of_several_characters() -> None:
    policy = DefaultReplicationPolicy("__")
    assert policy.format_remote_topic("A", "foo") == "A__foo"
    assert policy.topic_source("A__foo") == "A"
    assert policy.upstream_topic("A__B__foo") == "B__foo"
    assert policy.original_topic("A__B__foo") == "foo"
    assert policy.topic_source("A.foo") is None
    assert policy.topic_source("A__") is None
    assert policy.checkpoints_topic("A") == "A__checkpoints__internal"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs__B__internal"


def test_internal_names_without_the_separator() -> None:
    policy = DefaultReplicationPolicy("__", separator_in_internal_names=False)
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"


def test_a_regular_expression_character_is_a_plain_separator() -> None:
    assert DefaultReplicationPolicy("|").topic_source("A|foo") == "A"
    assert DefaultReplicationPolicy(".").topic_source("Axfoo") is None


@pytest.mark.parametrize("topic", ["heartbeats", "A.heartbeats", "B.A.heartbeats"])
def test_heartbeats_topics(topic: str) -> None:
    assert default.is_heartbeats_topic(topic)


@pytest.mark.parametrize("topic", ["heartbeats!", "!heartbeats", "source1heartbeats", "source1-heartbeats"])
def test_not_heartbeats_topics(topic: str) -> None:
    assert not default.is_heartbeats_topic(topic)


def test_heartbeats_follow_the_separator() -> None:
    policy = DefaultReplicationPolicy("_")
    assert policy.is_heartbeats_topic("heartbeats")
    assert not policy.is_heartbeats_topic("us-west.heartbeats")


def test_checkpoints_topics_need_the_leading_separator() -> None:
    assert default.is_checkpoints_topic("A.checkpoints.internal")
    assert not default.is_checkpoints_topic("checkpoints.internal")


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets",
        ".hidden",
        "orders.internal",
        "orders-internal",
        "mm2-offsets.A.internal",
        "x.checkpoints.internal",
    ],
)
def test_internal_topics(topic: str) -> None:
    assert default.is_internal_topic(topic)


@pytest.mark.parametrize("topic", ["heartbeats", "A.heartbeats", "x_internal", "mm2-offsets_C_internal", "_one"])
def test_not_internal_topics(topic: str) -> None:
    assert not default.is_internal_topic(topic)


def test_internal_topics_with_a_separator_of_their_own() -> None:
    policy = DefaultReplicationPolicy("_")
    assert policy.is_internal_topic("x_internal")
    assert policy.is_internal_topic("x.internal")


@pytest.mark.parametrize(
    "topic",
    [
        "target.topic1",
        "target.source.topic1",
        "source.target.topic1",
        "target.source.target.topic1",
        "source.target.source.topic1",
    ],
)
def test_cycles_are_found_in_the_whole_ancestry(topic: str) -> None:
    assert is_cycle(default, "target", topic)
    assert not is_cycle(IdentityReplicationPolicy(source_alias="source"), "target", topic)


@pytest.mark.parametrize("topic", ["topic1", "source.topic1", "othersource.topic1", "heartbeats"])
def test_no_cycle(topic: str) -> None:
    assert not is_cycle(default, "target", topic)
    assert not is_cycle(IdentityReplicationPolicy(source_alias="source"), "target", topic)


@pytest.mark.parametrize("topic", ["target.heartbeats", "target.source.heartbeats", "source.target.heartbeats"])
def test_identity_finds_cycles_of_heartbeats(topic: str) -> None:
    assert is_cycle(IdentityReplicationPolicy(source_alias="source"), "target", topic)


def test_identity_policy() -> None:
    policy = IdentityReplicationPolicy(source_alias="S")
    assert policy.format_remote_topic("S", "orders") == "orders"
    assert policy.format_remote_topic("S", "heartbeats") == "S.heartbeats"
    assert policy.format_remote_topic("S", "my-heartbeats") == "S.my-heartbeats"
    assert policy.topic_source("anything.at.all") == "S"
    assert policy.topic_source("heartbeats") is None
    assert policy.topic_source("T.heartbeats") == "T"
    assert policy.upstream_topic("x.y") == "x.y"
    assert policy.original_topic("x.y") == "x.y"
    assert IdentityReplicationPolicy().topic_source("x") is None


def test_migrating_policy() -> None:
    policy = MigratingReplicationPolicy(source_alias="S")
    assert policy.format_remote_topic("S", "orders") == "orders"
    assert policy.format_remote_topic("S", "T.orders") == "T.orders"
    assert policy.format_remote_topic("S", "heartbeats") == "S.heartbeats"
    assert policy.format_remote_topic("S", "T.heartbeats") == "S.T.heartbeats"
    # Unlike under the identity policy, only heartbeats themselves are named by the default one.
    assert policy.format_remote_topic("S", "my-heartbeats") == "my-heartbeats"
    assert policy.format_remote_topic("S", "app-internal") == "S.app-internal"
    assert policy.checkpoints_topic("S") == "S.checkpoints.internal"
    assert policy.topic_source("anything.at.all") == "S"
    assert policy.topic_source("T.heartbeats") == "T"
    assert policy.topic_source("heartbeats") is None
    assert policy.upstream_topic("x.y") == "x.y"
    assert policy.upstream_topic("T.heartbeats") == "heartbeats"
    assert policy.original_topic("S.T.heartbeats") == "heartbeats"
    assert policy.original_topic("x.y") == "x.y"
    assert policy.is_heartbeats_topic("S.T.heartbeats")
    assert not policy.is_heartbeats_topic("my-heartbeats")
    assert not policy.is_heartbeats_topic("x")
    assert is_cycle(policy, "T", "T.heartbeats")
    assert not is_cycle(policy, "T", "T.orders")


def test_what_a_policy_is_called() -> None:
    assert policy_name(DefaultReplicationPolicy()) == "DefaultReplicationPolicy"
    assert policy_name(DefaultReplicationPolicy("_")) == "DefaultReplicationPolicy with the separator '_'"
    # The alias is the flow's, not the policy's.
    assert policy_name(IdentityReplicationPolicy(source_alias="S")) == "IdentityReplicationPolicy"


aliases = st.text("abcXYZ019-_", min_size=1, max_size=8)
topics = st.text("abc.019-_", min_size=1, max_size=12).filter(lambda topic: topic.strip("."))


@given(aliases, topics, st.sampled_from([".", "-", "__", "->", "x"]))
def test_a_remote_topic_tells_where_it_came_from(alias: str, topic: str, separator: str) -> None:
    policy = DefaultReplicationPolicy(separator)
    remote = policy.format_remote_topic(alias, topic)
    # Nobody can split rightly where the separator begins inside the alias, or where nothing else follows it.
    assume(remote.find(separator) == len(alias) and topic.replace(separator, ""))
    assert policy.topic_source(remote) == alias
    assert policy.upstream_topic(remote) == topic


@given(st.lists(st.sampled_from(["A", "B", "C"]), max_size=4), st.sampled_from(["A", "B", "C"]))
def test_a_topic_that_was_on_the_target_is_a_cycle(path: list[str], target: str) -> None:
    topic = "orders"
    for alias in path:
        topic = default.format_remote_topic(alias, topic)
    assert is_cycle(default, target, topic) == (target in path)


def test_policies_satisfy_the_protocol() -> None:
    assert isinstance(default, ReplicationPolicy)
    assert isinstance(IdentityReplicationPolicy(), ReplicationPolicy)
    assert isinstance(MigratingReplicationPolicy(), ReplicationPolicy)


def test_the_ancestry_ends_where_a_name_comes_again() -> None:
    looks = itertools.count()

    class TwoWays(DefaultReplicationPolicy):
        """Topics have another name on each of two clusters."""

        def topic_source(self, topic: str) -> str | None:
            assert next(looks) < 100, "the search does not end"
            return {"orders": "it", "ordini": "en"}.get(topic)

        def upstream_topic(self, topic: str) -> str | None:
            return {"orders": "ordini", "ordini": "orders"}.get(topic)

    assert [is_cycle(TwoWays(), target, "orders") for target in ("it", "en", "de")] == [True, True, False]
