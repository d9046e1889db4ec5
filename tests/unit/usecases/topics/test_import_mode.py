"""Mode IMPORT of subjects: with several flows into one registry, and left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.names import StateKey
from srm_common.domain.schemas.planning import RegisterSchema
from srm_common.domain.schemas.schemas import Reference, SchemaVersion
from srm_common.testing import FakeCluster, LocalRegistry
from srm_common.usecases.topics import import_mode
from srm_common.usecases.topics.apply import apply_plan
from srm_common.usecases.topics.import_mode import by_subject
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.topics.schema_pair import AVRO, Pair, texts

FORCED = "/mode/orders-value?force=true"
IMPORT = {"mode": "IMPORT"}


@pytest.fixture
def other(pair: Pair) -> Iterator[Pair]:
    """A second flow into the same registry, ``c->b``, from a registry that has the same schemas with the same ids."""
    with (
        FakeCluster() as kafka,
        LocalRegistry() as source,
        closing(Sides(kafka, pair.sides.target)) as sides,
    ):
        sides.set(name=FlowName("c", "b"))
        yield Pair(sides, source, pair.target)


def test_two_flows_that_register_at_the_same_time_leave_no_subject_in_mode_import(pair: Pair, other: Pair) -> None:
    """The second begins while the first registers, and ends before it does: it finds the first one's mode, and the
    first finds the registry's again."""
    for source in (pair.source, other.source):
        source.register("orders-value", AVRO)
        source.register("orders-value", '"string"')
    planned = plan_topics(other.sides.clusters())
    faults: list[str | None] = []

    def meanwhile(method: str, path: str) -> None:
        if (method, path) == ("POST", "/subjects/orders-value/versions"):
            pair.target.fault = lambda method, path: None
            faults.extend(result.error for result in apply_plan(other.sides.clusters(), planned))

    pair.target.fault = meanwhile
    assert pair.copy() == []
    assert set(faults) == {None}
    assert pair.target.versions("orders-value") == pair.source.versions("orders-value")
    assert pair.target.modes == {}
    for flow in (pair, other):
        assert flow.sides.clusters().state.read(StateKey.IMPORTING) is None


@pytest.mark.parametrize("own", [None, "READONLY"])
@pytest.mark.parametrize("request_", [("POST", "/subjects/orders-value/versions"), ("GET", "/mode/orders-value")])
def test_a_mode_that_another_flow_restores_meanwhile_stays(
    pair: Pair, own: str | None, request_: tuple[str, str]
) -> None:
    """Before this flow has registered, which is then refused, or before it restores the mode itself."""
    target = pair.target
    pair.source.register("orders-value", AVRO)
    planned = plan_topics(pair.sides.clusters())
    target.answer("PUT", FORCED, IMPORT)
    seen: list[tuple[str, str]] = []

    def meanwhile(method: str, path: str) -> None:
        seen.append((method, path))
        if (method, path) == request_ and seen.count(request_) == (1 if method == "POST" else 2):
            target.answer("DELETE", "/mode/orders-value")
            if own is not None:
                target.answer("PUT", "/mode/orders-value", {"mode": own})

    target.fault = meanwhile
    assert {result.error for result in apply_plan(pair.sides.clusters(), planned)} == {None}
    assert target.versions("orders-value") == {1: (1, False)}
    assert target.modes == ({} if own is None else {"orders-value": own})


def test_a_subject_is_in_mode_import_only_while_its_own_versions_are_registered(pair: Pair) -> None:
    for number in range(25):
        for version in range(2):
            pair.source.register(f"s{number:02}", f'{{"n": {number}, "v": {version}}}')
    modes: list[tuple[str, list[str]]] = []

    def watch(method: str, path: str) -> None:
        if method == "POST":
            modes.append((path.split("/")[2], list(pair.target.modes)))

    pair.target.fault = watch
    assert pair.copy() == []
    assert len(modes) == 50
    assert all(importing == [subject] for subject, importing in modes)
    assert len([path for method, path in pair.target.changes() if method == "PUT" and "/mode/" in path]) == 25
    assert pair.sides.clusters().state.read(StateKey.IMPORTING) is None


