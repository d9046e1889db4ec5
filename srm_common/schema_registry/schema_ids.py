"""The target's ids of the source's schemas, where the target's registry assigns its own.

The map is the target's registry: a schema is looked up in the subject of its copy, and registered there if it is not
there yet. So there is no second map that could differ from it, and every run finds the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from srm_common.domain.schemas.schemas import Reference, SchemaVersion, SubjectNaming
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
        self._registered: dict[tuple[str, int], Registered] = {}
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
        return self.register(self._at_source(subject, version, f"schema id {number}")).id

    def register(self, schema: SchemaVersion) -> Registered:
        """Where the target has the copy of a source's schema; if it does not, registers the copy, after the schemas
        that it refers to."""
        registered = self._registered.get(schema.place)
        if registered is None:
            copy = self._copy(schema)
            registered = self._target.lookup(copy)
            if registered is None:
                number = self._target.add(copy.subject, copy.schema_type, copy.schema, copy.references, copy.more)
                registered = self._target.lookup(copy)
                if registered is None or registered.id != number:
                    raise RegistryError(
                        f"the schema registry of {self._target.alias} has assigned id {number} to a schema of subject "
                        f"{copy.subject}, but does not find it there; check its log"
                    )
            if len(self._registered) >= _CACHED_SCHEMAS:
                self._registered.clear()
            self._registered[schema.place] = registered
        return registered

    def is_registered(self, schema: SchemaVersion) -> bool:
        """Whether the target has the copy of a source's schema."""
        try:
            with self._in_turn(schema):
                references = []
                for reference in schema.references:
                    referred = self._at_source(reference.subject, reference.version, _name(schema))
                    if not self.is_registered(referred):
                        return False
                    references.append(self._referring(reference, referred))
        except _Circle:
            return False
        return self._target.lookup(self._named(schema, references)) is not None

    def _copy(self, schema: SchemaVersion) -> SchemaVersion:
        """The schema as the target is to have it, with references to versions there."""
        with self._in_turn(schema):
            references = [
                self._referring(reference, self._at_source(reference.subject, reference.version, _name(schema)))
                for reference in schema.references
            ]
        return self._named(schema, references)

    def _referring(self, reference: Reference, referred: SchemaVersion) -> Reference:
        version = self.register(referred).version
        return Reference(reference.name, self._naming.target_subject(reference.subject), version)

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
