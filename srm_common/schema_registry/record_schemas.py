"""The schemas of records that a slot changes, and their ids: read from the source's registry, registered with the
target's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from srm_common.domain.schemas.schemas import SubjectNaming, context_of, qualified, referred_subject
from srm_common.domain.transforms.formats import Side
from srm_common.errors import RegistryError, TransformFailed
from srm_common.records.connect.registry_values import Reference, SchemaText
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.schema_registry.schema_ids import SchemaIds

_CACHED_SCHEMAS = 10_000
#: How long an unknown id is not requested again: a registry may get a schema a little later than the records arrive.
_UNKNOWN_SECONDS = 10.0
#: More references than any schema has; bounds the recursion that follows them.
_MOST_REFERENCES = 300


class RegistrySchemaIds:
    """Implements the requests of :class:`~srm_common.records.schema_id_step.MappedIds`. Not thread-safe. Each id is
    requested once; an id unknown to the source is requested again after a while.

    Args:
        naming: which subjects the flow copies, and what their copies are called.
        clock: monotonic seconds, to decide when an unknown id is requested again.
    """

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        naming: SubjectNaming,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._source = source
        self._target = target
        self._ids = SchemaIds(source, target, naming)
        self._mapped: dict[tuple[int, str, Side], int] = {}
        self._unknown: dict[int, float] = {}

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        """The target's id for one of the source's; None if the source's registry does not know it.

        Raises:
            TransformFailed: a registry does not return or accept it; names the topic and the id.
        """
        known = self._mapped.get((number, topic, side))
        if known is not None or self._unknown.get(number, 0.0) > self._clock():
            return known
        try:
            with self._source, self._target:
                found = self._ids.mapped(number, topic, side)
        except RegistryError as error:
            raise TransformFailed(
                f"schema id {number} of the {side.prefix}s of {topic} has no id at the target: {error}"
            ) from error
        if len(self._mapped) + len(self._unknown) >= _CACHED_SCHEMAS:
            self._mapped.clear()
            self._unknown.clear()
        if found is None:
            self._unknown[number] = self._clock() + _UNKNOWN_SECONDS
        else:
            self._mapped[number, topic, side] = found
        return found

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        """Whether a subject of the topic itself has the schema with this id at the source. Not cached.

        Raises:
            TransformFailed: the source's registry does not return its subjects.
        """
        try:
            with self._source:
                return self._ids.is_own(number, topic, side)
        except RegistryError as error:
            raise TransformFailed(f"the subjects of schema id {number} cannot be read: {error}") from error


class RegistrySchemas:
    """Implements :class:`~srm_common.records.connect.registry_values.RecordSchemas`. Not thread-safe. Each schema is
    requested once; no connection is kept open in between.

    Args:
        source: the registry to which the ids of records belong; the target's if ids were mapped before.
        target: the registry for new schemas; without it, they are not registered and get the id 0.
        context: that of the target's registry in which new schemas are registered.
        source_context: that of ``source``.
        clock: monotonic seconds, to decide when an unknown id is requested again.
    """

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry | None,
        context: str = "",
        source_context: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._source = source
        self._target = target
        self._context = context
        self._source_context = source_context
        self._schemas: dict[int, SchemaText] = {}
        self._unknown: dict[int, float] = {}
        self._registered: dict[tuple[str, str, str], int] = {}
        self.read_from: Literal["source", "target"] = "target" if source is target else "source"

    def schema(self, number: int) -> SchemaText | None:
        """The schema with this id; None if there is none.

        Raises:
            TransformFailed: the registry does not return it.
        """
        known = self._schemas.get(number)
        if known is not None or self._unknown.get(number, 0.0) > self._clock():
            return known
        try:
            with self._source:
                text = self._read(number)
        except RegistryError as error:
            raise TransformFailed(f"schema id {number} cannot be read: {error}") from error
        if len(self._schemas) + len(self._unknown) >= _CACHED_SCHEMAS:
            self._schemas.clear()
            self._unknown.clear()
        if text is None:
            self._unknown[number] = self._clock() + _UNKNOWN_SECONDS
        else:
            self._schemas[number] = text
        return text

    def subject(self, number: int) -> str | None:
        """A subject that has the schema with this id, for messages; None if the registry does not return one."""
        try:
            with self._source as registry:
                places = registry.places_of(number, self._source_context)
        except RegistryError:
            # The message is about a record; why the registry does not answer is reported when a schema is read.
            return None
        return places[0][0] if places else None

    def registered(self, subject: str, topic: str, kind: str, schema: str) -> int:
        """The id of a schema of the type ``kind``, such as AVRO, in a subject; registers it if it is not there.

        Raises:
            TransformFailed: the registry does not accept it; names the subject and the topic.
        """
        if self._target is None:
            return 0
        subject = qualified(self._context, subject)
        number = self._registered.get((subject, kind, schema))
        if number is None:
            try:
                with self._target as registry:
                    number = registry.add(subject, kind, schema)
            except RegistryError as error:
                raise TransformFailed(
                    f"the schema that transforms give records of {topic} cannot be registered as {subject}: {error}"
                ) from error
            if len(self._registered) >= _CACHED_SCHEMAS:
                self._registered.clear()
            self._registered[subject, kind, schema] = number
        return number

    def _read(self, number: int) -> SchemaText | None:
        found = self._source.by_id(number, self._source_context)
        if found is None:
            return None
        references: list[Reference] = []
        self._referred(number, found, self._source_context, references, set())
        return SchemaText(str(found.get("schemaType") or "AVRO"), str(found.get("schema", "")), tuple(references))

    def _referred(
        self,
        number: int,
        body: dict[str, object],
        context: str,
        referred: list[Reference],
        seen: set[tuple[str, str, int]],
    ) -> None:
        for name, subject, version in _references(number, body, context):
            if (name, subject, version) in seen:
                continue
            seen.add((name, subject, version))
            if len(seen) > _MOST_REFERENCES:
                raise TransformFailed(
                    f"schema id {number} refers to more than {_MOST_REFERENCES} other schemas; no more are read"
                )
            found = self._source.version(subject, version)
            if found is None:
                raise TransformFailed(
                    f"schema id {number} refers to version {version} of subject {subject}, which the registry of "
                    f"{self._source.alias} does not have"
                )
            self._referred(number, found, context_of(subject), referred, seen)
            referred.append(Reference(name, str(found.get("schema", ""))))


def _references(number: int, body: dict[str, object], context: str) -> list[tuple[str, str, int]]:
    """Name, subject and version of each schema that a schema of ``context`` refers to."""
    found = body.get("references") or []
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and type(one.get("subject")) is str and type(one.get("version")) is int for one in found
    ):
        raise TransformFailed(f"schema id {number} has references without subject and version: {str(found)[:200]}")
    return [(str(one.get("name")), referred_subject(context, one["subject"]), one["version"]) for one in found]
