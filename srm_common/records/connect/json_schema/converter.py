"""Converts JSON Schemas to Connect's schemas and back, and their values, as Confluent's ``JsonSchemaData`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from srm_common.domain.transforms.formats import Format
from srm_common.records.connect.data.java_values import DataFault, java_text
from srm_common.records.connect.data.schema import DECIMAL, Schema, Type, with_default
from srm_common.records.connect.json import text as json_text
from srm_common.records.connect.json.values import plain
from srm_common.records.connect.json_schema.schemas import JsonSchema, Kind, parsed
from srm_common.records.connect.json_schema.values import UNION, read, written
from srm_common.records.connect.registry_values import Reference, WithoutPlace

_NAMESPACE = "io.confluent.connect.json"
_ENUM, _NULL_SYMBOL = f"{_NAMESPACE}.Enum", "<NULL>"
_NUMBERS: Mapping[Any, Type] = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "bytes": Type.BYTES,
}
_NUMBER_NAMES: Mapping[Type, str] = {of: name for name, of in _NUMBERS.items()}
#: A few definitions, each of which uses the next one twice, expand to more parts than any memory holds.
_MOST_PARTS = 20_000
_NULL: Mapping[str, str] = {"type": "null"}


class JsonSchemaValues(WithoutPlace):
    """Decodes and encodes the values of one JSON Schema. Implements
    :class:`~srm_common.records.connect.registry_values.RegistryValues`.
    """

    kind: ClassVar[str] = "JSON"
    title: ClassVar[str] = "JSON Schema"

    def __init__(self, schema: Schema, format_: Format) -> None:
        self.schema = schema
        self._format = format_

    @classmethod
    def of_text(cls, text: str, references: Sequence[Reference], format_: Format, place: bytes = b"") -> Self:
        """Raises :class:`DataFault` if the text is not JSON Schema, or has no equivalent in Connect."""
        try:
            return cls(to_connect(parsed(text, references), format_), format_)
        except RecursionError:
            raise DataFault("has a schema that is nested too deeply") from None

    @classmethod
    def of_schema(cls, schema: Schema, format_: Format) -> tuple[str, Self]:
        """Every Connect schema has an equivalent."""
        return from_connect(schema, format_), cls(schema, format_)

    @staticmethod
    def writes_null(schema: Schema) -> bool:
        """Null becomes a tombstone only if the schema is required and has no default."""
        return schema.optional or schema.default is not None

    def decode(self, data: bytes) -> Any:
        """Raises :class:`DataFault` if the bytes are not JSON of this schema."""
        node = json_text.read(data)
        if node is json_text.MISSING:
            raise DataFault("has nothing after its schema id")
        return read(self.schema, node)

    def encode(self, value: Any) -> bytes:
        """Raises :class:`DataFault` if the schema does not accept the value."""
        text = written(self._format, self.schema, value)
        if text is None:
            raise DataFault("cannot be written: no schema of a oneOf has a value")
        return text.encode()


def to_connect(schema: JsonSchema, format_: Format) -> Schema:
    """``toConnectSchema``.

    Raises:
        DataFault: the schema has no equivalent in Connect.
    """
    return _Reader(format_).schema(schema)


class _Reader:
    def __init__(self, format_: Format) -> None:
        self._format = format_
        self._open: set[JsonSchema] = set()
        self._parts = 0

    def schema(self, one: JsonSchema | None, *, optional: bool = False) -> Schema:
        if one is None:
            raise DataFault("has a schema without one for its items, entries or branches, which Connect needs")
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise DataFault(f"has a schema of more than {_MOST_PARTS} parts")
        if one in self._open:
            raise DataFault("has a schema that contains itself, which is not supported here")
        self._open.add(one)
        try:
            return self._converted(one, optional)
        finally:
            self._open.remove(one)

    def _converted(self, one: JsonSchema, optional: bool) -> Schema:
        connect_type = one.own.get("connect.type")
        match one.kind:
            case Kind.REFERENCE:
                assert one.referred is not None
                return self.schema(one.referred(), optional=optional)
            case Kind.ALL_OF | Kind.ONE_OF if len(one.parts) == 1:
                # Confluent's converter loses ``optional`` here.
                return self.schema(one.parts[0])
            case Kind.ALL_OF:
                return self._all_of(one, optional)
            case Kind.ONE_OF:
                return self._one_of(one, optional)
            case Kind.BOOLEAN:
                return _described(one, Schema(Type.BOOLEAN, optional=optional))
            case Kind.NUMBER:
                of = Type.INT64 if one.integer else Type.FLOAT64
                if connect_type is not None:
                    of = _number(connect_type)
                return _described(one, Schema(of, optional=optional))
            case Kind.STRING:
                of = Type.BYTES if connect_type == "bytes" else Type.STRING
                return _described(one, Schema(of, optional=optional))
            case Kind.ENUM | Kind.CONST:
                symbols = {f"{_ENUM}.{text}": text for text in map(_symbol, one.symbols)}
                return _described(one, Schema(Type.STRING, optional=optional, parameters={_ENUM: ""} | symbols))
            case Kind.ARRAY:
                return _described(one, self._array(one, connect_type == "map", optional))
            case Kind.OBJECT if connect_type == "map":
                values = self.schema(one.additional)
                keys = Schema(Type.STRING)
                return _described(one, Schema(Type.MAP, optional=optional, key_schema=keys, value_schema=values))
            case Kind.OBJECT:
                fields = self._fields(_in_order(one.properties), one.required)
                return _described(one, Schema(Type.STRUCT, optional=optional, fields=fields))
            case Kind.ANY:
                raise DataFault("has a schema with a part that allows any value, which is not supported here")
        raise DataFault(f"has a schema that consists of {one.kind.value}, for which Connect has no type")

    def _array(self, one: JsonSchema, entries: bool, optional: bool) -> Schema:
        if one.items is None:
            raise DataFault("has a schema of an array without one schema for all items")
        if entries and one.items.kind is Kind.OBJECT:
            key, value = (self.schema(one.items.properties.get(name)) for name in ("key", "value"))
            return Schema(Type.MAP, optional=optional, key_schema=key, value_schema=value)
        return Schema(Type.ARRAY, optional=optional, value_schema=self.schema(one.items))

    def _fields(
        self, properties: Mapping[str, JsonSchema], required: frozenset[str] | set[str]
    ) -> list[tuple[str, Schema]]:
        def optional(name: str) -> bool:
            return self._format.optional_unless_required and name not in required

        return [(name, self.schema(one, optional=optional(name))) for name, one in properties.items()]

    def _one_of(self, one: JsonSchema, optional: bool) -> Schema:
        branches = [part for part in one.parts if part.kind is not Kind.NULL]
        if len(one.parts) == 2 and len(branches) < 2:
            return self.schema(branches[0] if branches else None, optional=True)
        fields = [(f"{UNION}.field.{place}", self.schema(part, optional=True)) for place, part in enumerate(branches)]
        null = len(branches) < len(one.parts)
        made = Schema(Type.STRUCT, optional=optional or null, name=UNION, fields=fields)
        return _described(one, made, nullable=null)

    def _all_of(self, one: JsonSchema, optional: bool) -> Schema:
        properties: dict[str, JsonSchema] = {}
        required: set[str] = set()
        for part in one.parts:
            _collect(part, properties, required, set())
        if properties:
            return Schema(Type.STRUCT, optional=optional, fields=self._fields(properties, required))
        last = {part.kind: part for part in one.parts}
        combined = [part for part in one.parts if part.kind in (Kind.ALL_OF, Kind.ONE_OF)]
        string, number = last.get(Kind.STRING), last.get(Kind.NUMBER)
        schema: JsonSchema | None = None
        if combined:
            schema = combined[-1]
        elif Kind.CONST in last:
            schema = string or number
        elif Kind.ENUM in last:
            schema = last[Kind.ENUM] if string is not None else number
        elif string is not None and string.formatted:
            schema = number or string
        elif Kind.REFERENCE in last:
            schema = last[Kind.REFERENCE]
        if schema is None:
            raise DataFault("has a schema whose combination of keywords has no Connect type")
        return self.schema(schema, optional=optional)


def _collect(one: JsonSchema, properties: dict[str, JsonSchema], required: set[str], visited: set[JsonSchema]) -> None:
    """``collectPropertySchemas``."""
    if one in visited:
        return
    visited.add(one)
    if one.kind is Kind.ALL_OF:
        for part in one.parts:
            _collect(part, properties, required, visited)
    elif one.kind is Kind.REFERENCE:
        assert one.referred is not None
        _collect(one.referred(), properties, required, visited)
    elif one.kind is Kind.OBJECT:
        properties |= one.properties
        required.difference_update(one.properties)
        required |= one.required & one.properties.keys()


def _in_order(properties: Mapping[str, JsonSchema]) -> dict[str, JsonSchema]:
    """By ``connect.index``. If two fields have the same, Confluent loses one; here it gets the next free index."""
    placed: dict[int, str] = {}
    for name, one in properties.items():
        index = one.own.get("connect.index")
        place = len(placed) if index is None else _integer(index, "connect.index")
        while place in placed:
            place += 1
        placed[place] = name
    return {name: properties[name] for _, name in sorted(placed.items())}


def _integer(value: Any, what: str) -> int:
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise DataFault(f"has a schema whose {what} is not an integer")
    return value


def _number(connect_type: Any) -> Type:
    of = _NUMBERS.get(connect_type) if isinstance(connect_type, str) else None
    if of is None:
        raise DataFault("has a schema of a number whose connect.type is unknown")
    return of


def _symbol(value: Any) -> str:
    """``toString`` of a value in an enum."""
    if value is None:
        return _NULL_SYMBOL
    return java_text(plain(value)) if isinstance(value, dict | list) else java_text(value)


def _described(one: JsonSchema, schema: Schema, *, nullable: bool = False) -> Schema:
    """The schema with its title, description, default and ``connect.`` properties.

    Args:
        nullable: whether the default may be null. In Confluent's converter, only unions are optional by the time their
            default is read.
    """
    own = one.own
    texts = {key: own.get(key) for key in ("title", "description")}
    parameters = own.get("connect.parameters") or {}
    if not all(text is None or isinstance(text, str) for text in texts.values()):
        raise DataFault("has a schema whose title or description is not a string")
    if not isinstance(parameters, dict) or not all(isinstance(value, str) for value in parameters.values()):
        raise DataFault("has a schema whose connect.parameters are not an object of strings")
    version = own.get("connect.version")
    made = schema.changed(
        name=texts["title"] if schema.name is None else schema.name,
        version=None if version is None else _integer(version, "connect.version"),
        doc=texts["description"],
        parameters={**(schema.parameters or {}), **parameters} or None,
        optional=nullable,
    )
    if "default" in own:
        made = with_default(made, read(made, own["default"]))
    return made.changed(optional=schema.optional)


def from_connect(schema: Schema, format_: Format) -> str:
    """``fromConnectSchema``, as JSON."""
    return _text(_written(schema, format_))


class _Json(str):
    """A default that is JSON already."""

    __slots__ = ()


def _text(node: Any) -> str:
    if isinstance(node, _Json):
        return str(node)
    if isinstance(node, str):
        return json_text.written(node)
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    if isinstance(node, Mapping):
        return "{" + ",".join(f"{json_text.written(key)}:{_text(one)}" for key, one in node.items()) + "}"
    return "null" if node is None else "true" if node is True else "false" if node is False else str(int(node))


def _written(
    schema: Schema, format_: Format, index: int | None = None, *, ignore_optional: bool = False
) -> dict[str, Any]:
    """``rawSchemaFromConnectSchema``."""
    optional = schema.optional and not ignore_optional
    if schema.name == UNION and schema.type is Type.STRUCT:
        branches = [
            _written(field.schema.changed(optional=False), format_, field.place, ignore_optional=True)
            for field in schema.fields
        ]
        out: dict[str, Any] = {"oneOf": [_NULL, *branches] if schema.optional else branches}
    elif optional:
        out = {"oneOf": [_NULL, _written(schema.changed(optional=False), format_)]}
    else:
        out = _base(schema, format_)
        _describe(schema, format_, out)
    if index is not None:
        out["connect.index"] = index
    return out


def _base(schema: Schema, format_: Format) -> dict[str, Any]:
    match schema.type:
        case Type.BOOLEAN:
            return {"type": "boolean"}
        case Type.STRING:
            parameters = schema.parameters or {}
            if _ENUM not in parameters:
                return {"type": "string"}
            names = (key.removeprefix(f"{_ENUM}.") for key in parameters if key.startswith(f"{_ENUM}."))
            return {"enum": [None if name == _NULL_SYMBOL else name for name in names]}
        case Type.BYTES:
            numeric = schema.name == DECIMAL and format_.numeric_decimals
            return {"type": "number" if numeric else "string", "connect.type": "bytes"}
        case Type.ARRAY:
            assert schema.value_schema is not None
            return {"type": "array", "items": _written(schema.value_schema, format_)}
        case Type.MAP:
            keys, values = schema.key_schema, schema.value_schema
            assert keys is not None
            assert values is not None
            if keys.type is Type.STRING and not keys.optional:
                entries: dict[str, Any] = {"type": "object", "additionalProperties": _written(values, format_)}
            else:
                pair = {"key": _written(keys, format_, 0), "value": _written(values, format_, 1)}
                entries = {"type": "array", "items": {"type": "object", "properties": pair}}
            return entries | {"connect.type": "map"}
        case Type.STRUCT:
            fields = {field.name: _written(field.schema, format_, field.place) for field in schema.fields}
            closed = {"additionalProperties": False} if format_.closed_objects else {}
            return {"type": "object", "properties": fields, **closed}
    whole = schema.type not in (Type.FLOAT32, Type.FLOAT64)
    return {"type": "integer" if whole else "number", "connect.type": _NUMBER_NAMES[schema.type]}


def _describe(schema: Schema, format_: Format, out: dict[str, Any]) -> None:
    if schema.name is not None:
        out["title"] = schema.name
    if schema.version is not None:
        out["connect.version"] = int(schema.version)
    if schema.doc is not None:
        out["description"] = schema.doc
    kept = {key: one for key, one in (schema.parameters or {}).items() if not key.startswith(_NAMESPACE)}
    if kept:
        out["connect.parameters"] = kept
    if schema.default is not None:
        out["default"] = _Json(written(format_, schema, schema.default))
