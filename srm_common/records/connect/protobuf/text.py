"""Parses the text of a ``.proto`` file, as registries store Protobuf schemas, as far as values depend on it.

The grammar is that of the Protocol Buffers language specification for proto2 and proto3. Services, extensions, groups
and most options are skipped: Confluent's ``ProtobufData`` has no place for them either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.protobuf.tokens import TokenKind, Tokens

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_LABELS = ("optional", "required", "repeated")
#: Confluent's option for properties of a Connect field that Protobuf has no place for.
FIELD_META = "confluent.field_meta"
#: How deep messages may be nested; the parsers of ``io.grpc`` and C++ have the same limit.
_DEEPEST = 100


class Constant(NamedTuple):
    """The value of an option: a word or number as it is written, or the bytes of a string."""

    written: str
    data: bytes | None = None


class TextField(NamedTuple):
    """A field as it is written. ``of`` names its type; ``key`` is that of a map's keys."""

    name: str
    number: int
    of: str
    label: str | None = None
    key: str | None = None
    oneof: int | None = None
    packed: bool | None = None
    default: Constant | None = None
    parameters: Mapping[str, str] = {}


class TextEnum(NamedTuple):
    """An enum: its symbols with their numbers, as they are written."""

    name: str
    symbols: tuple[tuple[str, int], ...]


class TextMessage(NamedTuple):
    """A message with what is defined in it."""

    name: str
    fields: tuple[TextField, ...] = ()
    oneofs: tuple[str, ...] = ()
    messages: tuple[TextMessage, ...] = ()
    enums: tuple[TextEnum, ...] = ()


class TextFile(NamedTuple):
    """A ``.proto`` file. ``public`` names its public imports, which its importers import, too; ``imports`` the rest."""

    package: str
    proto3: bool
    imports: tuple[str, ...]
    public: tuple[str, ...]
    messages: tuple[TextMessage, ...]
    enums: tuple[TextEnum, ...]


