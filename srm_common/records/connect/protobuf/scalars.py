"""Converts Protobuf fields other than messages to Connect's values and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from srm_common.records.connect.data.java_values import DataFault, Float32, Int32, class_name, wrapped
from srm_common.records.connect.data.schema import Schema, Struct, Type, type_of
from srm_common.records.connect.protobuf.descriptors import EnumType, FieldType
from srm_common.records.connect.protobuf.logical import LOGICAL

#: Java's name for a number that has no symbol (``findValueByNumberCreatingIfUnknown``).
_UNKNOWN_SYMBOL = "UNKNOWN_ENUM_VALUE_{}_"
_MASK32 = (1 << 32) - 1
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_KINDS: dict[Type, frozenset[str]] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32), frozenset(("int32", "sint32", "sfixed32"))),
    Type.INT64: frozenset(("int64", "uint32", "uint64", "sint64", "fixed32", "fixed64", "sfixed64")),
    Type.FLOAT32: frozenset(("float",)),
    Type.FLOAT64: frozenset(("double",)),
    Type.BOOLEAN: frozenset(("bool",)),
    Type.STRING: frozenset(("string",)),
    Type.BYTES: frozenset(("bytes",)),
}


class Part(NamedTuple):
    """``read`` converts from wire to Connect values, ``write`` the other way; messages are written as bytes."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def taken(schema: Schema, value: Any) -> Any:
    """The value, if the schema accepts it.

    Raises:
        DataFault: it is of another type, or a struct of another schema.
    """
    if type_of(value) is not schema.type:
        raise DataFault(f"cannot be written: it has a {class_name(value)} for {schema}")
    if isinstance(value, Struct) and value.schema != schema:
        raise DataFault(f"cannot be written: it has a struct of another schema for {schema}")
    return value


def scalar_part(field: FieldType, schema: Schema) -> Part:
    """A number, a boolean, a string or bytes.

    Raises:
        DataFault: the schema does not fit the field.
    """
    if field.kind not in _KINDS.get(schema.type, ()) or schema.name in LOGICAL.values():
        raise DataFault(
            f"cannot be written: {schema} is not the schema of the field {field.name}, which is {field.kind}"
        )
    bits = _BITS.get(schema.type)
    if bits is not None:
        # A ``long`` loses its upper bits where Protobuf has 32, as in Java.
        mask = _MASK32 if field.kind in ("uint32", "fixed32") else -1
        return Part(lambda raw: wrapped(raw, bits), lambda value: int(taken(schema, value)) & mask)
    if schema.type is Type.FLOAT32:
        return Part(Float32, lambda value: taken(schema, value))
    return Part(lambda raw: raw, lambda value: taken(schema, value))


def enum_part(field: FieldType, enum: EnumType, schema: Schema) -> Part:
    """An enum, as a string or as its number. If the enum is open, numbers without a symbol are kept.

    Raises:
        DataFault: the schema is neither.
    """

    def known(number: int) -> int:
        if field.closed and number not in enum.symbols:
            raise DataFault(f"cannot be written: the enum {enum.full_name} has no symbol with the number {number}")
        return number

    if schema.type is Type.INT32:
        return Part(Int32, lambda value: known(int(taken(schema, value))))
    if schema.type is not Type.STRING:
        raise DataFault(f"cannot be written: {schema} is not the schema of the enum {enum.full_name}")
    unknown = _UNKNOWN_SYMBOL.format(enum.name)

    def write(value: Any) -> int:
        symbol: str = taken(schema, value)
        number = enum.numbers.get(symbol)
        if number is None and symbol.startswith(unknown):
            number = _number(symbol.removeprefix(unknown))
        if number is None:
            raise DataFault(f"cannot be written: it has a string that is not a symbol of the enum {enum.full_name}")
        return known(number)

    return Part(lambda raw: enum.symbols.get(raw, f"{unknown}{raw}"), write)


def _number(text: str) -> int | None:
    plain = text.removeprefix("-")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 11):
        return None
    return int(text) if -(1 << 31) <= int(text) < 1 << 31 else None
