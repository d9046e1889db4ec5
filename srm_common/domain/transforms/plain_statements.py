"""Statements that give the same result without Spark: they test keys and values for null, compare topic, partition and
offset with constants, and write constants.

This reads a small part of Spark's grammar (``SqlBaseParser.g4``), in which nothing can fail on a record, nothing is
converted, and every condition is true or false. Whatever is not in it, or only might mean something else to Spark
(escapes in strings, ``${variables}``, comments), is not plain, and Spark's to read or to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from srm_common.domain.transforms.statements import Statement, StatementColumns


@dataclass(frozen=True, slots=True)
class IsNull:
    """Of ``key`` or ``value``."""

    column: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """``operator``: one of :data:`OPERATORS`. ``operand`` is text for ``topic``, a number for the others."""

    column: str
    operator: str
    operand: str | int


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Junction:
    """All of the conditions, or (not ``all``) one of them at least."""

    conditions: tuple[Condition, ...]
    all: bool


Condition = IsNull | Comparison | Not | Junction

#: With what makes them one; both ways to write "not equal".
OPERATORS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True, slots=True)
class PlainStatement:
    """``condition``: of the records that are kept; None for all. ``constants``: what columns become, None for null.
    ``header``: name and value of one that each record gets."""

    condition: Condition | None
    constants: Mapping[str, bytes | None] = field(hash=False)
    header: tuple[str, bytes] | None = None

    @property
    def columns(self) -> StatementColumns:
        """What it reads and changes."""
        reads = set(_columns(self.condition)) if self.condition is not None else set()
        nulls = tuple(sorted(reads & _NULLABLE))
        return StatementColumns(tuple(sorted(reads)), tuple(self.constants), nulls, self.header)


def plain_statement(statement: Statement) -> PlainStatement | None:
    """The statement, or None where only Spark knows what it means."""
    return _parsed(statement.text)


def needs_spark(statements: Sequence[Statement]) -> bool:
    """Whether one of a flow's statements is for Spark to evaluate; then all go there."""
    return any(plain_statement(statement) is None for statement in statements)


_NULLABLE = frozenset({"key", "value"})
_NUMBERS = frozenset({"partition", "offset"})
_COLUMNS = frozenset({"topic", "headers", "timestamp"}) | _NULLABLE | _NUMBERS
#: A number that is followed by a letter or a dot is of another type.
_TOKEN = re.compile(
    r"[ \t\r\n]*(?:([A-Za-z_]+)(?![A-Za-z_0-9])|([0-9]+)(?![A-Za-z_0-9.])|'([^'\\]*)'|(<>|!=|<=|>=|[=<>(),*]))"
)
_LARGEST, _MOST_DIGITS = 2**63 - 1, 19
#: Deeper parentheses are for Spark.
_DEEPEST = 40


class _NotPlain(Exception):
    """Spark has to read this."""


def _columns(condition: Condition) -> Iterator[str]:
    match condition:
        case IsNull(column) | Comparison(column):
            yield column
        case Not(inner):
            yield from _columns(inner)
        case Junction(conditions):
            for one in conditions:
                yield from _columns(one)


@lru_cache(maxsize=256)
def _parsed(text: str) -> PlainStatement | None:
    try:
        return _Parser(text).statement()
    except _NotPlain:
        return None


