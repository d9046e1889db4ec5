"""Converts Protobuf messages to Connect's values and back (``ProtobufData.toConnectData``, ``fromConnectData``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from srm_common.domain.transforms.formats import ProtobufOptions
from srm_common.records.connect.data.hash_map import HashMap
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema, Struct, Type
from srm_common.records.connect.data.schema_within import SchemaWithin
from srm_common.records.connect.protobuf.descriptors import FieldType, MessageType
from srm_common.records.connect.protobuf.logical import LOGICAL, WRAPPED, logical_part
from srm_common.records.connect.protobuf.names import scrub_name
from srm_common.records.connect.protobuf.scalars import Part, enum_part, scalar_part, taken
from srm_common.records.connect.protobuf.schemas import ENUM, MOST_PARTS, UNION, union_field
from srm_common.records.connect.protobuf.wire import MessageDecoder, Raw, field_bytes

#: The most fields, set or not, in all structs of one record: an empty message is two bytes, but may have any number.
MOST_FIELDS = 1 << 22


class _Slot(NamedTuple):
    """A struct field that is a field of the message. ``absent`` returns its value if the message does not have it."""

    place: int
    field: FieldType
    part: Part
    absent: Callable[[], Any]


class _Choice(NamedTuple):
    """A struct field that is a oneof: the schema of its own struct, and the slots of that struct."""

    place: int
    schema: Schema
    slots: list[_Slot]


class _StructPart:
    """A message as a struct."""

    def __init__(
        self,
        message: MessageType,
        schema: Schema,
        choices: Sequence[_Choice],
        slots: Sequence[_Slot],
        count: Callable[[int], None],
    ) -> None:
        self._message = message
        self._schema = schema
        self._choices = choices
        self._slots = slots
        self._count = count
        held = {slot.field.number for slot in slots}
        for field in message.fields:
            if field.required and field.number not in held:
                raise DataFault(f"cannot be written: {self._lacks(field)}")

    def read(self, raw: Raw) -> Struct:
        self._count(len(self._schema.fields))
        struct = Struct(self._schema)
        values = struct.values
        for choice in self._choices:
            for slot in choice.slots:
                found = raw.get(slot.field.number)
                if found is not None:
                    self._count(len(choice.slots))
                    union = values[choice.place] = Struct(choice.schema)
                    union.values[slot.place] = slot.part.read(found)
        for slot in self._slots:
            found = raw.get(slot.field.number)
            if found is not None:
                values[slot.place] = slot.part.read(found)
            elif slot.field.required:
                raise DataFault(self._lacks(slot.field).removeprefix("it "))
            else:
                values[slot.place] = slot.absent()
        return struct

    def write(self, value: Any) -> bytes:
        struct = taken(self._schema, value)
        fields = self._schema.fields
        found: list[tuple[int, bytes]] = []
        for choice in self._choices:
            union = struct.get(fields[choice.place].name)
            if union is not None:
                found.append(_chosen(choice, union))
        for slot in self._slots:
            one = struct.get(fields[slot.place].name)
            written = None if one is None else _written(self._message, slot, one)
            if written is not None:
                found.append((slot.field.number, written))
            elif slot.field.required:
                raise DataFault(f"cannot be written: {self._lacks(slot.field)}")
        return b"".join(data for _, data in sorted(found))

    def _lacks(self, field: FieldType) -> str:
        return f"it lacks the field {field.name}, which {self._message.full_name} requires"


class MessageValues:
    """Reads and writes the values of one message by one Connect schema. Not thread-safe.

    Raises:
        DataFault: the schema does not fit the message.
    """

    def __init__(self, message: MessageType, schema: Schema, options: ProtobufOptions) -> None:
        self.schema = schema
        self._options = options
        self._decoder = MessageDecoder(message)
        self._fields = self.parts = 0
        #: Parts of recursive messages, by the id of their schema, which lives as long as this object.
        self._known: dict[int, Part] = {}
        wraps = schema.type is not Type.STRUCT and message.full_name in WRAPPED
        self._part = self._wrapper(message, schema) if wraps else self._message(message, schema)

    def decode(self, data: bytes) -> Any:
        """Raises :class:`DataFault` if the bytes are not such a message."""
        self._fields = 0
        return self._part.read(self._decoder.decode(data))

    def encode(self, value: Any) -> bytes:
        """Raises :class:`DataFault` if the message cannot hold the value."""
        data: bytes = self._part.write(value)
        return data

    # ---- messages

    def _message(self, message: MessageType, schema: Schema) -> Part:
        if schema.type is not Type.STRUCT:
            raise DataFault(f"cannot be written: {schema} is not the schema of the message {message.full_name}")
        if isinstance(schema, SchemaWithin):
            return self._within(message, schema)
        return self._struct(message, schema)

    def _within(self, message: MessageType, schema: SchemaWithin) -> Part:
        """A message inside itself; its part is made on first use, because it contains itself."""

        def part() -> Part:
            made = self._known.get(id(schema))
            if made is None:
                made = self._known[id(schema)] = self._struct(message, schema)
            return made

        return Part(lambda raw: part().read(raw), lambda value: part().write(value))

    def _struct(self, message: MessageType, schema: Schema) -> Part:
        choices, slots = self._split(message, schema)
        part = _StructPart(message, schema, choices, slots, self._count)
        return Part(part.read, part.write)

    def _split(self, message: MessageType, schema: Schema) -> tuple[list[_Choice], list[_Slot]]:
        """The fields of a struct, split into oneofs and other fields of the message."""
        by_name = {one.name: one for one in message.fields}
        unions = {union_field(message, place, self._options): place for place in range(len(message.oneofs))}
        choices: list[_Choice] = []
        slots: list[_Slot] = []
        for one in schema.fields:
            of = one.schema
            if of.type is Type.STRUCT and (of.name or "").startswith(UNION):
                oneof = unions.get(one.name)
                members = [by_name.get(self.scrubbed(member.name)) for member in of.fields]
                if oneof is None:
                    oneof = next((member.oneof for member in members if member is not None), None)
                inner = [
                    self._slot(member.place, field, member.schema)
                    for member, field in zip(of.fields, members, strict=True)
                    if field is not None and field.oneof == oneof
                ]
                if len(inner) != len(of.fields):
                    raise DataFault(
                        f"cannot be written: {message.full_name} does not have all fields of the oneof {one.name}"
                    )
                choices.append(_Choice(one.place, of, inner))
                continue
            field = by_name.get(self.scrubbed(one.name))
            if field is None:
                raise DataFault(f"cannot be written: {message.full_name} has no field {one.name}")
            slots.append(self._slot(one.place, field, of))
        return choices, slots

    def scrubbed(self, name: str) -> str:
        """The name of a field in Protobuf."""
        return scrub_name(name) if self._options.scrub_names else name

    def _count(self, fields: int) -> None:
        self._fields += fields
        if self._fields > MOST_FIELDS:
            raise DataFault(f"has messages with more than {MOST_FIELDS} fields in total, which is not supported here")

    # ---- fields

    def _slot(self, place: int, field: FieldType, schema: Schema) -> _Slot:
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise DataFault(f"has a schema of more than {MOST_PARTS} parts")
        if schema.type is Type.MAP:
            return _Slot(place, field, self._map(field, schema), HashMap)
        if schema.type is Type.ARRAY:
            return _Slot(place, field, self._list(field, schema), list)
        if field.repeated:
            raise DataFault(f"cannot be written: the field {field.name} is repeated, but {schema} is not a list")
        part = self._one(field, schema)
        return _Slot(place, field, part, self._absent(field, part))

    def _absent(self, field: FieldType, part: Part) -> Callable[[], Any]:
        """``setStructField``: what an absent field is read as."""
        options = self._options
        if field.oneof is not None:
            return _nothing
        if field.message is not None:
            return (lambda: part.read({})) if options.structs_for_nulls else _nothing
        tells = field.present and (field.strict or options.optional_in_proto2)
        if tells and not options.structs_for_nulls:
            return _nothing
        default = part.read(field.default)
        return lambda: default

    def _list(self, field: FieldType, schema: Schema) -> Part:
        assert schema.value_schema is not None
        if not field.repeated or schema.value_schema.type in (Type.ARRAY, Type.MAP):
            raise DataFault(f"cannot be written: the field {field.name} cannot hold {schema} of lists or maps")
        one = self._one(field, schema.value_schema)

        def write(value: Any) -> list[Any] | None:
            items = taken(schema, value)
            if any(item is None for item in items):
                raise DataFault(f"cannot be written: the list {field.name} has a null, which Protobuf does not allow")
            return [one.write(item) for item in items] or None

        return Part(lambda raw: [one.read(item) for item in raw], write)

    def _map(self, field: FieldType, schema: Schema) -> Part:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        entry = field.message
        if entry is None or not field.repeated or [one.name for one in entry.fields] != ["key", "value"]:
            raise DataFault(f"cannot be written: the field {field.name} is not a map")
        slots = [
            self._slot(place, one, of)
            for place, (one, of) in enumerate(zip(entry.fields, (schema.key_schema, schema.value_schema), strict=True))
        ]
        numbers = [one.number for one in entry.fields]

        def inside(raw: Raw, slot: _Slot) -> Any:
            found = raw.get(slot.field.number)
            if found is not None:
                return slot.part.read(found)
            # An entry without its message has an empty one.
            return slot.part.read({}) if slot.field.message is not None else slot.part.read(slot.field.default)

        def read(raw: list[Raw]) -> HashMap:
            self._count(len(raw))
            try:
                return HashMap((inside(one, slots[0]), inside(one, slots[1])) for one in raw)
            except TypeError:
                raise DataFault(f"has a map {field.name} whose keys are lists or maps") from None

        def write(value: Any) -> list[bytes] | None:
            found: list[bytes] = []
            for pair in taken(schema, value).entries():
                parts: list[tuple[int, bytes]] = []
                for slot, number, one in zip(slots, numbers, pair, strict=True):
                    # Zeros are written here, too, as by generated code.
                    raw = None if one is None else slot.part.write(one)
                    if raw is not None:
                        parts.append((number, field_bytes(slot.field, raw)))
                found.append(b"".join(data for _, data in sorted(parts)))
            return found or None

        return Part(read, write)

    def _one(self, field: FieldType, schema: Schema) -> Part:
        """One of the field's values."""
        message = field.message
        if message is not None:
            logical = LOGICAL.get(message.full_name)
            if logical is not None and schema.name == logical:
                return Part(*logical_part(message, logical))
            if message.full_name in WRAPPED and schema.type is not Type.STRUCT:
                return self._wrapper(message, schema)
            return self._message(message, schema)
        if field.enum is not None and ENUM in (schema.parameters or {}):
            return enum_part(field, field.enum, schema)
        return scalar_part(field, schema)

    def _wrapper(self, message: MessageType, schema: Schema) -> Part:
        """A message with one field, ``value``, as what it wraps."""
        field = next((one for one in message.fields if one.name == "value"), None)
        if field is None or field.repeated or field.message is not None:
            raise DataFault(f"has a schema whose {message.full_name} is not the one that Protobuf defines")
        part = scalar_part(field, schema)
        slot = _Slot(0, field, part, _nothing)
        number, default = field.number, part.read(field.default)

        def read(raw: Raw) -> Any:
            return part.read(raw[number]) if number in raw else default

        return Part(read, lambda value: _written(message, slot, value) or b"")


def _nothing() -> None:
    return None


def _written(message: MessageType, slot: _Slot, value: Any) -> bytes | None:
    """A field with its value; None if proto3 leaves it out."""
    field = slot.field
    raw = slot.part.write(value)
    if raw is None:
        return None
    implicit = message.proto3 and not (field.present or field.repeated or field.message is not None)
    if implicit and field.oneof is None and not raw and not (isinstance(raw, float) and math.copysign(1, raw) < 0):
        return None
    return field_bytes(field, raw)


def _chosen(choice: _Choice, union: Any) -> tuple[int, bytes]:
    """The first field of a oneof that has a value."""
    struct = taken(choice.schema, union)
    for slot in choice.slots:
        value = struct.get(choice.schema.fields[slot.place].name)
        raw = None if value is None else slot.part.write(value)
        if raw is not None:
            return slot.field.number, field_bytes(slot.field, raw)
    raise DataFault(f"cannot be written: no field of the oneof {choice.schema.name} has a value")
