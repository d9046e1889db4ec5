"""Connect's schemas and structs (``org.apache.kafka.connect.data``), with the checks that its classes make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from srm_common.records.connect.data.hash_map import JavaMap
from srm_common.records.connect.data.java_values import (
    DataFault,
    Float32,
    Int8,
    Int16,
    Int32,
    JavaDate,
    class_name,
    java_text,
)


class Type(Enum):
    """``Schema.Type``."""

    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"

    #: An enum's own hash takes longer than the look-up that needs it.
    __hash__ = object.__hash__


DECIMAL, DATE, TIME, TIMESTAMP = (
    f"org.apache.kafka.connect.data.{name}" for name in ("Decimal", "Date", "Time", "Timestamp")
)
_LOGICAL: dict[str | None, type] = {DECIMAL: Decimal, DATE: JavaDate, TIME: JavaDate, TIMESTAMP: JavaDate}


class Field(NamedTuple):
    """A field of a struct's schema."""

    name: str
    place: int
    schema: Schema


class Schema:
    """``ConnectSchema``. Immutable; equal if all its properties are.

    Args:
        fields: name and schema of each, for structs.

    Raises:
        DataFault: a field has no name, or two have the same.
    """

    __slots__ = (
        "_hash",
        "by_name",
        "default",
        "doc",
        "fields",
        "key_schema",
        "name",
        "optional",
        "parameters",
        "type",
        "value_schema",
        "version",
    )

    def __init__(
        self,
        of: Type,
        *,
        optional: bool = False,
        default: Any = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Iterable[tuple[str, Schema]] = (),
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.type = of
        self.optional = optional
        self.default = default
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters = parameters
        self.key_schema = key_schema
        self.value_schema = value_schema
        self.fields = tuple(Field(field, index, schema) for index, (field, schema) in enumerate(fields))
        self.by_name: dict[str, Field] = {}
        for field in self.fields:
            if not field.name:
                raise DataFault("a field of a struct has no name")
            if field.name in self.by_name:
                raise DataFault(f"a struct cannot have two fields named '{field.name}'")
            self.by_name[field.name] = field
        self._hash: int | None = None

    def like(self, of: Type, **changed: Any) -> Schema:
        """A schema of another type with this one's name, version, doc and parameters (``copySchemaBasics``)."""
        return Schema(of, name=self.name, version=self.version, doc=self.doc, parameters=self.parameters, **changed)

    def changed(self, **changed: Any) -> Schema:
        """A copy with the given fields replaced."""
        kept = {
            "optional": self.optional,
            "default": self.default,
            "name": self.name,
            "version": self.version,
            "doc": self.doc,
            "parameters": self.parameters,
            "fields": [(field.name, field.schema) for field in self.fields],
            "key_schema": self.key_schema,
            "value_schema": self.value_schema,
        }
        return Schema(self.type, **(kept | changed))

    def field(self, name: str) -> Field | None:
        """Raises :class:`DataFault` if this is not the schema of a struct."""
        if self.type is not Type.STRUCT:
            raise DataFault(f"a field '{name}' was looked up in {self}, which has none")
        return self.by_name.get(name)

    def _all(self) -> tuple[Any, ...]:
        parts = (self.type, self.optional, self.name, self.version, self.doc, self.default, self.fields)
        return (*parts, self.key_schema, self.value_schema, self.parameters)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Schema) and self._all() == other._all())

    def __hash__(self) -> int:
        if self._hash is None:
            parts = (self.type, self.optional, self.name, self.version, self.fields)
            self._hash = hash((*parts, self.key_schema, self.value_schema))
        return self._hash

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type.value}}}" if self.name is not None else f"Schema{{{self.type.value}}}"


class Struct:
    """``Struct``: values by the fields of a schema. Not changed once it is part of a record."""

    JAVA_NAME = "org.apache.kafka.connect.data.Struct"
    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema) -> None:
        if schema.type is not Type.STRUCT:
            raise DataFault(f"{schema} is not the schema of a struct")
        self.schema = schema
        self.values: list[Any] = [None] * len(schema.fields)

    def get(self, name: str, with_default: bool = True) -> Any:
        """The field's value; for null its default, if it has one and ``with_default`` is set."""
        field = self.schema.by_name.get(name)
        if field is None:
            raise DataFault(f"'{name}' is not a field of the struct")
        value = self.values[field.place]
        return field.schema.default if value is None and with_default else value

    def put(self, name: str, value: Any) -> None:
        """Raises :class:`DataFault` if there is no such field, or it does not accept the value."""
        field = self.schema.by_name.get(name)
        if field is None:
            raise DataFault(f"'{name}' is not a field of the struct")
        expected = _EXPECTED.get(field.schema.type)
        if field.schema.name is not None or expected is None or type(value) is not expected:
            validate(field.schema, value, f"field '{name}'")
        self.values[field.place] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.schema == other.schema and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.schema)

    def __str__(self) -> str:
        pairs = zip(self.schema.fields, self.values, strict=True)
        return f"Struct{{{','.join(f'{one.name}={java_text(value)}' for one, value in pairs if value is not None)}}}"


#: Types without parts, and the class of their values.
_EXPECTED: dict[Type, type] = {
    Type.INT8: Int8,
    Type.INT16: Int16,
    Type.INT32: Int32,
    Type.INT64: int,
    Type.FLOAT32: Float32,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
}
_TYPES: dict[type, Type] = {taken: of for of, taken in _EXPECTED.items()} | {list: Type.ARRAY, Struct: Type.STRUCT}


def type_of(value: Any) -> Type | None:
    """The type of a value that has no schema (``ConnectSchema.schemaType``); None for dates and decimals."""
    return Type.MAP if isinstance(value, JavaMap) else _TYPES.get(type(value))


def validate(schema: Schema, value: Any, what: str = "value") -> None:
    """``ConnectSchema.validateValue``.

    Raises:
        DataFault: the schema does not accept the value.
    """
    if value is None:
        if not schema.optional:
            raise DataFault(f"null for the required {what} of type {schema.type.value}")
        return
    logical = _LOGICAL.get(schema.name)
    if type(value) is not logical if logical is not None else type_of(value) is not schema.type:
        raise DataFault(f"{class_name(value)} for the {what} of {schema}")
    if isinstance(value, Struct):
        if value.schema != schema:
            raise DataFault(f"the struct for the {what} has another schema")
        for field in schema.fields:
            own = value.values[field.place]
            if own is not None or not (field.schema.optional or field.schema.default is not None):
                validate(field.schema, own, f"field '{field.name}'")
    elif isinstance(value, list):
        assert schema.value_schema is not None
        for one in value:
            validate(schema.value_schema, one, f"element of the {what}")
    elif isinstance(value, JavaMap):
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        for key, one in value.items():
            validate(schema.key_schema, key, f"key of the {what}")
            validate(schema.value_schema, one, f"value in the {what}")


def with_default(schema: Schema, default: Any) -> Schema:
    """The schema with a default, which is checked.

    Raises:
        DataFault: the schema does not accept it; structs are never accepted, as in ``SchemaBuilder.defaultValue``.
    """
    if isinstance(default, Struct):
        raise DataFault("a struct cannot be the default of a schema")
    validate(schema, default, "default")
    return schema.changed(default=default)
