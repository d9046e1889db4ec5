"""What a registry's kinds of schemas have in common: schemas as it has them, and values by one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

from srm_common.domain.transforms.formats import Format
from srm_common.records.connect.data.schema import Schema


class Reference(NamedTuple):
    """A schema that another one refers to by a name."""

    name: str
    text: str


class SchemaText(NamedTuple):
    """A schema as a registry has it. ``references``: the ones that it refers to, each behind those it needs itself."""

    kind: str
    text: str
    references: Sequence[Reference] = ()


class RecordSchemas(Protocol):
    """The schemas of keys and values: read from the source's registry, or from the target's where records have its ids
    already (``schemas.ids = map``), and new ones registered at the target's."""

    @property
    def read_from(self) -> Literal["source", "target"]:
        """Whose registry the ids of records belong to, for sentences."""

    def schema(self, number: int) -> SchemaText | None:
        """The schema with this id; None if there is none.

        Raises:
            TransformFailed: the registry does not return it.
        """

    def subject(self, number: int) -> str | None:
        """A subject that has the schema with this id, for messages; None if the registry does not return one."""

    def registered(self, subject: str, topic: str, kind: str, schema: str) -> int:
        """The id of a subject's schema of a kind, such as AVRO; registered if it is not there.

        Raises:
            TransformFailed: the registry does not accept it; names the subject and the topic.
        """


class RegistryValues(Protocol):
    """Values of one schema of a registry, and its Connect schema."""

    #: The registry's word for such schemas, and the one for sentences.
    kind: ClassVar[str]
    title: ClassVar[str]
    schema: Schema
    #: What stands between the id and the value: for Protobuf, which message of the schema it is.
    place: bytes
    #: How many parts the schema has, where its memory grows with them.
    parts: int

    @staticmethod
    def place_of(data: bytes) -> bytes:
        """What stands before the value in what follows the id.

        Raises:
            DataFault: it does not begin with that.
        """

    @classmethod
    def of_text(cls, text: str, references: Sequence[Reference], format_: Format, place: bytes = b"") -> Self:
        """By a schema of a registry.

        Args:
            references: the schemas that it refers to.
            place: as of the record.

        Raises:
            DataFault: it is none of this kind, or Connect has no such schema.
        """

    @classmethod
    def of_schema(cls, schema: Schema, format_: Format) -> tuple[str, Self]:
        """By a schema of Connect, with the text to register for it.

        Raises:
            DataFault: the kind has no such schema.
        """

    @staticmethod
    def writes_null(schema: Schema) -> bool:
        """Whether null is written by the schema; otherwise it is a tombstone."""

    def decode(self, data: bytes) -> Any:
        """Raises :class:`DataFault` if the bytes are not of this schema."""

    def encode(self, value: Any) -> bytes:
        """Raises :class:`DataFault` if the schema does not take the value."""


class WithoutPlace:
    """Values that follow the id."""

    place: bytes = b""
    parts: int = 0

    @staticmethod
    def place_of(data: bytes) -> bytes:
        """Nothing stands before the value."""
        return b""
