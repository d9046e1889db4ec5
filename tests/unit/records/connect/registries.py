"""Records in Confluent's wire format between two local registries, and what reads, writes and changes them."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.transforms.chain import Chain, parse_chain
from srm_common.domain.transforms.formats import Format, FormatKind, Side
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.data.schema import Schema
from srm_common.records.connect.registry_converter import RegistryConverter
from srm_common.records.connect.registry_values import NewSchema, SchemaText
from srm_common.records.transform import Transform
from srm_common.schema_registry.record_schemas import RegistrySchemas
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.testing import LocalRegistry

AVRO, JSON_SCHEMA, PROTOBUF = map(Format, (FormatKind.AVRO, FormatKind.JSON_SCHEMA, FormatKind.PROTOBUF))


class OneSchema:
    """A registry with one schema, which takes all others."""

    read_from: Literal["source", "target"] = "source"

    def __init__(self, kind: str, text: str) -> None:
        self._schema = SchemaText(kind, text)

    def schema(self, number: int, topic: str, side: Side) -> SchemaText:
        return self._schema

    def subject(self, number: int, topic: str, side: Side) -> str | None:
        return None

    def registered(self, new: NewSchema) -> int:
        return 2


def registry_of(local: LocalRegistry, alias: str) -> SchemaRegistry:
    cluster = ClusterSettings(alias, "", {}, {}, schema_registry=RegistrySettings((local.url,)))
    return SchemaRegistry(cluster, timeout_seconds=30)


def schemas_of(source: LocalRegistry, target: LocalRegistry) -> RegistrySchemas:
    return RegistrySchemas(registry_of(source, "e"), registry_of(target, "w"))


def converter(of: Format, source: LocalRegistry, target: LocalRegistry) -> RegistryConverter:
    return RegistryConverter("west.orders", Side.VALUE, of, schemas_of(source, target), "orders")


def framed(number: int, data: bytes) -> bytes:
    """With the id of its schema."""
    return b"\0" + number.to_bytes(4) + data


def chain_of(values: Format, **settings: str) -> Chain:
    """One of Kafka's transforms."""
    steps = {f"transforms.s.{key.replace('_', '.')}": value for key, value in settings.items()}
    steps["transforms.s.type"] = f"org.apache.kafka.connect.transforms.{steps['transforms.s.type']}"
    return parse_chain({"transforms": "s", "value.format": values.kind.value, **steps})


def changed_in_two_partitions(
    values: Format, batch: pa.RecordBatch, schemas: RegistrySchemas, **settings: str
) -> bytes:
    """What one of Kafka's transforms makes of a batch of equal records, the same in both partitions of the copy."""
    made: set[bytes] = set()
    for partition in range(2):
        transform = Transform(chain_of(values, **settings), "west.orders", partition=partition, schemas=schemas)
        left, faults = transform.apply(batch)
        assert faults == []
        assert left.num_rows == batch.num_rows
        made |= set(left.column("value").to_pylist())
    (value,) = made
    return value


def attempt(of: RegistryConverter, schema: Schema | None, value: Any) -> bytes | None:
    """What is written by a new schema; None if the fault says that it cannot be."""
    try:
        return of.encode(schema, value)
    except DataFault as error:
        if not str(error).startswith("cannot be written"):
            raise
        return None
