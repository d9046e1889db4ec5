"""The Java values in Connect's data, and their conversions as in Java: to text, to numbers, or to fewer bits.

``Long`` is ``int``, ``Double`` ``float``, ``String`` ``str``, ``Boolean`` ``bool``, ``byte[]`` ``bytes``,
``BigDecimal`` ``decimal.Decimal``, a list ``list``; the others have classes here, because Connect tells them apart by
class.
"""

from __future__ import annotations

import base64
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from srm_common.domain.transforms.date_pattern import MILLIS_PER_DAY, DatePattern


class DataFault(ValueError):
    """Connect cannot read, change or write a value; the text follows "offset ..., transforms.<name>:".

    It quotes no text of the record: it goes into run records, alarms and logs, where nobody expects a card number.
    """


class Int8(int):
    """``Byte``."""


class Int16(int):
    """``Short``."""


class Int32(int):
    """``Integer``."""


class Float32(float):
    """``Float``; always a value that 32 bits hold."""


@dataclass(frozen=True, slots=True)
class JavaDate:
    """``java.util.Date``: milliseconds since the epoch."""

    millis: int


_DATE, _TIME = DatePattern("yyyy-MM-dd"), DatePattern("HH:mm:ss.SSS'Z'")
_TIMESTAMP, _DATE_TO_STRING = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"), DatePattern("EEE MMM dd HH:mm:ss z y")
_SMALL_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
    r"|0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?)",
    re.ASCII,
)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.(?P<fraction>\d*))?|\.(?P<only>\d+))(?:[eE](?P<exponent>[+-]?\d+))?")
_EXPONENT_DIGITS, _MOST_EXPONENT = 10, (1 << 31) - 1
_INTEGERS: dict[int, type[int]] = {8: Int8, 16: Int16, 32: Int32, 64: int}
_LARGEST_FLOAT, _INFINITE_FLOAT = float(np.finfo(np.float32).max), (1 << 128) - (1 << 103)


def wrapped(number: int, bits: int) -> int:
    """The low bits of an integer, as a cast to a shorter type leaves them."""
    half = 1 << (bits - 1)
    return _INTEGERS[bits](((number + half) & ((1 << bits) - 1)) - half)


def integral(number: float | Decimal, bits: int) -> int:
    """``intValue()``, ``longValue()`` and the like: doubles saturate, decimals keep their low bits."""
    if isinstance(number, int):
        return wrapped(number, bits)
    if isinstance(number, Decimal):
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        if exponent >= 64 or len(digits) + exponent <= 0:
            return wrapped(0, bits)  # 10**64 has 64 zero bits
        return wrapped(int(number), bits)
    if math.isnan(number):
        return wrapped(0, bits)
    most = (1 << (max(bits, 32) - 1)) - 1
    return wrapped(most if number >= most else -most - 1 if number <= -most - 1 else int(number), bits)


def to_double(number: float | Decimal) -> float:
    """``doubleValue()``."""
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def to_float(number: float | Decimal) -> Float32:
    """``floatValue()``: rounded once, from the exact value."""
    near = to_double(number)
    if math.isfinite(near) and not isinstance(number, float) and _LARGEST_FLOAT < abs(number) < _INFINITE_FLOAT:
        return Float32(math.copysign(_LARGEST_FLOAT, near))
    with np.errstate(over="ignore"):
        single = np.float32(near)
    if near and not isinstance(number, float) and math.isfinite(near) and near != number and np.isfinite(single):
        # The double may have been rounded to the middle between two floats.
        exact = Fraction(number)
        around = (np.nextafter(single, np.float32(-math.inf)), single, np.nextafter(single, np.float32(math.inf)))
        finite = [one for one in around if np.isfinite(one)]
        least = min(abs(Fraction(float(one)) - exact) for one in finite)
        best = [one for one in finite if abs(Fraction(float(one)) - exact) == least]
        single = best[0] if len(best) == 1 else next(one for one in best if not one.view(np.uint32) & 1)
    return Float32(float(single))


