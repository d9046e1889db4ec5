"""Java ``.properties`` files, read as ``java.util.Properties.load`` reads them, with line numbers kept.

Deliberate differences: the bytes are UTF-8 (ISO-8859-1 where they are not valid UTF-8, and a byte order mark is
skipped), and a malformed ``\\uXXXX`` is reported with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from srm_common.errors import ConfigError

_NATURAL_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")


@dataclass(frozen=True, slots=True)
class Property:
    """One ``key = value``; ``line`` is where it starts, counted from 1. ``repr`` hides the value."""

    key: str
    value: str = field(repr=False)
    line: int


def read_properties(path: Path) -> list[Property]:
    """All entries of a file in order, repeated keys included (the last one counts, as in Java).

    Raises:
        ConfigError: the file cannot be read, or has a malformed escape.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError("there is no such file", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    return list(parse_properties(text, str(path)))


def parse_properties(text: str, file: str | None = None) -> Iterator[Property]:
    """Entries of ``text`` in order. Raises :class:`ConfigError` naming ``file`` and the line."""
    for number, logical in _logical_lines(text):
        end = _end_of_key(logical)
        start = _start_of_value(logical, end)
        yield Property(_unescape(logical[:end], file, number), _unescape(logical[start:], file, number), number)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines and drop comments and blank lines (``Properties.LineReader``)."""
    naturals = _NATURAL_LINE_END.split(text)
    # split() yields one empty piece after a final line end; Java sees the end of the input there.
    ended = not naturals[-1]
    if ended:
        naturals.pop()
    last = len(naturals) - 1
    gathered, first, continuing = "", 0, False
    for index, natural in enumerate(naturals):
        line = natural.lstrip(_BLANK)
        if not continuing and not line:
            continue
        if not gathered and line[:1] in ("#", "!"):
            continuing = False
            continue
        if not gathered:
            first = index + 1
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            gathered += line[:-1]
            continuing = True
            if index < last:
                continue
            # The input ends after the backslash: Java drops it, and keeps even an entry without a key, unless it has
            # a line end of two characters still to read.
            if not gathered and text.endswith("\r\n"):
                continue
        else:
            gathered += line
            continuing = False
            if not gathered:
                continue
        yield first, gathered
        gathered = ""


def _end_of_key(line: str) -> int:
    escaped = False
    for position, character in enumerate(line):
        if not escaped and character in "=: \t\f":
            return position
        escaped = character == "\\" and not escaped
    return len(line)


def _start_of_value(line: str, end_of_key: int) -> int:
    position, separator_seen = end_of_key, False
    while position < len(line):
        character = line[position]
        if character not in _BLANK:
            if separator_seen or character not in "=:":
                break
            separator_seen = True
        position += 1
    return position


def _unescape(text: str, file: str | None, line: int) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    position, wide = 0, False
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            pieces.append(character)
        elif position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if not _HEX4.fullmatch(digits):
                    raise ConfigError(
                        f"'\\u{digits}' is not four hexadecimal digits after \\u; write \\\\u for a plain backslash",
                        file=file,
                        line=line,
                    )
                pieces.append(chr(int(digits, 16)))
                wide = True
                position += 4
            else:
                pieces.append(_ESCAPES.get(character, character))
    joined = "".join(pieces)
    if wide:  # two escapes may be the halves of one character beyond the basic plane
        joined = joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined


# A properties file in the making: entries with remarks, what could not be carried over, secrets to be supplied.


_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9]+")
#: An option of a login module whose value is a secret: of Kafka, and of Strimzi's OAuth.
_JAAS_SECRET = re.compile(
    r"""([\w.]*(?:password|secret|secretaccesskey|token|assertion))(\s*=\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;"']+)""",
    re.IGNORECASE,
)
_WIDTH = 118


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """One line to write. ``origin`` is where it comes from; ``remark`` is written above it."""

    key: str
    value: str = field(repr=False)
    origin: str
    remark: str = ""


@dataclass
class Draft:
    """What a conversion has gathered. ``lost`` is one sentence each; ``variables`` maps a name to what it must hold."""

    source: str
    entries: list[DraftEntry] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def add(self, key: str, value: object, origin: str, remark: str = "") -> None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self.entries.append(DraftEntry(key, text, origin, remark))

    def placeholder(self, name: str, holds: str) -> str:
        """A reference to an environment variable that will hold a secret; each name is used for one secret."""
        variable = _NOT_IN_VARIABLES.sub("_", name.upper()).strip("_")
        unique, number = variable, 2
        while self.variables.get(unique, holds) != holds:
            unique, number = f"{variable}_{number}", number + 1
        self.variables[unique] = holds
        return f"${{env:{unique}}}"

    def without_secrets(self, entry: DraftEntry, secret: bool) -> str:
        """The value of an entry; secrets in it become references to the environment."""
        if not secret or not entry.value.strip():
            return entry.value
        holds = f"what {entry.key} holds in {entry.origin}"
        if "jaas" not in entry.key:
            return entry.value if "${" in entry.value else self.placeholder(entry.key, holds)

        def hidden(match: re.Match[str]) -> str:
            if "${" in match[3]:
                return match[0]
            reference = self.placeholder(f"{entry.key} {match[1]}", f"{match[1]}: {holds}")
            return f'{match[1]}{match[2]}"{reference}"'

        return _JAAS_SECRET.sub(hidden, entry.value)


_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def property_line(key: str, value: str) -> str:
    """``key = value`` as :func:`srm_common.settings_files.sources.properties.parse_properties` reads it back."""
    name = re.sub(r"([:=#! ])", r"\\\1", key.translate(_ESCAPED))
    text = value.translate(_ESCAPED)
    return f"{name} = \\{text}" if text.startswith(" ") else f"{name} = {text}" if text else f"{name} ="


def comment(text: str, indent: str = "# ") -> Iterable[str]:
    """Lines of a comment, wrapped."""
    words, line = text.split(), indent.rstrip(" ") if not text else indent
    for word in words:
        if len(line) + len(word) + 1 > _WIDTH and line.strip("# "):
            yield line.rstrip()
            line = "#   "
        line += word + " "
    yield line.rstrip()
