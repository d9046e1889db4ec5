from __future__ import annotations

import pytest
from hypothesis import given

from srm_common.domain.access.acls import AclBinding, TopicPattern, beginning, literal, prefixed
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.principals import ANONYMOUS, login_principal
from tests.unit.domain.access.test_acl_rules import TOPICS, bindings, patterns


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


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, ANONYMOUS),
        ({"security.protocol": "SSL"}, ANONYMOUS),
        ({"security.protocol": "SSL", "ssl.certificate.location": "/x"}, None),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "srm"}, "User:srm"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "srm"}, "User:srm"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.username": "srm"}, None),
    ],
)
def test_the_principal_of_a_login(settings: dict[str, str], principal: str | None) -> None:
    assert login_principal(ClusterSettings("a", "h:1", settings, {})) == principal
