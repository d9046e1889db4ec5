"""Tokens for logins by OAUTHBEARER, kept until most of their life is over."""

from __future__ import annotations

import random
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping

from srm_common.errors import SrmError, UnreachableCluster
from srm_common.kafka.client.library import AbstractTokenProvider

#: Java's sasl.login.retry.backoff.ms and sasl.login.retry.backoff.max.ms, which is also how long Java continues.
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS, _PATIENCE_SECONDS = 0.1, 10.0, 10.0
#: A token is renewed when this share of its life is over (Java's sasl.login.refresh.window.factor).
_RENEW_AT = 0.8
#: How long a login waits for a new token while the old one is still valid: the broker will end the session soon.
_BRIEFLY_SECONDS = 1.0
#: A renewal that takes longer is replaced by another one: an endpoint may answer byte by byte, a function hang.
_LOST_SECONDS = 60.0
#: What a waiting login allows the renewal beyond its own time, so that the reason comes before the end of the wait.
_GRACE_SECONDS = 0.5


class KeptTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of one source. Thread-safe.

    A token is renewed in a thread of its own, as Java does (``ExpiringCredentialRefreshingLogin``), while the current
    one is still valid, so that a silent source delays logins as late as possible.

    Args:
        source: what gives the tokens, for messages.
        extensions: SASL extensions of each login.
    """

    def __init__(self, source: str, extensions: Mapping[str, str]) -> None:
        super().__init__()
        self.source = source
        self._extensions = dict(extensions)
        self._changed = threading.Condition()
        self._token = ""
        self._renew_at = self._ends_at = 0.0
        #: Since when a renewal has been going on, and why the last one failed.
        self._renewing_since: float | None = None
        self._fault: SrmError | None = None

    def token(self, patience_seconds: float = _PATIENCE_SECONDS) -> str:
        """A valid token. Blocks while there is none, and asks again when the source fails; to be called in a thread.

        Raises:
            AccessDenied: the source refuses to give one.
            UnreachableCluster: it returned no token in time.
            ConfigError: the certificates for it cannot be read.
        """
        return self.expiring_token(patience_seconds)[0]

    def expiring_token(self, patience_seconds: float = _PATIENCE_SECONDS) -> tuple[str, float]:
        """What :meth:`token` returns, and how many seconds it is still valid."""
        deadline = time.monotonic() + patience_seconds
        with self._changed:
            if (now := time.monotonic()) < self._renew_at:
                return self._token, self._ends_at - now
            self._begin(deadline)
            while time.monotonic() >= self._renew_at:
                now, since = time.monotonic(), self._renewing_since
                if since is None and now >= self._ends_at:
                    raise self._why(patience_seconds)
                until = deadline + _GRACE_SECONDS if now >= self._ends_at else (since or 0.0) + _BRIEFLY_SECONDS
                if now >= until:
                    break
                self._changed.wait(until - now)
            if (left := self._ends_at - time.monotonic()) > 0:
                return self._token, left
            raise self._why(patience_seconds)

    def extensions(self) -> dict[str, str]:
        return dict(self._extensions)

    @abstractmethod
    def _ask(self, seconds: float) -> tuple[str, float]:
        """(a new token, for how many seconds it is valid), within about so many seconds. Raises SrmError: after
        UnreachableCluster it is called again."""

    def _begin(self, deadline: float) -> None:
        """Have a token fetched, unless that is going on."""
        now = time.monotonic()
        if self._renewing_since is None or now - self._renewing_since > _LOST_SECONDS:
            self._renewing_since, self._fault = now, None
            threading.Thread(target=self._renew, args=(now, deadline), name="oauth-token", daemon=True).start()

    def _why(self, patience_seconds: float) -> SrmError:
        if self._fault is None:
            return UnreachableCluster(f"{self.source} gave no token in {patience_seconds:.3g} s")
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
