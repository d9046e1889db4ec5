"""Schemas of a preview: those that its transforms would register get ids that only the preview knows.

This is a separate file because reading records requires Arrow, which commands and API routes without a preview do not
need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from srm_common.domain.transforms.chain import Chain
from srm_common.domain.transforms.formats import WITH_REGISTRY, Format, FormatKind, Side
from srm_common.errors import TransformFailed
from srm_common.records.connect.connect_records import ConnectRecords
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.registry_values import NewSchema, SchemaText
from srm_common.schema_registry.record_schemas import RegistrySchemas

#: Ids that no registry gives: they are positive numbers of Java's ``int``.
_FIRST_ID = 1 << 31


class SchemaData(NamedTuple):
    """What a key or value says that is written with a schema of a registry, as JSON; ``format`` as ``value.format``
    has it."""

    text: str
    format: str


class TrialSchemas:
    """What :class:`~srm_common.records.connect.registry_values.RecordSchemas` asks for.

    Args:
        source: of the source's registry.
        chains: by which keys and values are read.
        reads_avro: whether statements read values, too.
    """

    def __init__(self, source: RegistrySchemas, chains: Iterable[Chain], *, reads_avro: bool = False) -> None:
        self._source = source
        self.read_from = source.read_from
        self._made: dict[SchemaText, int] = {}
        self._by_id: dict[int, SchemaText] = {}
        self._formats = {**({Side.VALUE: Format(FormatKind.AVRO)} if reads_avro else {}), **_formats(chains)}
        self._silent: set[str] = set()
        self._records: dict[str, ConnectRecords] = {}

    def schema(self, number: int, topic: str, side: Side) -> SchemaText | None:
        """The schema that keys or values of a topic have with this id; None if there is none.

        Raises:
            TransformFailed: the registry does not tell.
        """
        return self._by_id.get(number) or self._source.schema(number, topic, side)

    def subject(self, number: int, topic: str, side: Side) -> str | None:
        """A subject that has the schema with this id, for sentences; None for those that only this preview knows."""
        return None if number in self._by_id else self._source.subject(number, topic, side)

    def registered(self, new: NewSchema) -> int:
        """An id that only this preview knows, the same for the same schema."""
        text = SchemaText(new.kind, new.text)
        number = self._made.setdefault(text, _FIRST_ID + len(self._made))
        self._by_id[number] = text
        return number

    def read(self, topic: str, side: Side, data: bytes) -> SchemaData | None:
        """What a key or value of a topic of the source says; None where no transform reads the side by a schema, or it
        is not what the format says. If a registry does not return a schema, it is not asked about the topic again."""
        format_ = self._formats.get(side)
        if format_ is None or topic in self._silent:
            return None
        # The names of copy and partition are for what is written.
        records = self._records.setdefault(topic, ConnectRecords("", 0, self, topic))
        try:
            return SchemaData(records.json_text(side, format_, data), format_.kind.value)
        except DataFault:
            return None
        except TransformFailed:
            self._silent.add(topic)
            return None


def _formats(chains: Iterable[Chain]) -> Mapping[Side, Format]:
    formats: dict[Side, Format] = {}
    for chain in chains:
        for fields in (step.fields for step in chain if step.fields is not None):
            for side, format_ in ((fields.side, fields.format), (Side.KEY, fields.key_format)):
                if format_ is not None and format_.kind in WITH_REGISTRY:
                    formats.setdefault(side, format_)
    return formats
