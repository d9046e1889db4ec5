"""Messages and enums of a ``.proto`` file with their types resolved, as ``ProtobufSchema`` and protobuf's
``Descriptors`` do: names are looked up from the innermost scope outwards, maps are messages of key and value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from srm_common.records.connect.data.java_values import DataFault, Float32, to_float, wrapped
from srm_common.records.connect.protobuf.names import ENTRY, NAME, map_entry
from srm_common.records.connect.protobuf.text import Constant, TextEnum, TextField, TextFile, TextMessage, parsed
from srm_common.records.connect.protobuf.tokens import parse_integer
from srm_common.records.connect.protobuf.types import known_text
from srm_common.records.connect.registry_values import Reference

#: Scalar types, with the value of an absent field.
SCALARS: Mapping[str, Any] = {
    "double": 0.0,
    "float": Float32(0),
    "int32": 0,
    "int64": 0,
    "uint32": 0,
    "uint64": 0,
    "sint32": 0,
    "sint64": 0,
    "fixed32": 0,
    "fixed64": 0,
    "sfixed32": 0,
    "sfixed64": 0,
    "bool": False,
    "string": "",
    "bytes": b"",
}
#: Kinds of repeated fields that are never packed, because each value has its own length.
_SIZED = ("string", "bytes", "message")
_MAP_KEYS = frozenset(SCALARS) - {"double", "float", "bytes"}
_MOST_NUMBER = (1 << 29) - 1
#: Each type is looked up in all scopes of its name, in time that grows with the square of the name's length.
_MOST_NAME = 1000
_FLOAT = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?", re.ASCII)


@dataclass(eq=False)
class EnumType:
    """An enum. ``symbols``: the first one of each number; ``first``: the number of the first symbol."""

    name: str
    full_name: str
    proto3: bool
    numbers: Mapping[str, int]
    symbols: Mapping[int, str]
    first: int


@dataclass(eq=False)
class FieldType:
    """A field of a message.

    Args:
        kind: a name in ``SCALARS``, ``message`` or ``enum``.
        present: its label gives it explicit presence (``hasOptionalKeyword``).
        default: the value of an absent field, unsigned ones of 64 bits as Java's ``long``; None for messages and
            repeated fields.
        closed: numbers without a symbol are not values of the enum.
        strict: strings have to be UTF-8.
    """

    name: str
    number: int
    kind: str
    repeated: bool
    required: bool
    present: bool
    packed: bool
    oneof: int | None
    default: Any
    strict: bool
    parameters: Mapping[str, str]
    message: MessageType | None = None
    enum: EnumType | None = None
    closed: bool = False


@dataclass(eq=False)
class MessageType:
    """A message; ``fields`` in the order of Java's descriptor: those of oneofs first."""

    name: str
    full_name: str
    proto3: bool
    oneofs: tuple[str, ...]
    fields: list[FieldType] = field(default_factory=list)
    nested: list[MessageType] = field(default_factory=list)

    @property
    def is_map_entry(self) -> bool:
        """Whether a list of these is a map (``isMapDescriptor``)."""
        return (
            self.name.endswith(ENTRY)
            and [one.name for one in self.fields] == ["key", "value"]
            and not any(one.repeated for one in self.fields)
        )


@dataclass(eq=False)
class Linked:
    """The messages of a file, in its order."""

    messages: Sequence[MessageType]

    def at(self, indexes: Sequence[int]) -> MessageType:
        """The message with these indexes, as in Confluent's wire format (``toMessageName``).

        Raises:
            DataFault: there is none.
        """
        among: Sequence[MessageType] = self.messages
        found: MessageType | None = None
        for index in indexes or (0,):
            if not 0 <= index < len(among):
                raise DataFault("has a schema without the message that the record's message indexes name")
            found = among[index]
            among = found.nested
        assert found is not None
        return found


def linked(text: str, references: Sequence[Reference] = ()) -> Linked:
    """Parse a schema of a registry and resolve its types.

    Args:
        references: the files that it imports, and those that these import.

    Raises:
        DataFault: the text is not Protobuf, or refers to something undefined.
    """
    return _Linker(text, {reference.name: reference.text for reference in references}).link()


