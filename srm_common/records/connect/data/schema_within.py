"""Schemas of structs that contain themselves, as Confluent's ``ProtobufData`` makes them with its ``SchemaWrapper``."""

from __future__ import annotations

import threading
from typing import Any

from srm_common.records.connect.data.schema import Schema, Type

#: Pairs of fields that are being compared: where they contain themselves, they are treated as equal.
_comparing = threading.local()


class SchemaWithin(Schema):
    """The schema of a struct inside itself. Has no fields until those of the whole are known.

    Args:
        waiting: all such schemas of one whole, until :func:`complete` gives them its fields.
    """

    __slots__ = ("_waiting",)

    def __init__(self, waiting: list[SchemaWithin] | None, **described: Any) -> None:
        super().__init__(Type.STRUCT, **described)
        self._waiting = waiting
        if waiting is not None:
            waiting.append(self)

    def changed(self, **changed: Any) -> Schema:
        """A copy with the given properties replaced; with other fields, it is no longer part of itself."""
        if "fields" in changed:
            return super().changed(**changed)
        kept = {name: getattr(self, name) for name in ("optional", "default", "name", "version", "doc", "parameters")}
        made = SchemaWithin(self._waiting, **(kept | changed))
        made.fields, made.by_name = self.fields, self.by_name
        return made

    def complete(self, whole: Schema) -> None:
        """Adopt the fields of the whole."""
        self.fields, self.by_name, self._waiting = whole.fields, whole.by_name, None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, SchemaWithin) or self._own() != other._own():
            return False
        pairs: set[tuple[int, int]] = _comparing.__dict__.setdefault("pairs", set())
        pair = (id(self.fields), id(other.fields))
        if pair in pairs or self.fields is other.fields:
            return True
        pairs.add(pair)
        try:
            return self.fields == other.fields
        finally:
            pairs.remove(pair)

    def __hash__(self) -> int:
        return hash((self.optional, self.name, self.version))

    def _own(self) -> tuple[Any, ...]:
        return (self.optional, self.name, self.version, self.doc, self.default, self.parameters)


def complete(waiting: list[SchemaWithin], whole: Schema) -> None:
    """Give schemas the fields of the whole that they are part of."""
    for within in waiting:
        within.complete(whole)
    waiting.clear()
