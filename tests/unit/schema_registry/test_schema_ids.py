"""Registries of several nodes: one that is not the leader knows of a change a little later than it answers it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.patterns.name_filter import NameFilter
from srm_common.domain.schemas.schemas import Reference, SchemaVersion, SubjectNaming
from srm_common.errors import RegistryError
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.schema_registry.schema_ids import SchemaIds
from srm_common.testing import LocalRegistry

ADDRESS, ORDER = '{"type": "record", "name": "Address", "fields": []}', '["Address"]'
REFERENCE = [{"name": "Address", "subject": "address", "version": 1}]
LOOKUP = ("POST", "/subjects/address?deleted=true")


@pytest.fixture
def source() -> Iterator[LocalRegistry]:
    with LocalRegistry() as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[LocalRegistry]:
    with LocalRegistry() as registry:
        registry.register("other", '"long"')
        yield registry


def client(alias: str, registry: LocalRegistry) -> SchemaRegistry:
    settings = replace(
        ClusterSettings.plaintext(alias, "localhost:9092"), schema_registry=RegistrySettings((registry.url,))
    )
    found = SchemaRegistry(settings, timeout_seconds=30.0)
    found.pauses = (0.0,) * 7
    return found


@pytest.fixture
def ids(source: LocalRegistry, target: LocalRegistry) -> SchemaIds:
    return SchemaIds(
        client("a", source), client("b", target), SubjectNaming(NameFilter.of("schemas.subjects", [".*"], []))
    )


def unknown(request: tuple[str, str], times: int, code: int = 40403) -> Callable[[str, str], tuple[int, bytes] | None]:
    """The fault of a registry that does not know of an earlier change when it gets ``request``, for some times."""
    left = [times]

    def fault(method: str, path: str) -> tuple[int, bytes] | None:
        if (method, path) != request or left[0] == 0:
            return None
        left[0] -= 1
        return (422 if code == 42201 else 404), json.dumps({"error_code": code, "message": "unknown"}).encode()

    return fault


def version(registry: LocalRegistry, subject: str) -> SchemaVersion:
    found = client("a", registry).schema_version(subject, 1)
    assert found is not None
    return found


def test_the_id_in_the_answer_counts_though_the_node_does_not_find_the_schema(
    source: LocalRegistry, target: LocalRegistry, ids: SchemaIds
) -> None:
    source.register("address", ADDRESS)
    target.fault = unknown(LOOKUP, 1000)
    assert ids.register(version(source, "address")) == 2
    assert target.versions("address") == {1: (2, False)}
    assert target.requests.count(LOOKUP) == 1


def test_a_schema_that_others_refer_to_is_looked_up_until_the_node_finds_it(
    source: LocalRegistry, target: LocalRegistry, ids: SchemaIds
) -> None:
    source.register("address", ADDRESS)
    source.register("orders", ORDER, references=REFERENCE)
    target.register("address", '"string"')
    target.fault = unknown(LOOKUP, 4)
    assert ids.register(version(source, "orders")) == 4
    assert target.answer("GET", "/subjects/orders/versions/1")["references"] == [{**REFERENCE[0], "version": 2}]


def test_one_that_is_never_found_is_told(source: LocalRegistry, target: LocalRegistry, ids: SchemaIds) -> None:
    source.register("address", ADDRESS)
    source.register("orders", ORDER, references=REFERENCE)
    target.fault = unknown(LOOKUP, 1000)
    with pytest.raises(RegistryError, match="has assigned id 2 to a schema of subject address, but does not find it"):
        ids.register(version(source, "orders"))


def test_asking_what_is_registered_registers_nothing(
    source: LocalRegistry, target: LocalRegistry, ids: SchemaIds
) -> None:
    """Also where a node does not find what another one has just found."""
    source.register("address", ADDRESS)
    source.register("orders", ORDER, references=REFERENCE)
    ids.register(version(source, "orders"))
    again = SchemaIds(client("a", source), client("b", target), SubjectNaming(NameFilter.of("x", [".*"], [])))
    del target.requests[:]

    def found_once(method: str, path: str) -> tuple[int, bytes] | None:
        found_before = target.requests.count(LOOKUP) > 1
        return unknown(LOOKUP, 1)(method, path) if found_before else None

    target.fault = found_once
    assert again.is_registered(version(source, "orders"))
    assert not [path for method, path in target.requests if path.endswith("/versions")]


def test_a_reference_to_what_has_just_been_registered_may_not_be_known_yet(target: LocalRegistry) -> None:
    request = ("POST", "/subjects/orders/versions")
    order = SchemaVersion("orders", 1, 8, ORDER, references=(Reference("Address", "address", 1),))
    with client("b", target) as registry:
        for subject in ("address", "orders"):
            registry.set_mode(subject, "IMPORT")
        registry.register(SchemaVersion("address", 1, 7, ADDRESS))
        target.fault = unknown(request, 3, 42201)
        registry.register(order)
        assert target.versions("orders") == {1: (8, False)}
    with client("b", target) as registry:
        del target.requests[:]
        target.fault = unknown(request, 3, 42201)
        with pytest.raises(RegistryError, match="error 42201"):
            registry.register(order)
        assert target.requests == [request]


def test_a_mode_that_was_just_set_is_removed_once_the_node_knows_it(target: LocalRegistry) -> None:
    """Confluent's nodes do not forward the request before."""
    with client("b", target) as registry:
        registry.set_mode("orders", "IMPORT")
        target.fault = unknown(("DELETE", "/mode/orders"), 3, 40401)
        registry.set_mode("orders", None, after_other=True)
        assert target.modes == {}
        registry.set_mode("orders", None, after_other=True)
        del target.requests[:]
        registry.set_mode("orders", None)
        assert len(target.requests) == 1


def test_a_version_that_was_just_registered_is_deleted_once_the_node_knows_it(target: LocalRegistry) -> None:
    with client("b", target) as registry:
        registry.set_mode("orders", "IMPORT")
        registry.register(SchemaVersion("orders", 1, 8, '"int"'))
        target.fault = unknown(("DELETE", "/subjects/orders/versions/1"), 3, 40402)
        registry.delete_version("orders", 1)
        assert target.versions("orders") == {1: (8, True)}
