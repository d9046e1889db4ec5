"""What slots ask registries for, schemas and their ids: what is wrong with one schema is told of that one alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.patterns.name_filter import NameFilter
from srm_common.domain.schemas.schemas import SubjectNaming
from srm_common.domain.transforms.formats import Side
from srm_common.errors import TransformFailed
from srm_common.records.connect.registry_values import NewSchema, Reference
from srm_common.schema_registry.record_schemas import RegistrySchemaIds, RegistrySchemas
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.schema_registry.schema_ids import MappedContexts
from srm_common.testing import LocalRegistry

COPIED = SubjectNaming(NameFilter.of("schemas.subjects", ["orders.*"], []))


@pytest.fixture
def source() -> Iterator[LocalRegistry]:
    with LocalRegistry() as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[LocalRegistry]:
    with LocalRegistry(imports=False) as registry:
        yield registry


def client(alias: str, url: str, **patience: Any) -> SchemaRegistry:
    cluster = replace(ClusterSettings.plaintext(alias, "localhost:9092"), schema_registry=RegistrySettings((url,)))
    return SchemaRegistry(cluster, timeout_seconds=30.0, **patience)


@pytest.fixture
def ids(source: LocalRegistry, target: LocalRegistry) -> RegistrySchemaIds:
    return RegistrySchemaIds(client("a", source.url), client("b", target.url), COPIED)


def test_a_schema_that_is_not_copied_stops_no_other(
    source: LocalRegistry, target: LocalRegistry, ids: RegistrySchemaIds
) -> None:
    target.register("elsewhere", '"long"')
    private = source.register("private-value", '"string"')
    orders = source.register("orders-value", '"int"')
    with pytest.raises(TransformFailed, match=rf"schema id {private} .* belongs to subject private-value"):
        ids.mapped(private, "private", Side.VALUE)
    assert target.versions("orders-value") == {}
    found = ids.mapped(orders, "orders", Side.VALUE)
    assert target.versions("orders-value") == {1: (found, False)}


def test_whose_an_id_is(source: LocalRegistry, ids: RegistrySchemaIds) -> None:
    number = source.register("orders-value", '"int"')
    assert ids.is_own(number, "orders", Side.VALUE)
    assert not ids.is_own(number, "orders", Side.KEY)
    assert not ids.is_own(number, "totals", Side.VALUE)
    assert not ids.is_own(99, "orders", Side.VALUE)
    source.fault = lambda method, path: (500, b"{}")
    with pytest.raises(TransformFailed, match=f"the subjects of schema id {number} cannot be read"):
        ids.is_own(number, "orders", Side.VALUE)


def test_an_answer_that_cannot_be_read_stops_no_other(source: LocalRegistry, ids: RegistrySchemaIds) -> None:
    one, other = source.register("orders-value", '"int"'), source.register("orders-key", '"long"')
    source.fault = lambda method, path: (200, b"{}") if path.startswith(f"/schemas/ids/{one}/") else None
    with pytest.raises(TransformFailed, match=rf"schema id {one} .* is not a schema registry"):
        ids.mapped(one, "orders", Side.VALUE)
    assert ids.mapped(other, "orders", Side.KEY) is not None


def test_a_registry_that_is_silent_is_not_asked_for_each_schema(
    source: LocalRegistry, target: LocalRegistry, ids: RegistrySchemaIds
) -> None:
    one, other = source.register("orders-value", '"int"'), source.register("orders-key", '"long"')

    def lost(method: str, path: str) -> tuple[int, bytes] | None:
        raise ConnectionError

    target.fault = lost
    for number in (one, other):
        with pytest.raises(TransformFailed, match=rf"schema id {number} .* registry of b did not respond"):
            ids.mapped(number, "orders", Side.VALUE)
    assert len({path for _, path in target.requests}) == 1


def test_references_without_a_context_are_to_that_of_the_schema(target: LocalRegistry) -> None:
    """As producers register them there. The default context has other subjects of the same names."""
    deepest, deeper = '{"type": "enum", "name": "C", "symbols": ["X"]}', '{"type": "record", "name": "B", "fields": []}'
    target.register("c", '"int"')
    target.register("b", '"long"')
    target.register(":.east:c", deepest)
    target.register(":.east:b", deeper, references=[{"name": "C", "subject": "c", "version": 1}])
    number = target.register(":.east:a", '["B"]', references=[{"name": "B", "subject": "b", "version": 1}])
    registry = client("b", target.url)
    found = RegistrySchemas(registry, registry, "east", MappedContexts("east")).schema(number, "a", Side.VALUE)
    assert found is not None
    assert found.references == (Reference("C", deepest), Reference("B", deeper))


@pytest.mark.parametrize(
    "references",
    [[5], [{"subject": "a", "version": None}], [{"subject": "a", "version": "x"}], [{"version": 1}], "abc"],
)
def test_references_that_are_none(references: Any) -> None:
    with LocalRegistry() as local:
        answer = json.dumps({"schema": '"int"', "references": references}).encode()
        local.fault = lambda method, path: (200, answer) if "/ids/1" in path and "/versions" not in path else None
        schemas = RegistrySchemas(client("e", local.url), None)
        with pytest.raises(TransformFailed, match="schema id 1 has references without subject and version"):
            schemas.schema(1, "orders", Side.VALUE)


def test_a_registry_that_did_not_respond_is_asked_again_later() -> None:
    """Otherwise each of a slot's partitions would wait for as long as the first."""
    with LocalRegistry() as local:
        number = client("e", local.url).add("s", "AVRO", '"int"')
        now = 1_000.0
        source, target = (client(alias, local.url, clock=lambda: now) for alias in ("e", "w"))
        schemas = RegistrySchemas(source, target, clock=lambda: now)
        asked: list[str] = []

        def lost(method: str, path: str) -> tuple[int, bytes]:
            asked.append(path)
            raise ConnectionError

        local.fault = lost
        times = []
        for _ in range(3):
            with pytest.raises(TransformFailed, match=f"schema id {number} cannot be read: .* did not respond"):
                schemas.schema(number, "s", Side.VALUE)
            times.append(len(asked))
        assert times[0] == times[2]
        for _ in range(3):
            with pytest.raises(TransformFailed, match="cannot be registered as t-value"):
                schemas.registered(NewSchema("t", Side.VALUE, "t", "t-value", "AVRO", '"int"'))
            times.append(len(asked))
        assert times[2] < times[3] == times[5]
        local.fault = lambda method, path: None
        now += 11
        assert schemas.schema(number, "s", Side.VALUE) is not None
        assert schemas.registered(NewSchema("t", Side.VALUE, "t", "s", "AVRO", '"int"')) == number
