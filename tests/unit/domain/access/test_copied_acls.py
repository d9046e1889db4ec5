from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.access import copied_acls
from srm_common.domain.access.acl_bindings import (
    EVERYONE,
    AclBinding,
    Operation,
    Pattern,
    Permission,
    literal,
    prefixed,
)
from srm_common.domain.access.copied_acls import Copies, WantedAcls, wanted_acls
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.examples import examples
from tests.unit.domain.access.test_acl_bindings import HOSTS, PRINCIPALS, REPLICATOR, TOPICS, binding, bindings

LOCAL = ("abx", "z", "x.abz", "x.y")
CHANGES = (Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS)
READS = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


def allowed(bindings: Iterable[AclBinding], principal: str, host: str, topic: str, operation: Operation) -> bool:
    """``StandardAuthorizer``, written a second time and in another way."""
    verdict = False
    for acl_binding in bindings:
        name = acl_binding.topics.name
        by_prefix = acl_binding.topics.pattern is Pattern.PREFIXED
        if not (topic.startswith(name) if by_prefix else name in ("*", topic)):
            continue
        if acl_binding.principal not in (principal, "User:*") or acl_binding.host not in (host, "*"):
            continue
        gives = {acl_binding.operation}
        if acl_binding.permission is Permission.ALLOW:
            if acl_binding.operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
                gives.add(Operation.DESCRIBE)
            if acl_binding.operation is Operation.ALTER_CONFIGS:
                gives.add(Operation.DESCRIBE_CONFIGS)
        if operation in gives or acl_binding.operation is Operation.ALL:
            if acl_binding.permission is Permission.DENY:
                return False
            verdict = True
    return verdict


#: Bindings that have much to do with each other.
close = st.builds(
    AclBinding,
    st.sampled_from([literal("*"), literal("ab"), literal("b"), prefixed("a"), prefixed("ab")]),
    st.sampled_from(("User:bob", REPLICATOR, EVERYONE)),
    st.sampled_from(HOSTS),
    st.sampled_from((Operation.ALL, Operation.READ, Operation.DESCRIBE, Operation.WRITE)),
    st.sampled_from(Permission),
)
sources = st.lists(bindings, max_size=8) | st.lists(close, max_size=5)


def _odd(topic: str) -> str:
    return topic.upper() if topic.startswith("ab") else f"x.{topic}"


NAMINGS: Mapping[str, Callable[[str], str]] = {
    "default": lambda topic: DefaultReplicationPolicy().format_remote_topic("x", topic),
    "identity": lambda topic: IdentityReplicationPolicy().format_remote_topic("x", topic),
    "odd": _odd,
    "behind": lambda topic: f"{topic}.x",
    "crossed": lambda topic: f"x.ab{topic}" if topic.startswith("b") else f"x.{topic}",
}


@st.composite
def copies_of(draw: st.DrawFn) -> Copies:
    naming = NAMINGS[draw(st.sampled_from(sorted(NAMINGS)))]
    topics = {topic: naming(topic) for topic in draw(st.sets(st.sampled_from(TOPICS)))}
    others = draw(st.sets(st.sampled_from(LOCAL))) - set(topics.values())
    return Copies(topics, others)


def wanted(found: Iterable[AclBinding], copies: Copies, replicators: Collection[str] = (REPLICATOR,)) -> WantedAcls:
    return wanted_acls(found, copies, replicators, source="x")


def _permit_no_more(
    there: Collection[AclBinding], found: Collection[AclBinding], copies: Copies, principals: Iterable[str]
) -> None:
    """What ``there`` permits with a copy, ``found`` permits with its topic."""
    for (topic, copy), principal, host, operation in itertools.product(
        copies.topics.items(), principals, ("10.0.0.1", "10.0.0.2"), READS
    ):
        if allowed(there, principal, host, copy, operation):
            assert allowed(found, principal, host, topic, operation)


@settings(max_examples=examples(300))
@given(sources, copies_of())
def test_nobody_may_do_more_with_a_copy_than_with_the_topic(found: list[AclBinding], copies: Copies) -> None:
    _permit_no_more(wanted(found, copies).bindings, found, copies, ("User:bob", "User:eve", "User:stranger"))


