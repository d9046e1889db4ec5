"""Text parsed as a value of some type, as Connect does for headers and settings: ``Values.parseString`` of Kafka 4.3,
including its oddities. ``12:30`` is the number 12, ``[1,2] and more`` a list of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from srm_common.domain.transforms.date_pattern import MILLIS_PER_DAY, DatePattern, TextMismatch
from srm_common.records.connect.data.hash_map import JavaMap
from srm_common.records.connect.data.java_values import (
    DataFault,
    Float32,
    Int8,
    Int16,
    Int32,
    JavaDate,
    big_decimal,
    integral,
    to_double,
    to_float,
)
from srm_common.records.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Type

_DELIMITERS = frozenset(':,{}[]"')
#: The characters that ``String.trim`` removes.
_SPACE = "".join(map(chr, range(33)))
#: By the length of the text.
_TEMPORAL = {
    13: (TIME, Type.INT32, DatePattern("HH:mm:ss.SSS'Z'")),
    24: (TIMESTAMP, Type.INT64, DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")),
    10: (DATE, Type.INT32, DatePattern("yyyy-MM-dd")),
}
_INTEGERS: Mapping[Type, tuple[int, type[int]]] = {
    Type.INT8: (8, Int8),
    Type.INT16: (16, Int16),
    Type.INT32: (32, Int32),
    Type.INT64: (64, int),
}
#: Types of numbers, the narrowest first; the common type of two is the wider one.
_NUMBERS = (*_INTEGERS, Type.FLOAT32, Type.FLOAT64)
_BEYOND_LONG = Decimal(10**19)


class _Kind(NamedTuple):
    """What matters of a schema here: its type and name."""

    type: Type
    name: str | None = None


class _Typed(NamedTuple):
    kind: _Kind
    value: Any


class LiteralMap(JavaMap):
    """A ``LinkedHashMap`` whose keys may be of any class: 1 and true differ, and lists can be keys."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Any, Any]]) -> None:
        super().__init__()
        kept: dict[Any, tuple[Any, Any]] = {}
        for key, value in entries:
            same = _identity(key)
            kept[same] = (kept[same][0] if same in kept else key, value)
        self._entries = tuple(kept.values())

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._entries)


def parse_literal(text: str) -> Any:
    """The value that a text stands for: a number of the narrowest type, true or false, a date or time, a list or map of
    these, None for ``null``, or the text itself."""
    if not text:
        return text
    try:
        parsed = _Parser(text).parse(embedded=False)
    except (DataFault, RecursionError):
        # A DataFault means blanks, which Java trims, so that its transform cannot be configured with them.
        return text
    return None if parsed is None else parsed.value


class _Parser:
    """``Values.ValueParser`` on ``Values.Parser``: tokens are delimiters, and the text between them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next: str | None = None

    def parse(self, embedded: bool) -> _Typed | None:
        if not self._has_next():
            return None
        if embedded and self._consumes('"'):
            return self._quoted()
        for literal, value in (("null", None), ("true", True), ("false", False)):
            if self._is_literal(literal, embedded):
                return None if value is None else _Typed(_Kind(Type.BOOLEAN), value)
        start = self._mark()
        try:
            if self._consumes("["):
                return self._list()
            if self._consumes("{"):
                return self._map()
        except DataFault:
            self._rewind(start)
        token = self._token()
        if not token.strip(_SPACE):
            return _Typed(_Kind(Type.STRING), token)
        return self._plain(token.strip(_SPACE), embedded)

    def _plain(self, token: str, embedded: bool) -> _Typed:
        first = token[:1]
        digit = first.isdecimal() and first <= "\uffff"
        if digit and (typed := self._temporal(token)) is not None:
            return typed
        if (digit or first in ("+", "-")) and (number := _number(token)) is not None:
            return number
        if embedded or not token:
            raise DataFault(f"'{token}' is no value")
        return _Typed(_Kind(Type.STRING), self._text)

    def _temporal(self, token: str) -> _Typed | None:
        """Times contain colons, which are delimiters, so they consist of five tokens."""
        start = at = self._mark()
        for _ in range(4):
            if not self._has_next():
                break
            self._token()
        else:
            at = self._at
        typed = _temporal(token + self._text[start:at]) if at > start else None
        if typed is None:
            self._rewind(start)
            return _temporal(token)
        return typed

    def _quoted(self) -> _Typed:
        content = ""
        while self._has_next() and not self._consumes('"'):
            content += self._token()
        return _temporal(content) or _Typed(_Kind(Type.STRING), content)

    def _list(self) -> _Typed:
        values: list[Any] = []
        common = _Common()
        while self._has_next():
            if self._consumes("]"):
                if common.kind is not None:
                    values = [_converted(common.kind, value) for value in values]
                return _Typed(_Kind(Type.ARRAY), values)
            if self._consumes(","):
                raise DataFault("an element is missing")
            element = self.parse(embedded=True)
            common.merge(element)
            values.append(None if element is None else element.value)
            start = self._mark()
            if self._consumes("]"):
                self._rewind(start)
            elif not self._consumes(","):
                raise DataFault("a comma is missing")
        raise DataFault("a list is not closed")

    def _map(self) -> _Typed:
        entries: list[tuple[Any, Any]] = []
        keys, values = _Common(), _Common()
        while self._has_next():
            if self._consumes("}"):
                put = LiteralMap(entries).entries()
                return _Typed(_Kind(Type.MAP), LiteralMap(_aligned(put, keys.kind, values.kind)))
            if self._consumes(","):
                raise DataFault("an entry is missing")
            key = self.parse(embedded=True)
            if key is None:
                raise DataFault("a key is null")
            if not self._consumes(":"):
                raise DataFault("a colon is missing")
            value = self.parse(embedded=True)
            entries.append((key.value, None if value is None else value.value))
            self._consumes(",")
            keys.merge(key)
            values.merge(value)
        raise DataFault("a map is not closed")

    def _is_literal(self, literal: str, embedded: bool) -> bool:
        start = self._mark()
        if self._consumes(literal) and (embedded or not self._has_next()):
            return True
        self._rewind(start)
        return False

    def _mark(self) -> int:
        return self._at - len(self._next or "")

    def _rewind(self, at: int) -> None:
        self._at, self._next = at, None

    def _more(self) -> bool:
        return self._at < len(self._text)

    def _has_next(self) -> bool:
        return self._next is not None or self._more()

    def _token(self) -> str:
        token, self._next = self._next, None
        return self._read() if token is None else token

    def _consumes(self, expected: str) -> bool:
        """Take the next token if it is this one; blank tokens before it are skipped in any case."""
        if self._next is None:
            if not self._more():
                return False
            self._next = self._read()
        while not self._next.strip(_SPACE) and self._more():
            self._next = self._read()
        if self._next.strip(_SPACE) != expected:
            return False
        self._next = None
        return True

    def _read(self) -> str:
        text, start, escaped = self._text, self._at, False
        while self._at < len(text):
            letter = text[self._at]
            if letter in _DELIMITERS and not escaped:
                self._at = max(self._at, start + 1)
                break
            escaped = letter == "\\" and not escaped
            self._at += 1
        return text[start : self._at]


class _Common:
    """``Values.SchemaMerger``: the common type of a list's elements; None if they have none, or there are none."""

    def __init__(self) -> None:
        self.kind: _Kind | None = None
        self._compatible = True

    def merge(self, one: _Typed | None) -> None:
        if one is None or not self._compatible:
            return
        if self.kind is not None:
            self.kind = _merged(self.kind, one.kind)
            self._compatible = self.kind is not None
        else:
            self.kind = one.kind


