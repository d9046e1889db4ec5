"""Messages for which Connect has types of its own: dates, times, timestamps, decimals and wrapped scalars.

They are converted as in Confluent's ``ProtobufData`` and ``DecimalUtils``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from srm_common.domain.transforms.date_pattern import MILLIS_PER_DAY, date_of, days_from
from srm_common.records.connect.data.java_values import DataFault, JavaDate, class_name, wrapped
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Type
from srm_common.records.connect.json.values import decimal_of
from srm_common.records.connect.protobuf.descriptors import FieldType, MessageType
from srm_common.records.connect.protobuf.wire import Raw, field_bytes

DECIMAL_TYPE, DATE_TYPE, TIME_TYPE, TIMESTAMP_TYPE = (
    "confluent.type.Decimal",
    "google.type.Date",
    "google.type.TimeOfDay",
    "google.protobuf.Timestamp",
)
#: The names of Connect's logical types, by the message that represents each.
LOGICAL: Mapping[str, str] = {DECIMAL_TYPE: DECIMAL, DATE_TYPE: DATE, TIME_TYPE: TIME, TIMESTAMP_TYPE: TIMESTAMP}
#: The file that defines each of them.
LOGICAL_FILES: Mapping[str, str] = {
    DECIMAL_TYPE: "confluent/type/decimal.proto",
    DATE_TYPE: "google/type/date.proto",
    TIME_TYPE: "google/type/timeofday.proto",
    TIMESTAMP_TYPE: "google/protobuf/timestamp.proto",
}
_WRAPPERS = "google.protobuf."
#: Connect's types of the wrapped scalars, by wrapper.
WRAPPED: Mapping[str, Type] = {
    f"{_WRAPPERS}DoubleValue": Type.FLOAT64,
    f"{_WRAPPERS}FloatValue": Type.FLOAT32,
    f"{_WRAPPERS}Int64Value": Type.INT64,
    f"{_WRAPPERS}UInt64Value": Type.INT64,
    f"{_WRAPPERS}Int32Value": Type.INT32,
    f"{_WRAPPERS}UInt32Value": Type.INT64,
    f"{_WRAPPERS}BoolValue": Type.BOOLEAN,
    f"{_WRAPPERS}StringValue": Type.STRING,
    f"{_WRAPPERS}BytesValue": Type.BYTES,
}
#: The wrapper of each Connect type (``dataTypeFromConnectSchema``).
WRAPPERS: Mapping[Type, str] = {
    Type.INT8: "Int32Value",
    Type.INT16: "Int32Value",
    Type.INT32: "Int32Value",
    Type.INT64: "Int64Value",
    Type.FLOAT32: "FloatValue",
    Type.FLOAT64: "DoubleValue",
    Type.BOOLEAN: "BoolValue",
    Type.STRING: "StringValue",
    Type.BYTES: "BytesValue",
}
_TIME_PARTS = (("hours", 24, 3_600_000), ("minutes", 60, 60_000), ("seconds", 60, 1000))
_NANOS_PER_MILLI = 1_000_000
#: What ``Timestamps.checkValid`` accepts: the years 1 to 9999.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_INTEGERS = frozenset(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "sfixed32", "sfixed64"))

Read = Callable[[Raw], Any]
Write = Callable[[Any], bytes]


class Parts:
    """A message's fields by name, as the logical converters look them up. None of them is repeated."""

    def __init__(self, message: MessageType, kinds: Mapping[str, frozenset[str]]) -> None:
        self._message = message
        self._fields: dict[str, FieldType] = {}
        for field in message.fields:
            if field.name in kinds:
                if field.repeated or field.kind not in kinds[field.name]:
                    raise DataFault(f"has a schema whose {message.full_name} is not the one that Protobuf defines")
                self._fields[field.name] = field

    def get(self, raw: Raw, name: str) -> Any:
        """The field's value; None if the message lacks the field, or it is zero."""
        field = self._fields.get(name)
        return None if field is None else raw.get(field.number) or None

    def data(self, values: Mapping[str, Any]) -> bytes:
        """The message with these values; zeros are left out."""
        fields = sorted((one.number, one) for name, one in self._fields.items() if values[name])
        return b"".join(field_bytes(one, values[one.name]) for _, one in fields)


def logical_part(message: MessageType, name: str) -> tuple[Read, Write]:
    """Functions that read and write a message as one of Connect's logical types.

    Raises:
        DataFault: it is not the message that Protobuf defines under its name.
    """
    if name == DECIMAL:
        return _decimal(message)
    if name == DATE:
        return _date(message)
    return _time(message) if name == TIME else _timestamp(message)


def _of_integers(message: MessageType, *names: str) -> Parts:
    return Parts(message, dict.fromkeys(names, _INTEGERS))


