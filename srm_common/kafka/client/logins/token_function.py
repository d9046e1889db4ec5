"""Tokens for logins by OAUTHBEARER, from a Python function: the user's own, or the one for Amazon MSK."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from srm_common.domain.cluster import MSK_IAM, ClusterSettings, TokenFunction
from srm_common.errors import AccessDenied, ConfigError, SrmError, UnreachableCluster, installing
from srm_common.kafka.client.logins.kept_tokens import KeptTokens
from srm_common.settings_files.user_classes import load_function

_WANTED = "a function that is installed wherever the flow runs: driver, tasks and workers"
#: Seconds since 1970 have fewer digits for some thousand years, milliseconds have more.
_MILLISECONDS = 10**11
_LONGEST_REASON = 500


class FunctionTokens(KeptTokens):
    """What a function returns, which is called in a thread: one that hangs delays the login and nothing else."""

    def __init__(self, login: TokenFunction, function: Callable[..., object]) -> None:
        options = dict(login.options)
        extensions = {key.removeprefix("extension_"): options[key] for key in options if key.startswith("extension_")}
        super().__init__(f"{login.key}: {login.path}", extensions)
        self._login = login
        self._function = function

    def for_librdkafka(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        """The token as ``oauth_cb`` of confluent-kafka returns it."""
        token, seconds = self.expiring_token()
        return token, time.time() + seconds, "", self.extensions()

    def _ask(self, seconds: float) -> tuple[str, float]:
        began = time.time()
        try:
            found = self._function(self._login.alias, dict(self._login.options))
        except SrmError as error:
            raise type(error)(f"{self.source} gave no token: {error}") from error
        except (Exception, SystemExit) as error:  # whatever the user's code may raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
            raise UnreachableCluster(f"{self.source} gave no token: {reason}") from error
        token, expires_at = self._checked(found)
        if expires_at <= time.time():
            ended = datetime.fromtimestamp(max(expires_at, 0), UTC).isoformat(timespec="seconds")
            raise UnreachableCluster(f"{self.source} gave a token that expired at {ended}")
        return token, expires_at - began

    def _checked(self, found: object) -> tuple[str, float]:
        """Raises AccessDenied: another call would return nothing better. No message shows what was returned."""
        what = "(token, seconds since 1970 at which it expires)"
        if not isinstance(found, tuple) or len(found) != 2:
            raise AccessDenied(f"{self.source} returned a {type(found).__name__}, and not {what}")
        token, expires_at = found
        if not isinstance(token, str) or not token.isascii() or not token.strip():
            reason = "an empty token" if token == "" else "a token that is no text of ASCII characters"
            raise AccessDenied(f"{self.source} returned {reason}")
        if not isinstance(expires_at, int | float) or isinstance(expires_at, bool):
            raise AccessDenied(
                f"{self.source} returned a {type(expires_at).__name__} as the time at which the token expires, and not "
                f"a number: {what}"
            )
        if not expires_at < _MILLISECONDS:
            raise AccessDenied(
                f"{self.source} returned a time that is too far away for seconds since 1970: are these milliseconds?"
            )
        return token, float(expires_at)


_known: dict[TokenFunction, FunctionTokens] = {}
_known_lock = threading.Lock()


def function_tokens(cluster: ClusterSettings) -> FunctionTokens | None:
    """The tokens of the cluster's login, which all clients of this process share; None where no function gives them.

    Raises:
        ConfigError: the function cannot be imported here.
    """
    login = cluster.token_function
    if login is None:
        return None
    with _known_lock:
        if login not in _known:
            _known[login] = FunctionTokens(login, _loaded(login))
        return _known[login]


def _loaded(login: TokenFunction) -> Callable[..., object]:
    if login.path == MSK_IAM and importlib.util.find_spec("aws_msk_iam_sasl_signer") is None:
        raise ConfigError(
            f"cluster '{login.alias}' needs a login by AWS IAM, for which the Python package "
            f"aws-msk-iam-sasl-signer-python is not installed here; install it with: {installing('aws')} "
            f"(docs/security.md)"
        )
    try:
        return load_function(login.path, _WANTED)
    except ConfigError as error:
        raise ConfigError(f"{login.key}: {error.reason}") from error
