"""Converts Avro schemas to Connect's and back, as Confluent's ``AvroData`` does with its default settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from srm_common.records.connect.data.hash_map import HashMap, JavaMap
from srm_common.records.connect.data.java_values import DataFault, Float32, Int8, Int16, Int32, JavaDate, to_float
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type, with_default
from srm_common.records.connect.json.values import decimal_of, logical_integer, unscaled_bytes

_NAMESPACE = "io.confluent.connect.avro"
UNION = f"{_NAMESPACE}.Union"
_ENUM, _UNNAMED, _MAP_ENTRY = f"{_NAMESPACE}.Enum", "ConnectDefault", "MapEntry"
_RECORD_DOC, _FIELD_DOC = f"{_NAMESPACE}.record.doc", f"{_NAMESPACE}.field.doc."
_ENUM_DOC, _ENUM_DEFAULT = f"{_NAMESPACE}.enum.doc.", f"{_NAMESPACE}.enum.default."
_FIELD_DEFAULT = f"{_NAMESPACE}.field.default"
_PRECISION, _DEFAULT_PRECISION = "connect.decimal.precision", 64
_PRIMITIVES: Mapping[str, Type] = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bytes": Type.BYTES,
    "string": Type.STRING,
}
_NAMES: Mapping[Type, str] = {of: name for name, of in _PRIMITIVES.items()} | {Type.INT8: "int", Type.INT16: "int"}
_SMALL: Mapping[Any, Type] = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL: Mapping[tuple[str, Any], str] = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}
_LOGICAL_NAMES: Mapping[str | None, str] = {name: logical for (_, logical), name in _LOGICAL.items()}


class AvroField(NamedTuple):
    """A field of a record; ``default`` is JSON, ``has_default`` tells a default of null from none."""

    name: str
    of: Avro
    default: Any
    has_default: bool
    doc: str | None


class Avro(NamedTuple):
    """An Avro schema with names resolved. ``name`` is the full name; ``own`` is its JSON object."""

    kind: str
    own: Mapping[str, Any]
    name: str = ""
    fields: tuple[AvroField, ...] = ()
    branches: tuple[Avro, ...] = ()


def parsed(text: str, references: Sequence[str] = ()) -> Avro:
    """Parse a schema of a registry.

    Args:
        references: all schemas that it refers to, dependencies first.

    Raises:
        DataFault: not an Avro schema, or one that contains itself.
    """
    names: dict[str, Avro | None] = {}
    try:
        for reference in references:
            _resolved(json.loads(reference), "", names)
        return _resolved(json.loads(text), "", names)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DataFault):
            raise
        raise DataFault("has a schema that is not Avro") from None


def _resolved(node: Any, namespace: str, names: dict[str, Avro | None]) -> Avro:
    if isinstance(node, list):
        return Avro("union", {}, branches=tuple(_resolved(one, namespace, names) for one in node))
    if isinstance(node, str):
        if node in _PRIMITIVES or node == "null":
            return Avro(node, {})
        full = node if "." in node or not namespace else f"{namespace}.{node}"
        avro = names[full if full in names else node]
        if avro is None:
            raise DataFault(f"has a schema whose {full} contains itself, which is not supported here")
        return avro
    kind = node["type"]
    if isinstance(kind, dict | list):
        return _resolved(kind, namespace, names)
    if kind in ("array", "map"):
        return Avro(kind, node, branches=(_resolved(node["items" if kind == "array" else "values"], namespace, names),))
    if kind not in ("record", "error", "enum", "fixed"):
        plain = _resolved(kind, namespace, names)
        return plain._replace(own=node) if kind in _PRIMITIVES else plain
    name = str(node["name"])
    namespace = name.rpartition(".")[0] if "." in name else str(node.get("namespace", namespace) or "")
    name = name if "." in name or not namespace else f"{namespace}.{name}"
    if kind == "fixed" and not (type(node["size"]) is int and node["size"] >= 0):
        raise DataFault(f"has a schema whose fixed {name} has no size")
    if kind == "enum" and not _symbols(node["symbols"]):
        raise DataFault(f"has a schema whose enum {name} has symbols that are not strings, or not distinct")
    names[name] = None
    fields = tuple(
        AvroField(
            str(one["name"]),
            _resolved(one["type"], namespace, names),
            one.get("default"),
            "default" in one,
            one.get("doc"),
        )
        for one in (node["fields"] if kind in ("record", "error") else ())
    )
    made = names[name] = Avro("record" if kind == "error" else kind, node, name, fields)
    return made


def _symbols(found: Any) -> bool:
    return isinstance(found, list) and all(type(one) is str for one in found) and len({*found}) == len(found)


def nullable(avro: Avro) -> int | None:
    """The index of null in a union of null and one other schema; None for everything else."""
    if avro.kind != "union" or len(avro.branches) != 2:
        return None
    return next((place for place, one in enumerate(avro.branches) if one.kind == "null"), None)


def branch_name(avro: Avro) -> str:
    """The name of the struct field for one branch of a union (``unionMemberFieldName``)."""
    return avro.name.rpartition(".")[2] if avro.kind in ("record", "enum") else avro.kind


def is_map_entry(avro: Avro) -> bool:
    """Whether a list of these is a map whose keys are not strings (``isMapEntry``)."""
    return avro.name == f"{_NAMESPACE}.{_MAP_ENTRY}" or (
        avro.kind == "record" and avro.own.get("connect.internal.type") == _MAP_ENTRY
    )


def to_connect(avro: Avro, *, optional: bool = False, default: Any = None) -> Schema:
    """``toConnectSchema``.

    Args:
        default: that of the field with this schema, as JSON.

    Raises:
        DataFault: the schema has no equivalent in Connect.
    """
    null = nullable(avro)
    if null is not None:
        return to_connect(avro.branches[1 - null], optional=True)
    own = avro.own
    parameters = _parameters(avro)
    of, name, parts = _shape(avro)
    version = None if name is None or name == UNION else 1
    optional = optional or (avro.kind == "union" and any(branch.kind == "null" for branch in avro.branches))
    if type(own.get("connect.version")) is int:
        version = own["connect.version"]
    parameters |= {str(key): str(one) for key, one in (own.get("connect.parameters") or {}).items()}
    parameters |= {key: str(one) for key, one in own.items() if key.startswith("avro")}
    named = own.get("connect.name", avro.name if avro.kind in ("record", "enum") else None)
    if isinstance(named, str) and named != f"{_NAMESPACE}.{_UNNAMED}":
        name = name or named
    if default is not None and "connect.default" not in own:
        parameters[_FIELD_DEFAULT] = "true"
    given = own.get("connect.default") if default is None else default
    doc = own.get("connect.doc")
    schema = Schema(
        of,
        optional=optional,
        name=name,
        version=version,
        doc=doc if isinstance(doc, str) else None,
        parameters=parameters or None,
        **parts,
    )
    return schema if given is None else with_default(schema, _from_json(schema, avro, given))


def _parameters(avro: Avro) -> dict[str, str]:
    """Parameters for what Connect has no other place for."""
    own, short = avro.own, avro.name.rpartition(".")[2]
    out: dict[str, str] = {}
    if avro.kind == "record":
        out |= {_RECORD_DOC: own["doc"]} if isinstance(own.get("doc"), str) else {}
        out |= {_FIELD_DOC + field.name: field.doc for field in avro.fields if field.doc is not None}
    elif avro.kind == "enum":
        out |= {
            start + short: own[key] for start, key in ((_ENUM_DOC, "doc"), (_ENUM_DEFAULT, "default")) if key in own
        }
        out |= {_ENUM: avro.name, **{f"{_ENUM}.{one}": one for one in own["symbols"]}}
    elif avro.kind in ("bytes", "fixed") and own.get("logicalType") == "decimal":
        scale, precision = own.get("scale", 0), own.get("precision", _DEFAULT_PRECISION)
        if type(scale) is not int or type(precision) is not int:
            raise DataFault("has a schema of a decimal whose scale or precision is not an integer")
        out["scale"] = str(scale)
        if precision != _DEFAULT_PRECISION:
            out[_PRECISION] = str(precision)
    return out


def _shape(avro: Avro) -> tuple[Type, str | None, dict[str, Any]]:
    """Connect's type, the name of its logical type, and the schemas of its parts."""
    match avro.kind:
        case "union":
            branches = [branch for branch in avro.branches if branch.kind != "null"]
            fields = [(branch_name(branch), to_connect(branch, optional=True)) for branch in branches]
            return Type.STRUCT, UNION, {"fields": fields}
        case "record":
            return (
                Type.STRUCT,
                None,
                {"fields": [(field.name, to_connect(field.of, default=field.default)) for field in avro.fields]},
            )
        case "enum":
            return Type.STRING, None, {}
        case "array" if is_map_entry(avro.branches[0]):
            entry = {field.name: field.of for field in avro.branches[0].fields}
            if set(entry) != {"key", "value"}:
                raise DataFault("has a map schema whose entries do not consist of key and value")
            return Type.MAP, None, {f"{name}_schema": to_connect(one) for name, one in entry.items()}
        case "array":
            return Type.ARRAY, None, {"value_schema": to_connect(avro.branches[0])}
        case "map":
            return Type.MAP, None, {"key_schema": Schema(Type.STRING), "value_schema": to_connect(avro.branches[0])}
        case "null":
            raise DataFault("has a schema that is null, for which Connect has no type")
        case "bytes" | "fixed":
            return Type.BYTES, DECIMAL if avro.own.get("logicalType") == "decimal" else None, {}
    logical = avro.own.get("logicalType")
    of = _PRIMITIVES[avro.kind]
    if avro.kind == "int" and logical is None and "connect.type" in avro.own:
        if avro.own["connect.type"] not in _SMALL:
            raise DataFault("has a schema of an int whose connect.type is unknown")
        of = _SMALL[avro.own["connect.type"]]
    return of, _LOGICAL.get((avro.kind, logical)), {}


