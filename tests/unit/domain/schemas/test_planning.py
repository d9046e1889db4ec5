"""Which schemas a target needs, under which names and in which order; on values, without a registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.patterns.name_filter import NameFilter
from srm_common.domain.schemas.planning import (
    DeleteSchemaVersion,
    RegisterSchema,
    SetCompatibility,
    UncopiedSchema,
    plan_schemas,
)
from srm_common.domain.schemas.schemas import Reference, RegistryView, SchemaVersion, SubjectNaming
from srm_common.domain.topics.actions import Action


def naming(
    context: str = "", *, include: str = ".*", exclude: Sequence[str] = (), back: Sequence[str] = ()
) -> SubjectNaming:
    return SubjectNaming(NameFilter.of("schemas.subjects", [include], exclude), context, frozenset(back))


def schema(subject: str, version: int, number: int, *references: tuple[str, int], text: str = "") -> SchemaVersion:
    refs = tuple(Reference(f"n{at}", name, of) for at, (name, of) in enumerate(references))
    return SchemaVersion(subject, version, number, text or json.dumps({"id": number}), references=refs)


def after(view: RegistryView, actions: Sequence[Action]) -> RegistryView:
    """A target's registry when a plan is carried out, which refuses what a registry refuses."""
    schemas, levels = dict(view.schemas), dict(view.levels)
    for action in actions:
        if isinstance(action, RegisterSchema):
            for reference in action.schema.references:
                assert (reference.subject, reference.version) in schemas, "a reference comes first"
            schemas[action.schema.place] = replace(action.schema, deleted=False)
        elif isinstance(action, DeleteSchemaVersion):
            place = (action.subject, action.version)
            users = [version for version in schemas.values() if not version.deleted and place in _places(version)]
            assert not users, "what is referred to is deleted last"
            schemas[place] = replace(schemas[place], deleted=True)
        elif isinstance(action, SetCompatibility):
            levels[action.subject] = action.after
    return RegistryView(schemas, levels)


def _places(one: SchemaVersion) -> set[tuple[str, int]]:
    return {(ref.subject, ref.version) for ref in one.references}


def planned(source: RegistryView, target: RegistryView, how: SubjectNaming | None = None) -> list[Action]:
    return plan_schemas("b", how or naming(), source, target)


def problems(actions: Sequence[Action]) -> list[str]:
    return [f"{action.topic}: {action.reason}" for action in actions if isinstance(action, UncopiedSchema)]


@st.composite
def registries(draw: st.DrawFn) -> RegistryView:
    """Schemas as a registry comes to have them: each refers to earlier ones, some are soft-deleted afterwards."""
    versions: list[SchemaVersion] = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        subject = draw(st.sampled_from(["a", "b", "c", "d"]))
        earlier = (
            draw(st.lists(st.sampled_from(versions), max_size=3, unique_by=lambda one: one.place)) if versions else []
        )
        version = max(
            (schema_version.version for schema_version in versions if schema_version.subject == subject), default=0
        ) + draw(st.integers(1, 2))
        versions.append(schema(subject, version, number, *(schema_version.place for schema_version in earlier)))
    kept: list[SchemaVersion] = []
    used: set[tuple[str, int]] = set()
    for schema_version in reversed(versions):
        deleted = schema_version.place not in used and draw(st.booleans())
        kept.append(replace(schema_version, deleted=deleted))
        used |= set() if deleted else _places(schema_version)
    return RegistryView.of(draw(st.permutations(kept)))


@given(registries(), st.sampled_from(["", "east"]))
def test_one_plan_copies_everything_and_the_next_nothing(source: RegistryView, context: str) -> None:
    how = naming(context)
    target = after(RegistryView(), planned(source, RegistryView(), how))
    assert planned(source, target, how) == []
    assert target.schemas == {
        how.on_target(version).place: how.on_target(version) for version in source.schemas.values()
    }


@given(registries(), st.data())
def test_a_plan_that_was_interrupted_anywhere_is_continued(source: RegistryView, data: st.DataObject) -> None:
    actions = planned(source, RegistryView())
    target = after(RegistryView(), actions[: data.draw(st.integers(0, len(actions)))])
    assert after(target, planned(source, target)).schemas == source.schemas


@given(registries(), registries())
def test_two_registries_in_a_mesh_with_contexts_come_to_rest(east: RegistryView, west: RegistryView) -> None:
    to_west, to_east = naming("east", back=["west"]), naming("west", back=["east"])
    for _ in range(2):
        west, east = after(west, planned(east, west, to_west)), after(east, planned(west, east, to_east))
    assert planned(east, west, to_west) == planned(west, east, to_east) == []
    assert not any("east" in subject and "west" in subject for subject, _ in (*east.schemas, *west.schemas))


