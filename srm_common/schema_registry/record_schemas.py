"""The schemas of records that a slot changes: read from the source's registry, registered at the target's."""

from __future__ import annotations

import time

from srm_common.domain.schemas.schemas import qualified
from srm_common.errors import RegistryError, TransformFailed
from srm_common.records.connect.avro_converter import SchemaText
from srm_common.schema_registry.registry import SchemaRegistry

_CACHED_SCHEMAS = 10_000
#: A registry may learn of a schema a little later than its records come.
_UNKNOWN_SECONDS = 10.0
#: Deeper than any schema is nested; references in a circle end here.
_MOST_REFERENCES = 1000


class RegistrySchemas:
    """What :class:`~srm_common.records.connect.avro_converter.RecordSchemas` asks for. Not for several threads.

    Each schema is asked for once; no connection is kept open meanwhile.

    Args:
        target: None registers nothing, and gives new schemas the id 0.
        context: of the target's registry, in which new schemas are registered.
    """

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry | None, context: str = "") -> None:
        self._source = source
        self._target = target
        self._context = context
        self._schemas: dict[int, SchemaText] = {}
        self._unknown: dict[int, float] = {}
        self._registered: dict[tuple[str, str], int] = {}

    def schema(self, number: int) -> SchemaText | None:
        """The schema with this id; None if there is none.

        Raises:
            TransformFailed: the registry does not tell.
        """
        known = self._schemas.get(number)
        if known is not None or self._unknown.get(number, 0.0) > time.monotonic():
            return known
        try:
            with self._source:
                found = self._read(number)
        except RegistryError as error:
            raise TransformFailed(f"schema id {number} cannot be read: {error}") from error
        if len(self._schemas) + len(self._unknown) >= _CACHED_SCHEMAS:
            self._schemas.clear()
            self._unknown.clear()
        if found is None:
            self._unknown[number] = time.monotonic() + _UNKNOWN_SECONDS
        else:
            self._schemas[number] = found
        return found

    def registered(self, subject: str, topic: str, schema: str) -> int:
        """The id of an Avro schema of a subject, which gets it if it has it not.

        Raises:
            TransformFailed: the registry does not take it; names the subject and the topic.
        """
        if self._target is None:
            return 0
        subject = qualified(self._context, subject)
        number = self._registered.get((subject, schema))
        if number is None:
            try:
                with self._target as registry:
                    number = registry.add(subject, schema)
            except RegistryError as error:
                raise TransformFailed(
                    f"the schema that transforms give records of {topic} cannot be registered as {subject}: {error}"
                ) from error
            if len(self._registered) >= _CACHED_SCHEMAS:
                self._registered.clear()
            self._registered[subject, schema] = number
        return number

    def _read(self, number: int) -> SchemaText | None:
        found = self._source.by_id(number)
        if found is None:
            return None
        texts: list[str] = []
        self._referred(found, texts, set())
        return SchemaText(str(found.get("schemaType") or "AVRO"), str(found.get("schema", "")), tuple(texts))

    def _referred(self, body: dict[str, object], texts: list[str], seen: set[tuple[str, int]]) -> None:
        references = body.get("references")
        for one in references if isinstance(references, list) else ():
            place = (str(one.get("subject")), int(one.get("version", 0)))
            if place in seen:
                continue
            seen.add(place)
            found = self._source.version(*place) if len(seen) < _MOST_REFERENCES else None
            if found is None:
                raise RegistryError(f"it refers to version {place[1]} of subject {place[0]}, which is not there")
            self._referred(found, texts, seen)
            texts.append(str(found.get("schema", "")))
