"""Bytes in Confluent's wire format for Avro to Connect's data and back: a zero, the schema's id, Avro's encoding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from fastavro.schema import SchemaParseException

from srm_common.domain.transforms.formats import Side
from srm_common.records.connect.avro_schemas import from_connect, parsed, to_connect
from srm_common.records.connect.avro_values import AvroValues
from srm_common.records.connect.converters import NULL, SchemaAndValue
from srm_common.records.connect.java_values import DataFault
from srm_common.records.connect.schema import Schema

_CACHED_SCHEMAS = 1000
#: What comes of properties of the wrong kind (``connect.parameters``, ``logicalType`` and more): a registry checks only
#: what is Avro's own.
_ODD = (SchemaParseException, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_HEADER = 5
Key = TypeVar("Key", bytes, Schema)


class SchemaText(NamedTuple):
    """A schema as a registry has it. ``references``: the ones that it refers to, each behind those it needs itself."""

    kind: str
    text: str
    references: Sequence[str] = ()


class RecordSchemas(Protocol):
    """The schemas of keys and values: read from the source's registry, and new ones registered at the target's."""

    def schema(self, number: int) -> SchemaText | None:
        """The schema with this id; None if there is none.

        Raises:
            TransformFailed: the registry does not tell.
        """

    def registered(self, subject: str, topic: str, schema: str) -> int:
        """The id of an Avro schema of a subject, which gets it if it has it not.

        Raises:
            TransformFailed: the registry does not take it; names the subject and the topic.
        """


class _Known(NamedTuple):
    schema: Schema
    values: AvroValues
    header: bytes


class AvroConverter:
    """Confluent's ``AvroConverter`` for the keys or values of one topic.

    Unlike it, what still has the schema that it was read with is written with that schema and its id, while it writes
    everything with what Connect's schema gives when made Avro's again, under a new id.
    """

    def __init__(self, topic: str, side: Side, schemas: RecordSchemas) -> None:
        self._topic = topic
        #: ``TopicNameStrategy``.
        self._subject = f"{topic}-{side.prefix}"
        self._schemas = schemas
        self._read: dict[bytes, _Known] = {}
        self._made: dict[Schema, _Known] = {}

    def decode(self, data: bytes | None) -> SchemaAndValue:
        """``toConnectData``.

        Raises:
            DataFault: these bytes are not Avro with a schema that the registry has.
            TransformFailed: the registry does not tell.
        """
        if data is None:
            return NULL
        if len(data) < _HEADER or data[0] != 0:
            raise DataFault("is not Avro of a schema registry: it does not begin with a zero and the id of a schema")
        header = data[:_HEADER]
        known = self._read.get(header)
        if known is None:
            known = _kept(self._read, header, self._known(header))
        return SchemaAndValue(known.schema, known.values.decode(data[_HEADER:]))

    def encode(self, schema: Schema | None, value: Any, before: bytes | None = None) -> bytes | None:
        """``fromConnectData``.

        Args:
            before: what the key or value was; if its schema is the same, so is the id.

        Raises:
            DataFault: Avro, or the schema, cannot hold the value.
            TransformFailed: the registry of the target does not take the schema.
        """
        if value is None:
            return None
        if schema is None:
            raise DataFault("cannot be written: Avro needs a schema, and there is none")
        known = None if before is None else self._read.get(before[:_HEADER])
        if known is None or known.schema != schema:
            known = self._made.get(schema)
        if known is None:
            made = from_connect(schema)
            text = json.dumps(made, ensure_ascii=False, separators=(",", ":"))
            values = AvroValues(parsed(text), schema)
            values.encode(value)  # what cannot be written registers nothing
            number = self._schemas.registered(self._subject, self._topic, text)
            known = _kept(self._made, schema, _Known(schema, values, b"\0" + number.to_bytes(4)))
        return known.header + known.values.encode(value)

    def _known(self, header: bytes) -> _Known:
        number = int.from_bytes(header[1:])
        found = self._schemas.schema(number)
        if found is None:
            raise DataFault(f"has the schema id {number}, which the registry of the source does not know")
        if found.kind != "AVRO":
            raise DataFault(f"has the schema id {number}, which is {found.kind}, not Avro")
        try:
            avro = parsed(found.text, found.references)
            schema = to_connect(avro)
            return _Known(schema, AvroValues(avro, schema), header)
        except DataFault as error:
            raise DataFault(f"{error} (schema id {number})") from None
        except _ODD as error:
            raise DataFault(f"has a schema that cannot be used here: {error!r} (schema id {number})") from error


def _kept(cache: dict[Key, _Known], key: Key, known: _Known) -> _Known:
    if len(cache) >= _CACHED_SCHEMAS:
        cache.clear()
    cache[key] = known
    return known
