"""JSON as Jackson reads and writes it for Connect's ``JsonConverter``.

Read values are ``dict``, ``list``, ``str``, ``bool``, None, ``int`` and, for numbers with a fraction or an exponent,
``Decimal``. What follows the first value is ignored; numbers may begin with zeros; the bytes may be UTF-8, UTF-16 or
UTF-32.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any

from srm_common.records.connect.data.java_values import DataFault, unsigned_zero

#: Jackson's limit.
_NUMBER_LENGTH = 1000
#: About that of ``BigDecimal``.
_LARGEST_EXPONENT = (1 << 31) - 1
_TOO_LONG: int = 10**_NUMBER_LENGTH
MISSING = object()
"""There is no value: nothing but white space."""


def _decimal(text: str) -> Decimal:
    if len(text) > _NUMBER_LENGTH and sum(map(str.isdigit, text)) > _NUMBER_LENGTH:
        raise DataFault(f"is not JSON that Connect reads: a number has more than {_NUMBER_LENGTH} digits")
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = None
    if number is None or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise DataFault("is not JSON that Connect reads: a number has an exponent of more than 32 bits")
    return unsigned_zero(number)


def _constant(text: str) -> Any:
    raise DataFault(f"is not JSON: {text} is not a number there")


_DECODER = json.JSONDecoder(parse_float=_decimal, parse_constant=_constant)
_BLANK = re.compile(r"[ \t\n\r]*")
_LEADING_ZEROS = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.+-])(-?)0+(?=\d)', re.ASCII | re.DOTALL)
_ASTRAL = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_CONTROL = re.compile(r"\\u00[01][0-9a-f]")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD]")
_BOMS = (
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xef\xbb\xbf", "utf-8"),
)


def read(data: bytes) -> Any:
    """The first value; :data:`MISSING` if there is none.

    Raises:
        DataFault: not JSON; the message says why, without quoting the content.
    """
    try:
        text, whole = data.decode(), True
        if "\0" in text[:4] or text[:1] == "\ufeff":
            text = _decoded(data)
    except UnicodeDecodeError:
        text = _decoded(data)
        whole = False
    try:
        value = _first(text)
    except RecursionError:
        raise DataFault("is JSON that is nested too deeply") from None
    if not whole and _ESCAPED_BYTE.search(_texts(value)):
        raise DataFault("is not JSON: a string in it is not UTF-8")
    if _ESCAPED_SURROGATE.search(text) and _has_broken_name(value):
        raise DataFault("is not JSON that Connect reads: a name has half of a surrogate pair")
    return value


def _has_broken_name(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_broken_name, value))
    if not isinstance(value, dict):
        return False
    return any(_SURROGATE.search(name) for name in value) or any(map(_has_broken_name, value.values()))


def _texts(value: Any) -> str:
    """All strings in a value, concatenated."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join([*value, *map(_texts, value.values())])
    return "".join(map(_texts, value)) if isinstance(value, list) else ""


def _decoded(data: bytes) -> str:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    encoding = "utf-8"
    if len(data) >= 4 and data[:3] == b"\0\0\0":
        encoding = "utf-32-be"
    elif len(data) >= 4 and data[1:4] == b"\0\0\0":
        encoding = "utf-32-le"
    elif len(data) >= 2 and data[0] == 0:
        encoding = "utf-16-be"
    elif len(data) >= 2 and data[1] == 0:
        encoding = "utf-16-le"
    return data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")


def _first(text: str) -> Any:
    try:
        return _value(text)
    except json.JSONDecodeError:
        return _value_with_zeros(text)
    except ValueError as error:
        raise _too_long(error) from None


def _too_long(error: ValueError) -> DataFault:
    """The fault for an error of the decoder: Python reads integers of at most 4,300 digits."""
    if isinstance(error, DataFault):
        return error
    return DataFault(f"is not JSON that Connect reads: a number has more than {_NUMBER_LENGTH} digits")


def _value_with_zeros(text: str) -> Any:
    try:
        return _value(_LEADING_ZEROS.sub(lambda found: found[1] if found[1] is not None else found[0], text))
    except json.JSONDecodeError as error:
        raise DataFault(f"is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise _too_long(error) from None


def _value(text: str) -> Any:
    blank = _BLANK.match(text)
    assert blank is not None
    if blank.end() == len(text):
        return MISSING
    value, end = _DECODER.raw_decode(text, blank.end())
    if end < len(text) and not isinstance(value, str | dict | list):
        after = text[end]
        number = value is not None and not isinstance(value, bool)
        if (
            after not in " \t\n\r"
            if number
            else after >= "0" and after not in "]}" and (after.isalnum() or after in "_$")
        ):
            raise json.JSONDecodeError("Extra characters", text, end)
    return value


def too_long(number: int) -> bool:
    """Whether Jackson would not read the integer."""
    return number >= _TOO_LONG or number <= -_TOO_LONG


def written(text: str) -> str:
    """A string with its quotes, as Jackson writes it in UTF-8: surrogates escaped, hexadecimal digits in upper case."""
    quoted = encode_basestring(text)
    if quoted.isascii():
        return _CONTROL.sub(_upper, quoted) if "\\u00" in quoted else quoted
    return _ASTRAL.sub(_escaped, _CONTROL.sub(_upper, quoted))


def _upper(found: re.Match[str]) -> str:
    return f"\\u{found[0][2:].upper()}"


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
