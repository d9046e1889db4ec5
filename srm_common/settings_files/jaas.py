"""``sasl.jaas.config``: one login module, a control flag, and options (javax.security.auth.login.Configuration)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';=]+)|([;=]))""")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """``name`` is the class without its package. ``repr`` hides the options."""

    name: str
    options: dict[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Raises ``ValueError`` with a reason that quotes nothing of the text, as it holds passwords."""
    tokens: list[tuple[str, bool]] = []  # (text, quoted)
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"cannot be read at position {position + 1}: a quote is not closed")
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is not None:
            tokens.append((_ESCAPED.sub(r"\1", quoted), True))
        else:
            tokens.append((match[3] or match[4], False))
        position = match.end()
    if not tokens or tokens[-1] != (";", False):
        raise ValueError("must end with a semicolon")
    tokens.pop()
    if (";", False) in tokens:
        raise ValueError("must hold one login module")
    if len(tokens) < 2 or tokens[1][0].lower() not in ("required", "requisite", "sufficient", "optional"):
        raise ValueError("must read 'LoginModuleClass required option=\"value\" ...;'")
    options: dict[str, str] = {}
    rest = tokens[2:]
    if len(rest) % 3:
        raise ValueError('has an option that is not written name="value"')
    for index in range(0, len(rest), 3):
        name, equals, value = rest[index : index + 3]
        if equals != ("=", False):
            raise ValueError('has an option that is not written name="value"')
        options[name[0]] = value[0]
    return LoginModule(tokens[0][0].rpartition(".")[2], options)