def parsed(text: str) -> TextFile:
    """Parse a ``.proto`` file.

    Raises:
        DataFault: it is not proto2 or proto3; names the line.
    """
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._depth = 0

    def file(self) -> TextFile:
        tokens = self._tokens
        package, proto3 = "", False
        imports: list[str] = []
        public: list[str] = []
        messages: list[TextMessage] = []
        enums: list[TextEnum] = []
        while tokens.next.kind is not TokenKind.END:
            match tokens.take().text:
                case ";":
                    pass
                case "syntax":
                    proto3 = self._syntax()
                case "edition":
                    raise DataFault("has a schema that uses an edition; only proto2 and proto3 are supported here")
                case "package":
                    package = tokens.name()
                    tokens.expect(";")
                case "import":
                    into = public if tokens.accept("public") else imports
                    _ = tokens.accept("weak") or tokens.accept("option")
                    into.append(_utf8(tokens.data()))
                    tokens.expect(";")
                case "option":
                    self._skip_statement()
                case "message":
                    messages.append(self._message())
                case "enum":
                    enums.append(self._enum())
                case "extend" | "service":
                    self._skip_block()
                case found:
                    tokens.refuse("a definition", found)
        return TextFile(package, proto3, tuple(imports), tuple(public), tuple(messages), tuple(enums))

    def _syntax(self) -> bool:
        self._tokens.expect("=")
        syntax = _utf8(self._tokens.data())
        self._tokens.expect(";")
        if syntax not in ("proto2", "proto3"):
            raise DataFault(f"has a schema with the syntax '{syntax[:40]}'; only proto2 and proto3 are supported here")
        return syntax == "proto3"

    def _message(self) -> TextMessage:
        return self._body(self._tokens.word())

    def _body(self, name: str) -> TextMessage:
        tokens = self._tokens
        self._depth += 1
        if self._depth > _DEEPEST:
            raise DataFault(f"has a schema whose messages are nested deeper than {_DEEPEST}")
        tokens.expect("{")
        fields: list[TextField] = []
        oneofs: list[str] = []
        messages: list[TextMessage] = []
        enums: list[TextEnum] = []
        while not tokens.accept("}"):
            if tokens.next.text == "." or tokens.next.kind is not TokenKind.WORD:
                if not tokens.accept(";"):
                    self._field(fields, None)
                continue
            match tokens.next.text:
                case "message":
                    tokens.take()
                    messages.append(self._message())
                case "enum":
                    tokens.take()
                    enums.append(self._enum())
                case "oneof":
                    tokens.take()
                    oneofs.append(tokens.word())
                    self._oneof(fields, len(oneofs) - 1)
                case "extend":
                    self._skip_block()
                case "option" | "reserved" | "extensions":
                    self._skip_statement()
                case _:
                    self._field(fields, None)
        self._depth -= 1
        return TextMessage(name, tuple(fields), tuple(oneofs), tuple(messages), tuple(enums))

    def _oneof(self, fields: list[TextField], place: int) -> None:
        tokens = self._tokens
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.next.text == "option":
                self._skip_statement()
            elif not tokens.accept(";"):
                self._field(fields, place)

    def _field(self, fields: list[TextField], oneof: int | None) -> None:
        """Add one field; a group is skipped."""
        tokens = self._tokens
        label = tokens.take().text if oneof is None and tokens.next.text in _LABELS else None
        of, key = tokens.name(), None
        if of == "group" and (label is not None or oneof is not None):
            name = tokens.word()
            tokens.expect("=")
            tokens.integer()
            self._options()
            self._body(name)
            return
        if of == "map" and tokens.accept("<"):
            key = tokens.name()
            tokens.expect(",")
            of = tokens.name()
            tokens.expect(">")
        name = tokens.word()
        tokens.expect("=")
        number = tokens.integer()
        options = self._options()
        tokens.expect(";")
        packed = options.get("packed")
        fields.append(
            TextField(
                name,
                number,
                of,
                label,
                key,
                oneof,
                packed.written == "true" if isinstance(packed, Constant) else None,
                default if isinstance(default := options.get("default"), Constant) else None,
                _parameters(options.get(FIELD_META)),
            )
        )

    def _enum(self) -> TextEnum:
        tokens = self._tokens
        name = tokens.word()
        tokens.expect("{")
        symbols: list[tuple[str, int]] = []
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            symbol = tokens.word()
            if symbol in ("option", "reserved") and tokens.next.text != "=":
                self._skip_statement()
                continue
            tokens.expect("=")
            symbols.append((symbol, tokens.integer()))
            self._options()
            tokens.expect(";")
        return TextEnum(name, tuple(symbols))

    # ---- options

    def _options(self) -> dict[str, Any]:
        """The options in brackets, by name. A part of one, such as ``(a.b).c``, is read as an option with this part."""
        tokens = self._tokens
        found: dict[str, Any] = {}
        if not tokens.accept("["):
            return found
        while True:
            name, parts = self._option_name()
            tokens.expect("=")
            value = self._value()
            for part in reversed(parts):
                value = {part: [value]}
            before = found.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                for part, values in value.items():
                    before.setdefault(part, []).extend(values)
            else:
                found[name] = value
            if tokens.accept("]"):
                return found
            tokens.expect(",")

    def _option_name(self) -> tuple[str, list[str]]:
        tokens = self._tokens
        if not tokens.accept("("):
            name, *parts = tokens.name().split(".")
            return name, parts
        name, parts = tokens.name().removeprefix("."), []
        tokens.expect(")")
        while tokens.accept("."):
            if tokens.accept("("):
                parts.append(tokens.name())
                tokens.expect(")")
            else:
                parts.append(tokens.word())
        return name, parts

    def _value(self) -> Any:
        """A constant, or the contents of braces: lists of values by name."""
        tokens = self._tokens
        if tokens.accept("{"):
            return self._aggregate("}")
        if tokens.accept("<"):
            return self._aggregate(">")
        if tokens.next.kind is TokenKind.TEXT:
            return Constant("", tokens.data())
        sign = "-" if tokens.accept("-") else ""
        if not sign:
            tokens.accept("+")
        if tokens.next.kind is TokenKind.WORD:
            return Constant(sign + tokens.name())
        if tokens.next.kind is TokenKind.NUMBER:
            return Constant(sign + tokens.take().text)
        tokens.refuse("a value")

    def _aggregate(self, end: str) -> dict[str, list[Any]]:
        """The contents of braces, in Protobuf's text format."""
        tokens = self._tokens
        self._depth += 1
        if self._depth > _DEEPEST:
            raise DataFault(f"has a schema whose options are nested deeper than {_DEEPEST}")
        found: dict[str, list[Any]] = {}
        while not tokens.accept(end):
            if tokens.accept("["):
                name = ""
                while not tokens.accept("]"):
                    name += tokens.take().text
            else:
                name = tokens.word()
            if not tokens.accept(":") and tokens.next.text not in ("{", "<"):
                tokens.refuse("':'")
            values = found.setdefault(name, [])
            if tokens.accept("["):
                while not tokens.accept("]"):
                    values.append(self._value())
                    tokens.accept(",")
            else:
                values.append(self._value())
            _ = tokens.accept(",") or tokens.accept(";")
        self._depth -= 1
        return found

    # ---- what is skipped

    def _skip_statement(self) -> None:
        """Skip to its semicolon."""
        depth = 0
        while True:
            token = self._tokens.take()
            if token.kind is not TokenKind.SIGN:
                continue
            if token.text == ";" and depth == 0:
                return
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if depth < 0:
                self._tokens.refuse("';'", token.text)

    def _skip_block(self) -> None:
        """Skip to its closing brace."""
        while not self._tokens.accept("{"):
            if self._tokens.next.text == ";" or self._tokens.next.text in _CLOSE:
                self._tokens.refuse("'{'")
            self._tokens.take()
        depth = 1
        while depth:
            token = self._tokens.take()
            if token.kind is TokenKind.SIGN:
                depth += (token.text == "{") - (token.text == "}")


def _utf8(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _parameters(meta: Any) -> Mapping[str, str]:
    """``params`` of Confluent's option: entries of key and value."""
    found: dict[str, str] = {}
    for entry in meta.get("params", ()) if isinstance(meta, dict) else ():
        if isinstance(entry, dict):
            texts = [values[-1].data for name in ("key", "value") if (values := entry.get(name))]
            if len(texts) == 2 and all(text is not None for text in texts):
                found[_utf8(texts[0])] = _utf8(texts[1])
    return found
