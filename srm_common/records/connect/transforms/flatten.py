"""Nested fields as fields of one struct or object: Connect's Flatten."""

from __future__ import annotations

from srm_common.records.connect.converters import SchemaAndValue
from srm_common.records.connect.data.hash_map import JavaMap
from srm_common.records.connect.data.java_values import DataFault, class_name
from srm_common.records.connect.data.schema import Schema, Struct, Type, type_of, with_default
from srm_common.records.connect.transforms.requirements import MadeSchemas, Origin, require_map, require_struct


class FlattenTransform:
    """Carries out Flatten."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if value is None:
            return data
        if schema is None:
            flat = JavaMap()
            self._fill(require_map(value, "Flatten"), "", flat)
            return SchemaAndValue(None, flat)
        require_struct(value, "Flatten")
        struct = Struct(self._schemas.of(schema))
        self._put(value, "", struct)
        return SchemaAndValue(struct.schema, struct)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _fill(self, nested: JavaMap, prefix: str, flat: JavaMap) -> None:
        for name, value in nested.entries():
            if isinstance(value, JavaMap):
                self._fill(value, self._name(prefix, name), flat)
            elif value is None or type_of(value) is not None:
                flat[self._name(prefix, name)] = value
            else:
                raise DataFault(f"Flatten does not take {class_name(value)}")

    def _schema(self, schema: Schema) -> Schema:
        fields: list[tuple[str, Schema]] = []
        self._collect(schema, "", fields, schema.optional)
        return schema.like(Type.STRUCT, fields=fields)

    def _collect(self, schema: Schema, prefix: str, fields: list[tuple[str, Schema]], optional: bool) -> None:
        for field in schema.fields:
            name, own = self._name(prefix, field.name), field.schema
            if own.type is Type.STRUCT:
                self._collect(own, name, fields, optional or own.optional)
            elif own.type is Type.MAP:
                raise DataFault(f"Flatten does not take maps where there is a schema (field '{name}')")
            else:
                made = own.like(own.type, optional=optional or own.optional, value_schema=own.value_schema)
                fields.append((name, made if own.default is None else with_default(made, own.default)))

    def _put(self, nested: Struct | None, prefix: str, flat: Struct) -> None:
        if nested is None:
            return
        for field in nested.schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is Type.STRUCT:
                self._put(nested.get(field.name, False), name, flat)
            else:
                flat.put(name, nested.get(field.name))
