"""Tokens from a real token endpoint on loopback, also from one that is silent, fails or answers nonsense."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from srm_common.domain.cluster import ClusterSettings, OauthClient
from srm_common.errors import AccessDenied, ConfigError, UnreachableCluster
from srm_common.kafka.client.logins.client_credentials import ClientCredentials
from srm_common.kafka.client.logins.security import connection_arguments
from tests.token_endpoint import TokenEndpoint, serving

#: What an endpoint sends in place of an answer, and the reason that is told; None: it is silent.
TROUBLES: dict[bytes | None, str | None] = {
    None: None,
    b"": "it closed the connection without an answer",
    b"SSH-2.0-OpenSSH_9.2\r\n": "its answer is not HTTP, or was cut off",
    b"HTTP/1.0 200 OK\r\n\r\n<html>": "its answer is not JSON",
    b"HTTP/1.0 200 OK\r\n\r\n[]": "its answer has no access_token",
    b'HTTP/1.0 200 OK\r\n\r\n{"access_token": null}': "its answer has no access_token",
    b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "x", "expires_in": "soon"}': "its answer has an expires_in .*",
    b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "x", "expires_in": 0}': "its answer has an expires_in .*",
    b'HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{"access': "its answer is not HTTP, or was cut off",
    b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000: "its answer is not JSON",
    b'HTTP/1.0 200 OK\r\n\r\n{"access_token": "x", "expires_in": '
    + b"9" * 400
    + b"}": "its answer has an expires_in .*",
    b"HTTP/1.0 200 OK\r\n\r\n" + b" " * (1 << 20) + b"{}": "its answer is larger than 1 MB",
}


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem", "hush")
    return context


@pytest.fixture
def token_endpoint() -> Iterator[TokenEndpoint]:
    with serving() as endpoint:
        yield endpoint


def test_tokens_are_fetched_once_and_kept(token_endpoint: TokenEndpoint) -> None:
    client = OauthClient(token_endpoint.url, "me", "hush", "kafka", (("cluster", "x"),))
    cluster = ClusterSettings("a", "h:1", {}, {"sasl_oauth_token_provider": client})
    provider = connection_arguments(cluster)["sasl_oauth_token_provider"]
    assert (provider.token(), provider.token()) == ("t1", "t1")
    assert token_endpoint.asked == [("me:hush", "grant_type=client_credentials&scope=kafka")]
    assert provider.extensions() == {"cluster": "x"}


def test_a_token_endpoint_that_fails_is_asked_again(token_endpoint: TokenEndpoint) -> None:
    token_endpoint.failures = [503, 404, 500]
    assert ClientCredentials(OauthClient(token_endpoint.url, "me", "hush")).token(300) == "t4"


def test_a_token_endpoint_that_goes_on_failing_is_one_sentence(token_endpoint: TokenEndpoint) -> None:
    token_endpoint.failures = [503] * 100
    with pytest.raises(UnreachableCluster, match=r"/token gave no token: status 503$"):
        ClientCredentials(OauthClient(token_endpoint.url, "me", "hush")).token(0.5)
    assert len(token_endpoint.asked) > 1


def due(endpoint: TokenEndpoint) -> ClientCredentials:
    """With the token t1, which is to be renewed now and counts for an hour."""
    provider = ClientCredentials(OauthClient(endpoint.url, "me", "hush"))
    assert provider.token() == "t1"
    provider._renew_at = 0.0
    return provider


def test_a_token_that_is_due_is_renewed_before_the_next_login(token_endpoint: TokenEndpoint) -> None:
    provider = due(token_endpoint)
    token_endpoint.failures = [503]
    assert eventually_new(provider) == "t3"


def eventually_new(provider: ClientCredentials) -> str:
    """The token after t1, which is given until there is another one."""
    for _ in range(300):
        if (token := provider.token()) != "t1":
            return token
    raise AssertionError("the token was not renewed")


@pytest.mark.parametrize("trouble", [*TROUBLES, 401, 503])
def test_a_token_is_used_to_its_end_when_there_is_no_new_one(
    token_endpoint: TokenEndpoint, trouble: bytes | int | None
) -> None:
    """Whatever the endpoint does, and at once: the patience is for logins without any token."""
    provider = due(token_endpoint)
    with token_endpoint.in_trouble(trouble):
        assert provider.token(3_000) == "t1"
        provider._ends_at = 0.0
        with pytest.raises((UnreachableCluster, AccessDenied), match=r"^http://127.0.0.1:\d+/token gave no token"):
            provider.token(0.5)
    assert eventually_new(provider)[0] == "t"


@pytest.mark.parametrize(("answer", "reason"), [one for one in TROUBLES.items() if one[0] is not None])
def test_an_answer_without_a_token_is_one_sentence(token_endpoint: TokenEndpoint, answer: bytes, reason: str) -> None:
    with token_endpoint.in_trouble(answer), pytest.raises(UnreachableCluster) as caught:
        ClientCredentials(OauthClient(token_endpoint.url, "me", "hush")).token(2.0)
    assert re.fullmatch(rf"{token_endpoint.url} gave no token: {reason}", str(caught.value))


def test_many_logins_ask_for_one_token(token_endpoint: TokenEndpoint) -> None:
    provider = ClientCredentials(OauthClient(token_endpoint.url, "me", "hush"))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: provider.token(300), range(64))) == {"t1"}
    assert len(token_endpoint.asked) == 1


def test_a_redirection_is_not_followed(token_endpoint: TokenEndpoint) -> None:
    """A form that is posted would become a GET, and the client's secret would go to another host."""
    answer = f"HTTP/1.1 301 Moved\r\nLocation: {token_endpoint.url}/other\r\nContent-Length: 0\r\n\r\n".encode()
    said = rf"status 301, a redirection to {token_endpoint.url}/other, which is not followed; give that address$"
    with token_endpoint.in_trouble(answer), pytest.raises(UnreachableCluster, match=said):
        ClientCredentials(OauthClient(token_endpoint.url, "me", "hush")).token(2.0)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_refused_client_is_one_sentence_at_once(token_endpoint: TokenEndpoint, status: int) -> None:
    token_endpoint.failures = [status]
    provider = ClientCredentials(OauthClient(token_endpoint.url, "me", "wrong"))
    with pytest.raises(AccessDenied, match=rf"/token gave no token: status {status}; check the client's id"):
        provider.token(300)
    assert len(token_endpoint.asked) == 1


def test_the_token_endpoint_is_trusted_by_an_authority_of_its_own(certificate: Path) -> None:
    ca = certificate / "cert.pem"
    with serving(tls=server_context(certificate)) as endpoint:
        for trusted in (
            OauthClient(endpoint.url, "me", "hush", certificate_authority_file=str(ca)),
            OauthClient(endpoint.url, "me", "hush", certificate_authority=ca.read_text()),
        ):
            assert ClientCredentials(trusted).token(300)
        with pytest.raises(UnreachableCluster, match="CERTIFICATE_VERIFY_FAILED"):
            ClientCredentials(OauthClient(endpoint.url, "me", "hush")).token(2)
    with pytest.raises(ConfigError, match=r"the certificates for .* cannot be used"):
        ClientCredentials(OauthClient(endpoint.url, "me", "hush", certificate_authority="nonsense")).token()
