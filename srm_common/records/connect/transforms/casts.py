"""Casts between Connect's types, as its transform Cast makes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from srm_common.records.connect.data.java_values import (
    DataFault,
    JavaDate,
    base64_text,
    class_name,
    date_text,
    integral,
    java_text,
    parse_float,
    parse_integer,
    to_double,
    to_float,
    wrapped,
)
from srm_common.records.connect.data.schema import DATE, TIME, TIMESTAMP, Schema, Type, type_of
from srm_common.records.connect.json.values import logical_integer

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "float32": 32, "float64": 64}


def cast(schema: Schema | None, value: Any, to: str) -> Any:
    """A value as another type.

    Args:
        schema: that of the value, None if it has none.
        to: int8, int16, int32, int64, float32, float64, boolean or string.

    Raises:
        DataFault: the value is a list, a map or a struct, a string that is not such a number, or not of the schema.
    """
    if value is None:
        return None
    of = type_of(value) if schema is None else schema.type
    if of in (None, Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataFault(f"Cast does not take {class_name(value)}")
    if to == "string":
        if isinstance(value, JavaDate):
            return date_text(value)
        return base64_text(value) if isinstance(value, bytes) else java_text(value)
    if schema is not None and schema.name in (DATE, TIME, TIMESTAMP):
        # An earlier Cast may have kept the schema's name for what is a number now; Java fails then, too.
        if not isinstance(value, JavaDate):
            raise DataFault(f"Cast does not take {class_name(value)} for {schema}")
        value = logical_integer(schema, value)
    if isinstance(value, bytes | JavaDate):
        raise DataFault(f"Cast can make {class_name(value)} only a string")
    if isinstance(value, bool):
        value = int(value)
    if to == "boolean":
        return value.lower() == "true" if isinstance(value, str) else _long(value) != 0
    bits = _BITS[to]
    if to.startswith("int"):
        if isinstance(value, str):
            return parse_integer(value, bits)
        # A double becomes an int first, a long or decimal loses its upper bits.
        return wrapped(int(integral(value, max(bits, 32))), bits)
    if isinstance(value, str):
        return parse_float(value, bits)
    return to_float(value) if bits == 32 else to_double(value)


def _long(value: int | float | Decimal) -> int:
    return integral(value, 64)
