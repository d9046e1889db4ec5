"""The messages of a login by SCRAM that differ from the library's."""

from __future__ import annotations

import pytest

from srm_common.domain.cluster import DelegationToken
from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.logins.scram import Scram


def login(name: str, provider: object = None) -> Scram:
    return Scram(
        sasl_plain_username=name,
        sasl_plain_password="pencil",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_oauth_token_provider=provider,
    )


@pytest.mark.parametrize(
    ("name", "sent"),
    [("ann", b"n=ann"), ("CN=a,O=b", b"n=CN=3Da=2CO=3Db"), ("=2C", b"n==3D2C"), ("ü", "n=ü".encode())],
)
def test_signs_of_the_protocol_are_escaped(name: str, sent: bytes) -> None:
    """RFC 5802, section 5.1: ``saslname``."""
    assert login(name).auth_bytes().startswith(b"n,," + sent + b",r=")


def test_what_both_sides_sign_has_the_extension() -> None:
    """Without the header of the channel binding: RFC 5802, section 3, ``AuthMessage``; KIP-48 for the extension."""
    by_token = login("id", DelegationToken())
    first = by_token.auth_bytes()
    assert first.endswith(b",tokenauth=true")
    assert by_token.client.auth_message == first.removeprefix(b"n,,")
    nonce = by_token.client.nonce
    by_token.receive(b"r=" + nonce + b"x,s=QSXCR+Q6sek8bf92,i=4096")
    assert by_token.auth_bytes().startswith(b"c=biws,r=" + nonce[:8])
    assert b"tokenauth" not in by_token.auth_bytes()


def test_the_example_of_rfc_7677() -> None:
    one = login("user")
    one.client.nonce = b"rOprNGfwEbeRWgbNEkqO"
    assert one.auth_bytes() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert not one.receive(first)
    assert one.auth_bytes().endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert one.receive(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("iterations", [b"i=1", b"i=4095", b"i=-4096", b"x=1"])
def test_a_server_that_wants_few_iterations_gets_no_proof(iterations: bytes) -> None:
    one = login("ann")
    nonce = one.auth_bytes().rpartition(b"r=")[2]
    with pytest.raises(Errors.SaslAuthenticationFailedError, match=r"cannot be used: it (wants fewer|has no)"):
        one.receive(b"r=" + nonce + b"x,s=QSXCR+Q6sek8bf92," + iterations)
