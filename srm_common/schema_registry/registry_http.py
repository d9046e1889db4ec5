"""Requests to a schema registry over HTTP: its addresses in turn, its login, the limits of an answer, its refusals."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.errors import ConfigError, RegistryError
from srm_common.http_answers import ask, json_of
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.logins.security import registry_tls
from srm_common.schema_registry.proxy import Proxy

_TYPE = "application/vnd.schemaregistry.v1+json"
#: More than any registry holds, and less than a process has memory for.
_MOST_BYTES = 512 << 20
#: Statuses after which the same request can succeed at another address.
_TRY_NEXT = frozenset({429, 500, 502, 503, 504})


class RegistryHttp(Closing):
    """The addresses of a cluster's registry; a context manager that keeps one connection open. Not thread-safe.

    A registry that did not respond is not asked for a while, and every request gets the error of the last one:
    otherwise a thousand requests would wait for a thousand times the timeout.

    Args:
        timeout_seconds: of one request to one address; every address is tried once.
        silent_after: so many requests without a response, one after the other, make a registry one that is not asked.
            With 1, a single request that it never answers keeps others from it.
        silent_seconds: for how long it is not asked.
        clock: monotonic seconds, for that.

    Raises:
        ConfigError: the cluster has no registry, a certificate or key cannot be read, or the environment's proxy is
            none.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float,
        silent_after: int = 1,
        silent_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if cluster.schema_registry is None:
            raise ConfigError(f"cluster {cluster.alias} has no schema.registry.url")
        self.alias = cluster.alias
        self._settings: RegistrySettings = cluster.schema_registry
        #: The context that its addresses name, empty for the default one; None if they name none.
        self.context = cluster.schema_registry.context
        self._timeout_seconds = timeout_seconds
        self._tls: ssl.SSLContext | None = None
        if any(url.startswith("https:") for url in self._settings.urls):
            self._tls = registry_tls(cluster)
        self._proxies = {url: Proxy.of(url) for url in self._settings.urls}
        #: The address that answered last comes first.
        self._urls = list(self._settings.urls)
        self._connection: tuple[str, http.client.HTTPConnection] | None = None
        self._silent_after, self._silent_seconds, self._clock = silent_after, silent_seconds, clock
        #: Requests without a response since the last one that had one.
        self._unanswered = 0
        #: Until when the registry is not asked, and why.
        self._silent_until, self._silence = 0.0, ""
        #: What this client has registered: subjects, and versions that it has numbered itself.
        self._new_subjects: set[str] = set()
        self._new_versions: set[tuple[str, int]] = set()

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    def ask(self, method: str, path: str, what: str, kind: type, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer of the first address that has one.

        Args:
            what: what the registry is asked to do, for messages.
            kind: the type that the decoded answer must have.
            body: sent as JSON.

        Raises:
            RegistryError: no address responds, the registry refuses, or its answer cannot be read.
        """
        if self._silence and self._clock() < self._silent_until:
            raise RegistryError(self._silence, silent=True)
        silent: list[str] = []
        distrusted = False
        refused: RegistryError | None = None
        for url in list(self._urls):
            try:
                status, answer = self._exchange(url, method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                late = isinstance(error, TimeoutError)
                reason = f"no answer within {self._timeout_seconds:g} s" if late else _reason(error)
                by = f" by {self._proxies[url]}" if self._proxies[url] is not None else ""
                silent.append(f"{url}{by}: {reason}")
                distrusted = distrusted or isinstance(error, ssl.SSLCertVerificationError)
                continue
            self._unanswered, self._silence = 0, ""
            if status >= 300:
                refused = self._refusal(url, what, status, answer)
                if status in _TRY_NEXT:
                    continue
                raise refused
            self._urls.sort(key=lambda one: one != url)
            try:
                decoded = json_of(answer)
            except ValueError:
                decoded = None
            if not isinstance(decoded, kind):
                raise self.unreadable(what, url)
            return decoded
        if refused is not None:
            raise refused
        raise self._no_response(what, silent, distrusted)

    def _no_response(self, what: str, silent: list[str], distrusted: bool) -> RegistryError:
        where = f"when trying to {what} ({'; '.join(silent)}); check {self.alias}.schema.registry"
        if distrusted:
            # The library's words for the reason are OpenSSL's: a wrong host name, an unknown authority, an old date.
            text = (
                f"the certificate of the schema registry of {self.alias} is not accepted {where}.url and "
                f"{self.alias}.schema.registry.ssl.truststore.location"
            )
        else:
            text = f"the schema registry of {self.alias} did not respond {where}.url and the network"
        self._unanswered += 1
        if self._unanswered >= self._silent_after:
            self._silent_until, self._silence = self._clock() + self._silent_seconds, text
        return RegistryError(text, silent=True)

    def _exchange(self, url: str, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Status and body, within the timeout of a request, retries included."""
        deadline = time.monotonic() + self._timeout_seconds
        reused = self._connection is not None and self._connection[0] == url
        try:
            return self._once(url, method, path, body, deadline)
        except (http.client.RemoteDisconnected, ConnectionError):
            # Servers close idle connections; the request then succeeds on a new one.
            self.close()
            if not reused:
                raise
            return self._once(url, method, path, body, deadline)

    def _once(
        self, url: str, method: str, path: str, body: Mapping[str, Any] | None, deadline: float
    ) -> tuple[int, bytes]:
        connection = self._connected(url)
        # A proxy would take the default context's dot for the folder that it is in.
        prefix = urllib.parse.urlsplit(url).path.removesuffix("/contexts/.")
        data = None if body is None else json.dumps(body).encode()
        return ask(
            connection,
            method,
            prefix + path,
            data,
            self._headers(),
            seconds=deadline - time.monotonic(),
            most_bytes=_MOST_BYTES,
        )

    def _connected(self, url: str) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection[0] == url:
            return self._connection[1]
        self.close()
        parts = urllib.parse.urlsplit(url)
        assert parts.hostname is not None
        proxy = self._proxies[url]
        host, port = (parts.hostname, parts.port) if proxy is None else (proxy.host, proxy.port)
        connection = (
            http.client.HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self._tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=self._timeout_seconds)
        )
        if proxy is not None:
            connection.set_tunnel(parts.hostname, parts.port or http.client.HTTPS_PORT, proxy.headers)
        self._connection = (url, connection)
        return connection

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if self._settings.token is not None:
            headers["Authorization"] = f"Bearer {self._settings.token}"
        elif self._settings.user is not None:
            login = f"{self._settings.user}:{self._settings.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        return headers

    def unreadable(self, what: str, url: str | None = None) -> RegistryError:
        """The error for an answer that no registry gives; ``url`` defaults to the address that answered last."""
        url = url or self._urls[0]
        return RegistryError(
            f"{url} is not a schema registry: asked to {what}, it gave an answer that no registry gives; "
            f"check {self.alias}.schema.registry.url"
        )

    def _refusal(self, url: str, what: str, status: int, answer: bytes) -> RegistryError:
        code, message = _error(answer)
        there = f"the schema registry of {self.alias} at {url}"
        if status == 401:
            who = f" of '{self._settings.user}'" if self._settings.user is not None else ""
            text = (
                f"{there} refuses the login{who} when trying to {what}; check {self.alias}.basic.auth.user.info or "
                f"{self.alias}.bearer.auth.token"
            )
        elif status == 403:
            text = f"{there} denies permission to {what}: {message}".rstrip(": ")
        elif 300 <= status < 400:
            text = (
                f"{there} redirects to another address when trying to {what} (HTTP {status}); set "
                f"{self.alias}.schema.registry.url to that one"
            )
        else:
            number = f"HTTP {status}" if code is None or code == status else f"HTTP {status}, error {code}"
            text = f"{there} refuses to {what} ({number}): {message}".rstrip(": ")
        return RegistryError(text, status=status, code=code)


def _error(answer: bytes) -> tuple[int | None, str]:
    """Error code and message of a refusal; None and the beginning of its text if it is not a registry's."""
    text = answer.decode(errors="replace")
    try:
        found = json_of(answer)
        code, message = int(found["error_code"]), str(found["message"])
    except (ValueError, TypeError, KeyError, OverflowError):
        code, message = None, text
    return code, " ".join(message.split())[:300]


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
