"""``.proto`` files for Connect's schemas, as ``ProtobufData.fromConnectSchema`` and ``ProtobufSchema`` write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from srm_common.domain.transforms.formats import ProtobufOptions
from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import DECIMAL, Schema, Type
from srm_common.records.connect.data.schema_within import SchemaWithin
from srm_common.records.connect.protobuf.logical import LOGICAL, LOGICAL_FILES, WRAPPED, WRAPPERS
from srm_common.records.connect.protobuf.names import NAME, map_entry, scrub_name
from srm_common.records.connect.protobuf.schemas import (
    CONNECT_TYPE,
    ENUM,
    KIND,
    META_PRECISION,
    META_SCALE,
    MOST_PARTS,
    PRECISION,
    SCALE,
    TAG,
    UNION,
    WRAPPER,
)
from srm_common.records.connect.protobuf.text import FIELD_META

_UNNAMED = "ConnectDefault"
_PRIMITIVES: Mapping[Type, str] = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_SMALL: Mapping[Type, str] = {Type.INT8: "int8", Type.INT16: "int16"}
#: The kinds of numbers that ``KIND`` may name for a Connect type, and the wrappers of the unsigned ones.
_KINDS: Mapping[Type, frozenset[str]] = {
    Type.INT32: frozenset(("sint32", "sfixed32")),
    Type.INT64: frozenset(("uint32", "uint64", "sint64", "fixed32", "fixed64", "sfixed64")),
}
_UNSIGNED: Mapping[str, str] = {
    "uint32": "UInt32Value",
    "fixed32": "UInt32Value",
    "uint64": "UInt64Value",
    "fixed64": "UInt64Value",
}
_WRAPPERS_FILE = "google/protobuf/wrappers.proto"
_LOGICAL_NAMES: Mapping[str | None, str] = {name: message for message, name in LOGICAL.items()}
#: ``google/protobuf/wrappers.proto`` as Confluent's serializer registers it for values other than structs.
_WRAPPERS_TEXT = """syntax = "proto3";
package google.protobuf;

option java_package = "com.google.protobuf";
option java_outer_classname = "WrappersProto";
option java_multiple_files = true;
option go_package = "google.golang.org/protobuf/types/known/wrapperspb";
option cc_enable_arenas = true;
option objc_class_prefix = "GPB";
option csharp_namespace = "Google.Protobuf.WellKnownTypes";

