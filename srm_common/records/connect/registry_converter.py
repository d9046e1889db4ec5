"""Converts Confluent's wire format (a zero byte, the id of a schema, the value) to Connect's data and back."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from srm_common.domain.transforms.formats import SCHEMA_ID_BYTES, Format, FormatKind, Side
from srm_common.records.connect.converters import NULL, SchemaAndValue
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema
from srm_common.records.connect.registry_values import NewSchema, RecordSchemas, RegistryValues

_CACHED_SCHEMAS = 1000
#: The most parts that schemas in one of the two caches have together; Protobuf's take some 2.5 KB each.
_CACHED_PARTS = 50_000
Key = TypeVar("Key", bytes, tuple[Schema, int | None])
Kept = TypeVar("Kept")


def values_of(kind: FormatKind) -> type[RegistryValues]:
    """The class that reads and writes the values of a format.

    Raises:
        ImportError: it needs a package that is not installed.
    """
    # Only Avro needs fastavro.
    if kind is FormatKind.AVRO:
        from srm_common.records.connect.avro.values import AvroValues

        return AvroValues
    if kind is FormatKind.PROTOBUF:
        from srm_common.records.connect.protobuf.values import ProtobufValues

        return ProtobufValues
    from srm_common.records.connect.json_schema.converter import JsonSchemaValues

    return JsonSchemaValues


class _Known(NamedTuple):
    values: RegistryValues
    header: bytes


class RegistryConverter:
    """Confluent's ``AvroConverter``, ``JsonSchemaConverter`` or ``ProtobufConverter`` for one topic's keys or values.

    Unlike them, it writes data whose schema has not changed with the registry's schema that it was read with, under the
    same id. They always derive a schema from the Connect schema, which gets a new id.

    Args:
        topic: the copy's name.
        upstream: its name at the source.
    """

    def __init__(
        self, topic: str, side: Side, format_: Format, schemas: RecordSchemas, upstream: str | None = None
    ) -> None:
        self._topic = topic
        self._upstream = topic if upstream is None else upstream
        self._side = side
        self._format = format_
        self._values = values_of(format_.kind)
        #: ``TopicNameStrategy``.
        self._subject = f"{topic}-{side.prefix}"
        self._schemas = schemas
        self._read: dict[bytes, _Known] = {}
        #: By what the key or value began with before, whose context a new schema gets.
        self._made: dict[tuple[Schema, int | None], _Known] = {}
        #: Why schemas cannot be used, by the bytes that precede their values.
        self._unusable: dict[bytes, str] = {}

    def decode(self, data: bytes | None) -> SchemaAndValue:
        """``toConnectData``.

        Raises:
            DataFault: the bytes do not match a schema that the registry has.
            TransformFailed: the registry does not return the schema.
        """
        if data is None:
            return NULL
        if len(data) < SCHEMA_ID_BYTES or data[0] != 0:
            title = self._values.title
            raise DataFault(f"is not {title} of a schema registry: it does not begin with a zero byte and a schema id")
        header = self._header(data)
        known = self._read.get(header)
        if known is None:
            known = _kept_known(self._read, header, self._known(header))
        return SchemaAndValue(known.values.schema, known.values.decode(data[len(header) :]))

    def encode(self, schema: Schema | None, value: Any, before: bytes | None = None) -> bytes | None:
        """``fromConnectData``.

        Args:
            before: the bytes that the key or value was read from; an unchanged schema keeps its id.

        Raises:
            DataFault: the schema does not accept the value, or has no equivalent in the registry's schema type.
            TransformFailed: the target's registry does not accept the schema.
        """
        if schema is None:
            if value is None:
                return None
            raise DataFault(f"cannot be written: {self._values.title} needs a schema, but there is none")
        if value is None and not self._values.writes_null(schema):
            return None
        read = None if before is None else self._known_before(before)
        if read is not None and read.values.schema == schema:
            return read.header + read.values.encode(value)
        old = None if read is None else int.from_bytes(read.header[1:SCHEMA_ID_BYTES])
        known = self._made.get((schema, old))
        if known is None:
            text, values = self._values.of_schema(schema, self._format)
            values.encode(value)  # raises before anything is registered
            new = NewSchema(self._upstream, self._side, self._topic, self._subject, self._values.kind, text, old)
            number = self._schemas.registered(new)
            known = _kept_known(self._made, (schema, old), _Known(values, b"\0" + number.to_bytes(4) + values.place))
        return known.header + known.values.encode(value)

    def _header(self, data: bytes) -> bytes:
        return data[:SCHEMA_ID_BYTES] + self._values.place_of(data[SCHEMA_ID_BYTES:])

    def _known_before(self, data: bytes) -> _Known | None:
        """The schema that these bytes were read with; None if they were not read, and may be anything."""
        try:
            return self._read.get(self._header(data))
        except DataFault:
            return None

    def _subject_of(self, number: int, before: str = " (", behind: str = ")") -> str:
        subject = self._schemas.subject(number, self._upstream, self._side)
        return "" if subject is None else f"{before}subject {subject}{behind}"

    def _known(self, header: bytes) -> _Known:
        whole = header[:SCHEMA_ID_BYTES]
        fault = self._unusable.get(header) or self._unusable.get(whole)
        if fault is not None:
            raise DataFault(fault)
        number = int.from_bytes(header[1:SCHEMA_ID_BYTES])
        text = self._schemas.schema(number, self._upstream, self._side)
        if text is None:
            asked = self._schemas.read_from
            raise DataFault(f"has the schema id {number}, which the registry of the {asked} does not know")
        if text.kind != self._values.kind:
            title = self._values.title
            # Whatever follows the id: no part of such a schema can be used.
            fault = f"has the schema id {number}, which is {text.kind}, not {title}{self._subject_of(number)}"
            raise DataFault(_kept(self._unusable, whole, fault))
        try:
            values = self._values.of_text(text.text, text.references, self._format, header[SCHEMA_ID_BYTES:])
        except DataFault as error:
            fault = _kept(self._unusable, header, f"{error} (schema id {number}{self._subject_of(number, ', ', '')})")
            raise DataFault(fault) from None
        return _Known(values, header)


def _kept(cache: dict[Key, Kept], key: Key, one: Kept) -> Kept:
    if len(cache) >= _CACHED_SCHEMAS:
        cache.clear()
    cache[key] = one
    return one


def _kept_known(cache: dict[Key, _Known], key: Key, known: _Known) -> _Known:
    if known.values.parts + sum(one.values.parts for one in cache.values()) > _CACHED_PARTS:
        cache.clear()
    return _kept(cache, key, known)
