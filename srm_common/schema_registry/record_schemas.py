"""The schemas of records that a slot changes, and their ids: read from the source's registry, registered with the
target's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from srm_common.domain.schemas.schemas import SubjectNaming, context_of, copy_context, qualified, referred_subject
from srm_common.domain.transforms.formats import Side
from srm_common.errors import RegistryError, TransformFailed
from srm_common.records.connect.registry_values import NewSchema, Reference, SchemaText
from srm_common.schema_registry.id_contexts import IdContexts
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.schema_registry.schema_ids import MappedContexts, SchemaIds

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
        contexts: gets the context of each mapped id.
        clock: monotonic seconds, to decide when an unknown id is requested again.
    """

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        naming: SubjectNaming,
        contexts: MappedContexts | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._source = source
        self._target = target
        self._ids = SchemaIds(source, target, naming)
        self._contexts = MappedContexts(naming.context) if contexts is None else contexts
        self._mapped: dict[tuple[int, str, Side], int] = {}
        self._unknown: dict[tuple[int, str, Side], float] = {}

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        """The target's id for one of the source's; None if the source's registry does not know it.

        Raises:
            TransformFailed: a registry does not return or accept it; names the topic and the id.
        """
        asked = (number, topic, side)
        known = self._mapped.get(asked)
        if known is not None or self._unknown.get(asked, 0.0) > self._clock():
            return known
        try:
            with self._source, self._target:
                found = self._ids.mapped(number, topic, side)
                if found is not None:
                    self._contexts.add(found, topic, side)
        except RegistryError as error:
            raise TransformFailed(
                f"schema id {number} of the {side.prefix}s of {topic} has no id at the target: {error}"
            ) from error
        if len(self._mapped) + len(self._unknown) >= _CACHED_SCHEMAS:
            self._mapped.clear()
            self._unknown.clear()
        if found is None:
            self._unknown[asked] = self._clock() + _UNKNOWN_SECONDS
            return None
        self._mapped[asked] = found.id
        return found.id

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
        context: that of the target's registry in which the flow's copies are.
        mapped: the contexts of ids that were mapped before; without it, they are found in the source's registry.
        clock: monotonic seconds, to decide when an unknown id is requested again.
    """

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry | None,
        context: str = "",
        mapped: MappedContexts | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._source = source
        self._target = target
        self._context = context
        self._mapped = mapped
        self._found = IdContexts(source, clock=clock)
        #: With the first of the subjects.
        self._contexts: dict[tuple[int, str, Side], tuple[str, str | None]] = {}
        self._schemas: dict[tuple[str, int], SchemaText] = {}
        self._unknown: dict[tuple[int, str, Side], float] = {}
        self._registered: dict[tuple[str, str, str], int] = {}
        self.read_from: Literal["source", "target"] = "target" if source is target else "source"

    def schema(self, number: int, topic: str, side: Side) -> SchemaText | None:
        """The schema that keys or values of a topic of the source have with this id; None if there is none.

        Raises:
            TransformFailed: the registry does not return it, or it is not known which one it is.
        """
        asked = (number, topic, side)
        if self._unknown.get(asked, 0.0) > self._clock():
            return None
        try:
            with self._source:
                found = self._found_in(number, topic, side)
                text = None if found is None else self._text(number, found[0])
        except RegistryError as error:
            raise TransformFailed(f"schema id {number} cannot be read: {error}") from error
        if text is None:
            if len(self._unknown) >= _CACHED_SCHEMAS:
                self._unknown.clear()
            self._unknown[asked] = self._clock() + _UNKNOWN_SECONDS
        return text

    def _found_in(self, number: int, topic: str, side: Side) -> tuple[str, str | None] | None:
        """The context to which an id belongs, and a subject that has it there, if that is known; None if there is no
        schema for it."""
        if self._mapped is not None:
            return self._mapped.of(number, topic, side), None
        known = self._contexts.get((number, topic, side))
        if known is None:
            known = self._find(number, topic, side)
            if known is None:
                return None
            if len(self._contexts) >= _CACHED_SCHEMAS:
                self._contexts.clear()
            self._contexts[number, topic, side] = known
        return known

    def _find(self, number: int, topic: str, side: Side) -> tuple[str, str | None] | None:
        try:
            found = self._found.find(number, topic, side)
        except RegistryError as error:
            # A login may be allowed to read schemas and not their subjects, which matter if there are more contexts.
            if error.status != 403 or self._source.other_contexts(number):
                raise
            return "", None
        return None if found is None else (found.context, found.places[0][0] if found.places else None)

    def _text(self, number: int, context: str) -> SchemaText | None:
        text = self._schemas.get((context, number))
        if text is None:
            text = self._read(number, context)
            if text is not None:
                if len(self._schemas) >= _CACHED_SCHEMAS:
                    self._schemas.clear()
                self._schemas[context, number] = text
        return text

    def subject(self, number: int, topic: str, side: Side) -> str | None:
        """A subject that has the schema with this id, for messages; None if the registry does not return one."""
        try:
            with self._source as registry:
                found = self._found_in(number, topic, side)
                if found is None:
                    return None
                context, subject = found
                if subject is None:
                    places = registry.places_of(number, qualified(context, ""))
                    subject = places[0][0] if places else None
                return subject
        except RegistryError:
            # The message is about a record; why the registry does not answer is reported when a schema is read.
            return None

    def registered(self, new: NewSchema) -> int:
        """The id of a schema in its subject at the target; registers it if it is not there. The subject is in the
        context of the schema that it replaces, so that all ids of a copy belong to one context.

        Raises:
            TransformFailed: the registry does not accept it; names the subject and the topic.
        """
        if self._target is None:
            return 0
        subject = new.subject
        try:
            with self._target as registry:
                subject = qualified(self._context_of_new(new), subject)
                number = self._registered.get((subject, new.kind, new.text))
                if number is None:
                    number = registry.add(subject, new.kind, new.text)
        except RegistryError as error:
            raise TransformFailed(
                f"the schema that transforms give records of {new.copy} cannot be registered as {subject}: {error}"
            ) from error
        if len(self._registered) >= _CACHED_SCHEMAS:
            self._registered.clear()
        self._registered[subject, new.kind, new.text] = number
        return number

    def _context_of_new(self, new: NewSchema) -> str:
        if new.before is None:
            return self._context
        if self._mapped is not None:
            return self._mapped.of(new.before, new.topic, new.side)
        with self._source:
            found = self._found_in(new.before, new.topic, new.side)
        return copy_context(self._context, "" if found is None else found[0], self._source.context)

    def _read(self, number: int, context: str) -> SchemaText | None:
        found = self._source.by_id(number, context)
        if found is None:
            return None
        references: list[Reference] = []
        self._referred(number, found, context, references, set())
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
