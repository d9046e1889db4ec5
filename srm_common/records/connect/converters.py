"""Converts bytes to Connect's data and back, as ``JsonConverter`` and ``StringConverter`` do."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from srm_common.domain.transforms.formats import Format, FormatKind
from srm_common.records.connect.data.hash_map import HashMap, JavaMap
from srm_common.records.connect.data.java_values import (
    DataFault,
    class_name,
    java_text,
    wrapped,
)
from srm_common.records.connect.data.schema import (
    Schema,
    Struct,
    Type,
    type_of,
    with_default,
)
from srm_common.records.connect.json import text as json_text
from srm_common.records.connect.json.text import MISSING
from srm_common.records.connect.json.values import (
    LOGICAL_READERS,
    LOGICAL_WRITERS,
    READERS,
    TYPE_NAMES,
    TYPES_BY_NAME,
    WRITERS,
    member,
    node_type,
    plain,
    plain_text,
)

_CACHED_SCHEMAS = 1000


class SchemaAndValue(NamedTuple):
    """A key or value with its schema, which is None for schemaless data."""

    schema: Schema | None
    value: Any


NULL = SchemaAndValue(None, None)
_OPTIONAL_STRING = Schema(Type.STRING, optional=True)


class Converter:
    """The converter of keys or of values. Caches the schemas that it has seen."""

    def __init__(self, format_: Format) -> None:
        self._format = format_
        self._schemas: dict[bytes, Schema] = {}
        self._texts: dict[Schema, str] = {}

    def decode(self, data: bytes | None) -> SchemaAndValue:
        """``toConnectData``.

        Raises:
            DataFault: the converter cannot read the bytes.
        """
        if self._format.kind is FormatKind.STRING:
            return SchemaAndValue(_OPTIONAL_STRING, None if data is None else data.decode("utf-8", "replace"))
        if data is None:
            return NULL
        node = json_text.read(data)
        if not self._format.schemas:
            return SchemaAndValue(None, None if node is MISSING else plain(node))
        if not isinstance(node, dict) or len(node) != 2 or "schema" not in node or "payload" not in node:
            raise DataFault(
                'is JSON without an envelope of "schema" and "payload", which JsonConverter expects unless '
                "schemas.enable is false"
            )
        schema = self._schema(node["schema"])
        return SchemaAndValue(schema, self._read(schema, node["payload"]))

    def encode(self, schema: Schema | None, value: Any, before: bytes | None = None) -> bytes | None:
        """``fromConnectData``. ``before`` matters only in formats with a schema registry.

        Raises:
            DataFault: the converter cannot write the value.
        """
        if self._format.kind is FormatKind.STRING:
            return None if value is None else java_text(value).encode("utf-8", "replace")
        if schema is None and value is None:
            return None
        text = self._written(schema, value)
        if self._format.schemas:
            text = f'{{"schema":{"null" if schema is None else self._schema_text(schema)},"payload":{text}}}'
        return text.encode()

    def _read(self, schema: Schema | None, node: Any) -> Any:
        """``convertToConnect``."""
        if schema is None:
            return plain(node)
        if node is None:
            if schema.default is not None and self._format.replace_null_with_default:
                return schema.default
            if schema.optional:
                return None
            raise DataFault(f"has null for a required {schema.type.value}")
        logical = LOGICAL_READERS.get(schema.name)
        if logical is not None:
            return logical(schema, node)
        simple = READERS.get(schema.type)
        if simple is not None:
            return simple(node)
        if schema.type is Type.STRUCT:
            return self._struct(schema, node)
        if schema.type is Type.ARRAY:
            children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            return [self._read(schema.value_schema, child) for child in children]
        return self._map(schema, node)

    def _struct(self, schema: Schema, node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataFault(f"has {node_type(node)} where the schema has a struct")
        struct = Struct(schema)
        for field in schema.fields:
            struct.put(field.name, self._read(field.schema, node.get(field.name)))
        return struct

    def _map(self, schema: Schema, node: Any) -> HashMap:
        assert schema.key_schema is not None
        if schema.key_schema.type is Type.STRING:
            if not isinstance(node, dict):
                raise DataFault(f"has {node_type(node)} where the schema has a map")
            return HashMap((key, self._read(schema.value_schema, child)) for key, child in node.items())
        pairs = node if isinstance(node, list) else None
        if pairs is None or any(not isinstance(pair, list) or len(pair) != 2 for pair in pairs):
            raise DataFault("has something other than pairs of key and value where the schema has a map")
        read = [(self._read(schema.key_schema, key), self._read(schema.value_schema, value)) for key, value in pairs]
        try:
            return HashMap(read)
        except TypeError:
            raise DataFault("has a map whose keys are lists or maps, which is not supported here") from None

    def _schema(self, node: Any) -> Schema | None:
        """``asConnectSchema``, cached: records have few different schemas."""
        if node is None:
            return None
        cached = pickle.dumps(node)
        schema = self._schemas.get(cached)
        if schema is None:
            if len(self._schemas) >= _CACHED_SCHEMAS:
                self._schemas.clear()
            schema = self._schemas[cached] = self._parsed(node)
        return schema

    def _parsed(self, node: Any) -> Schema:
        of = TYPES_BY_NAME.get(member(node, "type")) if isinstance(member(node, "type"), str) else None
        if of is None:
            raise DataFault('has a schema whose "type" is missing or unknown')
        parts: dict[str, Any] = {}
        if of is Type.ARRAY:
            parts["value_schema"] = self._part(node, "items")
        elif of is Type.MAP:
            parts["key_schema"], parts["value_schema"] = self._part(node, "keys"), self._part(node, "values")
        elif of is Type.STRUCT:
            fields = member(node, "fields")
            if not isinstance(fields, list):
                raise DataFault('has a schema of a struct without a list of "fields"')
            if not all(isinstance(member(field, "field"), str) for field in fields):
                raise DataFault('has a schema of a struct with a "field" that has no name')
            parts["fields"] = [(field["field"], self._part(field, None)) for field in fields]
        name, version, doc = member(node, "name"), member(node, "version"), member(node, "doc")
        parameters = member(node, "parameters")
        if isinstance(parameters, dict) and not all(isinstance(parameter, str) for parameter in parameters.values()):
            raise DataFault("has a schema with parameters that are not text")
        schema = Schema(
            of,
            optional=member(node, "optional") is True,
            name=name if isinstance(name, str) else None,
            version=wrapped(version, 32) if type(version) is int else None,
            doc=doc if isinstance(doc, str) else None,
            parameters=(parameters or None) if isinstance(parameters, dict) else None,
            **parts,
        )
        if "default" not in node:
            return schema
        return with_default(schema, self._read(schema, node["default"]))

    def _part(self, node: Any, name: str | None) -> Schema:
        schema = self._schema(node if name is None else member(node, name))
        if schema is None:
            raise DataFault(f'has a schema without its "{name}"')
        return schema

    def _schema_text(self, schema: Schema) -> str:
        text = self._texts.get(schema)
        if text is None:
            if len(self._texts) >= _CACHED_SCHEMAS:
                self._texts.clear()
            text = self._texts[schema] = "{" + ",".join(self._schema_parts(schema)) + "}"
        return text

    def _schema_parts(self, schema: Schema) -> list[str]:
        """``asJsonSchema``."""
        parts = [f'"type":"{TYPE_NAMES[schema.type]}"']
        if schema.type is Type.STRUCT:
            fields = []
            for field in schema.fields:
                own = [*self._schema_parts(field.schema), f'"field":{json_text.written(field.name)}']
                fields.append("{" + ",".join(own) + "}")
            parts.append(f'"fields":[{",".join(fields)}]')
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            parts.append(f'"items":{self._schema_text(schema.value_schema)}')
        if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
            parts.append(f'"keys":{self._schema_text(schema.key_schema)}')
            parts.append(f'"values":{self._schema_text(schema.value_schema)}')
        parts.append(f'"optional":{"true" if schema.optional else "false"}')
        if schema.name is not None:
            parts.append(f'"name":{json_text.written(schema.name)}')
        if schema.version is not None:
            parts.append(f'"version":{int(schema.version)}')
        if schema.doc is not None:
            parts.append(f'"doc":{json_text.written(schema.doc)}')
        if schema.parameters is not None:
            pairs = (f"{json_text.written(key)}:{json_text.written(one)}" for key, one in schema.parameters.items())
            parts.append(f'"parameters":{{{",".join(pairs)}}}')
        if schema.default is not None:
            parts.append(f'"default":{self._written(schema, schema.default)}')
        return parts

    def _written(self, schema: Schema | None, value: Any) -> str:
        """``convertToJson``."""
        if schema is None:
            return plain_text(value)
        if value is None:
            if schema.default is not None and self._format.replace_null_with_default:
                return self._written(schema, schema.default)
            if schema.optional:
                return "null"
            raise DataFault(f"cannot be written: it has null for a required {schema.type.value} without a default")
        logical = None if schema.name is None else LOGICAL_WRITERS.get(schema.name)
        if logical is not None:
            return logical(self._format, schema, value)
        of = schema.type
        if type_of(value) is not of:
            raise DataFault(f"cannot be written: it has a {class_name(value)} for {schema}")
        writer = WRITERS.get(of)
        if writer is not None:
            return writer(value)
        if of is Type.STRUCT:
            if value.schema != schema:
                raise DataFault("cannot be written: a struct has a different schema from its field")
            pairs = zip(value.schema.fields, value.values, strict=True)
            texts = (f"{json_text.written(field.name)}:{self._written(field.schema, one)}" for field, one in pairs)
            return "{" + ",".join(texts) + "}"
        if of is Type.ARRAY:
            return f"[{','.join([self._written(schema.value_schema, one) for one in value])}]"
        return self._written_map(schema, value)

    def _written_map(self, schema: Schema, value: JavaMap) -> str:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None
        if keys.type is Type.STRING:
            pairs = [f"{json_text.written(key)}:{self._written(values, one)}" for key, one in value.entries()]
            return "{" + ",".join(pairs) + "}"
        pairs = [f"[{self._written(keys, key)},{self._written(values, one)}]" for key, one in value.entries()]
        return f"[{','.join(pairs)}]"
