"""Single JSON values to Connect's and back: how ``JsonConverter`` converts numbers, text and logical types."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from srm_common.domain.transforms.date_pattern import MILLIS_PER_DAY
from srm_common.domain.transforms.formats import Format
from srm_common.records.connect.data.hash_map import HashMap, JavaMap
from srm_common.records.connect.data.java_values import (
    DataFault,
    Int32,
    JavaDate,
    base64_text,
    class_name,
    double_text,
    integral,
    to_double,
    to_float,
    wrapped,
)
from srm_common.records.connect.data.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    type_of,
)
from srm_common.records.connect.json import text as json_text

#: Longer decimals take seconds each: the time grows with the square of their length.
MOST_DECIMAL_BITS = 1 << 17
#: Names of fields are few.
_name = lru_cache(maxsize=4096)(json_text.written)


def plain(node: Any) -> Any:
    """A node as schemaless data."""
    of = type(node)
    if of is str or of is bool or node is None:
        return node
    if of is dict:
        return HashMap({key: plain(child) for key, child in node.items()})
    if of is list:
        return [plain(child) for child in node]
    return to_double(node) if of is Decimal else _long(node)


def plain_text(value: Any) -> str:
    """Schemaless data as JSON.

    Raises:
        DataFault: a value needs a schema.
    """
    of = type(value)
    if of is str:
        return json_text.written(value)
    if of is int:
        return repr(value)
    if of is float:
        return _write_double(value)
    if value is None:
        return "null"
    if of is list:
        return f"[{','.join(map(plain_text, value))}]"
    if isinstance(value, JavaMap):
        pairs = [f"{_name(key)}:{plain_text(one)}" for key, one in value.entries()]
        return "{" + ",".join(pairs) + "}"
    known = type_of(value)
    if known is None or known not in WRITERS:
        raise DataFault(f"cannot be written without a schema: it has a {class_name(value)}")
    return WRITERS[known](value)


def _long(node: int) -> int:
    if -(1 << 63) <= node < 1 << 63:
        return node
    if json_text.too_long(node):
        raise DataFault("is not JSON that Connect reads: a number has more than 1000 digits")
    return wrapped(node, 64)


def member(node: Any, name: str) -> Any:
    """A member of an object; None if it has none of this name, or the node is not an object."""
    return node.get(name) if isinstance(node, dict) else None


def node_type(node: Any) -> str:
    """The type of a node, for messages."""
    if isinstance(node, dict | list):
        return "an object" if isinstance(node, dict) else "a list"
    return "a string" if isinstance(node, str) else "true or false" if isinstance(node, bool) else "a number"


def _is_number(node: Any) -> bool:
    return isinstance(node, int | Decimal) and not isinstance(node, bool)


def _integers(bits: int) -> Callable[[Any], int]:
    """Anything but a number becomes 0; bytes and shorts are cut from an int, as in Java."""
    return lambda node: integral(node if _is_number(node) else 0, bits)


def base64_bytes(text: str) -> bytes:
    """Base64 as Jackson reads it: padded, with optional white space between groups of four.

    Raises:
        DataFault: anything else.
    """
    out, at = bytearray(), 0
    text = text.strip()
    while at < len(text):
        if text[at] <= " ":
            at += 1
            continue
        group = text[at : at + 4]
        data = group.rstrip("=")
        if len(group) < 4 or len(data) < 2 or not all(c.isascii() and (c.isalnum() or c in "+/") for c in data):
            raise DataFault("has text that is not Base64 where the schema has bytes")
        out += binascii.a2b_base64(group)
        at += 4
    return bytes(out)


def _bytes(node: Any) -> bytes | None:
    return base64_bytes(node) if isinstance(node, str) else None


def _scale(schema: Schema) -> int:
    text = (schema.parameters or {}).get("scale", "")
    try:
        return int(text)
    except ValueError:
        raise DataFault("has a Decimal whose schema has no valid parameter scale") from None


def _decimal(schema: Schema, node: Any) -> Decimal:
    if _is_number(node):
        return Decimal(node)
    if not isinstance(node, str):
        raise DataFault(f"has {node_type(node)} where the schema has a Decimal")
    scale, data = _scale(schema), base64_bytes(node)
    if not data:
        raise DataFault("has an empty Decimal")
    return decimal_of(int.from_bytes(data, signed=True), scale)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """``new BigDecimal(BigInteger, int)``.

    Raises:
        DataFault: it is too long.
    """
    if unscaled.bit_length() > MOST_DECIMAL_BITS:
        raise DataFault(f"has a decimal of {unscaled.bit_length()} bits; at most {MOST_DECIMAL_BITS} are read")
    # Not through its text: Python converts at most 4,300 digits.
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale))


def _is_int(node: Any, bits: int) -> bool:
    return type(node) is int and -(1 << (bits - 1)) <= node < 1 << (bits - 1)


def _date(schema: Schema, node: Any) -> JavaDate:
    if not _is_int(node, 32):
        raise DataFault("has something other than an integer where the schema has a Date")
    return JavaDate(node * MILLIS_PER_DAY)


def _time(schema: Schema, node: Any) -> JavaDate:
    if not _is_int(node, 32) or not 0 <= node <= MILLIS_PER_DAY:
        raise DataFault("has something other than milliseconds of a day where the schema has a Time")
    return JavaDate(node)


def _timestamp(schema: Schema, node: Any) -> JavaDate:
    if type(node) is not int:
        raise DataFault("has something other than an integer where the schema has a Timestamp")
    return JavaDate(wrapped(node, 64))


def unscaled_bytes(schema: Schema, value: Decimal) -> bytes:
    """``Decimal.fromLogical``.

    Raises:
        DataFault: the value's scale differs from the schema's.
    """
    sign, digits, exponent = value.as_tuple()
    if exponent != -_scale(schema):
        raise DataFault(f"cannot be written: a Decimal's scale differs from its schema's, {_scale(schema)}")
    number = int(Decimal((sign, digits, 0)))
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)


def logical_integer(schema: Schema, date: JavaDate) -> int:
    """A Date, Time or Timestamp as a number (``fromLogical``).

    Raises:
        DataFault: a Date has a time, or a Time a date.
    """
    if schema.name == TIMESTAMP:
        return date.millis
    if schema.name == DATE:
        if date.millis % MILLIS_PER_DAY:
            raise DataFault("has a time of day in a Date")
        return wrapped(date.millis // MILLIS_PER_DAY, 32)
    if not 0 <= date.millis <= MILLIS_PER_DAY:
        raise DataFault("has a date in a Time")
    return Int32(date.millis)


def _write_decimal(format_: Format, schema: Schema, value: Any) -> str:
    if type(value) is not Decimal:
        raise DataFault(f"cannot be written: it has a {class_name(value)} for a Decimal")
    return str(value) if format_.numeric_decimals else f'"{base64_text(unscaled_bytes(schema, value))}"'


def _write_date(format_: Format, schema: Schema, value: Any) -> str:
    if type(value) is not JavaDate:
        raise DataFault(f"cannot be written: it has a {class_name(value)} for {schema}")
    return str(int(logical_integer(schema, value)))


def _write_double(value: float) -> str:
    text = double_text(value)
    return text if text[-1].isdigit() else f'"{text}"'


#: For types without parts; what does not fit becomes zero, false or null, as in Jackson.
READERS: Mapping[Type, Callable[[Any], Any]] = {
    Type.INT8: _integers(8),
    Type.INT16: _integers(16),
    Type.INT32: _integers(32),
    Type.INT64: _integers(64),
    Type.FLOAT32: lambda node: to_float(node if _is_number(node) else 0),
    Type.FLOAT64: lambda node: to_double(node if _is_number(node) else 0),
    Type.BOOLEAN: lambda node: node is True,
    Type.STRING: lambda node: node if isinstance(node, str) else None,
    Type.BYTES: _bytes,
}
LOGICAL_READERS: Mapping[str | None, Callable[[Schema, Any], Any]] = {
    DECIMAL: _decimal,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
}
WRITERS: Mapping[Type, Callable[[Any], str]] = {
    Type.INT8: int.__repr__,
    Type.INT16: int.__repr__,
    Type.INT32: int.__repr__,
    Type.INT64: int.__repr__,
    Type.FLOAT32: _write_double,
    Type.FLOAT64: _write_double,
    Type.BOOLEAN: lambda value: "true" if value else "false",
    Type.STRING: json_text.written,
    Type.BYTES: lambda value: f'"{base64_text(value)}"',
}
LOGICAL_WRITERS: Mapping[str | None, Callable[[Format, Schema, Any], str]] = {
    DECIMAL: _write_decimal,
    DATE: _write_date,
    TIME: _write_date,
    TIMESTAMP: _write_date,
}
TYPE_NAMES: Mapping[Type, str] = {of: of.value.lower() for of in Type} | {Type.FLOAT32: "float", Type.FLOAT64: "double"}
TYPES_BY_NAME: Mapping[str, Type] = {name: of for of, name in TYPE_NAMES.items()}
