"""The target's ids of the source's schemas, where the target's registry assigns its own.

The map is the target's registry: a schema is looked up in the subject of its copy, and registered there if it is not
there yet. So there is no second map that could differ from it, and every run finds the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from srm_common.domain.schemas.schemas import (
    Reference,
    SchemaVersion,
    SubjectNaming,
    context_of,
    is_of_topic,
    plain_name,
)
from srm_common.domain.transforms.formats import Side
from srm_common.errors import RegistryError
from srm_common.schema_registry.id_contexts import IdContexts
from srm_common.schema_registry.registry import Registered, SchemaRegistry

_CACHED_SCHEMAS = 10_000


class MappedId(NamedTuple):
    """An id of the target's registry, and the context there to which it belongs."""

    id: int
    context: str


class MappedContexts:
    """The contexts of the target's registry to which mapped ids belong, for all threads of a slot.

    Args:
        context: that of ids which were not mapped.
    """

    def __init__(self, context: str) -> None:
        self._context = context
        self._contexts: dict[tuple[int, str, Side], str] = {}

    def add(self, mapped: MappedId, topic: str, side: Side) -> None:
        """Note the context of an id.

        Raises:
            RegistryError: keys or values of the topic have got the same id from another context. No consumer could tell
                them apart.
        """
        known = self._contexts.setdefault((mapped.id, topic, side), mapped.context)
        if known != mapped.context:
            raise RegistryError(
                f"{side.prefix}s of {topic} have schemas of several contexts of the source's registry, and two of them "
                f"get the id {mapped.id}, in contexts .{known} and .{mapped.context} of the target's; leave the topic "
                f"out of schemas.ids.{side.prefix}s, or name one context in the source's schema.registry.url"
            )

    def of(self, number: int, topic: str, side: Side) -> str:
        """The context of an id."""
        return self._contexts.get((number, topic, side), self._context)


class SchemaIds:
    """Looks up and registers the schemas that the flow copies. Not thread-safe.

    Args:
        source: the registry whose ids the records have.
        target: the registry that assigns ids of its own.
        naming: which subjects are copied, and what their copies are called.

    Raises:
        RegistryError: from every method: a registry does not respond, or refuses.
    """

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry, naming: SubjectNaming) -> None:
        self._source = source
        self._target = target
        self._naming = naming
        self._contexts = IdContexts(source)
        self._ids: dict[tuple[str, int], int] = {}
        self._places: dict[tuple[str, int], Registered] = {}
        self._under_way: list[tuple[str, int]] = []

    def mapped(self, number: int, topic: str, side: Side) -> MappedId | None:
        """The target's id for what has the id ``number`` at the source, in the context to which the topic's ids belong;
        None if that registry does not know it.

        Args:
            topic: the source's topic whose keys or values have it.

        Raises:
            RegistryError: also if no subject that is copied has the schema, or the context is not known.
        """
        found = self._contexts.find(number, topic, side)
        if found is None:
            return None
        places = found.places
        own = f"{topic}-{side.prefix}"
        copied = [place for place in places if self._naming.is_copied(place[0])]
        if not copied:
            belongs = f"belongs to subject {places[0][0]}, which the flow does not copy" if places else "has no subject"
            raise RegistryError(
                f"at {self._source.alias} it {belongs}; select a subject that has it with schemas.subjects, or leave "
                f"the topic out of schemas.ids.{side.prefix}s"
            )
        subject, version = min(copied, key=lambda place: (plain_name(place[0]) != own, place[0], -place[1]))
        mapped = self.register(self._at_source(subject, version, f"schema id {number}"))
        return MappedId(mapped, context_of(self._naming.target_subject(subject)))

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        """Whether a subject of the topic itself has the schema with this id at the source."""
        found = self._contexts.find(number, topic, side)
        return found is not None and any(is_of_topic(subject, topic, side) for subject, _ in found.places)

    def register(self, schema: SchemaVersion) -> int:
        """The target's id for the copy of a source's schema; if the target does not have the copy, registers it, after
        the schemas that it refers to."""
        number = self._ids.get(schema.place)
        if number is None:
            copy = self._copy(schema)
            found = self._target.lookup(copy)
            # The id in the answer counts: a node that is not the registry's leader finds the schema a little later.
            number = found.id if found is not None else self._add(copy)
            if len(self._ids) >= _CACHED_SCHEMAS:
                self._ids.clear()
            self._ids[schema.place] = number
            if found is not None:
                self._keep(schema, found)
        return number

    def _place(self, schema: SchemaVersion) -> Registered:
        """Where the target has the copy, for references, which name a version. Registers it if need be."""
        place = self._places.get(schema.place)
        if place is None:
            number = self.register(schema)
            place = self._places.get(schema.place)
            if place is None:
                place = self._target.lookup_added(self._copy(schema), number)
                self._keep(schema, place)
        return place

    def _add(self, copy: SchemaVersion) -> int:
        return self._target.add(copy.subject, copy.schema_type, copy.schema, copy.references, copy.more)

    def _keep(self, schema: SchemaVersion, place: Registered) -> None:
        if len(self._places) >= _CACHED_SCHEMAS:
            self._places.clear()
        self._places[schema.place] = place

    def is_registered(self, schema: SchemaVersion) -> bool:
        """Whether the target has the copy of a source's schema. Registers nothing."""
        return self._found(schema) is not None

    def _found(self, schema: SchemaVersion) -> Registered | None:
        if schema.place in self._places:
            return self._places[schema.place]
        references = []
        try:
            with self._in_turn(schema):
                for reference in schema.references:
                    place = self._found(self._at_source(reference.subject, reference.version, _name(schema)))
                    if place is None:
                        return None
                    references.append(self._referring(reference, place))
        except _Circle:
            return None
        found = self._target.lookup(self._named(schema, references))
        if found is not None:
            self._keep(schema, found)
        return found

    def _copy(self, schema: SchemaVersion) -> SchemaVersion:
        """The schema as the target is to have it, with references to versions there."""
        with self._in_turn(schema):
            references = [
                self._referring(
                    reference, self._place(self._at_source(reference.subject, reference.version, _name(schema)))
                )
                for reference in schema.references
            ]
        return self._named(schema, references)

    def _referring(self, reference: Reference, place: Registered) -> Reference:
        return Reference(reference.name, self._naming.target_subject(reference.subject), place.version)

    def _named(self, schema: SchemaVersion, references: list[Reference]) -> SchemaVersion:
        subject = self._naming.target_subject(schema.subject)
        return replace(schema, subject=subject, references=tuple(references))

    def _at_source(self, subject: str, version: int, what: str) -> SchemaVersion:
        schema_version = self._source.schema_version(subject, version)
        if schema_version is None:
            raise RegistryError(
                f"{what} needs version {version} of subject {subject}, which the schema registry of "
                f"{self._source.alias} does not have"
            )
        return schema_version

    @contextmanager
    def _in_turn(self, schema: SchemaVersion) -> Iterator[None]:
        if schema.place in self._under_way:
            raise _Circle(f"{_name(schema)} refers to itself through other schemas, so it cannot be registered")
        self._under_way.append(schema.place)
        try:
            yield
        finally:
            self._under_way.pop()


class _Circle(RegistryError):
    """Schemas refer to each other in a circle."""


def _name(schema: SchemaVersion) -> str:
    return f"version {schema.version} of subject {schema.subject}"