"""


@dataclass
class _Field:
    name: str
    number: int
    of: str
    label: str
    parameters: HashMap
    meta: str = FIELD_META

    def text(self) -> str:
        start = f"{self.label} " if self.label else ""
        return f"{start}{self.of} {self.name} = {self.number}{_option(self.meta, self.parameters)};\n"


@dataclass
class _Message:
    name: str
    fields: list[_Field] = field(default_factory=list)
    oneofs: dict[str, list[_Field]] = field(default_factory=dict)
    messages: dict[str, _Message] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """``ProtobufSchemaUtils.toString``."""
        blocks = ["".join(_indented(one.text()) for one in self.fields)]
        oneofs = (_block("oneof", name, (one.text() for one in fields)) for name, fields in self.oneofs.items())
        blocks.append("".join(_indented(oneof) for oneof in oneofs))
        nested = [*(one.text() for one in self.messages.values()), *self.enums.values()]
        blocks.append("".join(_indented(one) for one in nested))
        body = "".join(f"\n{block}" for block in blocks if block)
        return f"message {self.name} {{{body}}}\n"


@dataclass(frozen=True)
class Definition:
    """A ``.proto`` file, and the indexes of the message that a key or value is."""

    text: str
    indexes: tuple[int, ...]


def from_connect(schema: Schema, options: ProtobufOptions) -> Definition:
    """``fromConnectSchema``.

    Fields without a number, or with the number of another field, as after ``Flatten``, get the next free one.
    Confluent's converter counts from 1 whatever numbers the other fields have, and fails.

    Raises:
        DataFault: the schema has no equivalent in Protobuf.
    """
    if schema.type is Type.STRUCT:
        return _Writer(options).file(schema)
    name = WRAPPERS.get(schema.type)
    if name is None or schema.name in _LOGICAL_NAMES:
        raise DataFault(f"cannot be written: Protobuf has no message for {schema} as a whole value")
    names = [one.rpartition(".")[2] for one in WRAPPED]
    texts = (_Message(one, [_Field("value", 1, _wrapped_kind(one), "", HashMap())]).text() for one in names)
    return Definition(_WRAPPERS_TEXT + "".join(texts), (names.index(name),))


def _wrapped_kind(wrapper: str) -> str:
    return wrapper.removesuffix("Value").lower()


class _Writer:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._imports: dict[str, None] = {}
        self._packages: list[str] = []
        #: The names of the enclosing messages.
        self._open: list[str] = []
        self._unnamed = 0
        self._parts = 0

    def file(self, schema: Schema) -> Definition:
        package, _, name = self._named(schema.name).rpartition(".")
        package = ".".join(self._checked(part) for part in package.split(".")) if package else ""
        self._packages = package.split(".")[1:]
        message = self._message(self._checked(name), schema)
        text = 'syntax = "proto3";\n'
        if package:
            text += f"package {package};\n"
        if self._imports:
            text += "\n" + "".join(f'import "{one}";\n' for one in self._imports)
        return Definition(f"{text}\n{message.text()}", (0,))

    def _named(self, name: str | None) -> str:
        """``getNameOrDefault``."""
        if name:
            return name
        self._unnamed += 1
        return f"{_UNNAMED}{self._unnamed}"

    def _short(self, name: str | None) -> str:
        """``getUnqualifiedName``."""
        return self._checked(self._named(name).rpartition(".")[2])

    def _checked(self, name: str) -> str:
        name = scrub_name(name) if self._options.scrub_names else name
        if NAME.fullmatch(name) is None:
            raise DataFault(
                f"cannot be written: '{name[:40]}' is not a valid Protobuf name; set scrub.invalid.names of the "
                "converter"
            )
        return name

    def _message(self, name: str, schema: Schema) -> _Message:
        message = _Message(name)
        self._open.append(name)
        numbers = _Numbers(schema)
        for one in schema.fields:
            of = one.schema
            if of.type is Type.STRUCT and (of.name or "").startswith(UNION):
                oneof = self._short((of.name or "").removeprefix(f"{UNION}."))
                if oneof in message.oneofs:
                    raise DataFault(f"cannot be written: two oneofs of {name} are called {oneof}")
                message.oneofs[oneof] = [
                    self._field(message, member.name, member.schema, numbers, member=True) for member in of.fields
                ]
            else:
                message.fields.append(self._field(message, one.name, of, numbers))
        message.oneofs = {oneof: fields for oneof, fields in message.oneofs.items() if fields}
        self._open.pop()
        return message

    def _field(
        self, message: _Message, name: str, schema: Schema, numbers: _Numbers, *, member: bool = False
    ) -> _Field:
        """``fieldDefinitionFromConnectSchema``."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise DataFault(f"cannot be written: its schema has more than {MOST_PARTS} parts")
        name = self._checked(name)
        number, label = numbers.of(schema), self._label(schema, member=member)
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            schema = schema.value_schema
            if schema.type in (Type.ARRAY, Type.MAP):
                raise DataFault(f"cannot be written: {name} is a list of lists or maps, which Protobuf does not have")
        if member and label == "repeated":
            raise DataFault(f"cannot be written: {name} is a list or map in a oneof, which Protobuf does not allow")
        parameters = HashMap()
        of = self._kind(schema, name, parameters, member=member)
        if schema.type is Type.STRUCT:
            # A message with its parent's name refers to the parent (``FromConnectContext``), and a recursive one to
            # the enclosing message.
            around = self._open if isinstance(schema, SchemaWithin) else (message.name,)
            if of not in around and of not in message.messages:
                message.messages[of] = _Message(of)
                message.messages[of] = self._message(of, schema)
        elif schema.type is Type.MAP:
            if of in message.messages:
                raise DataFault(f"cannot be written: {message.name} has two maps or messages called {of}")
            message.messages[of] = self._entry(of, schema)
        elif ENUM in (schema.parameters or {}) and of not in _PRIMITIVES.values():
            message.enums.setdefault(self._short(schema.name), self._enum(schema))
        return _Field(name, number, of, label, parameters, self._imported(FIELD_META))

    def _label(self, schema: Schema, *, member: bool) -> str:
        """``getLabel``; fields of a oneof have none."""
        if schema.type in (Type.ARRAY, Type.MAP):
            return "repeated"
        return "optional" if self._options.optional_for_nullables and schema.optional and not member else ""

    def _kind(self, schema: Schema, name: str, parameters: HashMap, *, member: bool) -> str:
        """``dataTypeFromConnectSchema``; what Protobuf has no type for goes into the parameters."""
        own = schema.parameters or {}
        logical = _LOGICAL_NAMES.get(schema.name)
        if logical is not None:
            if schema.name == DECIMAL:
                # In the order of Confluent's HashMap.
                parameters.update({META_PRECISION: own[PRECISION]} if PRECISION in own else {})
                parameters.update({META_SCALE: own[SCALE]} if SCALE in own else {})
            self._imports[LOGICAL_FILES[logical]] = None
            return self._imported(logical)
        if schema.type is Type.MAP:
            return map_entry(self._short(schema.name))
        if schema.type is Type.STRUCT:
            short = self._short(schema.name)
            return f"{short}Message" if short == name else short
        if schema.type in (Type.STRING, Type.INT32) and ENUM in own:
            return self._checked(own[ENUM])
        if schema.type in _SMALL:
            parameters[CONNECT_TYPE] = _SMALL[schema.type]
        kind = own.get(KIND, "")
        if kind not in _KINDS.get(schema.type, ()):
            kind = _PRIMITIVES[schema.type]
        if self._options.wrappers_for_nullables and schema.optional and (not member or own.get(WRAPPER) == "true"):
            self._imports[_WRAPPERS_FILE] = None
            return self._imported(f"google.protobuf.{_UNSIGNED.get(kind, WRAPPERS[schema.type])}")
        return kind

    def _imported(self, name: str) -> str:
        """A name in another package, with a leading dot if it would be looked up in this one, such as com.google."""
        return f".{name}" if name.partition(".")[0] in self._packages else name

    def _entry(self, name: str, schema: Schema) -> _Message:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        entry = _Message(name)
        pairs = (("key", 1, schema.key_schema), ("value", 2, schema.value_schema))
        entry.fields = [self._field(entry, part, of, _Numbers(None, number)) for part, number, of in pairs]
        return entry

    def _enum(self, schema: Schema) -> str:
        """As Confluent's, with the symbols from the schema's parameters."""
        symbols = [
            f"{self._symbol(key.removeprefix(f'{ENUM}.'))} = {_integer(number)};\n"
            for key, number in (schema.parameters or {}).items()
            if key.startswith(f"{ENUM}.")
        ]
        return _block("enum", self._short(schema.name), symbols)

    def _symbol(self, symbol: str) -> str:
        if NAME.fullmatch(symbol) is None:
            raise DataFault(f"cannot be written: '{symbol[:40]}' is not a valid Protobuf enum symbol")
        return symbol


