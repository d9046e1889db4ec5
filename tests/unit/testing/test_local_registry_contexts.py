"""Contexts of the registry in the test's process, as Confluent's has them (``getSchemaKeyUsingContexts``, 7.4)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from srm_common.testing import LocalRegistry


@pytest.fixture
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry() as registry:
        registry.register("totals-value", '"int"')
        registry.register(":.b:orders-value", '"string"')
        registry.register(":.a:orders-value", '"long"')
        registry.register(":.a:orders-value", '"float"')
        yield registry


def got(registry: LocalRegistry, path: str) -> Any:
    try:
        with urllib.request.urlopen(registry.url + path) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return json.loads(error.read())["error_code"]


@pytest.mark.parametrize(
    ("number", "subject", "found"),
    [
        (1, "", '"int"'),
        (1, "totals-value", '"int"'),
        (1, "nobody", '"int"'),
        (1, "orders-value", '"long"'),
        (1, ":.a:", '"long"'),
        (1, ":.b:", '"string"'),
        (1, ":.b:orders-value", '"string"'),
        (1, ":.b:nobody", None),
        (1, ":.c:", None),
        (2, "", None),
        (2, "nobody", None),
        (2, "orders-value", '"float"'),
    ],
)
def test_an_id_is_looked_up_for_a_subject(
    registry: LocalRegistry, number: int, subject: str, found: str | None
) -> None:
    answer = got(registry, f"/schemas/ids/{number}?subject={subject}")
    assert answer == (40403 if found is None else {"schema": found})
    places = got(registry, f"/schemas/ids/{number}/versions?subject={subject}")
    assert (places == 40403) == (found is None)


def test_an_address_with_a_context_stands_for_it(registry: LocalRegistry) -> None:
    assert got(registry, "/contexts") == got(registry, "/contexts/.a/contexts") == [".", ".a", ".b"]
    assert got(registry, "/contexts/.a/schemas/ids/1")["schema"] == '"long"'
    assert got(registry, "/contexts/.a/schemas/ids/1?subject=:.b:")["schema"] == '"string"'
    assert got(registry, "/contexts/.a/subjects") == [":.a:orders-value"]
    assert got(registry, "/contexts/.a/subjects/orders-value/versions") == [1, 2]
    assert got(registry, "/contexts/.a/subjects/:.b:orders-value/versions") == [1]
    assert got(registry, "/contexts/.a/subjects/totals-value/versions") == 40401
    assert [row["id"] for row in got(registry, "/contexts/:.a:/schemas")] == [1, 2]
    assert len(got(registry, "/contexts/.a/schemas?subjectPrefix=:*:")) == 4
    registry.set_level(":.a:", "NONE")
    assert got(registry, "/contexts/.a/config") == {"compatibilityLevel": "NONE"}
    assert got(registry, "/config") == {"compatibilityLevel": "BACKWARD"}


def test_a_registry_without_contexts_takes_no_notice_of_them() -> None:
    with LocalRegistry(contexts=False) as registry:
        registry.register("orders-value", '"int"')
        assert got(registry, "/schemas/ids/1?subject=:.east:") == {"schema": '"int"'}
        assert got(registry, "/schemas/ids/1/versions?subject=nobody") == [{"subject": "orders-value", "version": 1}]
