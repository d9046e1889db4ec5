"""Ids that several contexts of a registry have: mapped and read in the context of their topic, and not by a guess."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.patterns.name_filter import NameFilter
from srm_common.domain.schemas.schemas import SubjectNaming, copy_context
from srm_common.domain.transforms.formats import Side
from srm_common.errors import RegistryError, TransformFailed
from srm_common.records.connect.registry_values import NewSchema
from srm_common.schema_registry.id_contexts import IdContexts
from srm_common.schema_registry.record_schemas import RegistrySchemaIds, RegistrySchemas
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.schema_registry.schema_ids import MappedContexts
from srm_common.testing import LocalRegistry

ALL = NameFilter.of("schemas.subjects", [".*"], [])


@pytest.fixture
def source() -> Iterator[LocalRegistry]:
    with LocalRegistry() as registry:
        yield registry


@pytest.fixture
def target() -> Iterator[LocalRegistry]:
    with LocalRegistry() as registry:
        registry.register("there-value", '"bytes"')
        yield registry


def client(alias: str, registry: LocalRegistry, at: str = "") -> SchemaRegistry:
    cluster = ClusterSettings.plaintext(alias, "localhost:9092")
    return SchemaRegistry(
        replace(cluster, schema_registry=RegistrySettings((registry.url + at,))), timeout_seconds=30.0
    )


def text(schemas: RegistrySchemas, number: int, topic: str) -> str | None:
    found = schemas.schema(number, topic, Side.VALUE)
    return None if found is None else found.text


def test_an_id_is_read_in_the_context_of_its_topic(source: LocalRegistry) -> None:
    """The same client reads all of them."""
    numbers = {
        source.register("totals-value", '"int"'),
        source.register(":.east:orders-value", '"string"'),
        source.register(":.west:refunds-value", '"long"'),
    }
    assert numbers == {1}
    schemas = RegistrySchemas(client("e", source), None)
    for _ in range(2):
        assert text(schemas, 1, "orders") == '"string"'
        assert text(schemas, 1, "totals") == '"int"'
        assert text(schemas, 1, "refunds") == '"long"'
        assert text(schemas, 1, "east.orders") == '"string"'
    assert schemas.subject(1, "orders", Side.VALUE) == ":.east:orders-value"
    assert schemas.subject(1, "totals", Side.VALUE) == "totals-value"


def test_an_id_is_mapped_in_the_context_of_its_topic(source: LocalRegistry, target: LocalRegistry) -> None:
    source.register("totals-value", '"int"')
    source.register(":.east:orders-value", '"string"')
    contexts = MappedContexts("")
    ids = RegistrySchemaIds(client("e", source), client("w", target), SubjectNaming(ALL), contexts)
    assert ids.mapped(1, "totals", Side.VALUE) == 2
    assert ids.mapped(1, "orders", Side.VALUE) == 1
    assert target.versions("totals-value") == {1: (2, False)}
    assert target.versions(":.east:orders-value") == {1: (1, False)}
    assert target.versions("orders-value") == {}
    assert ids.is_own(1, "orders", Side.VALUE)
    assert ids.is_own(1, "totals", Side.VALUE)
    registry = client("w", target)
    mapped = RegistrySchemas(registry, registry, "", contexts)
    assert text(mapped, 1, "orders") == '"string"'
    assert text(mapped, 2, "totals") == '"int"'
    assert text(mapped, 1, "there") == '"bytes"'


def test_what_may_be_either_of_two_schemas_is_refused(source: LocalRegistry, target: LocalRegistry) -> None:
    source.register(":.a:orders-value", '"string"')
    source.register(":.b:orders-value", '"int"')
    reason = (
        "values of orders may have it from context .a and .b of the schema registry of e, where it is of different "
        "schemas; name the right one in e.schema.registry.url"
    )
    ids = RegistrySchemaIds(client("e", source), client("w", target), SubjectNaming(ALL))
    with pytest.raises(
        TransformFailed, match=f"schema id 1 of the values of orders has no id at the target: .*{reason}"
    ):
        ids.mapped(1, "orders", Side.VALUE)
    with pytest.raises(TransformFailed, match=f"schema id 1 cannot be read: .*{reason}"):
        text(RegistrySchemas(client("e", source), None), 1, "orders")
    assert target.subjects == ["there-value"]
    for context, schema in (("a", '"string"'), ("b", '"int"')):
        named = client("e", source, f"/contexts/.{context}")
        assert text(RegistrySchemas(named, None), 1, "orders") == schema


def test_without_a_subject_of_the_topic_the_default_context_must_be_the_only_one(source: LocalRegistry) -> None:
    """As for RecordNameStrategy, and for topics of dead letters."""
    source.register("com.acme.Order", '"string"')
    schemas = RegistrySchemas(client("e", source), None)
    source.register(":.east:a", '"string"')
    assert text(schemas, 1, "orders") == '"string"'
    source.register(":.west:com.acme.Refund", '"int"')
    with pytest.raises(TransformFailed, match=r"context \. and \.east and \.west of .* .'\.' is the default context"):
        text(RegistrySchemas(client("e", source), None), 1, "orders")
    assert text(RegistrySchemas(client("e", source, "/contexts/."), None), 1, "orders") == '"string"'
    assert text(RegistrySchemas(client("e", source, "/contexts/.west"), None), 1, "orders") == '"int"'


def test_an_id_of_contexts_that_nothing_connects_with_the_topic_is_unknown(source: LocalRegistry) -> None:
    source.register(":.east:com.acme.Order", '"string"')
    schemas = RegistrySchemas(client("e", source), None)
    assert text(schemas, 1, "orders") is None
    assert text(schemas, 1, "com.orders") is None


def test_a_subject_of_a_record_in_the_topic_is_found_in_any_context(source: LocalRegistry) -> None:
    """TopicRecordNameStrategy: the registry itself does not find it by the name of the topic."""
    source.register(":.east:orders-com.acme.Order", '"string"')
    assert text(RegistrySchemas(client("e", source), None), 1, "orders") == '"string"'
    source.register("com.acme.Refund", '"int"')
    assert text(RegistrySchemas(client("e", source), None), 1, "orders") == '"string"'


def test_what_is_no_id_takes_no_request_for_each_context(source: LocalRegistry) -> None:
    source.register("com.acme.Refund", '"int"')
    for context in range(20):
        source.register(f":.c{context}:com.acme.Order", '"int"')
    schemas = RegistrySchemas(client("e", source), None)
    assert text(schemas, 1, "orders") == '"int"'
    before = len(source.requests)
    for number in range(100, 110):
        assert text(schemas, number, "orders") is None
    assert len(source.requests) == before + 1 + 2 * 10


def test_one_topic_with_the_same_id_from_two_contexts_is_refused(source: LocalRegistry, target: LocalRegistry) -> None:
    source.register("orders-value", '"int"')
    source.register(":.east:x", '"float"')
    source.register(":.east:orders-value", '"string"')
    target.register(":.east:x", '"float"')
    ids = RegistrySchemaIds(client("e", source), client("w", target), SubjectNaming(ALL))
    assert ids.mapped(1, "orders", Side.VALUE) == 2
    with pytest.raises(TransformFailed, match=r"two of them get the id 2, in contexts \. and \.east of the target's"):
        ids.mapped(2, "orders", Side.VALUE)


@pytest.mark.parametrize("topic", ["orders", "dead"])
def test_a_registry_without_contexts_is_asked_nothing_that_it_refuses(topic: str) -> None:
    with LocalRegistry(contexts=False, imports=False) as registry:
        number = registry.register("orders-value", '"int"')
        refused: list[str] = []
        answer = registry.answer

        def noted(method: str, path: str, body: object = None) -> object:
            try:
                return answer(method, path, body)  # type: ignore[arg-type]
            except Exception:
                refused.append(path)
                raise

        registry.answer = noted  # type: ignore[method-assign]
        schemas = RegistrySchemas(client("e", registry), None)
        assert text(schemas, number, topic) == '"int"'
        assert IdContexts(client("e", registry)).find(number, topic, Side.VALUE) == ("", [("orders-value", 1)])
        registry.register(":.east:totals-value", '"int"')
        assert text(RegistrySchemas(client("e", registry), None), number, "totals") == '"int"'
        assert refused == []
        assert text(schemas, 99, topic) is None
        assert all("/ids/99" in path for path in refused)


def test_a_registry_without_contexts_at_an_address_of_one() -> None:
    with LocalRegistry(contexts=False) as registry:
        number = registry.register("orders-value", '"int"')
        with pytest.raises(RegistryError, match="refuses to list the subjects of schema 1"):
            IdContexts(client("e", registry, "/contexts/.east")).find(number, "orders", Side.VALUE)


def test_subjects_that_the_login_may_not_see(source: LocalRegistry) -> None:
    """They matter only if there are contexts."""
    number = source.register("orders-value", '"int"')
    source.fault = lambda method, path: (403, b"{}") if "/versions" in path else None
    assert text(RegistrySchemas(client("e", source), None), number, "orders") == '"int"'
    source.fault, denied = (lambda method, path: None), source.fault
    source.register(":.east:orders-value", '"long"')
    source.fault = denied
    with pytest.raises(TransformFailed, match="denies permission to list the subjects of schema 1"):
        text(RegistrySchemas(client("e", source), None), number, "orders")
    # Who may not see contexts either has none: schemas are read as those of the default one.
    source.fault = lambda method, path: (403, b"{}") if "/versions" in path or "context" in path else None
    assert text(RegistrySchemas(client("e", source), None), number, "orders") == '"int"'
    with LocalRegistry(contexts=False) as registry:
        number = registry.register("orders-value", '"int"')
        registry.fault = denied
        assert text(RegistrySchemas(client("e", registry), None), number, "orders") == '"int"'


@pytest.mark.parametrize(
    ("at", "subject", "before"),
    [
        ("", ":.copies.east:west.orders-value", 1),
        ("", ":.copies:west.orders-value", None),
        ("/contexts/.east", ":.copies:west.orders-value", 1),
    ],
)
def test_a_new_schema_gets_the_context_of_the_one_that_it_replaces(
    source: LocalRegistry, target: LocalRegistry, at: str, subject: str, before: int | None
) -> None:
    source.register(":.east:orders-value", '"int"')
    schemas = RegistrySchemas(client("e", source, at), client("w", target), "copies")
    new = NewSchema("orders", Side.VALUE, "west.orders", "west.orders-value", "AVRO", '"long"', before)
    assert schemas.registered(new) == 1
    assert target.versions(subject) == {1: (1, False)}
    assert copy_context("copies", "east", "east") == "copies"


def test_references_in_a_named_context(source: LocalRegistry, target: LocalRegistry) -> None:
    """They are to subjects of that context, in the registry of the copies as well."""
    source.register("address", '"bytes"')
    source.register(":.east:address", '{"type": "record", "name": "Address", "fields": []}')
    reference = [{"name": "Address", "subject": "address", "version": 1}]
    number = source.register(":.east:orders-value", '["Address"]', references=reference)
    naming = SubjectNaming(ALL, "prod", named="east")
    ids = RegistrySchemaIds(client("e", source, "/contexts/.east"), client("w", target), naming)
    assert ids.mapped(number, "orders", Side.VALUE) == 2
    assert target.versions(":.prod:address") == {1: (1, False)}
    assert target.versions(":.prod:orders-value") == {1: (2, False)}
    registry = client("w", target)
    schemas = RegistrySchemas(registry, registry, "prod", MappedContexts("prod"))
    found = schemas.schema(2, "orders", Side.VALUE)
    assert found is not None
    assert [one.name for one in found.references] == ["Address"]
