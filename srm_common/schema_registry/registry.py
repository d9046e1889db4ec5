"""One schema registry, through Confluent's REST API, which Karapace has, too.

What a registry supports is found by asking it: only Confluent's has contexts and mode IMPORT.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from srm_common.domain.schemas.schemas import Reference, RegistryView, SchemaVersion, plain_name
from srm_common.errors import RegistryError
from srm_common.schema_registry.registry_http import RegistryHttp

#: All contexts (Confluent's ``QualifiedSubject.CONTEXT_WILDCARD``).
_EVERY_CONTEXT = ":*:"
#: A context that nobody has.
_NO_CONTEXT = "srm-none"
#: Confluent's ``schema.search.max.limit`` is the same by default; a registry with a lower one gives smaller pages.
_PAGE = 1000
#: How often reading a list is started if it changes in the meantime.
_TIMES_LISTED = 5
#: "Invalid schema", also where a schema that it refers to is not known yet.
_INVALID = 42201
#: "Subject not found", "version not found", "schema not found", "no mode of its own".
_MISSING = frozenset({40401, 40402, 40403, 40409})
T = TypeVar("T")


class Registered(NamedTuple):
    """Where a registry has a schema."""

    id: int
    version: int


class SchemaRegistry(RegistryHttp):
    """Reads and changes the registry of a cluster.

    Confluent's nodes forward changes to their leader, but answer questions, and check some changes, by their own copy
    of its log, which follows a little later. Where it matters that an earlier change of this client is known, a node
    that does not know it is asked again for a few seconds.

    Raises:
        RegistryError: from every method: no address responds, the registry refuses, or its answer cannot be read.
    """

    #: Seconds before a node is asked again that does not know an earlier change yet.
    pauses: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 2.0)

    # ---- what is there

    def view(
        self,
        *,
        levels_of: Callable[[str], bool] = lambda subject: False,
        whole: Collection[str] = (),
        check_time: Callable[[], None] = lambda: None,
    ) -> RegistryView:
        """All schemas of all contexts, soft-deleted ones too.

        Args:
            levels_of: whether to ask for a subject's own compatibility level: this takes a request for each.
            whole: names under which the level of the registry, or of a whole context, is asked for.
            check_time: called before each of these; raises if it all takes too long.
        """
        contexts = bool(self.contexts())
        everything = {schema.place: schema for schema in self._schemas(contexts, deleted=True)}
        live = {schema.place: schema for schema in self._schemas(contexts, deleted=False)}
        # Karapace 6.2 lists the live ones when asked for all, and all when asked for the live ones. What only the
        # second list has is soft-deleted there, and new in any other registry.
        unsure = {subject for subject, _ in live.keys() - everything.keys()}
        versions = {subject: self._live_versions(subject) for subject in sorted(unsure)}
        schema_versions = [
            replace(one, deleted=place not in live or one.version not in versions.get(one.subject, (one.version,)))
            for place, one in {**everything, **live}.items()
        ]
        view = RegistryView.of(schema_versions)
        levels = {}
        for subject in [*whole, *filter(levels_of, view.subjects)]:
            check_time()
            level = self.level(subject)
            if level is not None:
                levels[subject] = level
        return RegistryView(view.schemas, levels, contexts)

    def _schemas(self, contexts: bool, *, deleted: bool) -> list[SchemaVersion]:
        """Starts over if the list has changed between two of its pages: what was skipped would seem not to exist."""
        query = {"deleted": "true" if deleted else "false", "limit": str(_PAGE)}
        if contexts:
            query["subjectPrefix"] = _EVERY_CONTEXT
        for _ in range(_TIMES_LISTED):
            versions = self._pages(query)
            if versions is not None:
                return versions
        raise RegistryError(
            f"the schemas of the schema registry of {self.alias} have changed {_TIMES_LISTED} times while they were "
            f"listed; try again"
        )

    def _pages(self, query: Mapping[str, str]) -> list[SchemaVersion] | None:
        """None if a page does not begin with the last row of the previous one. A registry without paging returns
        everything each time, which ends the loop as well."""
        versions: dict[tuple[str, int], SchemaVersion] = {}
        last: tuple[str, int] | None = None
        offset = 0
        while True:
            path = "/schemas?" + urllib.parse.urlencode({**query, "offset": str(offset)})
            rows = self.ask("GET", path, "list its schemas", list)
            try:
                page = [SchemaVersion.from_json(row) for row in rows]
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
                raise self.unreadable("list its schemas") from None
            if all(version.place in versions for version in page):
                return list(versions.values())
            if last is not None and page[0].place != last:
                return None
            versions.update({version.place: version for version in page})
            # A registry may be configured to return one row at a time: such pages cannot overlap.
            last, offset = (page[-1].place, len(versions) - 1) if len(page) > 1 else (None, len(versions))

    def _live_versions(self, subject: str) -> list[int]:
        what = f"list the versions of {_named(subject)}"
        try:
            return [int(one) for one in self.ask("GET", f"/subjects/{_quoted(subject)}/versions", what, list)]
        except RegistryError as error:
            if _says_missing(error):
                return []
            raise
        except (TypeError, ValueError):
            raise self.unreadable(what) from None

    def contexts(self) -> list[str]:
        """The names of its contexts without their dots, that of the default context empty; none if it has no
        contexts."""
        try:
            names = self.ask("GET", "/contexts", "list its contexts", list)
        except RegistryError as error:
            if error.status in (404, 405):
                return []
            raise
        if not all(isinstance(name, str) and name.startswith(".") for name in names):
            raise self.unreadable("list its contexts")
        return [name[1:] for name in names]

    def subjects_beginning(self, name: str) -> list[str]:
        """Subjects of all contexts whose names begin with this one, soft-deleted ones too. Versions before 7.4, and
        registries without contexts, return all subjects."""
        query = urllib.parse.urlencode({"subjectPrefix": _EVERY_CONTEXT + name, "deleted": "true"})
        found = self.ask("GET", f"/subjects?{query}", "list its subjects", list)
        return [subject for subject in found if isinstance(subject, str) and plain_name(subject).startswith(name)]

    def other_contexts(self, number: int) -> list[str] | None:
        """The contexts besides the default one; None if it has none, or does not let this login see any: nothing but
        the default one matters to it then. A registry without contexts takes no notice of one in a request, and refuses
        to list any. So this asks for a schema that it has, with the id ``number``, in a context that nobody has."""
        try:
            return sorted({*self.contexts()} - {""}) if self.by_id(number, _NO_CONTEXT) is None else None
        except RegistryError as error:
            if error.status != 403:
                raise
            return None

    def level(self, subject: str) -> str | None:
        """The compatibility level of a subject, None if it has none of its own; the registry's for an empty name."""
        path = f"/config/{_quoted(subject)}" if subject else "/config"
        return self._text(path, f"show the compatibility of {_named(subject)}", "compatibilityLevel", "compatibility")

    def mode(self, subject: str) -> str | None:
        """``READWRITE``, ``IMPORT`` and so on; None if the subject has no mode of its own. The registry's for an empty
        name."""
        path = f"/mode/{_quoted(subject)}" if subject else "/mode"
        return self._text(path, f"show the mode of {_named(subject)}", "mode")

    def by_id(self, number: int, context: str = "") -> dict[str, Any] | None:
        """The schema with an id, as the registry has it: ``schema``, ``schemaType``, ``references``; None if none."""
        if not _is_id(number):
            return None  # Confluent's has no route for it: ids are numbers of 31 bits
        try:
            what = f"show schema {number}"
            path = f"/schemas/ids/{number}"
            if context:
                path += f"?subject={_quoted(f':.{context}:')}"
            return self._schema(self.ask("GET", path, what, dict), what)
        except RegistryError as error:
            # Any other "not found" comes from an address that is not a registry's.
            if error.code == 40403:
                return None
            raise

    def places_of(self, number: int, within: str = "") -> list[tuple[str, int]]:
        """The subjects and versions of one context that have an id, soft-deleted ones too; empty if there are none.

        Args:
            within: ``:.east:`` for a context, empty for the default one. The name of a subject asks as Confluent's
                deserializers do: most versions of the registry look for the id in the default context, then for the
                subject in any other context, as far as it has the id there.
        """
        what = f"list the subjects of schema {number}"
        try:
            path = f"/schemas/ids/{number}/versions?deleted=true"
            if within:
                path += f"&subject={_quoted(within)}"
            rows = self.ask("GET", path, what, list)
        except RegistryError as error:
            if _says_missing(error):
                return []
            raise
        try:
            return sorted((str(row["subject"]), int(row["version"])) for row in rows)
        except (KeyError, TypeError, ValueError):
            raise self.unreadable(what) from None

    def lookup(self, schema: SchemaVersion) -> Registered | None:
        """Where the schema's subject has it, under any id and version, soft-deleted or not; None if it does not."""
        what = f"look up a schema of {_named(schema.subject)}"
        path = f"/subjects/{_quoted(schema.subject)}?deleted=true"
        body = {key: one for key, one in schema.request().items() if key not in ("id", "version")}
        try:
            found = self.ask("POST", path, what, dict, body)
        except RegistryError as error:
            if _says_missing(error):
                return None
            raise
        number, version = found.get("id"), found.get("version")
        if not _is_id(number) or type(version) is not int:
            raise self.unreadable(what)
        return Registered(number, version)

    def lookup_added(self, schema: SchemaVersion, number: int) -> Registered:
        """The same for a schema that this client has added, which has got the id ``number``."""
        for pause in (*self.pauses, 0.0):
            found = self.lookup(schema)
            if found is not None and found.id == number:
                return found
            time.sleep(pause)
        raise RegistryError(
            f"the schema registry of {self.alias} has assigned id {number} to a schema of subject {schema.subject}, "
            f"but does not find it there {sum(self.pauses):.0f} s later; check its log"
        )

    def schema_version(self, subject: str, version: int) -> SchemaVersion | None:
        """A version of a subject, parsed; soft-deleted ones too."""
        found = self.version(subject, version)
        try:
            return None if found is None else SchemaVersion.from_json({**found, "subject": subject})
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise self.unreadable(f"show version {version} of {_named(subject)}") from None

    def version(self, subject: str, version: int) -> dict[str, Any] | None:
        """A version of a subject, as the registry has it; soft-deleted ones too, since references to them remain."""
        path, what = f"/subjects/{_quoted(subject)}/versions/{version}", f"show version {version} of {_named(subject)}"
        found = self._unless_missing(f"{path}?deleted=true", what)
        return None if found is None else self._schema(found, what)

    def _schema(self, found: dict[str, Any], what: str) -> dict[str, Any]:
        if type(found.get("schema")) is not str or not isinstance(found.get("schemaType"), str | None):
            raise self.unreadable(what)
        return found

    def _text(self, path: str, what: str, *keys: str) -> str | None:
        found = self._unless_missing(path, what) or {}
        text = next((found[key] for key in keys if found.get(key) is not None), None)
        if text is None or isinstance(text, str):
            return text
        raise self.unreadable(what)

    # ---- changes

    def add(
        self,
        subject: str,
        kind: str,
        schema: str,
        references: tuple[Reference, ...] = (),
        more: tuple[tuple[str, str], ...] = (),
    ) -> int:
        """Register a schema as a producer does; returns its id, which stays the same if it is there already.

        Args:
            references, more: as :class:`~srm_common.domain.schemas.schemas.SchemaVersion` has them.
        """
        what = f"register a schema for {_named(subject)}"
        body = SchemaVersion(subject, 0, 0, schema, kind, references, more).request()
        del body["id"], body["version"]
        number: Any = self._post_version(subject, what, body, references).get("id")
        if not _is_id(number):
            raise self.unreadable(what)
        return int(number)

    def _post_version(
        self, subject: str, what: str, body: Mapping[str, Any], references: tuple[Reference, ...]
    ) -> dict[str, Any]:
        def post() -> dict[str, Any]:
            return dict(self.ask("POST", f"/subjects/{_quoted(subject)}/versions", what, dict, body))

        fresh = any(reference.subject in self._new_subjects for reference in references)
        answer = self._when_known(post, {_INVALID}) if fresh else post()
        self._new_subjects.add(subject)
        return answer

    def set_mode(self, subject: str, mode: str | None, *, after_other: bool = False) -> None:
        """Set the mode of a subject; None: that of the registry. Works even if the subject has versions.

        Args:
            after_other: this client has just set another one. A node that does not know of that yet says that there is
                no mode to remove, and does not forward the request.
        """
        path, what = f"/mode/{_quoted(subject)}", f"set the mode of {_named(subject)} to {mode or 'the default'}"
        if mode is not None:
            self.ask("PUT", f"{path}?force=true", what, dict, {"mode": mode})
            return
        try:
            if after_other:
                self._when_known(lambda: self.ask("DELETE", path, what, dict), _MISSING)
            else:
                self.ask("DELETE", path, what, dict)
        except RegistryError as error:
            if not _says_missing(error):
                raise

    def register(self, schema: SchemaVersion) -> None:
        """Register with id and version, which needs the subject to be in mode IMPORT; harmless when repeated."""
        what = f"register version {schema.version} of {_named(schema.subject)} with id {schema.id}"
        answer = self._post_version(schema.subject, what, schema.request(), schema.references)
        self._new_versions.add(schema.place)
        if answer.get("id") != schema.id:
            raise RegistryError(
                f"the schema registry of {self.alias} has assigned id {answer.get('id')} to version {schema.version} "
                f"of {_named(schema.subject)}, not {schema.id} as requested: records would refer to another schema; "
                f"delete that version there, and use a registry with mode IMPORT"
            )

    def delete_version(self, subject: str, version: int) -> None:
        """Soft-delete a version; harmless when repeated."""
        what = f"delete version {version} of {_named(subject)}"

        def delete() -> None:
            self.ask("DELETE", f"/subjects/{_quoted(subject)}/versions/{version}", what, int)

        try:
            if (subject, version) in self._new_versions:
                self._when_known(delete, _MISSING)
            else:
                delete()
        except RegistryError as error:
            # 40406: it is soft-deleted already.
            if error.code != 40406:
                raise

    def set_level(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject; the registry's for an empty name."""
        path = f"/config/{_quoted(subject)}" if subject else "/config"
        self.ask("PUT", path, f"set the compatibility of {_named(subject)}", dict, {"compatibility": level})

    def _when_known(self, change: Callable[[], T], unknown: Collection[int]) -> T:
        """Make a change that depends on an earlier one: again while the error is one of ``unknown``."""
        for pause in self.pauses:
            try:
                return change()
            except RegistryError as error:
                if error.code not in unknown:
                    raise
            time.sleep(pause)
        return change()

    def _unless_missing(self, path: str, what: str) -> dict[str, Any] | None:
        try:
            return dict(self.ask("GET", path, what, dict))
        except RegistryError as error:
            if _says_missing(error):
                return None
            raise


def _is_id(number: object) -> bool:
    """Whether it is a schema id: a number of 31 bits."""
    return type(number) is int and 0 <= number < 1 << 31


def _says_missing(error: RegistryError) -> bool:
    """Whether the registry itself does not have it: a proxy in front of it answers 404 without an error code."""
    return error.status == 404 and error.code is not None


def _named(subject: str) -> str:
    return f"subject {subject}" if subject else "the registry"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
