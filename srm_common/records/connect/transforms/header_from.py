"""Fields that become headers: Connect's HeaderFrom."""

from __future__ import annotations

from typing import Any

from srm_common.domain.transforms.field_steps import HeaderFrom
from srm_common.records.connect.converters import SchemaAndValue
from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.connect.transforms.requirements import MadeSchemas, Origin, require_map, require_struct


class HeaderFromTransform:
    """Carries out HeaderFrom: returns the remaining fields. The headers come from :func:`headers_from`."""

    def __init__(self, options: HeaderFrom) -> None:
        self._options = options
        self._moved = {field for field, _ in options.headers}
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if schema is None:
            require_map(value, "HeaderFrom")
        else:
            require_struct(value, "HeaderFrom")
        if schema is None:
            left = HashMap.copy_of(value)
            if not self._options.move:
                return SchemaAndValue(None, left)
            for name in self._moved:
                left.pop(name, None)
            return SchemaAndValue(None, left)
        if not self._options.move:
            return data
        struct = Struct(self._schemas.of(schema))
        for field in struct.schema.fields:
            struct.put(field.name, value.get(field.name, self._options.defaults))
        return SchemaAndValue(struct.schema, struct)

    def _schema(self, schema: Schema) -> Schema:
        fields = [(field.name, field.schema) for field in schema.fields if field.name not in self._moved]
        return schema.like(Type.STRUCT, fields=fields)


def headers_from(options: HeaderFrom, data: SchemaAndValue) -> list[tuple[str, Any]]:
    """The headers that HeaderFrom adds, by name and value.

    Raises:
        DataFault: the struct has no such field.
    """
    schema, value = data
    if schema is None:
        return [(header, value.get(field)) for field, header in options.headers]
    return [(header, value.get(field, options.defaults)) for field, header in options.headers]