class _Linker:
    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._references = references
        self._types: dict[str, MessageType | EnumType] = {}
        self._names: set[str] = set()
        self._pending: list[tuple[MessageType, TextMessage]] = []
        self._file = parsed(text)

    def link(self) -> Linked:
        files = [self._file]
        seen: set[str] = set()
        wanted = [*self._file.imports, *self._file.public]
        while wanted:
            name = wanted.pop()
            text = self._references.get(name, known_text(name))
            # Unknown imports are ignored, as by Confluent: they may define options only.
            if name in seen or text is None:
                continue
            seen.add(name)
            files.append(parsed(text))
            wanted += [*files[-1].imports, *files[-1].public]
        made = [self._defined(file) for file in files]
        for message, written in self._pending:
            self._fill(message, written)
        found = made[0]
        if not found and len(self._file.public) == 1 and not self._file.imports and len(made) > 1:
            found = made[1]  # a file that only imports another one stands for it (resolvePublicImportWrapper)
        return Linked(found)

    # ---- names

    def _defined(self, file: TextFile) -> list[MessageType]:
        for enum in file.enums:
            self._enum(file.package, enum, file.proto3)
        return [self._message(file.package, message, file.proto3) for message in file.messages]

    def _new(self, scope: str, name: str) -> str:
        full = f"{scope}.{name}" if scope else name
        if len(full) > _MOST_NAME:
            raise DataFault(f"has a schema with a name of more than {_MOST_NAME} characters")
        if full in self._names:
            raise DataFault(f"has a schema that defines {full} twice")
        if NAME.fullmatch(name) is None:
            raise DataFault(f"has a schema with '{name[:40]}', which is not a valid Protobuf name")
        self._names.add(full)
        return full

    def _message(self, scope: str, written: TextMessage, proto3: bool) -> MessageType:
        full = self._new(scope, written.name)
        message = MessageType(written.name, full, proto3, written.oneofs)
        self._types[full] = message
        for enum in written.enums:
            self._enum(full, enum, proto3)
        message.nested = [self._message(full, text_message, proto3) for text_message in written.messages]
        for name in (*written.oneofs, *(text_field.name for text_field in written.fields)):
            self._new(full, name)
        self._pending.append((message, written))
        return message

    def _enum(self, scope: str, written: TextEnum, proto3: bool) -> None:
        full = self._new(scope, written.name)
        if not written.symbols:
            raise DataFault(f"has a schema whose enum {full} has no symbols")
        symbols: dict[int, str] = {}
        for symbol, number in written.symbols:
            self._new(scope, symbol)  # symbols belong to the scope around their enum
            if not -(1 << 31) <= number < 1 << 31:
                raise DataFault(f"has a schema whose enum {full} has a number of more than 32 bits")
            symbols.setdefault(number, symbol)
        numbers = dict(written.symbols)
        self._types[full] = EnumType(written.name, full, proto3, numbers, symbols, written.symbols[0][1])

    def _scopes(self, full: str) -> Iterator[str]:
        while full:
            yield f"{full}."
            full = full.rpartition(".")[0]
        yield ""

    def _find(self, scope: str, name: str) -> MessageType | EnumType | None:
        if name.startswith("."):
            return self._types.get(name[1:])
        return next((found for one in self._scopes(scope) if (found := self._types.get(one + name)) is not None), None)

    # ---- fields

    def _fill(self, message: MessageType, written: TextMessage) -> None:
        numbers: set[int] = set()
        for text_field in sorted(written.fields, key=lambda one: (one.oneof is None, one.oneof or 0)):
            where = f"{message.full_name}.{text_field.name}"
            if not 0 < text_field.number <= _MOST_NUMBER:
                raise DataFault(f"has a schema whose field {where} has the number {text_field.number}")
            if text_field.number in numbers:
                raise DataFault(
                    f"has a schema whose message {message.full_name} has the number {text_field.number} twice"
                )
            numbers.add(text_field.number)
            if message.proto3 and text_field.label == "required":
                raise DataFault(f"has a schema whose field {where} is required, which proto3 does not allow")
            found = (
                self._field(message, text_field, where)
                if text_field.key is None
                else self._map(message, text_field, where)
            )
            message.fields.append(found)

    def _map(self, message: MessageType, written: TextField, where: str) -> FieldType:
        assert written.key is not None
        if written.key not in _MAP_KEYS or written.label is not None or written.oneof is not None:
            raise DataFault(f"has a schema whose map {where} is not valid in Protobuf")
        name = map_entry(written.name)
        entry = MessageType(name, self._new(message.full_name, name), message.proto3, ())
        # The value's type is looked up in the scope of the map's message, where the entry is defined.
        pairs = (TextField("key", 1, written.key), TextField("value", 2, written.of))
        entry.fields = [self._field(entry, pair, where) for pair in pairs]
        message.nested.append(entry)
        return FieldType(
            written.name, written.number, "message", True, False, False, False, None, None, False, {}, message=entry
        )

    def _field(self, message: MessageType, written: TextField, where: str) -> FieldType:
        proto3 = message.proto3
        repeated = written.label == "repeated"
        kind, of = written.of, None
        if kind not in SCALARS:
            of = self._find(message.full_name, kind)
            if of is None:
                raise DataFault(
                    f"has a schema whose field {where} is of {kind[:80]}, which is neither defined nor imported"
                )
            kind = "message" if isinstance(of, MessageType) else "enum"
        enum = of if isinstance(of, EnumType) else None
        default = None if repeated or kind == "message" else enum.first if enum is not None else SCALARS[kind]
        if written.default is not None:
            if proto3 or default is None:
                raise DataFault(f"has a schema whose field {where} has a default, which it cannot have")
            default = _default(kind, enum, written.default, where)
        return FieldType(
            written.name,
            written.number,
            kind,
            repeated,
            written.label == "required",
            written.oneof is None and (written.label == "optional" or (written.label is None and not proto3)),
            repeated and kind not in _SIZED and (proto3 if written.packed is None else written.packed),
            written.oneof,
            default,
            proto3,
            written.parameters,
            message=of if isinstance(of, MessageType) else None,
            enum=enum,
            closed=enum is not None and not (enum.proto3 and proto3),
        )


