"""The target's ids of the source's schemas, where the target's registry assigns its own.

The map is the target's registry: a schema is looked up in the subject of its copy, and registered there if it is not
there yet. So there is no second map that could differ from it, and every run finds the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from srm_common.domain.schemas.schemas import Reference, SchemaVersion, SubjectNaming, is_of_topic
from srm_common.domain.transforms.formats import Side
from srm_common.errors import RegistryError
from srm_common.schema_registry.registry import Registered, SchemaRegistry

_CACHED_SCHEMAS = 10_000


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
        self._ids: dict[tuple[str, int], int] = {}
        self._places: dict[tuple[str, int], Registered] = {}
        self._under_way: list[tuple[str, int]] = []

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        """The target's id for what has the id ``number`` at the source; None if that registry does not know it.

        Args:
            topic: the source's topic whose keys or values have it.

        Raises:
            RegistryError: also if no subject that is copied has the schema.
        """
        if self._source.by_id(number) is None:
            return None
        places = self._source.places_of(number)
        own = f"{topic}-{side.prefix}"
        copied = [place for place in places if self._naming.is_copied(place[0])]
        if not copied:
            belongs = f"belongs to subject {places[0][0]}, which the flow does not copy" if places else "has no subject"
            raise RegistryError(
                f"at {self._source.alias} it {belongs}; select a subject that has it with schemas.subjects, or leave "
                f"the topic out of schemas.ids.{side.prefix}s"
            )
        subject, version = min(copied, key=lambda place: (place[0] != own, place[0], -place[1]))
        return self.register(self._at_source(subject, version, f"schema id {number}"))

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        """Whether a subject of the topic itself has the schema with this id at the source."""
        return any(is_of_topic(subject, topic, side) for subject, _ in self._source.places_of(number))

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