def test_a_node_that_does_not_know_the_mode_yet_is_asked_again_to_remove_it(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    answers = [(404, b'{"error_code": 40401, "message": "Subject not found."}')] * 2
    pair.target.fault = lambda method, path: answers.pop() if method == "DELETE" and answers else None
    assert pair.copy() == []
    assert pair.target.modes == {}


def test_a_mode_that_is_left_is_restored_though_no_state_explains_it(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    assert pair.copy() == []
    pair.target.register("own", '"string"')
    for subject in ("orders-value", "own"):
        pair.target.answer("PUT", f"/mode/{subject}?force=true", IMPORT)
    (text,) = pair.plan()
    assert text == (
        "restore the mode of subject orders-value on b to the registry's (it is in mode IMPORT, in which producers "
        "cannot register, and no registration of this flow explains that)"
    )
    assert pair.copy() == []
    assert pair.target.modes == {"own": "IMPORT"}
    assert pair.plan() == []


@pytest.mark.parametrize("place", ["", ":.east:"])
def test_a_registry_or_context_in_mode_import_keeps_it(pair: Pair, place: str) -> None:
    pair.sides.set(schemas_context="east" if place else "")
    pair.source.register("orders-value", AVRO)
    assert pair.copy() == []
    pair.target.answer("PUT", f"/mode/{place}", IMPORT)
    pair.target.answer("PUT", f"/mode/{place}orders-value?force=true", IMPORT)
    assert pair.plan() == []


def test_a_left_mode_that_was_restored_since_the_plan_is_not_touched(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    pair.copy()
    pair.target.answer("PUT", FORCED, IMPORT)
    planned = plan_topics(pair.sides.clusters())
    assert len(texts(planned)) == 1
    pair.target.answer("PUT", "/mode/orders-value", {"mode": "READONLY"})
    assert {result.error for result in apply_plan(pair.sides.clusters(), planned)} == {None}
    assert pair.target.modes == {"orders-value": "READONLY"}


def test_modes_that_may_not_be_read_are_no_fault_where_nothing_is_to_be_registered(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    pair.copy()
    pair.target.fault = lambda method, path: (403, b"denied") if path.startswith("/mode") else None
    assert pair.plan() == []


@pytest.mark.parametrize("hours", [1, 3, 24])
def test_the_modes_of_many_copies_are_looked_at_in_turns(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """However many hours apart refreshes are."""
    monkeypatch.setattr(import_mode, "_ASKED_AT_A_TIME", 2)
    for number in range(5):
        pair.source.register(f"s{number}", f'{{"n": {number}}}')
    pair.copy()
    seen = set[str]()
    for turn in range(12):
        clusters = pair.sides.clusters()
        clusters.clock = partial(float, turn * hours * 3600)
        del pair.target.requests[:]
        plan_topics(clusters)
        paths = [path for _, path in pair.target.requests if path.startswith("/mode")]
        assert 1 <= len(paths) <= 2
        seen.update(paths)
    assert seen == {f"/mode/s{number}" for number in range(5)}


def test_what_an_earlier_version_took_for_the_mode_to_restore_is_not_restored(pair: Pair) -> None:
    pair.copy()
    pair.target.register("orders-value", AVRO)
    pair.target.answer("PUT", FORCED, IMPORT)
    pair.sides.clusters().state.write(StateKey.IMPORTING, {"orders-value": "IMPORT"})
    assert pair.copy() == []
    assert pair.target.modes == {}


def test_versions_of_a_subject_come_together_as_far_as_references_allow() -> None:
    def action(subject: str, version: int, *references: tuple[str, int]) -> RegisterSchema:
        schema = SchemaVersion(subject, version, 1, "", references=tuple(Reference("r", *one) for one in references))
        return RegisterSchema("b", subject, "", schema)

    planned = [
        action("a", 1),
        action("b", 1),
        action("c", 1, ("elsewhere", 1)),
        action("a", 2, ("a", 1)),
        action("b", 2),
        action("a", 3, ("b", 2)),
    ]
    assert [[(one.subject, one.schema.version) for one in group] for group in by_subject(planned)] == [
        [("a", 1), ("a", 2)],
        [("b", 1), ("b", 2)],
        [("c", 1)],
        [("a", 3)],
    ]
