"""Tokens for logins by OAUTHBEARER, from an OAuth 2 server (KIP-768)."""

from __future__ import annotations

import base64
import http.client
import math
import random
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from srm_common.domain.cluster import OauthClient
from srm_common.errors import AccessDenied, ConfigError, SrmError, UnreachableCluster
from srm_common.http_answers import AnswerTooLarge, fetch, json_of
from srm_common.kafka.client.library import AbstractTokenProvider

#: One request to the token endpoint.
_REQUEST_SECONDS = 10.0
#: Java's sasl.login.retry.backoff.ms and sasl.login.retry.backoff.max.ms, which is also how long Java continues.
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS, _PATIENCE_SECONDS = 0.1, 10.0, 10.0
#: A token is renewed when this share of its life is over (Java's sasl.login.refresh.window.factor).
_RENEW_AT = 0.8
#: How long a login waits for a new token while the old one is still valid: the broker will end the session soon.
_BRIEFLY_SECONDS = 1.0
#: A renewal that takes longer is replaced by another one: an endpoint may send its answer byte by byte.
_LOST_SECONDS = 60.0
#: What a waiting login allows the renewal beyond its own time, so that the reason comes before the end of the wait.
_GRACE_SECONDS = 0.5
#: How long a token is valid whose answer does not say so.
_USUAL_SECONDS = 300.0
#: Tokens are a few kilobytes.
_LARGEST_ANSWER = 1 << 20
#: The endpoint identified the client and refused; other errors may be temporary.
_REFUSED = (400, 401, 403)


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of the client-credentials grant (RFC 6749, 4.4), kept until most of their life is over. Thread-safe.

    A token is renewed in a thread of its own, as Java does (``ExpiringCredentialRefreshingLogin``), while the current
    one is still valid, so that a silent endpoint delays logins as late as possible.
    """

    def __init__(self, client: OauthClient) -> None:
        super().__init__()
        self._client = client
        self._changed = threading.Condition()
        self._token = ""
        self._renew_at = self._ends_at = 0.0
        #: Since when a renewal has been going on, and why the last one failed.
        self._renewing_since: float | None = None
        self._fault: SrmError | None = None

    def token(self, patience_seconds: float = _PATIENCE_SECONDS) -> str:
        """A valid token. Blocks while there is none, and asks again when the endpoint fails; to be called in a thread.

        Raises:
            AccessDenied: the endpoint refuses this client.
            UnreachableCluster: it returned no token in time.
            ConfigError: the certificates for it cannot be read.
        """
        deadline = time.monotonic() + patience_seconds
        with self._changed:
            if time.monotonic() < self._renew_at:
                return self._token
            self._begin(deadline)
            while time.monotonic() >= self._renew_at:
                now, since = time.monotonic(), self._renewing_since
                if since is None and now >= self._ends_at:
                    raise self._why(patience_seconds)
                until = deadline + _GRACE_SECONDS if now >= self._ends_at else (since or 0.0) + _BRIEFLY_SECONDS
                if now >= until:
                    break
                self._changed.wait(until - now)
            if time.monotonic() < self._ends_at:
                return self._token
            raise self._why(patience_seconds)

    def extensions(self) -> dict[str, str]:
        return dict(self._client.extensions)

    def _begin(self, deadline: float) -> None:
        """Have a token fetched, unless that is going on."""
        now = time.monotonic()
        if self._renewing_since is None or now - self._renewing_since > _LOST_SECONDS:
            self._renewing_since, self._fault = now, None
            threading.Thread(target=self._renew, args=(now, deadline), name="oauth-token", daemon=True).start()

    def _why(self, patience_seconds: float) -> SrmError:
        if self._fault is None:
            return UnreachableCluster(f"{self._client.token_endpoint_url} gave no token in {patience_seconds:g} s")
        return type(self._fault)(str(self._fault))  # a new one for each thread that waits

    def _renew(self, since: float, deadline: float) -> None:
        fault: SrmError | None = None
        try:
            token, began, lifetime = self._fetched(deadline)
        except SrmError as error:
            fault = error
        with self._changed:
            if fault is None and began + lifetime > self._ends_at:
                self._token = token
                self._renew_at, self._ends_at = began + _RENEW_AT * lifetime, began + lifetime
            if self._renewing_since == since:
                self._renewing_since, self._fault = None, fault
            self._changed.notify_all()

    def _fetched(self, deadline: float) -> tuple[str, float, float]:
        """(token, when it was requested in monotonic seconds, for how many seconds it is valid)."""
        pause = _BACKOFF_SECONDS
        while True:
            began = time.monotonic()
            try:
                token, lifetime = self._ask(max(deadline - began, 0.1))
            except UnreachableCluster:
                now = time.monotonic()
                # Another attempt that takes as long would not end in time, and its error would only say so.
                if now + pause + (now - began) >= deadline:
                    raise
                time.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(pause * 2, _LONGEST_BACKOFF_SECONDS)
            else:
                return token, began, lifetime

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
            limit = min(seconds, _REQUEST_SECONDS)
            return token_in(fetch(request, seconds=limit, most_bytes=_LARGEST_ANSWER, context=context))
        except urllib.error.HTTPError as error:
            with error:
                text = f"{client.token_endpoint_url} gave no token: status {error.code}"
            if error.code in _REFUSED:
                raise AccessDenied(f"{text}; check the client's id, secret and scope") from error
            raise UnreachableCluster(text) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnreachableCluster(f"{client.token_endpoint_url} gave no token: {_reason(error)}") from error

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


def _reason(error: Exception) -> str:
    if isinstance(error, http.client.RemoteDisconnected):
        return "it closed the connection without an answer"
    if isinstance(error, AnswerTooLarge):
        return str(error)
    if isinstance(error, http.client.HTTPException):  # whose text is what was received
        return "its answer is not HTTP, or was cut off"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return str(reason) or type(reason).__name__


def token_in(answer: bytes) -> tuple[str, float]:
    """(token, lifetime in seconds) of an answer (RFC 6749, 5.1). Raises ValueError, whose text shows nothing of it."""
    try:
        found = json_of(answer)
    except ValueError:
        raise ValueError("its answer is not JSON") from None
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("its answer has no access_token")
    try:
        seconds = float(found.get("expires_in", _USUAL_SECONDS))
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError("its answer has an expires_in that is not a number of seconds")
    return token, seconds


class FetchedToken(AbstractTokenProvider):  # type: ignore[misc]
    """One token for one login, fetched before the library asks for it inside the event loop."""

    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        """The token."""
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._extensions
