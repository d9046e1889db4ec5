"""What transforms require of the keys and values that they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from srm_common.records.connect.data.hash_map import JavaMap
from srm_common.records.connect.data.java_values import DataFault, class_name
from srm_common.records.connect.data.schema import Schema, Struct

_CACHED_SCHEMAS = 1000
#: Kafka's classes refuse it as well (``Requirements.requireMap``).
_TOMBSTONE = "; if it is a tombstone, give the step a predicate RecordIsTombstone and negate = true"


class Origin(NamedTuple):
    """Where a record belongs: the copy's topic and partition; the timestamp is in milliseconds since the epoch."""

    topic: str
    partition: int
    timestamp: int


class MadeSchemas:
    """Schemas that a transform has made, by the schemas that it made them from."""

    def __init__(self, make: Callable[[Schema], Schema]) -> None:
        self._make = make
        self._made: dict[Schema, Schema] = {}

    def of(self, schema: Schema) -> Schema:
        """The schema made from ``schema``, now or earlier."""
        made = self._made.get(schema)
        if made is None:
            if len(self._made) >= _CACHED_SCHEMAS:
                self._made.clear()
            made = self._made[schema] = self._make(schema)
        return made


def require_map(value: Any, what: str) -> JavaMap:
    """Raises :class:`DataFault` for anything but an object without a schema."""
    if not isinstance(value, JavaMap):
        hint = "" if value is not None else _TOMBSTONE
        raise DataFault(f"{what} takes objects where there is no schema, but not {class_name(value)}{hint}")
    return value


def require_struct(value: Any, what: str) -> Struct:
    """Raises :class:`DataFault` for anything but a struct."""
    if not isinstance(value, Struct):
        hint = "" if value is not None else _TOMBSTONE
        raise DataFault(f"{what} takes structs where there is a schema, but not {class_name(value)}{hint}")
    return value