class _Parser:
    """Tokens are a word (as ``w`` and in lower case), a number (``n``), a string (``s``) or a sign (itself)."""

    def __init__(self, text: str) -> None:
        if "${" in text:
            raise _NotPlain
        self._tokens: list[tuple[str, str]] = []
        place, end = 0, len(text.rstrip(" \t\r\n"))
        while place < end:
            found = _TOKEN.match(text, place)
            if found is None:
                raise _NotPlain
            place = found.end()
            word, number, string, sign = found.groups()
            if word is not None:
                self._tokens.append(("w", word.lower()))
            elif number is not None:
                self._tokens.append(("n", number))
            elif string is not None:
                self._tokens.append(("s", string))
            else:
                self._tokens.append((sign, sign))
        self._next = 0
        self._depth = 0

    def statement(self) -> PlainStatement:
        self._words("select")
        constants: dict[str, bytes | None] = {}
        header: tuple[str, bytes] | None = None
        seen: set[str] = set()
        if not self._sign("*"):
            while True:
                if self._word("array_append"):
                    header, name = self._header(), "headers"
                else:
                    name, constant = self._item()
                    constants |= constant
                # Spark says what is wrong with that.
                if name in seen:
                    raise _NotPlain
                seen.add(name)
                if not self._sign(","):
                    break
        self._words("from", "records")
        condition = self._disjunction() if self._word("where") else None
        if self._next != len(self._tokens):
            raise _NotPlain
        return PlainStatement(condition, constants, header)

    def _item(self) -> tuple[str, dict[str, bytes | None]]:
        """Its name, and the constant that it is unless it is a column as it was."""
        if self._word("null"):
            value = None
        elif self._word("cast"):
            value = self._binary()
        else:
            return self._column(_COLUMNS), {}
        self._words("as")
        name = self._column(_NULLABLE)
        return name, {name: value}

    def _header(self) -> tuple[str, bytes]:
        """``(headers, named_struct('key', '...', 'value', CAST('...' AS BINARY))) AS headers``."""
        self._signs("(")
        self._words("headers")
        self._signs(",")
        self._words("named_struct")
        self._signs("(")
        self._strings("key")
        name = self._string()
        self._signs(",")
        self._strings("value")
        self._words("cast")
        value = self._binary()
        self._signs(")", ")")
        self._words("as", "headers")
        return name, value

    def _binary(self) -> bytes:
        """``('...' AS BINARY)``."""
        self._signs("(")
        text = self._string()
        self._words("as", "binary")
        self._signs(")")
        return text.encode()

    def _disjunction(self) -> Condition:
        found = [self._conjunction()]
        while self._word("or"):
            found.append(self._conjunction())
        return found[0] if len(found) == 1 else Junction(tuple(found), all=False)

    def _conjunction(self) -> Condition:
        found = [self._negation()]
        while self._word("and"):
            found.append(self._negation())
        return found[0] if len(found) == 1 else Junction(tuple(found), all=True)

    def _negation(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NotPlain
        try:
            if self._word("not"):
                return Not(self._negation())
            if self._sign("("):
                inner = self._disjunction()
                self._signs(")")
                return inner
            return self._predicate()
        finally:
            self._depth -= 1

    def _predicate(self) -> Condition:
        column = self._column(_COLUMNS)
        if column in _NULLABLE:
            self._words("is")
            negated = self._word("not")
            self._words("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        operator = OPERATORS.get(self._taken()[0])
        if operator is None:
            raise _NotPlain
        if column == "topic" and operator in ("=", "<>"):
            return Comparison(column, operator, self._string())
        kind, text = self._taken()
        if column not in _NUMBERS or kind != "n" or len(text) > _MOST_DIGITS or int(text) > _LARGEST:
            raise _NotPlain
        return Comparison(column, operator, int(text))

    def _taken(self) -> tuple[str, str]:
        if self._next == len(self._tokens):
            raise _NotPlain
        self._next += 1
        return self._tokens[self._next - 1]

    def _is_next(self, token: tuple[str, str]) -> bool:
        found = self._tokens[self._next : self._next + 1] == [token]
        self._next += found
        return found

    def _word(self, word: str) -> bool:
        return self._is_next(("w", word))

    def _sign(self, sign: str) -> bool:
        return self._is_next((sign, sign))

    def _words(self, *words: str) -> None:
        if not all(map(self._word, words)):
            raise _NotPlain

    def _signs(self, *signs: str) -> None:
        if not all(map(self._sign, signs)):
            raise _NotPlain

    def _string(self) -> str:
        kind, text = self._taken()
        if kind != "s":
            raise _NotPlain
        return text

    def _strings(self, text: str) -> None:
        """A field's name and the comma behind it."""
        if self._string() != text:
            raise _NotPlain
        self._signs(",")

    def _column(self, allowed: frozenset[str]) -> str:
        kind, name = self._taken()
        if kind != "w" or name not in allowed:
            raise _NotPlain
        return name
