"""Connect's schemas for Protobuf messages, as Confluent's ``ProtobufData.toConnectSchema`` makes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from srm_common.domain.transforms.formats import ProtobufOptions
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, Schema, Type
from srm_common.records.connect.data.schema_within import SchemaWithin, complete
from srm_common.records.connect.protobuf.descriptors import FieldType, MessageType
from srm_common.records.connect.protobuf.logical import DECIMAL_TYPE, LOGICAL, WRAPPED
from srm_common.records.connect.protobuf.names import map_field

_NAMESPACE = "io.confluent.connect.protobuf"
#: Parameters of Connect schemas that hold what Connect has no other place for.
ENUM, TAG, KIND, WRAPPER = (f"{_NAMESPACE}.{name}" for name in ("Enum", "Tag", "Type", "Wrapper"))
UNION = f"{_NAMESPACE}.Union"
PRECISION, SCALE = "connect.decimal.precision", "scale"
#: Parameters of Confluent's field option, which describe types that Protobuf does not have.
CONNECT_TYPE, META_PRECISION, META_SCALE = "connect.type", "precision", "scale"
_SMALL: Mapping[str | None, Type] = {"int8": Type.INT8, "int16": Type.INT16}
_SCALARS: Mapping[str, Type] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Type.INT32),
    **dict.fromkeys(("uint32", "fixed32", "int64", "uint64", "sint64", "fixed64", "sfixed64"), Type.INT64),
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bool": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
}
_LOGICAL_TYPES: Mapping[str, Type] = {DECIMAL: Type.BYTES, DATE: Type.INT32, TIME: Type.INT32}
_INTEGER = re.compile(r"[+-]?\d{1,10}", re.ASCII)
#: A few messages, each of which uses the next one twice, expand to more parts than any memory holds.
MOST_PARTS = 20_000


def to_connect(message: MessageType, options: ProtobufOptions) -> Schema:
    """``toConnectSchema`` of the message that a key or value is.

    Raises:
        DataFault: the message has no equivalent in Connect.
    """
    if options.wrappers_as_primitives and message.full_name in WRAPPED:
        return Schema(WRAPPED[message.full_name])
    return _Reader(options).message(message)


def union_field(message: MessageType, oneof: int, options: ProtobufOptions) -> str:
    """The name of the struct field that is a oneof (``unionFieldName``)."""
    name = message.oneofs[oneof]
    return f"{name}_{oneof}" if options.union_indexes else name


class _Reader:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        #: Messages that are being read, with the schemas of their recursive uses.
        self._open: dict[MessageType, list[SchemaWithin]] = {}
        self._parts = 0

    def message(self, message: MessageType) -> Schema:
        name = self._name(message.name, message.full_name)
        if message in self._open:
            return SchemaWithin(self._open[message], name=name)
        self._open[message] = []
        fields: list[tuple[str, Schema]] = []
        members_of: list[list[tuple[str, Schema]]] = [[] for _ in message.oneofs]
        for field in message.fields:
            if field.oneof is not None:
                members_of[field.oneof].append((field.name, self._field(field)))
        for place, members in enumerate(members_of):
            if self._options.flat_unions:
                fields += members
            else:
                fields.append((union_field(message, place, self._options), self._union(message, place, members)))
        fields += [(field.name, self._field(field)) for field in message.fields if field.oneof is None]
        whole = Schema(Type.STRUCT, name=name, fields=fields)
        complete(self._open.pop(message), whole)
        return whole

    def _name(self, name: str, full_name: str) -> str:
        return full_name if self._options.full_names else name

    def _union(self, message: MessageType, place: int, members: list[tuple[str, Schema]]) -> Schema:
        name = message.oneofs[place]
        named = f"{UNION}.{self._name(name, f'{message.full_name}.{name}')}"
        return Schema(Type.STRUCT, optional=True, name=named, fields=members)

    def _field(self, field: FieldType) -> Schema:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise DataFault(f"has a schema of more than {MOST_PARTS} parts")
        one = self._one(field)
        if field.repeated and one.type is not Type.MAP:
            one = Schema(Type.ARRAY, optional=True, value_schema=one.changed(optional=True))
        parameters = {**(one.parameters or {})}
        optional = one.optional
        if field.oneof is not None:
            optional = True
            if (
                self._options.wrappers_for_nullables
                and field.message is not None
                and field.message.full_name in WRAPPED
            ):
                parameters[WRAPPER] = "true"
        elif self._options.optional_for_nullables:
            optional = optional or field.present
        else:
            optional = optional or not self._options.wrappers_for_nullables
        return one.changed(optional=optional, parameters=parameters | {TAG: str(field.number)})

    def _one(self, field: FieldType) -> Schema:
        """The schema of one of the field's values; enums and messages are optional whatever the settings."""
        if field.message is not None:
            return self._of_message(field, field.message).changed(optional=True)
        if field.enum is not None:
            symbols = {f"{ENUM}.{symbol}": str(number) for symbol, number in field.enum.numbers.items()}
            return Schema(
                Type.INT32 if self._options.enums_as_integers else Type.STRING,
                optional=True,
                name=self._name(field.enum.name, field.enum.full_name),
                parameters={ENUM: field.enum.name, **symbols},
            )
        of = _SCALARS[field.kind]
        if of is Type.INT32:
            small = _SMALL.get(field.parameters.get(CONNECT_TYPE))
            if small is not None:
                return Schema(small)
        plain = field.kind in ("int32", "int64") or of not in (Type.INT32, Type.INT64)
        return Schema(of, parameters=None if plain else {KIND: field.kind})

    def _of_message(self, field: FieldType, message: MessageType) -> Schema:
        logical = LOGICAL.get(message.full_name)
        if message.full_name == DECIMAL_TYPE:
            parameters = {SCALE: str(_integer(field.parameters.get(META_SCALE)) or 0)}
            precision = _integer(field.parameters.get(META_PRECISION))
            if precision is not None:
                parameters[PRECISION] = str(precision)
            return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
        if logical is not None:
            return Schema(_LOGICAL_TYPES.get(logical, Type.INT64), name=logical, version=1)
        if self._options.wrappers_for_nullables and message.full_name in WRAPPED:
            return Schema(WRAPPED[message.full_name])
        if field.repeated and message.is_map_entry:
            key, value = (self._field(one) for one in message.fields)
            name = map_field(self._name(message.name, message.full_name))
            return Schema(Type.MAP, name=name, key_schema=key, value_schema=value)
        return self.message(message)


def _integer(text: str | None) -> int | None:
    """``Integer.parseInt``, None if it is not an integer."""
    if text is None or _INTEGER.fullmatch(text) is None or not -(1 << 31) <= int(text) < 1 << 31:
        return None
    return int(text)
