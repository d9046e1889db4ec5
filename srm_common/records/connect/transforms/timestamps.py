"""Timestamps in other forms: Connect's TimestampConverter."""

from __future__ import annotations

from typing import Any

from srm_common.domain.transforms.date_pattern import MILLIS_PER_DAY, DatePattern, TextMismatch
from srm_common.domain.transforms.field_steps import PRECISIONS, TimestampConverter
from srm_common.records.connect.converters import SchemaAndValue
from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.java_values import DataFault, JavaDate, class_name, wrapped
from srm_common.records.connect.data.schema import DATE, TIME, TIMESTAMP, Schema, Struct, Type
from srm_common.records.connect.transforms.requirements import MadeSchemas, Origin, require_map, require_struct

_FORMS = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}


class TimestampTransform:
    """Carries out TimestampConverter."""

    def __init__(self, options: TimestampConverter) -> None:
        self._options = options
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        name = self._options.field
        if schema is None:
            if value is None or not name:
                return SchemaAndValue(None, self._inferred(value))
            old = require_map(value, "TimestampConverter")
            new = HashMap.copy_of(old)
            new[name] = self._inferred(old.get(name))
            return SchemaAndValue(None, new)
        if not name:
            return SchemaAndValue(self._target(schema.optional), self._converted(value, _form(schema)))
        if value is not None:
            require_struct(value, "TimestampConverter")
        updated = self._schemas.of(schema)
        if value is None:
            return SchemaAndValue(updated, None)
        struct = Struct(updated)
        for field in value.schema.fields:
            one = value.get(field.name, self._options.defaults)
            struct.put(field.name, self._converted(one, _form(field.schema)) if field.name == name else one)
        return SchemaAndValue(updated, struct)

    def _schema(self, schema: Schema) -> Schema:
        if schema.type is not Type.STRUCT:
            raise DataFault(f"TimestampConverter cannot look for a field in {schema}")
        fields = [
            (field.name, self._target(field.schema.optional) if field.name == self._options.field else field.schema)
            for field in schema.fields
        ]
        return schema.like(Type.STRUCT, fields=fields, optional=schema.optional)

    def _target(self, optional: bool) -> Schema:
        of, logical = {
            "string": (Type.STRING, None),
            "unix": (Type.INT64, None),
            "Date": (Type.INT32, DATE),
            "Time": (Type.INT32, TIME),
            "Timestamp": (Type.INT64, TIMESTAMP),
        }[self._options.target]
        return Schema(of, optional=optional, name=logical, version=None if logical is None else 1)

    def _inferred(self, value: Any) -> Any:
        forms: dict[type, str] = {JavaDate: "Timestamp", int: "unix", str: "string"}
        if value is not None and type(value) not in forms:
            raise DataFault(f"TimestampConverter does not take {class_name(value)}")
        return None if value is None else self._converted(value, forms[type(value)])

    def _converted(self, value: Any, form: str) -> Any:
        if value is None:
            return None
        expected: Any = {"unix": int, "string": str}.get(form, JavaDate)
        if type(value) is not expected:
            raise DataFault(f"TimestampConverter does not take {class_name(value)} as {form}")
        few, many = PRECISIONS[self._options.precision]
        if form == "unix":
            # Java's division rounds towards zero, and its multiplication stops at the ends of a long.
            millis = _bounded(value * many) if many > 1 else _divided(value, few)
        elif form == "string":
            millis = self._parsed(value)
        else:
            millis = value.millis
        match self._options.target:
            case "string":
                assert self._options.pattern is not None
                return self._options.pattern.format(millis)
            case "unix":
                return _divided(millis, many) if many > 1 else _bounded(millis * few)
            case "Date":
                return JavaDate(wrapped(millis - millis % MILLIS_PER_DAY, 64))
            case "Time":
                return JavaDate(millis % MILLIS_PER_DAY)
        return JavaDate(millis)

    def _parsed(self, text: str) -> int:
        pattern: DatePattern | None = self._options.pattern
        if pattern is None:
            raise DataFault("TimestampConverter needs its setting format for timestamps in text")
        try:
            return wrapped(pattern.parse(text), 64)
        except TextMismatch:
            raise DataFault(f"a timestamp does not match the pattern {pattern.pattern}") from None


def _form(schema: Schema) -> str:
    if schema.name in _FORMS:
        return _FORMS[schema.name]
    if schema.type not in (Type.STRING, Type.INT64):
        raise DataFault(f"TimestampConverter does not take {schema}")
    return "string" if schema.type is Type.STRING else "unix"


def _bounded(number: int) -> int:
    return max(-(1 << 63), min((1 << 63) - 1, number))


def _divided(number: int, by: int) -> int:
    return -(-number // by) if number < 0 else number // by