def _default(kind: str, enum: EnumType | None, constant: Constant, where: str) -> Any:
    """A default of proto2.

    Raises:
        DataFault: it does not fit the field's type.
    """
    written, data = constant.written, constant.data
    if enum is not None:
        if written in enum.numbers:
            return enum.numbers[written]
    elif kind == "bytes" and data is not None:
        return data
    elif kind == "string" and data is not None:
        return data.decode("utf-8", "replace")
    elif kind == "bool" and written in ("true", "false"):
        return written == "true"
    elif kind in ("double", "float"):
        number = _decimal(written)
        if number is not None:
            return to_float(number) if kind == "float" else number
    elif data is None and kind not in ("bytes", "string", "bool"):
        whole = parse_integer(written.removeprefix("-"))
        bits = 64 if kind.endswith("64") else 32
        if whole is not None:
            whole = -whole if written.startswith("-") else whole
            low, high = (0, 1 << bits) if kind[0] in "uf" else (-(1 << bits - 1), 1 << bits - 1)
            if low <= whole < high:
                return wrapped(whole, 64) if bits == 64 else whole
    raise DataFault(f"has a schema whose field {where} has a default that is not of type {kind}")


def _decimal(written: str) -> float | None:
    plain = written.removeprefix("-")
    if plain in ("inf", "nan"):
        return math.copysign(float(plain), -1 if written.startswith("-") else 1)
    whole = parse_integer(plain)
    if whole is not None:
        try:
            return float(-whole if written.startswith("-") else whole)
        except OverflowError:
            return None
    return float(written.rstrip("fF")) if _FLOAT.fullmatch(written) else None
