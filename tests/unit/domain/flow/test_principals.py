from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.principals import ANONYMOUS, Right, login_principal


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, ANONYMOUS),
        ({"security.protocol": "SSL"}, ANONYMOUS),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "srm"}, "User:srm"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "srm"}, "User:srm"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.username": "srm"}, None),
    ],
)
def test_the_principal_of_a_login(settings: dict[str, str], principal: str | None) -> None:
    assert login_principal(ClusterSettings("a", "h:1", settings, {})) == principal


@dataclass
class Shown:
    """A client certificate."""

    of: str | None
    place: str = "/x"

    def chain(self) -> str:
        raise AssertionError("only its subject is of interest")

    def subject(self) -> str | None:
        return self.of


@pytest.mark.parametrize("subject", ["CN=srm,O=x y", None])
def test_a_certificate_tells_the_sentence_alone_whose_it_is(subject: str | None) -> None:
    """Brokers may have rules of their own, so that nothing is decided by it."""
    cluster = ClusterSettings("a", "h:1", {"security.protocol": "SSL"}, {}, own_certificate=Shown(subject))
    assert login_principal(cluster) is None
    sentence = Right("Read", "topic", "t").missing(cluster)
    assert sentence == (
        "User:CN=srm,O=x y, or what ssl.principal.mapping.rules of the brokers make of it, needs the permission Read "
        "on topic 't' (kafka-acls.sh --add --allow-principal 'User:CN=srm,O=x y' --operation Read --topic t)"
        if subject
        else "the principal of the login needs the permission Read on topic 't' (kafka-acls.sh --add --allow-principal "
        "User:... --operation Read --topic t)"
    )
    by_password = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "bob"}
    assert login_principal(replace(cluster, confluent=by_password)) == "User:bob"
    assert Right("Read", "topic", "t").missing(replace(cluster, confluent=by_password)).startswith("User:bob needs")
