"""The words, numbers, strings and signs of a ``.proto`` file, one at a time.

By the lexical rules of the Protocol Buffers language specification, which are the same for proto2 and proto3.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple, NoReturn

from srm_common.records.connect.data.java_values import DataFault

_TOKEN = re.compile(
    r"(?P<space>(?:[\s\0]+|//[^\n]*|/\*.*?\*/)+)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<sign>/(?!\*)|[^\s\w\"'/])",
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SHORT = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
#: The most that Java's and C++'s lexers accept in a number.
_MOST_DIGITS = 400


class TokenKind(Enum):
    """The kind of a token; ``END`` follows the last one."""

    WORD = "word"
    NUMBER = "number"
    TEXT = "text"
    SIGN = "sign"
    END = "end"


class Token(NamedTuple):
    """A token as it is written."""

    kind: TokenKind
    text: str


_END = Token(TokenKind.END, "")


class Tokens:
    """The tokens of a file. Reads only one token ahead, so that a long file takes no more memory than its text."""

    def __init__(self, text: str) -> None:
        self._text = text.removeprefix("\ufeff")
        self._at = 0
        self.next = self._read()

    def take(self) -> Token:
        """Consume and return the next token."""
        token = self.next
        if token.kind is TokenKind.END:
            self.refuse()
        self.next = self._read()
        return token

    def accept(self, text: str) -> bool:
        """Whether the next token is this word or sign; if so, it is consumed."""
        if self.next.text != text or self.next.kind is TokenKind.TEXT:
            return False
        self.next = self._read()
        return True

    def expect(self, text: str) -> None:
        """Raises :class:`DataFault` if the next token is not this word or sign."""
        if not self.accept(text):
            self.refuse(f"'{text}'")

    def word(self) -> str:
        """Raises :class:`DataFault` if the next token is not a word."""
        return self._of(TokenKind.WORD, "a name")

    def name(self) -> str:
        """A name with dots, which may begin with one.

        Raises:
            DataFault: there is none.
        """
        parts = ["." if self.accept(".") else "", self.word()]
        while self.accept("."):
            parts += [".", self.word()]
        return "".join(parts)

    def data(self) -> bytes:
        """The bytes of one or more adjacent strings.

        Raises:
            DataFault: there is none, or it has an invalid escape.
        """
        parts = [self._unescaped(self._of(TokenKind.TEXT, "a string"))]
        while self.next.kind is TokenKind.TEXT:
            parts.append(self._unescaped(self.take().text))
        return b"".join(parts)

    def integer(self) -> int:
        """A decimal, octal or hexadecimal integer, with or without a minus sign.

        Raises:
            DataFault: there is none.
        """
        sign = -1 if self.accept("-") else 1
        text = self._of(TokenKind.NUMBER, "an integer")
        number = parse_integer(text)
        if number is None:
            self.refuse("an integer", text)
        return sign * number

    def refuse(self, wanted: str = "", found: str | None = None) -> NoReturn:
        """Raises :class:`DataFault` that names the line and what is there."""
        line = self._text.count("\n", 0, self._at) + 1
        found = self.next.text if found is None else found
        there = f"'{found[:40]}'" if found else "the end of the text"
        raise DataFault(
            f"has a schema that is not Protobuf: {there} in line {line}" + (f" instead of {wanted}" if wanted else "")
        )

    def _of(self, kind: TokenKind, wanted: str) -> str:
        if self.next.kind is not kind:
            self.refuse(wanted)
        return self.take().text

    def _read(self) -> Token:
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None:
                self.refuse("Protobuf", self._text[self._at : self._at + 10])
            self._at = found.end()
            kind = found.lastgroup
            assert kind is not None
            if kind != "space":
                return Token(TokenKind(kind), found.group())
        return _END

    def _unescaped(self, written: str) -> bytes:
        def replace(found: re.Match[bytes]) -> bytes:
            octal, hexadecimal, short, long, other = found.groups()
            if octal is not None:
                return bytes([int(octal, 8) & 0xFF])
            if hexadecimal is not None:
                return bytes([int(hexadecimal, 16)])
            if other is not None:
                return _SHORT.get(other, other)
            try:
                return chr(int(short or long, 16)).encode("utf-8", "surrogatepass")
            except (ValueError, OverflowError):
                self.refuse("a character", found.group().decode("ascii", "replace"))

        return _ESCAPE.sub(replace, written[1:-1].encode("utf-8", "surrogatepass"))


def parse_integer(text: str) -> int | None:
    """A decimal, octal or hexadecimal integer without a sign; None for every other number."""
    if len(text) > _MOST_DIGITS:
        return None
    try:
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text, 8) if len(text) > 1 and text[0] == "0" else int(text)
    except ValueError:
        return None