def _from_json(schema: Schema, avro: Avro, node: Any) -> Any:
    """A default (``defaultValueFromAvro``)."""
    try:
        if avro.kind == "union":
            raise DataFault("has a schema with a union that has a default, which is not supported here")
        if schema.name in (DATE, TIME, TIMESTAMP):
            return JavaDate(int(node) * (86_400_000 if schema.name == DATE else 1))
        if schema.type is Type.BYTES:
            data = node.encode("latin-1")
            if schema.name == DECIMAL:
                return decimal_of(int.from_bytes(data, signed=True), int((schema.parameters or {})["scale"]))
            return data
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            return [_from_json(schema.value_schema, avro.branches[0], one) for one in node]
        if schema.type is Type.MAP and avro.kind == "map":
            assert schema.value_schema is not None
            return HashMap((key, _from_json(schema.value_schema, avro.branches[0], one)) for key, one in node.items())
        makes: Any = {
            Type.INT8: Int8,
            Type.INT16: Int16,
            Type.INT32: Int32,
            Type.INT64: int,
            Type.FLOAT32: to_float,
            Type.FLOAT64: float,
            Type.BOOLEAN: bool,
            Type.STRING: str,
        }
        return makes[schema.type](node)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataFault):
            raise
        raise DataFault(f"has a schema with a default that {schema} does not accept") from None