def _millis(value: Any, what: str) -> int:
    if type(value) is not JavaDate:
        raise DataFault(f"cannot be written: it has a {class_name(value)} for a {what}")
    return value.millis


def _date(message: MessageType) -> tuple[Read, Write]:
    parts = _of_integers(message, "year", "month", "day")

    def read(raw: Raw) -> JavaDate:
        year, month, day = (wrapped(parts.get(raw, name) or 0, 32) for name in ("year", "month", "day"))
        if year < 1 or not 1 <= month <= 12 or not 1 <= day <= 31 or date_of(days_from(year, month, day))[2] != day:
            raise DataFault("has a google.type.Date that is not a day")
        return JavaDate(days_from(year, month, day) * MILLIS_PER_DAY)

    def write(value: Any) -> bytes:
        days, time = divmod(_millis(value, "Date"), MILLIS_PER_DAY)
        if time:
            raise DataFault("cannot be written: it has a time of day in a Date")
        year, month, day = date_of(days)
        if not 0 < year < 1 << 31:
            raise DataFault("cannot be written: it has a Date in a year that google.type.Date cannot hold")
        return parts.data({"year": year, "month": month, "day": day})

    return read, write


def _time(message: MessageType) -> tuple[Read, Write]:
    parts = _of_integers(message, "hours", "minutes", "seconds", "nanos")

    def read(raw: Raw) -> JavaDate:
        millis = 0
        for name, limit, unit in _TIME_PARTS:
            number = parts.get(raw, name) or 0
            if not 0 <= number < limit:
                raise DataFault(f"has a google.type.TimeOfDay whose {name} are out of range")
            millis += number * unit
        nanos = parts.get(raw, "nanos") or 0
        if not 0 <= nanos < 1000 * _NANOS_PER_MILLI:
            raise DataFault("has a google.type.TimeOfDay whose nanos are out of range")
        return JavaDate(millis + nanos // _NANOS_PER_MILLI)

    def write(value: Any) -> bytes:
        millis = _millis(value, "Time")
        if not 0 <= millis <= MILLIS_PER_DAY:
            raise DataFault("cannot be written: it has a date in a Time")
        found = {name: millis // unit % limit for name, limit, unit in _TIME_PARTS}
        return parts.data(found | {"nanos": millis % 1000 * _NANOS_PER_MILLI})

    return read, write


def _timestamp(message: MessageType) -> tuple[Read, Write]:
    parts = _of_integers(message, "seconds", "nanos")

    def read(raw: Raw) -> JavaDate:
        seconds, nanos = parts.get(raw, "seconds") or 0, parts.get(raw, "nanos") or 0
        if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < 1000 * _NANOS_PER_MILLI):
            raise DataFault("has an invalid google.protobuf.Timestamp: its seconds or nanos are out of range")
        return JavaDate(seconds * 1000 + nanos // _NANOS_PER_MILLI)

    def write(value: Any) -> bytes:
        seconds, millis = divmod(_millis(value, "Timestamp"), 1000)
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
            raise DataFault("cannot be written: it has a Timestamp before the year 1 or after 9999")
        return parts.data({"seconds": seconds, "nanos": millis * _NANOS_PER_MILLI})

    return read, write


def _decimal(message: MessageType) -> tuple[Read, Write]:
    kinds = {"value": frozenset(("bytes",)), "precision": _INTEGERS, "scale": _INTEGERS}
    parts = Parts(message, kinds)

    def read(raw: Raw) -> Decimal:
        data = parts.get(raw, "value") or b""
        if not data:
            raise DataFault("has a decimal without bytes")
        precision, scale = (wrapped(parts.get(raw, name) or 0, 32) for name in ("precision", "scale"))
        if precision < 0:
            raise DataFault("has a decimal with a negative precision")
        return _rounded(int.from_bytes(data, signed=True), int(scale), int(precision))

    def write(value: Any) -> bytes:
        if type(value) is not Decimal:
            raise DataFault(f"cannot be written: it has a {class_name(value)} for a Decimal")
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        number = int(Decimal((sign, digits, 0)))
        data = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, signed=True)
        return parts.data({"value": data, "precision": len(digits), "scale": -exponent})

    return read, write


def _rounded(number: int, scale: int, precision: int) -> Decimal:
    """``new BigDecimal(unscaled, scale, new MathContext(precision))``: rounds half up; precision 0 is unlimited."""
    decimal = decimal_of(number, scale)
    while precision and (drop := len(decimal.as_tuple().digits) - precision) > 0:
        unit = 10**drop
        number = (abs(number) + unit // 2) // unit * (-1 if number < 0 else 1)
        scale -= drop
        decimal = decimal_of(number, scale)
    if not -(1 << 31) <= scale < 1 << 31:
        raise DataFault("has a decimal whose scale is out of range")
    return decimal
