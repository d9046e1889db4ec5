"""Registries that fall silent during a refresh, or answer slowly: they do not hold up the flow."""

from __future__ import annotations

import pytest

from srm_common.domain.flow.names import StateKey
from srm_common.domain.schemas.id_mapping import MapSchema
from srm_common.domain.schemas.planning import RegisterSchema
from srm_common.usecases.topics import schemas
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.schemas import TimeLimit, map_schemas, register_schemas
from tests.unit.usecases.topics.schema_pair import Pair

SUBJECTS = [f"s{number:02}" for number in range(30)]


def _lost(method: str, path: str) -> None:
    raise ConnectionError


def _fill(pair: Pair) -> None:
    for number, subject in enumerate(SUBJECTS):
        pair.source.register(subject, f'{{"n": {number}}}')
        pair.source.set_level(subject, "FULL")


@pytest.mark.parametrize("ids", ["keep", "map"])
@pytest.mark.parametrize("change", [1, 2, 3, 8])
def test_a_registry_that_falls_silent_is_asked_twice_and_not_for_each_schema(pair: Pair, ids: str, change: int) -> None:
    _fill(pair)
    pair.sides.set(schemas_ids=ids)
    asked: list[str] = []
    changes: list[str] = []

    def falls_silent(method: str, path: str) -> None:
        if method == "PUT" or path.endswith("/versions"):
            changes.append(path)
        if len(changes) >= change:
            asked.append(f"{method} {path}")
            raise ConnectionError

    pair.target.fault = falls_silent
    faults = pair.copy()
    # A request is repeated at once on a new connection.
    assert len(set(asked)) <= 2
    assert len(faults) >= 30
    assert all("the schema registry of b did not respond when trying to" in fault for fault in faults)
    pair.target.fault = lambda method, path: None
    assert pair.copy() == []
    assert pair.target.subjects == SUBJECTS
    assert pair.target.modes == {}
    assert pair.sides.clusters().state.read(StateKey.IMPORTING) is None


@pytest.mark.parametrize("ids", ["keep", "map"])
def test_schemas_that_are_never_answered_do_not_stop_the_others(pair: Pair, ids: str) -> None:
    _fill(pair)
    pair.sides.set(schemas_ids=ids, schemas_compatibility="none")

    def never(method: str, path: str) -> None:
        if method == "POST" and path in ("/subjects/s03/versions", "/subjects/s07/versions"):
            raise ConnectionError

    pair.target.fault = never
    assert len(pair.copy()) == 2
    assert pair.target.subjects == [subject for subject in SUBJECTS if subject not in ("s03", "s07")]
    assert pair.target.modes == {}


@pytest.mark.parametrize("ids", ["keep", "map"])
def test_what_a_slow_registry_does_not_take_in_time_is_left_to_the_next_refresh(pair: Pair, ids: str) -> None:
    _fill(pair)
    pair.sides.set(schemas_ids=ids, schemas_compatibility="none")
    actions = plan_topics(pair.sides.clusters()).actions
    now = 0.0

    def slow(method: str, path: str) -> None:
        nonlocal now
        now += 20.0

    pair.target.fault = slow
    limit = TimeLimit(clock=lambda: now)
    if ids == "keep":
        results = register_schemas(
            pair.sides.clusters(), [one for one in actions if isinstance(one, RegisterSchema)], limit
        )
    else:
        results = map_schemas(pair.sides.clusters(), [one for one in actions if isinstance(one, MapSchema)], limit)
    assert now < 800
    late = {result.error for result in results if result.error is not None}
    assert late == {
        "not done yet, because changing schemas has taken 10 minutes, and records wait for it; the next refresh goes on"
    }
    done = [result.action.topic for result in results if result.error is None]
    assert 0 < len(done) < len(results) == 30
    assert [f"subject {subject}" for subject in pair.target.subjects] == done
    assert pair.target.modes == {}
    pair.target.fault = lambda method, path: None
    assert pair.copy() == []
    assert pair.target.subjects == SUBJECTS


@pytest.mark.parametrize("ids", ["keep", "map"])
def test_a_registry_that_takes_too_long_to_read_is_named_with_remedies(
    pair: Pair, ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(pair)
    pair.sides.set(schemas_ids=ids)
    monkeypatch.setattr(schemas, "_READING_SECONDS", 0.0)
    (fault,) = pair.copy()
    assert "takes longer than 0 minutes to show its schemas; check its log" in fault
    assert "schemas.compatibility = none" in fault
