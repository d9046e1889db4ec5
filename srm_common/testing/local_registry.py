"""A schema registry in this process that answers Confluent's REST API over HTTP.

It follows Confluent's ``KafkaSchemaRegistry`` in everything that copying schemas depends on: ids that are unique in a
context, contexts, references, soft deletes, modes, levels, error codes, pages. Schemas are not parsed, and every new
version is compatible. With ``imports=False, contexts=False`` it is like Karapace: modes cannot be set, there are no
contexts, and ids and versions in requests are ignored. A contract suite runs against it and against a real Karapace.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from srm_common.domain.schemas.schemas import context_of, plain_name
from srm_common.testing.local_server import LocalServer
from srm_common.testing.ports import LOOPBACK
from srm_common.testing.registry_contexts import of_context, within

_PAGE = 1000
#: Confluent's ``CompatibilityLevel``.
_LEVELS = frozenset(
    {"NONE", *(f"{one}{suffix}" for one in ("BACKWARD", "FORWARD", "FULL") for suffix in ("", "_TRANSITIVE"))}
)
_TYPE = "application/vnd.schemaregistry.v1+json"


class _Refused(Exception):
    """``code`` is None for an answer of the HTTP server rather than the registry."""

    def __init__(self, status: int, code: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass
class _Version:
    id: int
    body: dict[str, Any]
    deleted: bool = False

    @property
    def meaning(self) -> dict[str, Any]:
        return _meaning(self.body)


@dataclass
class LocalRegistry(LocalServer):
    """A registry without schemas; a context manager.

    Args:
        imports: whether modes can be set, and versions registered with their ids.
        contexts: whether there are contexts.
        login: ``user:password`` that every request needs.
        tls: serves HTTPS.
        page: the most schemas in one answer (``schema.search.max.limit``).
        canonical: what becomes of the text of a schema; Confluent's registries format Protobuf themselves, each
            version differently.
    """

    imports: bool = True
    contexts: bool = True
    login: str | None = None
    tls: ssl.SSLContext | None = None
    page: int = _PAGE
    canonical: Callable[[str], str] = str
    #: Answers instead of the registry where it returns status and body; a ConnectionError from it ends the connection.
    fault: Callable[[str, str], tuple[int, bytes] | None] = field(default=lambda method, path: None)
    #: Every request, as method and path.
    requests: list[tuple[str, str]] = field(default_factory=list)
    _subjects: dict[str, dict[int, _Version]] = field(default_factory=dict)
    _levels: dict[str, str] = field(default_factory=lambda: {"": "BACKWARD"})
    _modes: dict[str, str] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    def start(self) -> Self:
        server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        server.daemon_threads = True
        if self.tls is not None:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="local-registry", daemon=True)
        self._thread.start()
        return self

    def close(self, *, failed: bool = False) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = self._thread = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"{'http' if self.tls is None else 'https'}://{LOOPBACK}:{self._server.server_address[1]}"

    # ---- for tests

    def register(
        self, subject: str, schema: str, *, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = ()
    ) -> int:
        """Register as a producer does; returns the id."""
        body = {"schema": schema, "schemaType": kind, "references": [dict(reference) for reference in references]}
        return int(self.answer("POST", f"/subjects/{_quoted(subject)}/versions", body)["id"])

    def delete(self, subject: str, version: int) -> None:
        """Soft-delete a version."""
        self.answer("DELETE", f"/subjects/{_quoted(subject)}/versions/{version}")

    def set_level(self, subject: str, level: str) -> None:
        self._levels[subject] = level

    def versions(self, subject: str) -> dict[int, tuple[int, bool]]:
        """Version -> (id, whether it is soft-deleted)."""
        with self._lock:
            return {version: (one.id, one.deleted) for version, one in sorted(self._subjects.get(subject, {}).items())}

    @property
    def subjects(self) -> list[str]:
        with self._lock:
            return sorted(self._subjects)

    @property
    def levels(self) -> dict[str, str]:
        """Compatibility levels by subject, the registry's under an empty name."""
        return dict(self._levels)

    @property
    def modes(self) -> dict[str, str]:
        """Modes by subject, of those that have one of their own."""
        return dict(self._modes)

    def changes(self) -> list[tuple[str, str]]:
        """The requests other than GET."""
        return [request for request in self.requests if request[0] != "GET"]

    # ---- the API

    def answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """What a request gets. Raises what becomes an error of the registry."""
        parts = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        words = [urllib.parse.unquote(word) for word in parts.path.split("/")[1:]]
        if self.contexts and words[0] == "contexts" and len(words) > 2:
            words = of_context(words[1], words[2:], query)
        with self._lock:
            match method, words:
                case "GET", ["contexts"] if self.contexts:
                    return sorted({f".{context_of(subject)}" for subject in self._subjects} | {"."})
                case "GET", ["schemas"]:
                    return self._schemas(query)
                case "GET", ["schemas", "ids", wanted]:
                    return self._with_id(int(wanted), query.get("subject", ""))[0][2].body
                case "GET", ["schemas", "ids", wanted, "versions"]:
                    return self._places(int(wanted), query.get("subject", ""), deleted=query.get("deleted") == "true")
                case "GET", ["subjects"]:
                    asked = query.get("subjectPrefix", ":*:") if self.contexts else ":*:"
                    return [
                        one
                        for one in self._subjects
                        if (query.get("deleted") == "true" or self._live(one))
                        and plain_name(one).startswith(plain_name(asked.removeprefix(":*:")))
                        and (asked.startswith(":*:") or context_of(one) == context_of(asked))
                    ]
                case "GET", ["subjects", subject, "versions"]:
                    return self._live(subject) or self._no_subject(subject)
                case "GET", ["subjects", subject, "versions", version]:
                    return self._version(subject, int(version), deleted=query.get("deleted") == "true")
                case "POST", ["subjects", subject] if body is not None:
                    return self._lookup(subject, dict(body), deleted=query.get("deleted") == "true")
                case "POST", ["subjects", subject, "versions"] if body is not None:
                    return {"id": self._register(subject, dict(body))}
                case "DELETE", ["subjects", subject, "versions", version]:
                    return self._delete(subject, int(version))
                case (("GET" | "PUT" | "DELETE"), ["config", *rest]):
                    return self._config(method, "".join(rest), body or {})
                case (("GET" | "PUT" | "DELETE"), ["mode", *rest]):
                    return self._mode(method, "".join(rest), body or {}, query)
        raise _Refused(404, *((404, "HTTP 404 Not Found") if self.contexts else (None, "Not Found")))

    def _live(self, subject: str) -> list[int]:
        return [version for version, one in sorted(self._subjects.get(subject, {}).items()) if not one.deleted]

    def _no_subject(self, subject: str) -> Any:
        raise _Refused(404, 40401, f"Subject '{subject}' not found.")

    def _schemas(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        prefix = query.get("subjectPrefix", "")
        rows = [
            {"subject": subject, "version": version, "id": one.id, **one.body}
            for subject, versions in sorted(self._subjects.items())
            for version, one in sorted(versions.items())
            # Karapace 6.2 takes the parameter for its contrary (``InMemoryDatabase.find_schemas``).
            if ((query.get("deleted") == "true") == self.contexts or not one.deleted)
            and (prefix == ":*:" or not self.contexts or context_of(subject) == context_of(prefix))
        ]
        if not self.contexts:  # Karapace has no pages either
            return rows
        begin = int(query.get("offset", "0"))
        return rows[begin : begin + min(int(query.get("limit", self.page)), self.page)]

    def _with_id(self, wanted: int, asked: str) -> list[tuple[str, int, _Version]]:
        """The subjects of one context that have an id (``AbstractSchemaRegistry.getSchemaKeyUsingContexts`` of 7.4): of
        the context of the subject that is asked for; if only a name is given, of the first that has the id for it, the
        default one before others, and of the default one if there is none."""
        found = [
            (subject, version, one)
            for subject, versions in sorted(self._subjects.items())
            for version, one in sorted(versions.items())
            if one.id == wanted
        ]
        if self.contexts:
            context, name = context_of(asked), plain_name(asked)
            named = [context_of(subject) for subject, *_ in found if plain_name(subject) == name]
            if context and name and context not in named:
                found = []
            elif not context and name:
                context = min(named, default="")
            found = [one for one in found if context_of(one[0]) == context]
        if not found:
            raise _Refused(404, 40403, f"Schema {wanted} not found")
        return found

    def _places(self, wanted: int, asked: str, *, deleted: bool) -> list[dict[str, Any]]:
        return [
            {"subject": subject, "version": version}
            for subject, version, one in self._with_id(wanted, asked)
            if deleted or not one.deleted
        ]

    def _lookup(self, subject: str, body: dict[str, Any], *, deleted: bool) -> dict[str, Any]:
        if not (self._subjects.get(subject) if deleted else self._live(subject)):
            self._no_subject(subject)
        meaning = _meaning(self._kept(body))
        for version, one in sorted(self._subjects[subject].items(), key=lambda item: (item[1].deleted, -item[0])):
            if one.meaning == meaning and (deleted or not one.deleted):
                return {"subject": subject, "version": version, "id": one.id, **one.body}
        raise _Refused(404, 40403, "Schema not found")

    def _version(self, subject: str, version: int, *, deleted: bool) -> dict[str, Any]:
        found = self._found(subject, version, deleted=deleted)
        return {"subject": subject, "version": version, "id": found.id, **found.body}

    def _found(self, subject: str, version: int, *, deleted: bool) -> _Version:
        versions = self._subjects.get(subject, {})
        if not versions or not (deleted or self._live(subject)):
            self._no_subject(subject)
        found = versions.get(version)
        if found is None or (found.deleted and not deleted):
            raise _Refused(404, 40402, f"Version {version} not found.")
        return found

    def _register(self, subject: str, body: dict[str, Any]) -> int:
        wanted, version = body.pop("id", None), body.pop("version", None)
        if not self.imports:
            wanted = version = None
        importing = self._modes.get(subject, self._modes.get("", "READWRITE")) == "IMPORT"
        if importing != (wanted is not None):
            mode = "not in" if wanted is not None else "in"
            raise _Refused(422, 42205, f"Subject {subject} is {mode} import mode")
        body = self._kept(body)
        context = context_of(subject)
        for one in body.get("references", ()):
            if one["version"] not in self._subjects.get(within(context, one["subject"]), {}):
                raise _Refused(422, 42201, f"Invalid schema: no schema reference found for subject {one['subject']}")
        versions = self._subjects.get(subject, {})
        meaning = _meaning(body)
        if not importing:
            for known in versions.values():
                if not known.deleted and known.meaning == meaning:
                    return known.id
            version = max(versions, default=0) + 1
        ids = {
            one.id: one.meaning
            for name, all_ in self._subjects.items()
            for one in all_.values()
            if context_of(name) == context
        }
        if wanted is None:
            wanted = next((number for number, known in ids.items() if known == meaning), max(ids, default=0) + 1)
        elif ids.get(wanted, meaning) != meaning:
            raise _Refused(422, 42205, f"Overwrite new schema with id {wanted} is not permitted.")
        self._subjects.setdefault(subject, {})[int(version or 1)] = _Version(wanted, body)
        return int(wanted)

    def _kept(self, body: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: one for key, one in body.items() if one and (key, one) != ("schemaType", "AVRO")}
        return kept | {"schema": self.canonical(body["schema"])}

    def _delete(self, subject: str, version: int) -> int:
        found = self._found(subject, version, deleted=True)
        if found.deleted:
            raise _Refused(404, 40406, f"Subject '{subject}' Version {version} was soft deleted.")
        for name, versions in self._subjects.items():
            for one in versions.values():
                references = [] if one.deleted else one.body.get("references", [])
                if any(
                    (within(context_of(name), ref["subject"]), ref["version"]) == (subject, version)
                    for ref in references
                ):
                    raise _Refused(422, 42206, f"One or more references exist to the schema {subject} {version}.")
        found.deleted = True
        return version

    def _config(self, method: str, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if method == "PUT":
            if body["compatibility"] not in _LEVELS:
                raise _Refused(422, 42203, "Invalid compatibility level")
            self._levels[subject] = body["compatibility"]
            return {"compatibility": body["compatibility"]}
        if subject not in self._levels:
            raise _Refused(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return {"compatibilityLevel": self._levels[subject] if method == "GET" else self._levels.pop(subject)}

    def _mode(self, method: str, subject: str, body: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
        if not self.imports:
            if method != "GET":
                raise _Refused(405, None, "Method Not Allowed")
            if subject and not self._live(subject):
                self._no_subject(subject)
            return {"mode": "READWRITE"}
        if method == "PUT":
            if body["mode"] == "IMPORT" and self._live(subject) and query.get("force") != "true":
                raise _Refused(422, 42205, "Cannot import since found existing subjects")
            self._modes[subject] = body["mode"]
            return {"mode": body["mode"]}
        if subject not in self._modes:
            raise _Refused(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")
        return {"mode": self._modes[subject] if method == "GET" else self._modes.pop(subject)}


def _meaning(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the same schema, however its JSON is laid out."""
    found = dict(body)
    with suppress(ValueError):
        found["schema"] = json.loads(found["schema"])
    return found


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")


def _handler(registry: LocalRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            registry.requests.append((self.command, self.path))
            try:
                instead = registry.fault(self.command, self.path)
            except ConnectionError:
                self.close_connection = True
                return
            status, answer = instead if instead is not None else self._answer(body)
            head = f"HTTP/1.1 {status} {'OK' if status < 300 else 'Refused'}\r\nContent-Length: {len(answer)}\r\n"
            try:
                self.wfile.write(f"{head}Content-Type: {_TYPE}\r\n\r\n".encode() + answer)
            except ConnectionError:  # the client has gone
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = _serve

        def _answer(self, body: bytes) -> tuple[int, bytes]:
            if registry.login is not None:
                expected = f"Basic {base64.b64encode(registry.login.encode()).decode()}"
                if self.headers.get("Authorization") != expected:
                    return 401, b'{"error_code": 401, "message": "Unauthorized"}'
            try:
                found = registry.answer(self.command, self.path, json.loads(body) if body else None)
            except _Refused as refused:
                text = str(refused) if refused.code is None else {"error_code": refused.code, "message": str(refused)}
                return refused.status, json.dumps(text).encode()
            return 200, json.dumps(found).encode()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing on stderr."""

    return Handler
