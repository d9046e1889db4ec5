"""Connect's transforms of fields, applied to a key or value (``org.apache.kafka.connect.transforms``)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from srm_common.domain.transforms.field_steps import (
    Cast,
    ExtractField,
    Flatten,
    HeaderFrom,
    HoistField,
    InsertField,
    MaskField,
    Options,
    ReplaceField,
    SetSchemaMetadata,
    TimestampConverter,
    ValueToKey,
)
from srm_common.records.connect.converters import SchemaAndValue
from srm_common.records.connect.data.hash_map import HashMap, JavaMap, hash_set
from srm_common.records.connect.data.java_values import (
    DataFault,
    Float32,
    Int8,
    Int16,
    Int32,
    JavaDate,
    big_decimal,
    class_name,
    integral,
    to_double,
    to_float,
    wrapped,
)
from srm_common.records.connect.data.schema import (
    TIMESTAMP,
    Field,
    Schema,
    Struct,
    Type,
    with_default,
)
from srm_common.records.connect.transforms.casts import cast
from srm_common.records.connect.transforms.flatten import FlattenTransform
from srm_common.records.connect.transforms.header_from import HeaderFromTransform
from srm_common.records.connect.transforms.requirements import MadeSchemas, Origin, require_map, require_struct
from srm_common.records.connect.transforms.timestamps import TimestampTransform

Change = Callable[[SchemaAndValue, Origin], SchemaAndValue]


class FieldTransform:
    """One transform, as configured. Caches the schemas that it makes."""

    def __init__(self, options: Options) -> None:
        self._change = _changes(options)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        """The transformed key or value, or for ValueToKey the key from the value; ``data`` itself if nothing changes.

        Raises:
            DataFault: the transform cannot handle it.
        """
        return self._change(data, origin)


def _changes(options: Options) -> Change:
    match options:
        case Cast():
            return _Cast(options)
        case ExtractField():
            return lambda data, origin: _extracted(options, data)
        case Flatten():
            return FlattenTransform(options.delimiter)
        case HeaderFrom():
            return HeaderFromTransform(options)
        case HoistField():
            return _Hoist(options.field)
        case InsertField():
            return _Insert(options)
        case MaskField():
            return _Mask(options)
        case ReplaceField():
            return _Replace(options)
        case SetSchemaMetadata():
            return _SetSchemaMetadata(options)
        case TimestampConverter():
            return TimestampTransform(options)
        case ValueToKey():
            return _ValueToKey(options)


class _Cast:
    def __init__(self, options: Cast) -> None:
        self._options = options
        self._casts = dict(options.casts)
        self._order = [(field, self._casts[field]) for field, _ in HashMap(options.casts).entries()]
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if value is None:
            return data
        if schema is None:
            if self._options.whole is not None:
                return SchemaAndValue(None, cast(None, value, self._options.whole))
            old = require_map(value, "Cast")
            new = HashMap.copy_of(old)
            for name, to in self._order:
                new[name] = _field_cast(name, None, old.get(name), to)
            return SchemaAndValue(None, new)
        updated = self._schemas.of(schema)
        if self._options.whole is not None:
            return SchemaAndValue(updated, cast(schema, value, self._options.whole))
        struct = Struct(updated)
        for field in require_struct(value, "Cast").schema.fields:
            one = value.get(field.name, self._options.defaults)
            of = self._casts.get(field.name)
            struct.put(field.name, one if of is None else _field_cast(field.name, field.schema, one, of))
        return SchemaAndValue(updated, struct)

    def _schema(self, schema: Schema) -> Schema:
        if self._options.whole is not None:
            made = schema.like(Type(self._options.whole.upper()), optional=schema.optional)
            return made if schema.default is None else self._default(made, schema, self._options.whole)
        if schema.type is not Type.STRUCT:
            raise DataFault(f"Cast takes structs where there is a schema, but not {schema}")
        fields = [(field.name, self._field(field)) for field in schema.fields]
        return schema.like(Type.STRUCT, fields=fields, optional=schema.optional)

    def _field(self, field: Field) -> Schema:
        of = self._casts.get(field.name)
        if of is None:
            return field.schema
        made = Schema(Type(of.upper()), optional=field.schema.optional)
        return made if field.schema.default is None else self._default(made, field.schema, of)

    def _default(self, made: Schema, schema: Schema, of: str) -> Schema:
        return with_default(made, cast(schema, schema.default, of))


def _field_cast(name: str, schema: Schema | None, value: Any, to: str) -> Any:
    try:
        return cast(schema, value, to)
    except DataFault as error:
        raise DataFault(f"field '{name}': {error}") from None


def _extracted(options: ExtractField, data: SchemaAndValue) -> SchemaAndValue:
    schema, value = data
    *outer, last = options.path
    if schema is None:
        found = value
        for name in outer:
            found = None if found is None else require_map(found, "ExtractField").get(name)
        return SchemaAndValue(None, None if found is None else require_map(found, "ExtractField").get(last))
    if value is not None:
        require_struct(value, "ExtractField")
    current: Schema = schema
    field: Field | None = None
    for name in options.path:
        field = current.field(name)
        if field is None:
            raise DataFault(f"there is no field '{'.'.join(options.path)}'")
        current = field.schema
    for name in outer:
        value = None if value is None else require_struct(value, "ExtractField").get(name)
    found = None if value is None else require_struct(value, "ExtractField").get(last, options.defaults)
    return SchemaAndValue(current, found)


class _Hoist:
    def __init__(self, field: str) -> None:
        self._field = field
        self._schemas = MadeSchemas(lambda schema: Schema(Type.STRUCT, fields=[(field, schema)]))

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if schema is None:
            return SchemaAndValue(None, HashMap({self._field: value}))
        struct = Struct(self._schemas.of(schema))
        struct.put(self._field, value)
        return SchemaAndValue(struct.schema, struct)


class _Insert:
    def __init__(self, options: InsertField) -> None:
        self._options = options
        self._schemas = MadeSchemas(self._schema)
        own = options
        listed = ((own.topic, 0), (own.partition, 1), (own.timestamp, 2), (own.static, 3))
        self._fields = [(field, which) for field, which in listed if field is not None]

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if value is None:
            return data
        inserted = [origin.topic, Int32(origin.partition), origin.timestamp, self._options.static_value]
        if schema is None:
            new = HashMap.copy_of(require_map(value, "InsertField"))
            for field, which in self._fields:
                new[field.name] = inserted[which]
            return SchemaAndValue(None, new)
        struct = Struct(self._schemas.of(require_struct(value, "InsertField").schema))
        for own in value.schema.fields:
            struct.put(own.name, value.get(own.name, self._options.defaults))
        for field, which in self._fields:
            struct.put(field.name, JavaDate(origin.timestamp) if which == 2 else inserted[which])
        return SchemaAndValue(struct.schema, struct)

    def _schema(self, schema: Schema) -> Schema:
        types = (Type.STRING, Type.INT32, Type.INT64, Type.STRING)
        fields = [(field.name, field.schema) for field in schema.fields]
        for field, which in self._fields:
            name, version = (TIMESTAMP, 1) if which == 2 else (None, None)
            fields.append((field.name, Schema(types[which], optional=field.optional, name=name, version=version)))
        return schema.like(Type.STRUCT, fields=fields)


class _Mask:
    def __init__(self, options: MaskField) -> None:
        self._options = options
        self._fields = hash_set(options.fields)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if schema is None:
            old = require_map(value, "MaskField")
            new = HashMap.copy_of(old)
            for name in self._fields:
                new[name] = self._masked(old.get(name))
            return SchemaAndValue(None, new)
        struct = Struct(require_struct(value, "MaskField").schema)
        for field in struct.schema.fields:
            one = value.get(field.name, self._options.defaults)
            struct.put(field.name, self._masked(one) if field.name in self._fields else one)
        return SchemaAndValue(schema, struct)

    def _masked(self, value: Any) -> Any:
        text = self._options.replacement
        if value is None:
            return None
        if text is None:
            if isinstance(value, JavaMap):
                return HashMap()
            if isinstance(value, list):
                return []
            if type(value) not in _ZEROS:
                raise DataFault(f"MaskField cannot mask {class_name(value)}")
            return _ZEROS[type(value)]
        if type(value) not in _REPLACEMENTS:
            raise DataFault(f"MaskField cannot replace {class_name(value)} with its setting replacement")
        return _REPLACEMENTS[type(value)](text)


_ZEROS: dict[type, Any] = {
    bool: False,
    Int8: Int8(0),
    Int16: Int16(0),
    Int32: Int32(0),
    int: 0,
    Float32: Float32(0),
    float: 0.0,
    Decimal: Decimal(0),
    JavaDate: JavaDate(0),
    str: "",
}
_REPLACEMENTS: dict[type, Callable[[str], Any]] = {
    Int8: lambda text: wrapped(integral(big_decimal(text), 64), 8),
    Int16: lambda text: wrapped(integral(big_decimal(text), 64), 16),
    Int32: lambda text: wrapped(integral(big_decimal(text), 64), 32),
    int: lambda text: integral(big_decimal(text), 64),
    Float32: lambda text: to_float(to_double(big_decimal(text))),
    float: lambda text: to_double(big_decimal(text)),
    str: str,
    Decimal: big_decimal,
}


class _Replace:
    def __init__(self, options: ReplaceField) -> None:
        self._options = options
        self._exclude, self._include = set(options.exclude), set(options.include)
        self._renames = dict(options.renames)
        self._reverse = {new: old for old, new in HashMap(options.renames).entries()}
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if value is None:
            return data
        if schema is None:
            old = require_map(value, "ReplaceField")
            new = HashMap.sized(len(old))
            for name, one in old.entries():
                if self._kept(name):
                    new[self._renames.get(name, name)] = one
            return SchemaAndValue(None, new)
        struct = Struct(self._schemas.of(require_struct(value, "ReplaceField").schema))
        for field in struct.schema.fields:
            struct.put(field.name, value.get(self._reverse.get(field.name, field.name), self._options.defaults))
        return SchemaAndValue(struct.schema, struct)

    def _kept(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _schema(self, schema: Schema) -> Schema:
        fields = [(self._renames.get(name, name), own) for name, _, own in schema.fields if self._kept(name)]
        return schema.like(Type.STRUCT, fields=fields)


class _SetSchemaMetadata:
    def __init__(self, options: SetSchemaMetadata) -> None:
        self._options = options
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if schema is None:
            if value is None:
                return data
            raise DataFault("SetSchemaMetadata needs data with a schema")
        if schema.type is not Type.STRUCT:
            raise DataFault(f"SetSchemaMetadata takes structs, but not {schema}")
        updated = self._schemas.of(schema)
        if not isinstance(value, Struct):
            return SchemaAndValue(updated, value)
        struct = Struct(updated)
        for field in updated.fields:
            struct.put(field.name, value.get(field.name, self._options.defaults))
        return SchemaAndValue(updated, struct)

    def _schema(self, schema: Schema) -> Schema:
        name, version = self._options.name, self._options.version
        return schema.changed(
            name=schema.name if name is None else name, version=schema.version if version is None else version
        )


class _ValueToKey:
    def __init__(self, options: ValueToKey) -> None:
        self._options = options
        self._schemas = MadeSchemas(self._schema)

    def __call__(self, data: SchemaAndValue, origin: Origin) -> SchemaAndValue:
        schema, value = data
        if schema is None:
            old = require_map(value, "ValueToKey")
            key = HashMap.sized(len(self._options.fields))
            for name in self._options.fields:
                key[name] = old.get(name)
            return SchemaAndValue(None, key)
        struct = Struct(self._schemas.of(require_struct(value, "ValueToKey").schema))
        for name in self._options.fields:
            struct.put(name, value.get(name, self._options.defaults))
        return SchemaAndValue(struct.schema, struct)

    def _schema(self, schema: Schema) -> Schema:
        fields = [(name, schema.by_name.get(name)) for name in self._options.fields]
        for name, field in fields:
            if field is None:
                raise DataFault(f"there is no field '{name}'")
        return Schema(Type.STRUCT, fields=[(name, field.schema) for name, field in fields if field is not None])
