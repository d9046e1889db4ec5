"""Tokens that a function returns, raises instead, or never returns."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from srm_common.domain.cluster import MSK_IAM, ClusterSettings, TokenFunction
from srm_common.errors import AccessDenied, ConfigError, UnreachableCluster
from srm_common.kafka.client.logins import token_function
from srm_common.kafka.client.logins.security import connection_arguments
from srm_common.kafka.client.logins.token_function import FunctionTokens, function_tokens
from tests import token_functions

KEY = "east.sasl.oauthbearer.token.provider"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(token_function, "_known", {})
    monkeypatch.setattr(token_functions, "asked", [])
    token_functions.over.clear()
    yield
    token_functions.over.set()


def login(name: str, **options: str) -> TokenFunction:
    return TokenFunction(f"tests.token_functions:{name}", "east", KEY, tuple(options.items()))


def cluster(found: TokenFunction) -> ClusterSettings:
    return ClusterSettings("east", "h:1", {}, {"sasl_oauth_token_provider": found})


def returning(value: Any) -> FunctionTokens:
    def function(alias: str, options: dict[str, str]) -> object:
        if isinstance(value, BaseException):
            raise value
        return value

    return FunctionTokens(TokenFunction("my.tokens:token", "east", KEY), function)


def test_clients_of_a_process_share_the_tokens_of_a_function() -> None:
    """Settings that were sent to another process name the same function."""
    wanted = cluster(login("unsecured", seconds="60", extension_pool="a", secret="hush"))
    assert "hush" not in repr(wanted.token_function)
    sent = pickle.loads(pickle.dumps(wanted))
    tokens = connection_arguments(sent)["sasl_oauth_token_provider"]
    assert isinstance(tokens, FunctionTokens)
    assert tokens is function_tokens(wanted)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: tokens.token(), range(64)))) == 1
    token, expires_at, principal, extensions = tokens.for_librdkafka("")
    assert (token, principal, extensions) == (tokens.token(), "", {"pool": "a"})
    assert 0 < expires_at - time.time() < 61
    assert token_functions.asked == ["east"]


def test_a_token_is_renewed_before_it_expires() -> None:
    tokens = function_tokens(cluster(login("unsecured", seconds="600")))
    assert tokens is not None
    first = tokens.token()
    tokens._renew_at = 0.0
    assert next(token for _ in range(300) if (token := tokens.token()) != first)
    assert token_functions.asked == ["east", "east"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, r"returned a NoneType, and not \(token, seconds since 1970 at which it expires\)"),
        ("hush", r"returned a str, and not \(token, .*"),
        (("hush", 1, 2), "returned a tuple, and not .*"),
        ((b"hush", 1), "returned a token that is no text of ASCII characters"),
        (("hüsh", 1), "returned a token that is no text of ASCII characters"),
        (("", 2**32), "returned an empty token"),
        (("hush", "soon"), "returned a str as the time at which the token expires, and not a number: .*"),
        (("hush", 1_900_000_000_000), r"returned a time that is too far away .*: are these milliseconds\?"),
        (("hush", float("nan")), "returned a time that is too far away .*"),
        (AccessDenied("you are out"), "gave no token: you are out"),
    ],
)
def test_what_another_call_does_not_change_is_final(value: object, reason: str) -> None:
    with pytest.raises(AccessDenied, match=rf"^{KEY}: my\.tokens:token {reason}$") as caught:
        returning(value).token(60)
    assert "hush" not in str(caught.value)
    assert "hüsh" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (("hush", 3600), "gave a token that expired at 1970-01-01T01:00:00.00:00"),
        (("hush", -1), "gave a token that expired at 1970-01-01T00:00:00.00:00"),
        (ConnectionError("the vault\ndoes not answer"), "gave no token: ConnectionError: the vault does not answer"),
        (SystemExit("bye"), "gave no token: SystemExit: bye"),
        (UnreachableCluster("no vault"), "gave no token: no vault"),
    ],
)
def test_what_another_call_may_change_is_tried_again(value: object, reason: str) -> None:
    with pytest.raises(UnreachableCluster, match=rf"^{KEY}: my\.tokens:token {reason}$") as caught:
        returning(value).token(0.5)
    assert "hush" not in str(caught.value)


def test_a_function_that_fails_for_a_while_is_called_again() -> None:
    answers: list[Any] = [OSError("away"), ("t", time.time() + 60)]

    def function(alias: str, options: dict[str, str]) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert FunctionTokens(login("x"), function).token(60) == "t"


def test_a_function_that_hangs_is_one_sentence() -> None:
    tokens = function_tokens(cluster(login("hanging")))
    assert tokens is not None
    with pytest.raises(UnreachableCluster, match=rf"^{KEY}: tests\.token_functions:hanging gave no token in 0.2 s$"):
        tokens.token(0.2)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no.such:token", f"{KEY}: 'no.such:token' cannot be imported: there is no Python module 'no' here .*driver"),
        ("tests.token_functions:no", f"{KEY}: module 'tests.token_functions' has no 'no'"),
        ("tests.token_functions:asked", f"{KEY}: 'tests.token_functions:asked' is a list, which cannot be called"),
    ],
)
def test_a_function_that_is_not_here(path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        connection_arguments(cluster(TokenFunction(path, "east", KEY)))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"cluster 'east' needs a login by AWS IAM.*pip install 'srm_kafka-.*\[aws\]'"
    ):
        function_tokens(cluster(TokenFunction(MSK_IAM, "east", "east.sasl.mechanism")))


def test_a_login_without_a_function() -> None:
    assert function_tokens(ClusterSettings.plaintext("east", "h:1")) is None