def from_connect(schema: Schema) -> Any:
    """``fromConnectSchema``, as JSON.

    Raises:
        DataFault: two different structs have the same name.
    """
    return _written(schema, {}, optional=schema.optional)


def _written(schema: Schema, names: dict[str, Schema], *, optional: bool) -> Any:
    if schema.name == UNION:
        members = [_written(field.schema, names, optional=False) for field in schema.fields]
        return ["null", *members] if optional else members
    base = _base(schema, names)
    if not optional:
        return base
    return ["null", base] if schema.default is None else [base, "null"]


def _base(schema: Schema, names: dict[str, Schema]) -> Any:
    parameters = schema.parameters or {}
    match schema.type:
        case Type.STRUCT:
            full = schema.name or f"{_NAMESPACE}.{_UNNAMED}"
            plain = schema.changed(optional=False)
            if full in names:
                if names[full] != plain:
                    raise DataFault(f"cannot be written: two different structs are called {full}")
                return full
            names[full] = plain
            namespace, _, short = full.rpartition(".")
            out: dict[str, Any] = {"type": "record", "name": short}
            if namespace:
                out["namespace"] = namespace
            if _RECORD_DOC in parameters:
                out["doc"] = parameters[_RECORD_DOC]
            out["fields"] = [_field(schema, field.name, field.schema, names) for field in schema.fields]
        case Type.ARRAY:
            assert schema.value_schema is not None
            items = schema.value_schema
            out = {"type": "array", "items": _written(items, names, optional=items.optional)}
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            keys, values = schema.key_schema, schema.value_schema
            if keys.type is not Type.STRING or keys.optional:
                raise DataFault("cannot be written: maps whose keys are not strings are not supported here")
            out = {"type": "map", "values": _written(values, names, optional=values.optional)}
        case of:
            out = {"type": _NAMES[of]}
            if schema.name == DECIMAL:
                precision, scale = int(parameters.get(_PRECISION, _DEFAULT_PRECISION)), int(parameters["scale"])
                out |= {"scale": scale, "precision": precision}
    _describe(schema, out)
    return out["type"] if len(out) == 1 else out


