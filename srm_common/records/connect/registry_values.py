"""The interface that Avro, JSON Schema and Protobuf share: a registry's schemas, and the values that they describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

from srm_common.domain.transforms.formats import Format, Side
from srm_common.records.connect.data.schema import Schema


class Reference(NamedTuple):
    """A schema that another one refers to by a name."""

    name: str
    text: str


class SchemaText(NamedTuple):
    """A schema as a registry stores it. ``references``: all that it refers to, directly or not, dependencies first."""

    kind: str
    text: str
    references: Sequence[Reference] = ()


class NewSchema(NamedTuple):
    """A schema that keys or values get by transforms.

    Args:
        topic: of the source.
        copy: its name at the target, for messages.
        subject: without a context.
        kind: the schema type as registries name it, such as AVRO.
        before: the id of the schema that it replaces, whose context it gets; None if there was none.
    """

    topic: str
    side: Side
    copy: str
    subject: str
    kind: str
    text: str
    before: int | None = None


class RecordSchemas(Protocol):
    """The schemas of keys and values. They are read from the source's registry, or from the target's if records already
    have its ids (``schemas.ids = map``); new ones are registered with the target's."""

    @property
    def read_from(self) -> Literal["source", "target"]:
        """Whose registry the records' schema ids belong to, for messages."""

    def schema(self, number: int, topic: str, side: Side) -> SchemaText | None:
        """The schema that keys or values of a topic of the source have with this id; None if there is none. Ids are
        those of a context of the registry, which depends on the topic.

        Raises:
            TransformFailed: the registry does not return it, or it is not known which one it is.
        """

    def subject(self, number: int, topic: str, side: Side) -> str | None:
        """A subject that has the schema with this id, for messages; None if the registry does not return one."""

    def registered(self, new: NewSchema) -> int:
        """The id of a schema in its subject at the target; registers it if it is not there.

        Raises:
            TransformFailed: the registry does not accept it; names the subject and the topic.
        """


class RegistryValues(Protocol):
    """Decodes and encodes the values of one schema of a registry; ``schema`` is its Connect schema."""

    #: The schema type as registries name it, and as messages do.
    kind: ClassVar[str]
    title: ClassVar[str]
    schema: Schema
    #: The bytes between the schema id and the value: Protobuf's message indexes, otherwise none.
    place: bytes
    #: How many parts the schema has, if that decides how much memory it takes; otherwise 0.
    parts: int

    @staticmethod
    def place_of(data: bytes) -> bytes:
        """The bytes before the value; ``data`` begins after the schema id.

        Raises:
            DataFault: they are missing or invalid.
        """

    @classmethod
    def of_text(cls, text: str, references: Sequence[Reference], format_: Format, place: bytes = b"") -> Self:
        """From the text of a schema in a registry.

        Args:
            references: as in :class:`SchemaText`.
            place: the record's bytes between id and value.

        Raises:
            DataFault: the text is not a schema of this type, or it has no equivalent in Connect.
        """

    @classmethod
    def of_schema(cls, schema: Schema, format_: Format) -> tuple[str, Self]:
        """From a Connect schema; also returns the text to register for it.

        Raises:
            DataFault: this schema type has no equivalent.
        """

    @staticmethod
    def writes_null(schema: Schema) -> bool:
        """Whether the schema encodes null; otherwise null becomes a tombstone."""

    def decode(self, data: bytes) -> Any:
        """Raises :class:`DataFault` if the bytes do not match the schema."""

    def encode(self, value: Any) -> bytes:
        """Raises :class:`DataFault` if the schema does not accept the value."""


class WithoutPlace:
    """Values that directly follow the schema id."""

    place: bytes = b""
    parts: int = 0

    @staticmethod
    def place_of(data: bytes) -> bytes:
        """No bytes precede the value."""
        return b""