@settings(max_examples=examples(300))
@given(sources, copies_of())
def test_nothing_gives_a_right_to_change_a_copy_and_nothing_denies_the_replicator(
    found: list[AclBinding], copies: Copies
) -> None:
    for acl_binding in wanted(found, copies).bindings:
        if acl_binding.permission is Permission.ALLOW:
            assert acl_binding.operation in READS
        else:
            assert acl_binding.principal not in (EVERYONE, REPLICATOR)


@settings(max_examples=examples(300))
@given(sources, copies_of(), st.sets(st.sampled_from(PRINCIPALS)))
def test_whoever_may_be_the_replicator_gets_no_deny_and_nobody_more_than_at_the_source(
    found: list[AclBinding], copies: Copies, suspects: set[str]
) -> None:
    there = wanted_acls(found, copies, (), source="x", suspects=suspects).bindings
    for acl_binding in there:
        if acl_binding.permission is Permission.DENY:
            assert acl_binding.principal not in {EVERYONE, *suspects}
            assert EVERYONE not in suspects
    _permit_no_more(there, found, copies, (*PRINCIPALS[:3], "User:stranger"))


@settings(max_examples=examples(300))
@given(sources, copies_of())
def test_topics_that_are_no_copies_are_left_alone(found: list[AclBinding], copies: Copies) -> None:
    for acl_binding in wanted(found, copies).bindings:
        assert not any(acl_binding.topics.covers(other) for other in copies.others)


@settings(max_examples=examples(300))
@given(sources, copies_of())
def test_readers_of_a_topic_may_read_its_copy(found: list[AclBinding], copies: Copies) -> None:
    result = wanted(found, copies)
    if any("is not carried over" in notice for notice in result.notices):
        return
    for topic, copy in copies.topics.items():
        for principal in ("User:bob", "User:stranger"):
            for host in ("10.0.0.1", "10.0.0.2"):
                assert allowed(result.bindings, principal, host, copy, Operation.READ) == allowed(
                    found, principal, host, topic, Operation.READ
                )


DEFAULT = {topic: f"x.{topic}" for topic in ("orders", "orders.eu", "payments")}
IDENTITY = {topic: topic for topic in DEFAULT}


@pytest.mark.parametrize(
    ("copies", "source", "copy"),
    [
        (DEFAULT, "ALLOW READ bob orders", ["ALLOW READ bob x.orders"]),
        (DEFAULT, "ALLOW ALL bob orders", ["ALLOW READ bob x.orders"]),
        (DEFAULT, "ALLOW DESCRIBE bob orders 10.0.0.1", ["ALLOW DESCRIBE bob x.orders 10.0.0.1"]),
        (DEFAULT, "ALLOW DESCRIBE_CONFIGS bob orders", ["ALLOW DESCRIBE_CONFIGS bob x.orders"]),
        *((DEFAULT, f"ALLOW {change} bob orders", []) for change in CHANGES),
        (DEFAULT, "ALLOW READ bob elsewhere", []),
        (DEFAULT, "DENY ALL bob orders", ["DENY ALL bob x.orders"]),
        (DEFAULT, "DENY WRITE bob orders", ["DENY WRITE bob x.orders"]),
        (DEFAULT, "DENY WRITE * orders", []),
        (DEFAULT, "DENY WRITE srm orders", []),
        (DEFAULT, "ALLOW READ bob ord*", ["ALLOW READ bob x.ord*"]),
        (DEFAULT, "ALLOW READ bob nothing*", []),
        (DEFAULT, "ALLOW READ bob *", ["ALLOW READ bob x.*"]),
        (IDENTITY, "ALLOW READ bob orders", ["ALLOW READ bob orders"]),
        (IDENTITY, "ALLOW READ bob ord*", ["ALLOW READ bob ord*"]),
        (IDENTITY, "ALLOW READ bob *", [f"ALLOW READ bob {topic}" for topic in IDENTITY]),
    ],
)
def test_the_table(copies: Mapping[str, str], source: str, copy: list[str]) -> None:
    result = wanted([binding(source)], Copies(copies, {"local"}))
    assert sorted(result.bindings) == sorted(map(binding, copy))
    assert result.notices == ()