@given(registries(), st.sampled_from(["a", "b|c"]))
def test_what_selected_schemas_refer_to_is_copied_whatever_the_filter_says(source: RegistryView, include: str) -> None:
    target = after(RegistryView(), planned(source, RegistryView(), naming(include=include)))
    selected = {place for place in source.schemas if place[0] in include.split("|")}
    assert selected <= target.schemas.keys()
    for version in target.schemas.values():
        assert version.place in selected or any(version.place in _places(other) for other in target.schemas.values())


def test_versions_are_registered_in_their_order_and_references_before_them() -> None:
    source = RegistryView.of([schema("a", 1, 5), schema("a", 2, 6, ("z", 1)), schema("z", 1, 9), schema("b", 3, 1)])
    registered = [
        action.schema.place for action in planned(source, RegistryView()) if isinstance(action, RegisterSchema)
    ]
    assert registered.index(("z", 1)) < registered.index(("a", 2))
    assert registered.index(("a", 1)) < registered.index(("a", 2))


def test_a_context_on_the_way_stays_behind_the_one_of_the_flow() -> None:
    how = naming("b", back=["c"])
    assert how.target_subject(":.a:orders") == ":.b.a:orders"
    assert how.is_copied(":.b.a:orders")
    assert not how.is_copied(":.b.c:orders")


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (schema("orders", 1, 7, text='{"other": 1}'), "another schema as this version (id 7; the source's has id 7)"),
        (schema("orders", 1, 8, text='{"id": 7}'), "records refer to it by id 7, and the target has it with id 8"),
        (
            schema("payments", 2, 7, text='{"other": 1}'),
            "id 7 belongs to another schema on the target (version 2 of pay",
        ),
    ],
)
def test_what_the_target_has_in_its_place_is_not_touched(there: SchemaVersion, reason: str) -> None:
    source, target = RegistryView.of([schema("orders", 1, 7), schema("sane", 1, 1)]), RegistryView.of([there])
    actions = planned(source, target)
    (problem,) = problems(actions)
    assert problem.startswith("subject orders: version 1: ")
    assert reason in problem
    assert "schemas.context" in problem
    assert [action.schema.subject for action in actions if isinstance(action, RegisterSchema)] == ["sane"]


def test_what_refers_to_a_schema_that_is_not_copied_is_not_copied_either() -> None:
    source = RegistryView.of([schema("a", 1, 7), schema("b", 1, 8, ("a", 1)), schema("c", 1, 9, ("gone", 4))])
    target = RegistryView.of([schema("x", 1, 7, text="{}")])
    a, b, c = sorted(problems(planned(source, target)))
    assert a.startswith("subject a: version 1: its id 7 belongs to another schema")
    assert b == "subject b: version 1: id 8 refers to version 1 of a, which is not copied either"
    assert c == "subject c: version 1: id 9 refers to version 4 of gone, which the source's registry does not have"


def test_schemas_that_refer_to_each_other_in_a_circle_are_named_and_the_others_copied() -> None:
    source = RegistryView.of([schema("a", 1, 1, ("b", 1)), schema("b", 1, 2, ("a", 1)), schema("c", 1, 3)])
    actions = planned(source, RegistryView())
    assert len(problems(actions)) == 2
    assert all("in a circle" in problem for problem in problems(actions))
    assert [action.schema.subject for action in actions if isinstance(action, RegisterSchema)] == ["c"]


def test_the_same_schema_with_the_same_id_as_another_version_is_enough() -> None:
    source = RegistryView.of([schema("a", 1, 7)])
    target = RegistryView.of([schema("a", 1, 6), schema("a", 2, 7)])
    assert planned(source, target) == []


def test_json_is_compared_by_what_it_says() -> None:
    spaced, tight = schema("a", 1, 1, text='{ "b": 1, "a": [2] }'), schema("a", 1, 1, text='{"a":[2],"b":1}')
    assert spaced.fingerprint == tight.fingerprint
    assert replace(spaced, schema_type="PROTOBUF").fingerprint != replace(tight, schema_type="PROTOBUF").fingerprint
    deep = schema("a", 1, 1, text="[" * 100_000 + "]" * 100_000)
    assert deep.fingerprint == replace(deep, version=2).fingerprint != tight.fingerprint


def test_levels_of_copied_subjects_are_set_and_none_is_taken_away() -> None:
    source = RegistryView.of(
        [schema("a", 1, 1), schema("b", 1, 2), schema("c", 1, 3)], {"a": "FULL", "": "NONE", "c": "FULL"}
    )
    target = RegistryView.of(source.schemas.values(), {"b": "FORWARD", "": "BACKWARD"})
    actions = plan_schemas("b", naming(exclude=["c"]), source, target)
    assert [str(action) for action in actions] == [
        "set the compatibility of subject a on b from the registry's to FULL (as a)"
    ]
    (_, own) = plan_schemas("b", naming(exclude=["c"]), source, target, own_level=True)
    assert str(own) == "set the compatibility of all subjects on b from BACKWARD to NONE (as the source's registry)"
    copied = after(target, plan_schemas("b", naming("east"), source, target, own_level=True))
    assert copied.levels[":.east:"] == "NONE"