def double_text(number: float) -> str:
    """``Double.toString`` or ``Float.toString``: the shortest digits that give the number back (as of Java 19)."""
    if type(number) is float and (0.001 <= number < 1e7 or -1e7 < number <= -0.001):
        return repr(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    written = str(np.float32(number)) if type(number) is Float32 else repr(float(number))
    if number == 0:
        return "-0.0" if written.startswith("-") else "0.0"
    sign, digits, exponent = Decimal(written).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    magnitude = len(digits) + exponent - 1
    if magnitude < -3 or magnitude >= 7:
        text = f"{text[0]}.{text[1:] or '0'}E{magnitude}"
    elif magnitude < 0:
        text = f"0.{'0' * (-magnitude - 1)}{text}"
    else:
        whole = text[: magnitude + 1].ljust(magnitude + 1, "0")
        text = f"{whole}.{text[magnitude + 1 :] or '0'}"
    return f"-{text}" if sign else text


def parse_integer(text: str, bits: int) -> int:
    """``Integer.parseInt`` and the like.

    Raises:
        DataFault: not a number, or out of range.
    """
    plain = "".join(str(int(c)) if c.isdecimal() and c < "\uffff" else c for c in text)
    if not _SMALL_INTEGER.fullmatch(plain):
        raise DataFault(f"{_described(text)} is not an integer")
    number = int(plain) if len(plain) < 100 else 1 << 70
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise DataFault(f"{_described(text)} is an integer out of range for int{bits}")
    return _INTEGERS[bits](number)


def parse_float(text: str, bits: int) -> float:
    """``Double.parseDouble`` or ``Float.parseFloat``.

    Raises:
        DataFault: not a number.
    """
    written = text.strip("".join(map(chr, range(33))))
    if not _FLOAT.fullmatch(written):
        raise DataFault(f"{_described(text)} is not a number")
    single = bits == 32
    if "x" in written.lower():
        try:
            number = float.fromhex(written.rstrip("fFdD") if "p" in written.lower() else written)
        except OverflowError:
            number = -math.inf if written.startswith("-") else math.inf
        return to_float(number) if single else number
    if written.endswith("NaN"):
        number = math.nan
    elif written.endswith("Infinity"):
        number = float(written)
    else:
        written = written.rstrip("fFdD")
        number = float(written)
        if single and math.isfinite(number) and number:
            return to_float(Decimal(written))
    return to_float(number) if single else number


def big_decimal(text: str) -> Decimal:
    """``new BigDecimal(String)``.

    Raises:
        DataFault: not a decimal number, or its exponent has more than 32 bits.
    """
    found = _DECIMAL.fullmatch(text)
    if not found or max(text) > "\uffff":
        raise DataFault(f"{_described(text)} is not a number")
    written = (found["exponent"] or "0").lstrip("+-").lstrip("0")
    exponent = int(found["exponent"] or 0) if len(written) <= _EXPONENT_DIGITS else _MOST_EXPONENT * 4
    if abs(exponent - len(found["fraction"] or found["only"] or "")) > _MOST_EXPONENT:
        raise DataFault(f"{_described(text)} has an exponent of more than 32 bits")
    return unsigned_zero(Decimal(text))


def _described(text: str) -> str:
    return f"text of {len(text)} character{'' if len(text) == 1 else 's'}"


def unsigned_zero(number: Decimal) -> Decimal:
    """Java's decimals have no negative zero."""
    return number if number else number.copy_abs()


def date_text(date: JavaDate) -> str:
    """A date as Connect writes it in text: in the shortest of its ISO 8601 forms that seems to fit, in UTC."""
    if date.millis < MILLIS_PER_DAY:
        return _TIME.format(date.millis)
    return (_TIMESTAMP if date.millis % MILLIS_PER_DAY else _DATE).format(date.millis)


def java_text(value: Any) -> str:
    """``String.valueOf`` of a key or value, as ``StringConverter`` writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return double_text(value)
        case JavaDate():
            return _DATE_TO_STRING.format(value.millis)
        case list():
            return f"[{', '.join(map(java_text, value))}]"
        case bytes():
            raise DataFault("bytes cannot be written as text")
        case int() | Decimal():
            return str(Decimal(value)) if isinstance(value, Decimal) else int.__repr__(value)
    return str(value)


def base64_text(data: bytes) -> str:
    """As Jackson and ``Base64.getEncoder()`` write it."""
    return base64.b64encode(data).decode()


_CLASSES: dict[type, str] = {
    Int8: "java.lang.Byte",
    Int16: "java.lang.Short",
    Int32: "java.lang.Integer",
    int: "java.lang.Long",
    Float32: "java.lang.Float",
    float: "java.lang.Double",
    bool: "java.lang.Boolean",
    str: "java.lang.String",
    bytes: "byte[]",
    Decimal: "java.math.BigDecimal",
    JavaDate: "java.util.Date",
    list: "java.util.ArrayList",
    type(None): "null",
}


def class_name(value: Any) -> str:
    """The name of a value's Java class, for messages."""
    return _CLASSES.get(type(value)) or str(getattr(type(value), "JAVA_NAME", type(value).__name__))