def test_an_identity_prefix_becomes_single_topics_where_it_would_cover_others() -> None:
    result = wanted([binding("ALLOW READ bob ord*")], Copies(IDENTITY, {"orders.local"}))
    assert sorted(result.bindings) == [binding("ALLOW READ bob orders"), binding("ALLOW READ bob orders.eu")]


def test_what_is_denied_to_everybody_is_denied_to_each_reader() -> None:
    source = [binding("ALLOW READ bob *"), binding("ALLOW READ srm *"), binding("DENY ALL * payments")]
    result = wanted(source, Copies(DEFAULT))
    assert sorted(result.bindings) == sorted(
        map(binding, ["ALLOW READ bob x.*", "ALLOW READ srm x.*", "DENY ALL bob x.payments"])
    )
    assert result.bindings[binding("DENY ALL bob x.payments")] == "'DENY User:* ALL on payments' of x"


def test_what_is_allowed_and_denied_to_everybody_is_left_out() -> None:
    source = [binding("ALLOW READ * *"), binding("DENY READ * payments")]
    result = wanted(source, Copies(DEFAULT))
    assert result.bindings == {}
    assert result.notices == (
        "'ALLOW User:* READ on *' of x is not carried over, because 'DENY User:* READ on payments', which limits it, "
        "cannot be",
    )


def test_what_would_be_denied_to_the_replicator_perhaps_is_left_out_with_what_it_limits() -> None:
    source = [binding(f"ALLOW READ {user} orders") for user in ("bob", "eve")]
    source += [binding(f"DENY READ {user} orders 10.0.0.1") for user in ("bob", "eve")]
    result = wanted_acls(source, Copies(DEFAULT), (), source="x", suspects={"User:bob"})
    expected = ["ALLOW READ eve x.orders", "DENY READ eve x.orders 10.0.0.1"]
    assert sorted(result.bindings) == sorted(map(binding, expected))
    assert result.notices == (
        "'DENY User:bob READ from 10.0.0.1 on orders' of x is not carried over to User:bob, which may write to copies "
        "and so may be the replicator, whose principal is unknown; configure it with "
        "sync.topic.acls.replicator.principals",
        "'ALLOW User:bob READ on orders' of x is not carried over, because 'DENY User:bob READ from 10.0.0.1 on "
        "orders', which limits it, cannot be",
    )


def test_a_right_that_another_one_brings_is_limited_too() -> None:
    source = [binding("ALLOW READ bob orders"), binding("ALLOW READ * payments"), binding("DENY DESCRIBE * *")]
    result = wanted(source, Copies(DEFAULT))
    assert sorted(result.bindings) == sorted(map(binding, ["ALLOW READ bob x.orders", "DENY DESCRIBE bob x.*"]))


def test_a_prefix_that_would_cover_the_copy_of_another_topic() -> None:
    copies = Copies({"orders": "x.orders", "z": "x.orders-z"})
    assert list(wanted([binding("ALLOW READ bob ord*")], copies).bindings) == [binding("ALLOW READ bob x.orders")]


def test_a_frozen_source_does_not_stop_its_readers() -> None:
    source = [binding("ALLOW ALL * *"), binding("DENY WRITE * *")]
    assert list(wanted(source, Copies(DEFAULT)).bindings) == [binding("ALLOW READ * x.*")]


def test_a_deny_is_there_before_the_copy_that_it_is_about() -> None:
    source = [binding("ALLOW READ bob *"), binding("DENY READ bob secret"), binding("DENY READ eve secret")]
    result = wanted(source, Copies(DEFAULT))
    assert sorted(result.bindings) == sorted(map(binding, ["ALLOW READ bob x.*", "DENY READ bob x.secret"]))