def _merged(before: _Kind, newest: _Kind) -> _Kind | None:
    if before.type is newest.type:
        return newest
    if before.type in _NUMBERS and newest.type in _NUMBERS:
        return max(before, newest, key=lambda one: _NUMBERS.index(one.type))
    return None


def _aligned(entries: Iterable[tuple[Any, Any]], keys: _Kind | None, values: _Kind | None) -> Iterator[tuple[Any, Any]]:
    for key, value in entries:
        if keys is None:
            yield key, value
        else:
            yield _converted(keys, key), value if values is None else _converted(values, value)


def _converted(kind: _Kind, value: Any) -> Any:
    """``Values.convertTo``, for the values that can occur."""
    if value is None:
        raise DataFault("null is mixed with values")
    if isinstance(value, JavaDate):
        if kind.name in (DATE, TIME, TIMESTAMP):
            return value
        raise DataFault("a date is mixed with numbers")
    if kind.name == DATE:
        return JavaDate(integral(value, 32) * MILLIS_PER_DAY)
    if kind.name == TIME:
        millis = integral(value, 32)
        if not 0 <= millis < MILLIS_PER_DAY:
            raise DataFault("a time is out of range")
        return JavaDate(millis)
    if kind.name == TIMESTAMP:
        return JavaDate(integral(value, 64))
    if kind.type in _INTEGERS:
        bits, of = _INTEGERS[kind.type]
        return of(integral(value, bits))
    if kind.type is Type.FLOAT32:
        return to_float(value)
    return to_double(value) if kind.type is Type.FLOAT64 else value


def _temporal(text: str) -> _Typed | None:
    text = text.replace("\\:", ":")
    found = _TEMPORAL.get(len(text.encode("utf-16-le", "surrogatepass")) // 2)
    if found is None:
        return None
    name, of, pattern = found
    try:
        return _Typed(_Kind(of, name), JavaDate(pattern.parse(text)))
    except TextMismatch:
        return None


def _number(token: str) -> _Typed | None:
    """Of the narrowest type by Kafka's rules: with a fraction it is a float, however much precision is lost."""
    try:
        number = big_decimal(token)
    except DataFault:
        return None
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    size = number.copy_abs()
    if (not number or 1 <= size <= _BEYOND_LONG) and number == number.to_integral_value():
        for of, (bits, made) in _INTEGERS.items():
            if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                return _Typed(_Kind(of), made(int(number)))
    for of, floating in ((Type.FLOAT32, to_float(number)), (Type.FLOAT64, to_double(number))):
        if exponent and floating not in (float("inf"), float("-inf")):
            return _Typed(_Kind(of), floating)
    return _Typed(_Kind(Type.BYTES, DECIMAL), number)


def _identity(key: Any) -> Any:
    """Equal for keys that are equal in Java."""
    if isinstance(key, list):
        return list, *map(_identity, key)
    if isinstance(key, LiteralMap):
        return LiteralMap, frozenset((_identity(one), _identity(value)) for one, value in key.entries())
    if isinstance(key, Float32 | float | Decimal):
        return type(key), str(key)
    return type(key), key