def _field(struct: Schema, name: str, schema: Schema, names: dict[str, Schema]) -> dict[str, Any]:
    field = {"name": name, "type": _written(schema, names, optional=schema.optional)}
    doc = (struct.parameters or {}).get(_FIELD_DOC + name)
    if doc is not None:
        field["doc"] = doc
    if schema.default is not None:
        field["default"] = _default(schema, schema.default)
    elif schema.optional:
        field["default"] = None
    return field


def _describe(schema: Schema, out: dict[str, Any]) -> None:
    """Add what Avro has no place for."""
    parameters = schema.parameters or {}
    if schema.doc is not None:
        out["connect.doc"] = schema.doc
    if schema.version is not None:
        out["connect.version"] = int(schema.version)
    kept = {key: one for key, one in parameters.items() if key != _FIELD_DEFAULT}
    if kept:
        out["connect.parameters"] = kept
    if schema.default is not None and _FIELD_DEFAULT not in parameters:
        out["connect.default"] = _default(schema, schema.default)
    if schema.name is not None:
        out["connect.name"] = schema.name
    if schema.type in (Type.INT8, Type.INT16):
        out["connect.type"] = schema.type.value.lower()
    if schema.name in _LOGICAL_NAMES:
        out["logicalType"] = _LOGICAL_NAMES[schema.name]
    elif schema.name == DECIMAL:
        out["logicalType"] = "decimal"
    out |= {key: one for key, one in parameters.items() if key.startswith("avro")}


def _default(schema: Schema, value: Any) -> Any:
    """``defaultValueFromConnect``."""
    if isinstance(value, Decimal):
        return unscaled_bytes(schema, value).decode("latin-1")
    if isinstance(value, JavaDate):
        return int(logical_integer(schema, value))
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list):
        assert schema.value_schema is not None
        return [_default(schema.value_schema, one) for one in value]
    if isinstance(value, JavaMap):
        assert schema.value_schema is not None
        return {key: _default(schema.value_schema, one) for key, one in value.entries()}
    if isinstance(value, Struct):
        return {field.name: _default(field.schema, value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, Float32 | float):
        return float(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
