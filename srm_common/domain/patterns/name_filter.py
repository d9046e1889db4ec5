"""Include and exclude lists of Java regular expressions, as MirrorMaker 2's default filters read them.

A name is accepted when an include expression matches the whole of it and no exclude expression does. An empty list
matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from srm_common.domain.patterns.java_regex import JavaRegex, RegexError, compile_java_regex

_LITERAL = re.compile(r"[A-Za-z0-9_-]+")
_COUNT_WITH_COMMA = re.compile(r"\{\d+,\d*\}")


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, and why, in words a person can read."""

    accepted: bool
    reason: str


def split_list(text: str) -> tuple[str, ...]:
    """A comma separated list (Kafka ``ConfigDef.Type.LIST``): trimmed pieces, empty ones kept, no text no pieces.

    One addition: a comma inside a count such as ``x{1,3}`` belongs to the expression. Kafka splits there and then
    refuses the broken halves, so nothing it accepts is read differently.
    """
    text = text.strip()
    if not text:
        return ()
    pieces: list[str] = []
    start = position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if character == "{":
            count = _COUNT_WITH_COMMA.match(text, position)
            if count:
                position = count.end()
                continue
        if character == ",":
            pieces.append(text[start:position].strip())
            start = position + 1
        position += 1
    pieces.append(text[start:].strip())
    return tuple(pieces)


class PatternList:
    """Expressions of one list, tried in order; knows which one matched."""

    __slots__ = ("_literals", "_regexes", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        """Raises :class:`RegexError` for the first expression that cannot be used."""
        self.patterns = tuple(patterns)
        self._literals: set[str] = set()
        self._regexes: list[JavaRegex] = []
        flags = 0
        for pattern in self.patterns:
            if not flags and _LITERAL.fullmatch(pattern):
                self._literals.add(pattern)
                continue
            regex = compile_java_regex(pattern, flags)
            flags = regex.flags_after
            self._regexes.append(regex)

    def matching(self, name: str) -> str | None:
        """The expression that matches the whole of ``name``, None when none does."""
        if name in self._literals:
            return name
        for regex in self._regexes:
            if regex.matches(name):
                return regex.text
        return None


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Include and exclude lists of one kind of name (``topics``, ``groups``); exclude wins."""

    kind: str
    include: PatternList
    exclude: PatternList

    @classmethod
    def of(cls, kind: str, include: Iterable[str], exclude: Iterable[str]) -> NameFilter:
        """Raises :class:`RegexError`."""
        return cls(kind, PatternList(include), PatternList(exclude))

    def decide(self, name: str) -> Decision:
        included = self.include.matching(name)
        excluded = self.exclude.matching(name)
        if excluded is not None:
            return Decision(False, f"excluded by '{excluded}' of {self.kind}.exclude")
        if included is None:
            return Decision(False, f"no expression of {self.kind} matches it")
        return Decision(True, f"'{included}' of {self.kind} matches it")


@lru_cache(maxsize=1024)
def check_patterns(patterns: tuple[str, ...]) -> RegexError | None:
    """The fault of the first expression that cannot be used, None when all can."""
    try:
        PatternList(patterns)
    except RegexError as error:
        return error
    return None