class _Numbers:
    """The numbers of a struct's fields: each one's own, unless it has none or an earlier field has the same.

    Args:
        schema: that of the struct.
        only: the number to use for every field.
    """

    def __init__(self, schema: Schema | None, only: int | None = None) -> None:
        self._only = only
        self._own = set() if schema is None else {number for member in _members(schema) if (number := _tag(member))}
        self._given: set[int] = set()
        self._next = 1

    def of(self, schema: Schema) -> int:
        number = self._only or _tag(schema)
        if number is None or number in self._given:
            while self._next in self._own or 19_000 <= self._next < 20_000:  # reserved by Protobuf
                self._next += 1
            number = self._next
            self._next += 1
        self._given.add(number)
        return number


def _members(schema: Schema) -> Iterable[Schema]:
    for one in schema.fields:
        if one.schema.type is Type.STRUCT and (one.schema.name or "").startswith(UNION):
            yield from (member.schema for member in one.schema.fields)
        yield one.schema


def _tag(schema: Schema) -> int | None:
    text = (schema.parameters or {}).get(TAG)
    return None if text is None else _integer(text)


def _integer(text: str) -> int:
    plain = text.removeprefix("-")
    if not (plain.isascii() and plain.isdigit() and len(plain) < 11):
        raise DataFault(f"cannot be written: '{text[:40]}' in its schema is not a valid Protobuf number")
    return int(text)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.removesuffix("\n").split("\n"))


def _block(kind: str, name: str, lines: Iterable[str]) -> str:
    body = "".join(map(_indented, lines))
    return f"{kind} {name} {{\n{body}}}\n"


def _option(name: str, parameters: HashMap) -> str:
    """``(confluent.field_meta)`` with parameters."""
    entries: list[str] = []
    for key, value in parameters.entries():
        pair = [f'key: "{key}"', f'value: "{_escaped(value)}"']
        if key in (META_PRECISION, META_SCALE):
            pair.reverse()
        entries.append(f"{{\n  {pair[0]},\n  {pair[1]}\n}}")
    if not entries:
        return ""
    listed = _indented(",\n".join(entries))
    value = _indented(f"params: [\n{listed}]")
    return f" [({name}) = {{\n{value}}}]"


def _escaped(text: str) -> str:
    """``escapeChars``."""
    return text.translate(_ESCAPES)


_ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        "'": "\\'",
        '"': '\\"',
    }
)
