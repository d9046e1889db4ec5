"""Protobuf messages by a schema of a registry, as Confluent's ``ProtobufConverter`` reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from srm_common.domain.transforms.formats import Format, ProtobufOptions
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema
from srm_common.records.connect.protobuf.definitions import from_connect
from srm_common.records.connect.protobuf.descriptors import MessageType, linked
from srm_common.records.connect.protobuf.messages import MessageValues
from srm_common.records.connect.protobuf.schemas import to_connect
from srm_common.records.connect.protobuf.wire import varint, varint_bytes
from srm_common.records.connect.registry_values import Reference


class ProtobufValues(MessageValues):
    """Decodes and encodes the values of one message. Implements
    :class:`~srm_common.records.connect.registry_values.RegistryValues`.
    """

    kind: ClassVar[str] = "PROTOBUF"
    title: ClassVar[str] = "Protobuf"

    def __init__(self, message: MessageType, schema: Schema, options: ProtobufOptions, place: bytes) -> None:
        super().__init__(message, schema, options)
        self.place = place

    @classmethod
    def of_text(cls, text: str, references: Sequence[Reference], format_: Format, place: bytes = b"\0") -> Self:
        """Raises :class:`DataFault` if the text is not Protobuf, or has no equivalent in Connect."""
        try:
            message = linked(text, references).at(_indexes(place))
            schema = to_connect(message, format_.protobuf)
            return cls(message, schema, format_.protobuf, place)
        except RecursionError:
            raise DataFault("has a schema that is nested too deeply") from None

    @classmethod
    def of_schema(cls, schema: Schema, format_: Format) -> tuple[str, Self]:
        """Raises :class:`DataFault` if the schema has no equivalent in Protobuf."""
        definition = from_connect(schema, format_.protobuf)
        try:
            message = linked(definition.text).at(definition.indexes)
        except DataFault as error:
            raise DataFault(f"cannot be written: it {error}") from None
        return definition.text, cls(message, schema, format_.protobuf, _place(definition.indexes))

    @staticmethod
    def writes_null(schema: Schema) -> bool:
        """Null becomes a tombstone."""
        return False

    @staticmethod
    def place_of(data: bytes) -> bytes:
        """The message indexes, which precede the message (``MessageIndexes``).

        Raises:
            DataFault: there are none.
        """
        count, at = _index(data, 0)
        if count < 0:
            raise DataFault("is not Protobuf of a schema registry: it does not say which message of its schema it is")
        for _ in range(count):
            _, at = _index(data, at)
        return data[:at]


def _index(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, as in Kafka's ``ByteUtils.readVarint``, and the offset after it."""
    try:
        bits, behind = varint(data[at : at + 5], 0, min(5, len(data) - at))
    except DataFault:
        raise DataFault(
            "is not Protobuf of a schema registry: it does not say which message of its schema it is"
        ) from None
    return (bits >> 1) ^ -(bits & 1), at + behind


def _indexes(place: bytes) -> list[int]:
    count, at = _index(place, 0)
    found: list[int] = []
    for _ in range(count):
        one, at = _index(place, at)
        found.append(one)
    return found


def _place(indexes: Sequence[int]) -> bytes:
    if tuple(indexes) == (0,):
        return b"\0"
    return b"".join(varint_bytes(one << 1) for one in (len(indexes), *indexes))
