"""Fields that become headers: Connect's HeaderFrom."""

from __future__ import annotations

from typing import Any

from srm_common.domain.transforms.field_steps import HeaderFrom
from srm_common.records.connect.converters import SchemaAndValue
from srm_common.records.connect.data.hash_map import HashMap, JavaMap
from srm_common.records.connect.data.java_values import (
    DataFault,
    JavaDate,
    base64_text,
    class_name,
    date_text,
    java_text,
)
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.connect.transforms.requirements import MadeSchemas, Origin, require_map, require_struct


class HeaderFromTransform:
    """Carries out HeaderFrom: what is left of the side. Its headers are read by :func:`headers_from`."""

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
        DataFault: a struct that has no such field.
    """
    schema, value = data
    if schema is None:
        return [(header, value.get(field)) for field, header in options.headers]
    return [(header, value.get(field, options.defaults)) for field, header in options.headers]


def header_text(value: Any) -> bytes | None:
    """A header's bytes as ``SimpleHeaderConverter`` writes them, Connect's default (``Values.convertToString``):
    text as it is, numbers as text, lists and maps much like JSON.

    Raises:
        DataFault: a value that cannot be written.
    """
    return None if value is None else _text(value, False).encode("utf-8", "replace")


def _text(value: Any, embedded: bool) -> str:
    if isinstance(value, str | bytes):
        text = base64_text(value) if isinstance(value, bytes) else value
        if not embedded:
            return text
        escaped = text if isinstance(value, bytes) else text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{','.join(_text(one, True) for one in value)}]"
    if isinstance(value, JavaMap):
        return "{" + ",".join(f"{_text(key, True)}:{_text(one, True)}" for key, one in value.entries()) + "}"
    if isinstance(value, Struct):
        pairs = (f"{_text(one.name, True)}:{_text(value.get(one.name), True)}" for one in value.schema.fields)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, JavaDate):
        return date_text(value)
    if value is not None and not isinstance(value, bool | int | float) and type(value).__name__ != "Decimal":
        raise DataFault(f"a header cannot have {class_name(value)}")
    return java_text(value)
