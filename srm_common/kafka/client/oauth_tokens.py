"""Tokens for logins by OAUTHBEARER, from an OAuth 2 server (KIP-768)."""

from __future__ import annotations

import base64
import json
import random
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from srm_common.domain.cluster import OauthClient
from srm_common.errors import AccessDenied, ConfigError, UnreachableCluster
from srm_common.kafka.client.library import AbstractTokenProvider

#: One request to the token endpoint.
_REQUEST_SECONDS = 10.0
#: Java's sasl.login.retry.backoff.ms and sasl.login.retry.backoff.max.ms, which is also how long Java continues.
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS, _PATIENCE_SECONDS = 0.1, 10.0, 10.0
#: A token is renewed when this share of its life is over (Java's sasl.login.refresh.window.factor).
_RENEW_AT = 0.8
#: The endpoint identified the client and refused; other errors may be temporary.
_REFUSED = (400, 401, 403)


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of the client-credentials grant (RFC 6749, 4.4), kept until most of their life is over. Thread-safe."""

    def __init__(self, client: OauthClient) -> None:
        super().__init__()
        self._client = client
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = self._ends_at = 0.0

    def token(self, patience_seconds: float = _PATIENCE_SECONDS) -> str:
        """A token that is good for a while. Blocks, and asks again when the endpoint fails; to be called in a thread.

        Raises:
            AccessDenied: the endpoint refuses this client.
            UnreachableCluster: it gave no token in time.
            ConfigError: the certificates for it cannot be read.
        """
        deadline = time.monotonic() + patience_seconds
        if not self._lock.acquire(timeout=patience_seconds):
            raise UnreachableCluster(f"{self._client.token_endpoint_url} gave no token in {patience_seconds:g} s")
        try:
            if time.monotonic() >= self._renew_at:
                self._renew(deadline)
            return self._token
        finally:
            self._lock.release()

    def extensions(self) -> dict[str, str]:
        return dict(self._client.extensions)

    def _renew(self, deadline: float) -> None:
        pause = _BACKOFF_SECONDS
        while True:
            began = time.monotonic()
            try:
                self._token, lifetime = self._ask(max(deadline - began, 0.1))
            except UnreachableCluster:
                if began < self._ends_at:
                    return  # the token at hand still counts
                if time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(pause * 2, _LONGEST_BACKOFF_SECONDS)
            else:
                self._renew_at, self._ends_at = began + _RENEW_AT * lifetime, began + lifetime
                return

    def _ask(self, seconds: float) -> tuple[str, float]:
        client = self._client
        form = {"grant_type": "client_credentials"} | ({"scope": client.scope} if client.scope else {})
        login = base64.b64encode(f"{client.client_id}:{client.client_secret}".encode()).decode()
        request = urllib.request.Request(
            client.token_endpoint_url,
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
        )
        context = self._tls()
        try:
            with urllib.request.urlopen(request, timeout=min(seconds, _REQUEST_SECONDS), context=context) as response:
                answer: Any = json.load(response)
            return str(answer["access_token"]), float(answer.get("expires_in", 300))
        except urllib.error.HTTPError as error:
            with error:
                text = f"{client.token_endpoint_url} gave no token: status {error.code}"
            if error.code in _REFUSED:
                raise AccessDenied(f"{text}; check the client's id, secret and scope") from error
            raise UnreachableCluster(text) from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise UnreachableCluster(f"{client.token_endpoint_url} gave no token: {reason}") from error

    def _tls(self) -> ssl.SSLContext | None:
        client = self._client
        if client.certificate_authority is None and client.certificate_authority_file is None:
            return None
        try:
            return ssl.create_default_context(
                cafile=client.certificate_authority_file, cadata=client.certificate_authority
            )
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"the certificates for {client.token_endpoint_url} cannot be used: {error}") from error


class FetchedToken(AbstractTokenProvider):  # type: ignore[misc]
    """One token for one login: what the library asks for inside the event loop is there already."""

    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        """The token."""
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions
