"""One schema registry, by Confluent's REST API; Karapace has it, too.

What differs between registries is found by asking: contexts and mode IMPORT exist in Confluent's only.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.schemas.schemas import RegistryView, SchemaVersion
from srm_common.errors import ConfigError, RegistryError
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.security import registry_tls

_TYPE = "application/vnd.schemaregistry.v1+json"
#: All contexts (Confluent's ``QualifiedSubject.CONTEXT_WILDCARD``).
_EVERY_CONTEXT = ":*:"
#: Confluent's ``schema.search.max.limit`` is the same by default; a registry with a lower one gives smaller pages.
_PAGE = 1000
#: More than any registry holds, and less than a process has memory for.
_MOST_BYTES = 512 << 20
_PIECE = 1 << 20
#: Where the same request can succeed at another address.
_TRY_NEXT = frozenset({429, 500, 502, 503, 504})


class SchemaRegistry(Closing):
    """The registry of a cluster; a context manager that keeps one connection open. Not for several threads.

    Args:
        timeout_seconds: of one request to one address; every address is tried once.

    Raises:
        RegistryError: from every method: no address responds, the registry refuses, or its answer cannot be read.
        ConfigError: a certificate or key cannot be read.
    """

    def __init__(self, cluster: ClusterSettings, *, timeout_seconds: float) -> None:
        if cluster.schema_registry is None:
            raise ConfigError(f"cluster {cluster.alias} has no schema.registry.url")
        self.alias = cluster.alias
        self._settings: RegistrySettings = cluster.schema_registry
        self._timeout_seconds = timeout_seconds
        self._tls: ssl.SSLContext | None = None
        if any(url.startswith("https:") for url in self._settings.urls):
            self._tls = registry_tls(cluster)
        #: The address that answered last comes first.
        self._urls = list(self._settings.urls)
        self._connection: tuple[str, http.client.HTTPConnection] | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    # ---- what is there

    def view(
        self, *, levels_of: Callable[[str], bool] = lambda subject: False, whole: Collection[str] = ()
    ) -> RegistryView:
        """All schemas of all contexts, soft-deleted ones too.

        Args:
            levels_of: subjects whose own compatibility level is asked for, one request each: there is none for all.
            whole: names under which the level of the registry, or of a context as a whole, is asked for.
        """
        everything = {one.place: one for one in self._schemas(deleted=True)}
        live = {one.place: one for one in self._schemas(deleted=False)}
        found = [live.get(place) or replace(one, deleted=True) for place, one in {**everything, **live}.items()]
        view = RegistryView.of(found)
        levels = {}
        for subject in [*whole, *filter(levels_of, view.subjects)]:
            level = self.level(subject)
            if level is not None:
                levels[subject] = level
        return RegistryView(view.schemas, levels)

    def _schemas(self, *, deleted: bool) -> Iterator[SchemaVersion]:
        """In pages. A registry without pages gives everything each time, which ends it as well."""
        query = {"deleted": "true" if deleted else "false", "limit": str(_PAGE)}
        if self._has_contexts():
            query["subjectPrefix"] = _EVERY_CONTEXT
        seen: set[tuple[str, int]] = set()
        offset = 0
        while True:
            path = "/schemas?" + urllib.parse.urlencode({**query, "offset": str(offset)})
            rows = self._ask("GET", path, "list its schemas", list)
            try:
                page = [SchemaVersion.from_json(row) for row in rows]
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
                raise self._unreadable("list its schemas", self._urls[0]) from None
            fresh = [one for one in page if one.place not in seen]
            if not fresh:
                return
            yield from fresh
            seen |= {one.place for one in fresh}
            offset += len(page)

    def _has_contexts(self) -> bool:
        try:
            return len(self._ask("GET", "/contexts", "list its contexts", list)) > 0
        except RegistryError as error:
            if error.status in (404, 405):
                return False
            raise

    def level(self, subject: str) -> str | None:
        """The compatibility level of a subject, None where it has none of its own; of an empty name the registry's."""
        path = f"/config/{_quoted(subject)}" if subject else "/config"
        return self._text(path, f"show the compatibility of {_named(subject)}", "compatibilityLevel", "compatibility")

    def mode(self, subject: str) -> str | None:
        """``READWRITE``, ``IMPORT`` and so on; None where the subject has no mode of its own."""
        return self._text(f"/mode/{_quoted(subject)}", f"show the mode of {_named(subject)}", "mode")

    def by_id(self, number: int) -> dict[str, Any] | None:
        """The schema with an id, as the registry has it: ``schema``, ``schemaType``, ``references``; None without."""
        try:
            what = f"show schema {number}"
            return self._schema(self._ask("GET", f"/schemas/ids/{number}", what, dict), what)
        except RegistryError as error:
            # Any other "not found" is of an address that is no registry's.
            if error.code == 40403:
                return None
            raise

    def version(self, subject: str, version: int) -> dict[str, Any] | None:
        """A version of a subject, likewise; soft-deleted ones too, since references to them stay."""
        path, what = f"/subjects/{_quoted(subject)}/versions/{version}", f"show version {version} of {_named(subject)}"
        found = self._unless_missing(f"{path}?deleted=true", what)
        return None if found is None else self._schema(found, what)

    def _schema(self, found: dict[str, Any], what: str) -> dict[str, Any]:
        if type(found.get("schema")) is not str or not isinstance(found.get("schemaType"), str | None):
            raise self._unreadable(what, self._urls[0])
        return found

    def _text(self, path: str, what: str, *keys: str) -> str | None:
        found = self._unless_missing(path, what) or {}
        text = next((found[key] for key in keys if found.get(key) is not None), None)
        if text is None or isinstance(text, str):
            return text
        raise self._unreadable(what, self._urls[0])

    # ---- changes

    def add(self, subject: str, kind: str, schema: str) -> int:
        """Register a schema as a producer does; returns the id, which is that of before if it is there."""
        what = f"register a schema for {_named(subject)}"
        # Registries that know Avro alone take no kind.
        body = {"schema": schema} if kind == "AVRO" else {"schema": schema, "schemaType": kind}
        number = self._ask("POST", f"/subjects/{_quoted(subject)}/versions", what, dict, body).get("id")
        if type(number) is not int or not 0 <= number < 1 << 31:
            raise self._unreadable(what, self._urls[0])
        return number

    def set_mode(self, subject: str, mode: str | None) -> None:
        """Give a subject a mode, or with None that of the registry. Versions that are there do not hinder it."""
        path, what = f"/mode/{_quoted(subject)}", f"set the mode of {_named(subject)} to {mode or 'its own'}"
        if mode is not None:
            self._ask("PUT", f"{path}?force=true", what, dict, {"mode": mode})
            return
        try:
            self._ask("DELETE", path, what, dict)
        except RegistryError as error:
            if not _says_missing(error):
                raise

    def register(self, schema: SchemaVersion) -> None:
        """Register with id and version, for which the subject has to be in mode IMPORT; harmless when repeated."""
        what = f"register version {schema.version} of {_named(schema.subject)} with id {schema.id}"
        path = f"/subjects/{_quoted(schema.subject)}/versions"
        answer = self._ask("POST", path, what, dict, schema.request())
        if answer.get("id") != schema.id:
            raise RegistryError(
                f"the schema registry of {self.alias} has given id {answer.get('id')} to version {schema.version} of "
                f"{_named(schema.subject)}, not {schema.id} as asked: records would refer to another schema; delete "
                f"that version there, and use a registry with mode IMPORT"
            )

    def delete_version(self, subject: str, version: int) -> None:
        """Soft-delete a version; harmless when repeated."""
        what = f"delete version {version} of {_named(subject)}"
        try:
            self._ask("DELETE", f"/subjects/{_quoted(subject)}/versions/{version}", what, int)
        except RegistryError as error:
            # 40406: it is soft-deleted already.
            if error.code != 40406:
                raise

    def set_level(self, subject: str, level: str) -> None:
        """The compatibility level of a subject; of an empty name the registry's."""
        path = f"/config/{_quoted(subject)}" if subject else "/config"
        self._ask("PUT", path, f"set the compatibility of {_named(subject)}", dict, {"compatibility": level})

    # ---- requests

    def _unless_missing(self, path: str, what: str) -> dict[str, Any] | None:
        try:
            return dict(self._ask("GET", path, what, dict))
        except RegistryError as error:
            if _says_missing(error):
                return None
            raise

    def _ask(self, method: str, path: str, what: str, kind: type, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer of the first address that has one."""
        silent: list[str] = []
        distrusted = False
        refused: RegistryError | None = None
        for url in list(self._urls):
            try:
                status, answer = self._exchange(url, method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                silent.append(f"{url}: {_reason(error)}")
                distrusted = distrusted or isinstance(error, ssl.SSLCertVerificationError)
                continue
            if status >= 300:
                refused = self._refusal(url, what, status, answer)
                if status in _TRY_NEXT:
                    continue
                raise refused
            self._urls.sort(key=lambda one: one != url)
            try:
                decoded = json.loads(answer)
            except (ValueError, RecursionError):
                decoded = None
            if not isinstance(decoded, kind):
                raise self._unreadable(what, url)
            return decoded
        if refused is not None:
            raise refused
        where = f"when asked to {what} ({'; '.join(silent)}); check {self.alias}.schema.registry"
        if distrusted:
            # The library's words for the reason are OpenSSL's: a wrong host name, an unknown authority, an old date.
            raise RegistryError(
                f"the certificate of the schema registry of {self.alias} is not accepted {where}.url and "
                f"{self.alias}.schema.registry.ssl.truststore.location"
            )
        raise RegistryError(f"the schema registry of {self.alias} did not respond {where}.url and the network")

    def _exchange(self, url: str, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Status and body, all within the time of a request."""
        deadline = time.monotonic() + self._timeout_seconds
        reused = self._connection is not None and self._connection[0] == url
        try:
            return self._once(url, method, path, body, deadline)
        except (http.client.RemoteDisconnected, ConnectionError):
            # Servers close connections that were idle; a request on a new one then succeeds.
            self.close()
            if not reused:
                raise
            return self._once(url, method, path, body, deadline)

    def _once(
        self, url: str, method: str, path: str, body: Mapping[str, Any] | None, deadline: float
    ) -> tuple[int, bytes]:
        connection = self._connected(url)
        prefix = urllib.parse.urlsplit(url).path
        data = None if body is None else json.dumps(body).encode()
        # The socket's own limit is for each piece that it receives, of which headers may have any number.
        timer = _Limit(connection, deadline - time.monotonic())
        try:
            if connection.sock is None:
                connection.connect()
                if timer.over:  # when there was nothing yet that it could end
                    raise self._late()
            connection.request(method, prefix + path, body=data, headers=self._headers())
            response = connection.getresponse()
            pieces: list[bytes] = []
            size = 0
            while piece := response.read1(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > _MOST_BYTES:
                    raise http.client.HTTPException(f"its answer is larger than {_MOST_BYTES >> 20} MB")
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
        except (OSError, ValueError, http.client.HTTPException) as error:
            if timer.over or isinstance(error, TimeoutError):
                raise self._late() from error
            raise
        finally:
            timer.cancel()
        if timer.over:
            raise self._late()
        response.close()  # or the connection takes no further request
        return response.status, b"".join(pieces)

    def _late(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self._timeout_seconds:g} s")

    def _connected(self, url: str) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection[0] == url:
            return self._connection[1]
        self.close()
        parts = urllib.parse.urlsplit(url)
        assert parts.hostname is not None
        connection = (
            http.client.HTTPSConnection(parts.hostname, parts.port, timeout=self._timeout_seconds, context=self._tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(parts.hostname, parts.port, timeout=self._timeout_seconds)
        )
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

    def _unreadable(self, what: str, url: str) -> RegistryError:
        return RegistryError(
            f"{url} is not a schema registry: asked to {what}, it answered what none answers; check "
            f"{self.alias}.schema.registry.url"
        )

    def _refusal(self, url: str, what: str, status: int, answer: bytes) -> RegistryError:
        code, message = _error(answer)
        there = f"the schema registry of {self.alias} at {url}"
        if status == 401:
            who = f" of '{self._settings.user}'" if self._settings.user is not None else ""
            text = (
                f"{there} refuses the login{who} when asked to {what}; check {self.alias}.basic.auth.user.info or "
                f"{self.alias}.bearer.auth.token"
            )
        elif status == 403:
            text = f"{there} does not permit to {what}: {message}".rstrip(": ")
        elif 300 <= status < 400:
            text = (
                f"{there} redirects to another address when asked to {what} (HTTP {status}); set "
                f"{self.alias}.schema.registry.url to that one"
            )
        else:
            number = f"HTTP {status}" if code is None or code == status else f"HTTP {status}, error {code}"
            text = f"{there} refuses to {what} ({number}): {message}".rstrip(": ")
        return RegistryError(text, status=status, code=code)


class _Limit(threading.Timer):
    """Ends a connection when its time is over, whatever it waits for. ``over``: whether it did."""

    def __init__(self, connection: http.client.HTTPConnection, seconds: float) -> None:
        super().__init__(max(seconds, 0.0), self._end)
        self._ended = connection
        self.over = False
        self.daemon = True
        self.start()

    def _end(self) -> None:
        self.over = True
        open_socket = self._ended.sock
        if open_socket is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)


def _error(answer: bytes) -> tuple[int | None, str]:
    """Error code and message of a refusal; None and the beginning of its text where a registry did not write it."""
    text = answer.decode(errors="replace")
    try:
        found = json.loads(text)
        code, message = int(found["error_code"]), str(found["message"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        code, message = None, text
    return code, " ".join(message.split())[:300]


def _says_missing(error: RegistryError) -> bool:
    """Whether the registry itself has not got it: a gateway before it answers 404 where it knows no route."""
    return error.status == 404 and error.code is not None


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _named(subject: str) -> str:
    return f"subject {subject}" if subject else "the registry"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
