"""Converts JSON to Connect's values and back by a Connect schema, as Confluent's ``JsonSchemaData`` does."""

from __future__ import annotations

from typing import Any

from srm_common.domain.transforms.formats import Format
from srm_common.records.connect.data.hash_map import HashMap, JavaMap
from srm_common.records.connect.data.java_values import DataFault, class_name
from srm_common.records.connect.data.schema import Schema, Struct, Type, type_of
from srm_common.records.connect.json import text as json_text
from srm_common.records.connect.json.values import LOGICAL_READERS, LOGICAL_WRITERS, READERS, WRITERS, node_type

UNION = "io.confluent.connect.json.OneOf"
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_FLOATS = (Type.FLOAT32, Type.FLOAT64)


def read(schema: Schema, node: Any) -> Any:
    """``toConnectData`` of a value that is not missing.

    Raises:
        DataFault: the schema does not accept it.
    """
    if node is None:
        if schema.default is not None:
            return schema.default
        if schema.optional:
            return None
        raise DataFault(f"has null for a required {schema.type.value}")
    logical = LOGICAL_READERS.get(schema.name)
    if logical is not None:
        return logical(schema, node)
    of = schema.type
    if of is Type.BYTES and not isinstance(node, str):
        raise DataFault(f"has {node_type(node)} where the schema has bytes")
    simple = READERS.get(of)
    if simple is not None:
        return simple(node)
    if of is Type.STRUCT:
        return _union(schema, node) if schema.name == UNION else _struct(schema, node)
    if of is Type.ARRAY:
        assert schema.value_schema is not None
        # As in Jackson's trees, a node without elements is an empty list.
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        return [read(schema.value_schema, child) for child in children]
    return _map(schema, node)


def _struct(schema: Schema, node: Any) -> Struct:
    if not isinstance(node, dict):
        raise DataFault(f"has {node_type(node)} where the schema has an object")
    struct = Struct(schema)
    for field in schema.fields:
        value = read(field.schema, node[field.name]) if field.name in node else field.schema.default
        if value is not None:
            struct.put(field.name, value)
    return struct


def _map(schema: Schema, node: Any) -> HashMap:
    keys, values = schema.key_schema, schema.value_schema
    assert keys is not None
    assert values is not None
    if _by_name(keys):
        if not isinstance(node, dict):
            raise DataFault(f"has {node_type(node)} where the schema has a map")
        return HashMap((key, read(values, child)) for key, child in node.items())
    if not isinstance(node, list) or any(not isinstance(pair, dict) or len(pair) != 2 for pair in node):
        raise DataFault("has something other than objects of key and value where the schema has a map")
    pairs = [tuple(_member(pair, name, of) for name, of in (("key", keys), ("value", values))) for pair in node]
    try:
        return HashMap((key, value) for key, value in pairs)
    except TypeError:
        raise DataFault("has a map whose keys are lists or maps, which is not supported here") from None


def _member(pair: dict[str, Any], name: str, schema: Schema) -> Any:
    return read(schema, pair[name]) if name in pair else schema.default


def _by_name(keys: Schema) -> bool:
    """Whether a map with such keys is a JSON object."""
    return keys.type is Type.STRING and not keys.optional


def _union(schema: Schema, node: Any) -> Struct:
    best, most = None, 0
    for field in schema.fields:
        if _is_simple(field.schema.type, node):
            best = field
            break
        matching = _matching(field.schema, node)
        if matching > most:
            best, most = field, matching
    if best is None:
        raise DataFault("fits none of the schemas of a oneOf")
    struct = Struct(schema)
    struct.put(best.name, read(best.schema, node))
    return struct


def _is_simple(of: Type, node: Any) -> bool:
    """``isInstanceOfSchemaTypeForSimpleSchema``, which takes numbers with a fraction for bytes, but never strings."""
    if isinstance(node, bool):
        return of is Type.BOOLEAN
    if isinstance(node, str):
        return of is Type.STRING
    if isinstance(node, dict | list):
        return of is Type.MAP or (of is Type.ARRAY and isinstance(node, list))
    return of in _FLOATS or (of in _INTEGERS if isinstance(node, int) else of is Type.BYTES)


def _matching(schema: Schema, node: Any) -> int:
    """``matchStructSchema``: how many fields of a struct an object has, nested ones included."""
    if schema.type is not Type.STRUCT or not isinstance(node, dict):
        return 0
    common = [field for field in schema.fields if field.name in node]
    return len(common) + sum(_matching(field.schema, node[field.name]) for field in common)


def written(format_: Format, schema: Schema, value: Any) -> str | None:
    """``fromConnectData`` as text; None if nothing is written: for null, unless it is optional or has a default.

    Raises:
        DataFault: the schema does not accept the value.
    """
    if value is None:
        if schema.default is not None:
            return written(format_, schema, schema.default)
        return "null" if schema.optional else None
    logical = None if schema.name is None else LOGICAL_WRITERS.get(schema.name)
    if logical is not None:
        return logical(format_, schema, value)
    if type_of(value) is not schema.type:
        raise DataFault(f"cannot be written: it has a {class_name(value)} for {schema}")
    writer = WRITERS.get(schema.type)
    if writer is not None:
        return writer(value)
    if schema.type is Type.STRUCT:
        return _written_struct(format_, schema, value)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return f"[{','.join([_or_null(format_, schema.value_schema, one) for one in value])}]"
    return _written_map(format_, schema, value)


def _or_null(format_: Format, schema: Schema, value: Any) -> str:
    text = written(format_, schema, value)
    return "null" if text is None else text


def _written_struct(format_: Format, schema: Schema, value: Struct) -> str | None:
    if value.schema != schema:
        raise DataFault("cannot be written: a struct has a different schema from its field")
    if schema.name == UNION:
        for field in schema.fields:
            held = value.get(field.name)
            if held is not None:
                return written(format_, field.schema, held)
        return written(format_, schema, None)
    texts = []
    for field, own in zip(schema.fields, value.values, strict=True):
        text = written(format_, field.schema, own)
        if text is not None:
            texts.append(f"{json_text.written(field.name)}:{text}")
    return "{" + ",".join(texts) + "}"


def _written_map(format_: Format, schema: Schema, value: JavaMap) -> str:
    keys, values = schema.key_schema, schema.value_schema
    assert keys is not None
    assert values is not None
    pairs = [(key, _or_null(format_, values, one)) for key, one in value.entries()]
    if _by_name(keys):
        if not all(isinstance(key, str) for key, _ in pairs):
            raise DataFault("cannot be written: it has a map with a key that is not a string")
        return "{" + ",".join(f"{json_text.written(key)}:{text}" for key, text in pairs) + "}"
    texts = (f'{{"key":{_or_null(format_, keys, key)},"value":{text}}}' for key, text in pairs)
    return f"[{','.join(texts)}]"