def test_too_many_copies_without_a_common_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_acls, "MOST_LITERALS", 2)
    source = [binding("ALLOW READ bob *"), binding("ALLOW READ eve orders"), binding("DENY READ eve *")]
    result = wanted(source, Copies(IDENTITY))
    assert result.bindings == {}
    assert [notice.split(" of x ")[0] for notice in result.notices] == [
        "'ALLOW User:bob READ on *'",
        "'DENY User:eve READ on *'",
        "'ALLOW User:eve READ on orders'",
    ]


NAMED = {"orders": "a.orders", "prices": "a.prices", "secret": "a.secret"}


def carried(source: Iterable[str], copies: Copies, ours: Iterable[str]) -> tuple[set[str], tuple[str, ...]]:
    result = wanted_acls(map(binding, source), copies, (REPLICATOR,), source="a", ours=set(map(binding, ours)))
    return set(map(str, result.bindings)), result.notices


@pytest.mark.parametrize("most", [2, 3])
def test_one_topic_of_the_targets_own_takes_no_copy_from_its_readers(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """With too many copies for a binding each, the prefix stays where it is already, and is not created anew."""
    monkeypatch.setattr(copied_acls, "MOST_LITERALS", most)
    found, notices = carried(
        ["ALLOW READ bob *", "ALLOW ALL eve *", "ALLOW READ joe *", "DENY READ bob secret", "DENY WRITE * *"],
        Copies(NAMED, {"a.old", "a.older", "b"}),
        ["ALLOW READ bob a.*", "ALLOW READ eve a.*", "DENY WRITE bob a.*"],
    )
    why = "'a. (prefixed)' would include a.old and 1 more, which are no copies that this flow knows"
    if most == 3:
        assert {name.split(" on ")[1] for name in found} == set(NAMED.values())
        assert notices == (
            f"'ALLOW User:bob READ on *' of a and 2 more are carried over to each copy by itself: {why}",
        )
        return
    assert found == {
        "ALLOW User:bob READ on a. (prefixed)",
        "ALLOW User:eve READ on a. (prefixed)",
        "DENY User:bob READ on a.secret",
    }
    assert notices == (
        "'ALLOW User:joe READ on *' of a is not carried over: no single pattern covers its copies alone, and there are "
        f"more than 2; {why}",
        f"'ALLOW User:bob READ on *' of a and 1 more are carried over as before, although {why}: there are more than 2 "
        "copies, too many for a binding each, and readers would lose all of them",
    )


@pytest.mark.parametrize("there", [True, False])
def test_a_deny_stays_with_what_it_limits_or_both_go(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(copied_acls, "MOST_LITERALS", 2)
    ours = ["ALLOW READ bob a.*", "ALLOW READ eve a.*", "DENY DESCRIBE bob a.*"]
    found, notices = carried(
        ["ALLOW READ bob *", "ALLOW READ eve *", "DENY DESCRIBE * *"], Copies(NAMED, {"a.old"}), ours if there else []
    )
    assert found == (
        {"ALLOW User:bob READ on a. (prefixed)", "DENY User:bob DESCRIBE on a. (prefixed)"} if there else set()
    )
    assert all("a.old" in notice or "'ALLOW User:eve READ on *' of a is not" in notice for notice in notices)


def test_a_prefix_that_would_give_other_copies_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_acls, "MOST_LITERALS", 1)
    copies = Copies({"ab": "x.ab", "ac": "x.ac", "b": "x.ab-b"}, {"x.abc"})
    found, _ = carried(["ALLOW READ bob a*"], copies, ["ALLOW READ bob x.a*"])
    assert found == set()


@settings(max_examples=examples(300))
@given(sources, copies_of(), st.sets(bindings) | st.sets(close), st.integers(0, 3))
def test_what_is_kept_gives_nobody_more_than_at_the_source(
    found: list[AclBinding], copies: Copies, ours: set[AclBinding], most: int
) -> None:
    ours |= set(wanted(found[1:], Copies(copies.topics)).bindings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copied_acls, "MOST_LITERALS", most)
        there = wanted_acls(found, copies, (REPLICATOR,), source="x", ours=ours).bindings
    _permit_no_more(there, found, copies, ("User:bob", "User:eve", "User:stranger"))
