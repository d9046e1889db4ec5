"""Java regular expressions (``java.util.regex``) as Python ones, as far as topic and group filters need them.

Syntax that differs in Python is rewritten; syntax that Python lacks is refused with its position, rather than
interpreted differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

Emit = Callable[[str, int], None]

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": r"\t-\r ",
    "IsAlphabetic": r"^\W\d_",
    "L": r"^\W\d_",
    "IsDigit": r"\d",
    "Nd": r"\d",
}
# Without (?U), Java's \d, \w, \s and \b are about ASCII; topic names are too, so only these classes are narrowed.
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\x0b\f\r", "h": r" \t\xA0"}
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "d": 0, "u": 0, "U": 0}
_INLINE_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?\)")
_NAMED_GROUP = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_NAMED_REFERENCE = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY = re.compile(r"\\([pP])(?:\{(?:Is)?([A-Za-z]+)\}|([A-Z]))")
_COUNT = re.compile(r"\{\d+(,\d*)?\}")


class RegexError(ValueError):
    """An expression that cannot be used; ``position`` counts from 0 in the Java text."""

    def __init__(self, reason: str, pattern: str, position: int) -> None:
        super().__init__(f"'{pattern}' is not a usable expression: {reason} at position {position + 1}")
        self.reason = reason
        self.pattern = pattern
        self.position = position


@dataclass(frozen=True, slots=True)
class JavaRegex:
    """One compiled expression. ``flags_after`` are the inline flags still on at its end.

    Kafka joins the expressions of a list with ``|``, so a flag switched on in one stays on in those after it.
    """

    text: str
    compiled: re.Pattern[str]
    flags_after: int

    def matches(self, name: str) -> bool:
        """Whole-name match, as ``Matcher.matches``."""
        return self.compiled.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def compile_java_regex(pattern: str, flags: int = 0) -> JavaRegex:
    """Compile one Java expression that starts with ``flags`` on. Raises :class:`RegexError`."""
    text, flags_after, origins = _translate(pattern, flags)
    try:
        compiled = re.compile(text)
    except re.error as error:
        at = error.pos if error.pos is not None else 0
        raise RegexError(error.msg, pattern, origins[min(at, len(origins) - 1)]) from None
    except (OverflowError, RecursionError) as error:
        raise RegexError(str(error), pattern, 0) from None
    return JavaRegex(pattern, compiled, flags_after)


def _flag_letters(flags: int) -> str:
    return "".join(letter for letter, flag in _FLAGS.items() if flag and flags & flag)


def _translate(pattern: str, flags: int) -> tuple[str, int, list[int]]:
    """Python text, flags on at the end, and for each output character the input position it came from."""
    out: list[str] = []
    origins: list[int] = []
    scopes: list[tuple[int, int]] = []  # per open Java group: (flags outside, extra Python groups to close)
    extra = 0  # Python groups opened by inline flags in the current scope

    def emit(text: str, at: int) -> None:
        out.append(text)
        origins.extend([at] * len(text))

    def switch(new: int, at: int) -> None:
        nonlocal extra
        on, off = _flag_letters(new), _flag_letters(~new & (re.I | re.M | re.S | re.X))
        emit(f"(?{on}-{off}:" if off else f"(?{on}:", at)
        extra += 1

    position = 0
    if flags:
        switch(flags, 0)
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position = _escape(pattern, position, emit)
        elif character == "[":
            position = _bracket(pattern, position, emit)
        elif character == "(":
            inline = _INLINE_FLAGS.match(pattern, position)
            if inline:
                flags = _switched(pattern, position, flags, inline)
                switch(flags, position)
                position = inline.end()
                continue
            scopes.append((flags, extra))
            extra = 0
            named = _NAMED_GROUP.match(pattern, position)
            if named:
                emit(f"(?P<{named[1]}>", position)
                position = named.end()
            else:
                emit("(", position)
                position += 1
        elif character == ")":
            if not scopes:
                raise RegexError("unmatched closing ')'", pattern, position)
            emit(")" * extra, position)
            flags, extra = scopes.pop()
            emit(")", position)
            position += 1
        elif character == "|" and extra:
            # An inline flag's group must not swallow the branch: close it, and open it again after the bar.
            emit(")" * extra + "|", position)
            extra = 0
            switch(flags, position)
            position += 1
        elif character == "{":
            count = _COUNT.match(pattern, position)
            if count is None:
                raise RegexError(
                    "'{' opens no complete count such as {2} or {1,3}; write \\{ for the character",
                    pattern,
                    position,
                )
            emit(count[0], position)
            position = count.end()
        else:
            emit(character, position)
            position += 1
    if scopes:
        raise RegexError("a '(' is not closed", pattern, len(pattern))
    emit(")" * extra, len(pattern))
    origins.append(len(pattern))
    return "".join(out), flags, origins


def _switched(pattern: str, position: int, flags: int, inline: re.Match[str]) -> int:
    for letter in inline[1] + (inline[2] or ""):
        if letter not in _FLAGS:
            raise RegexError(f"unknown flag '{letter}'", pattern, position)
    for letter in inline[1]:
        flags |= _FLAGS[letter]
    for letter in inline[2] or "":
        flags &= ~_FLAGS[letter]
    return flags


def _escape(pattern: str, position: int, emit: Emit) -> int:
    """Translate the escape at ``position`` outside brackets; returns where to continue."""
    following = pattern[position + 1 : position + 2]
    if not following:
        raise RegexError("a '\\' at the end escapes nothing", pattern, position)
    if following == "Q":
        end = pattern.find("\\E", position + 2)
        literal = pattern[position + 2 : end if end >= 0 else len(pattern)]
        emit(re.escape(literal), position)
        return end + 2 if end >= 0 else len(pattern)
    reference = _NAMED_REFERENCE.match(pattern, position)
    if reference:
        emit(f"(?P={reference[1]})", position)
        return reference.end()
    klass = _class_of(pattern, position)
    if klass is not None:
        inside, negated, end = klass
        if inside.startswith("^"):
            inside, negated = inside[1:], not negated
        emit(f"[{'^' if negated else ''}{inside}]", position)
        return end
    replaced = {"z": r"\Z", "Z": r"(?=\n?\Z)", "e": r"\x1b", "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"}
    if following in replaced:
        emit(replaced[following], position)
    elif following in "GXN" or (following.isalpha() and following not in "AbBtnrfavxuc0"):
        raise RegexError(f"'\\{following}' is not supported", pattern, position)
    elif following == "x" and pattern[position + 2 : position + 3] == "{":
        raise RegexError("'\\x{...}' is not supported, write \\uXXXX", pattern, position)
    elif following == "c" or following == "0":
        raise RegexError(f"'\\{following}' is not supported, write \\xNN", pattern, position)
    else:
        emit("\\" + following, position)
    return position + 2


def _class_of(pattern: str, position: int) -> tuple[str, bool, int] | None:
    """(content of a bracket, negated, end) for ``\\d``, ``\\p{Alpha}`` and their like, else None."""
    following = pattern[position + 1 : position + 2]
    if following.lower() in _CLASSES and following:
        return _CLASSES[following.lower()], following.isupper(), position + 2
    if following in ("p", "P"):
        named = _PROPERTY.match(pattern, position)
        name = (named[2] or named[3]) if named else ""
        inside = _POSIX.get(name) or _POSIX.get(f"Is{name}")
        if named is None or inside is None:
            raise RegexError("this character class is not supported", pattern, position)
        return inside, named[1] == "P", named.end()
    return None


def _bracket(pattern: str, position: int, emit: Emit) -> int:
    """Translate the character class that opens at ``position``; unions and intersections are refused."""
    start = position
    emit("[", position)
    position += 1
    if pattern[position : position + 1] == "^":
        emit("^", position)
        position += 1
    first = True
    while position < len(pattern):
        character = pattern[position]
        if character == "]" and not first:
            emit("]", position)
            return position + 1
        first = False
        if character == "[":
            raise RegexError("a class inside a class is not supported; write one class", pattern, position)
        if pattern.startswith("&&", position):
            raise RegexError("'&&' inside a class is not supported", pattern, position)
        if character == "\\":
            if pattern[position + 1 : position + 2] == "Q":
                raise RegexError("'\\Q' inside a class is not supported", pattern, position)
            klass = _class_of(pattern, position)
            if klass is None:
                if not pattern[position + 1 : position + 2]:
                    break
                emit(pattern[position : position + 2], position)
                position += 2
                continue
            inside, negated, end = klass
            if inside.startswith("^"):
                raise RegexError("this class inside a class is not supported", pattern, position)
            if negated:
                if pattern[position + 1] == "P":
                    raise RegexError("a negated class inside a class is not supported", pattern, position)
                inside = "\\" + pattern[position + 1]
            emit(inside, position)
            position = end
        else:
            # A plain character is escaped where Python would warn about a set operation to come.
            emit("\\" + character if character in "~|&" else character, position)
            position += 1
    raise RegexError("a '[' is not closed", pattern, start)
