"""A properties file in the making: entries with remarks, what could not be carried over, secrets to be supplied."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9]+")
_JAAS_SECRET = re.compile(r"""(password|clientSecret)(\s*=\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;"']+)""")
_WIDTH = 118


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """One line to be. ``origin`` says where it comes from; ``remark`` stands above it."""

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
        """A reference to an environment variable that will hold a secret; one name stands for one secret."""
        variable = _NOT_IN_VARIABLES.sub("_", name.upper()).strip("_")
        unique, number = variable, 2
        while self.variables.get(unique, holds) != holds:
            unique, number = f"{variable}_{number}", number + 1
        self.variables[unique] = holds
        return f"${{env:{unique}}}"

    def without_secrets(self, entry: DraftEntry, secret: bool) -> str:
        """The value of an entry; secrets in it become references to the environment."""
        if not secret or "${" in entry.value or not entry.value.strip():
            return entry.value
        holds = f"what {entry.key} holds in {entry.origin}"
        if "jaas" not in entry.key:
            return self.placeholder(entry.key, holds)
        return _JAAS_SECRET.sub(
            lambda match: (
                f'{match[1]}{match[2]}"{self.placeholder(f"{entry.key} {match[1]}", f"{match[1]}: {holds}")}"'
            ),
            entry.value,
        )


_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def property_line(key: str, value: str) -> str:
    """``key = value`` as :func:`srm_common.settings_files.properties.parse_properties` reads it back."""
    name = re.sub(r"([:=#! ])", r"\\\1", key.translate(_ESCAPES))
    text = value.translate(_ESCAPES)
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
