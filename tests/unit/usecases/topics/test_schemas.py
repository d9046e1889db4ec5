"""Schemas from registry to registry as part of a flow's plan, on fake clusters and registries in the same process."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from srm_common.domain.flow import GraphFlow
from srm_common.domain.flow.names import StateKey
from srm_common.domain.plans.plan import PlanFile, plan_file_text
from srm_common.domain.schemas.planning import RegisterSchema
from srm_common.domain.topics.actions import Job
from srm_common.testing import LocalRegistry
from srm_common.usecases.topics.apply import apply_printed
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.refresh_topics import Refreshed, refresh_topics
from tests.unit.usecases.topics.schema_pair import AVRO, Pair, texts


def test_a_refresh_copies_schemas_with_their_ids_and_the_next_has_nothing_to_do(pair: Pair) -> None:
    source, target = pair.source, pair.target
    source.register("address", '{"type": "record", "name": "Address", "fields": []}')
    source.register("gone", '"int"')
    for version in range(3):
        source.register(
            "orders-value",
            f'{{"type": "record", "name": "Order{version}", "fields": []}}',
            references=[{"name": "Address", "subject": "address", "version": 1}],
        )
    source.register("events-value", 'syntax = "proto3";', kind="PROTOBUF")
    source.register("payments-value", '{"type": "object"}', kind="JSON")
    source.delete("gone", 1)
    source.delete("orders-value", 2)
    source.set_level("orders-value", "FULL_TRANSITIVE")
    assert pair.copy() == []
    for subject in source.subjects:
        assert target.versions(subject) == source.versions(subject)
    assert target.answer("GET", "/schemas/ids/6") == source.answer("GET", "/schemas/ids/6")
    assert target.levels == {"": "BACKWARD", "orders-value": "FULL_TRANSITIVE"}
    assert target.modes == {}
    done = len(target.changes())
    assert pair.plan() == []
    assert pair.copy() == []
    assert len(target.changes()) == done
    assert source.changes() == []


def test_what_is_new_at_the_source_comes_with_the_next_run_whatever_the_interval_of_topics(pair: Pair) -> None:
    pair.copy()
    pair.source.register("orders-value", AVRO)
    refreshed: Refreshed = refresh_topics(pair.sides.clusters())
    assert Job.SCHEMAS in refreshed.due
    assert Job.TOPICS not in refreshed.due
    assert pair.target.versions("orders-value") == {1: (1, False)}


def test_a_plan_changes_nothing_and_its_file_is_applied_as_printed(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    plan = plan_topics(pair.sides.clusters())
    assert texts(plan) == ["register version 1 of subject orders-value on b with id 1 (copy of orders-value)"]
    assert pair.target.changes() == []
    printed = PlanFile.parse(plan_file_text(plan, 0), "plan.json")
    pair.source.register("payments-value", '"string"')
    assert any("payments-value" in text for text in apply_printed(pair.sides.clusters(), printed).changed)
    again = PlanFile.parse(plan_file_text(plan_topics(pair.sides.clusters()), 0), "plan.json")
    assert all(result.error is None for result in apply_printed(pair.sides.clusters(), again).results)
    assert pair.target.subjects == ["orders-value", "payments-value"]


def test_a_schema_of_a_megabyte_fits_into_the_record_of_a_plan(pair: Pair) -> None:
    pair.source.register("orders-value", f'{{"type": "string", "doc": "{"x" * (1 << 20)}"}}')
    assert pair.copy() == []
    record = pair.sides.clusters().state.read("plan")
    assert record is not None
    assert [one["action"] for one in record["actions"]].count(RegisterSchema.kind) == 1


def test_the_filters_choose_subjects(pair: Pair) -> None:
    for subject in ("orders-value", "orders-key", "payments-value"):
        pair.source.register(subject, f'{{"doc": "{subject}"}}')
    pair.sides.set(schemas_subjects=("orders-.*",), schemas_subjects_exclude=(".*-key",))
    pair.copy()
    assert pair.target.subjects == ["orders-value"]


def test_producers_can_register_at_the_target_before_and_after(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    assert pair.copy() == []
    assert pair.target.register("orders-value", '"string"') == 2
    pair.source.register("orders-value", '"int"')
    (fault,) = pair.copy()
    assert fault.startswith(
        "version 2: the target has another schema as this version (id 2; the source's has id 2); set schemas.context"
    )
    assert pair.target.versions("orders-value") == {1: (1, False), 2: (2, False)}


def test_both_directions_with_contexts_bring_everything_everywhere_once(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    pair.target.register("payments-value", '"string"')
    back = pair.turned()
    with closing(back.sides):
        graph = tuple(
            GraphFlow.of(flow.name, flow.policy, flow.source, flow.target, context)
            for flow, context in ((pair.sides.flow, "east"), (back.sides.flow, "west"))
        )
        pair.sides.set(schemas_context="east", graph=graph)
        back.sides.set(schemas_context="west", graph=graph)
        for _ in range(2):
            assert pair.copy() == back.copy() == []
        assert pair.target.subjects == [":.east:orders-value", "payments-value"]
        assert pair.source.subjects == [":.west:payments-value", "orders-value"]
        assert pair.target.answer("GET", "/schemas/ids/1?subject=:.east:")["schema"] == AVRO
        assert pair.plan() == back.plan() == []


def test_both_directions_under_the_same_names_do_not_copy_back(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    back = pair.turned()
    with closing(back.sides):
        assert pair.copy() == back.copy() == []
        assert pair.source.changes() == []
        assert back.plan() == []


def test_a_target_without_mode_import_is_told_with_the_remedy_and_left_alone(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    with LocalRegistry(imports=False, contexts=False) as karapace:
        pair.target = karapace
        pair.connect()
        assert pair.plan() == ["sync schemas: subject orders-value on b"]
        (fault,) = pair.copy()
        assert fault.startswith("version 1: the schema registry of b has no mode IMPORT; ids can be kept only in mode")
        assert "mode.mutability=true" in fault
        assert "schemas.ids = map" in fault
        assert karapace.changes() == []
    assert pair.sides.clusters().state.read(StateKey.IMPORTING) is None


def test_a_mode_that_may_not_be_set_is_told_with_the_remedy(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    pair.target.fault = lambda method, path: (
        (422, b'{"error_code": 42205, "message": "Mode changes are not allowed"}')
        if (method, path.partition("?")[0]) == ("PUT", "/mode/orders-value")
        else None
    )
    (fault,) = pair.copy()
    assert "refuses to set the mode of subject orders-value to IMPORT (HTTP 422, error 42205): Mode changes" in fault
    assert "ids can be kept only in mode IMPORT" in fault
    assert "schemas.ids = map" in fault
    assert pair.target.subjects == []


def test_a_source_without_contexts_and_modes_is_copied_from(pair: Pair) -> None:
    with LocalRegistry(imports=False, contexts=False) as karapace:
        karapace.register("orders-value", AVRO)
        pair.source = karapace
        pair.connect()
        assert pair.copy() == []
    assert pair.target.versions("orders-value") == {1: (1, False)}


def test_topics_are_made_ready_while_a_registry_is_down_and_the_fault_stays_until_it_is_not(pair: Pair) -> None:
    pair.sides.source.create_topic("orders", 1)
    pair.source.register("orders-value", AVRO)
    pair.target.close()
    settings = pair.sides.flow.target.schema_registry
    (fault,) = pair.copy()
    assert re.match(r"the schema registry of b did not respond when trying to list its contexts \(http://", fault)
    assert "a.orders" in pair.sides.target.topics()
    pair.target.start()
    pair.connect()
    assert pair.sides.flow.target.schema_registry != settings
    assert refresh_topics(pair.sides.clusters()).due >= {Job.SCHEMAS, Job.TOPICS}
    assert pair.target.subjects == ["orders-value"]


def test_one_schema_that_is_refused_does_not_stop_the_others(pair: Pair) -> None:
    for subject in ("a", "b", "c"):
        pair.source.register(subject, f'{{"doc": "{subject}"}}')
    pair.target.fault = lambda method, path: (
        (422, b'{"error_code": 42201, "message": "Invalid schema"}')
        if (method, path) == ("POST", "/subjects/b/versions")
        else None
    )
    (fault,) = pair.copy()
    assert "refuses to register version 1 of subject b with id 2 (HTTP 422, error 42201): Invalid schema" in fault
    assert pair.target.subjects == ["a", "c"]
    assert pair.target.modes == {}
    pair.target.fault = lambda method, path: None
    assert pair.copy() == []
    assert pair.target.subjects == ["a", "b", "c"]


@pytest.mark.parametrize("requests", range(1, 9))
def test_a_copy_that_is_cut_off_anywhere_is_finished_by_the_next(pair: Pair, requests: int) -> None:
    pair.source.register("address", AVRO)
    pair.source.register("orders-value", '"x"', references=[{"name": "A", "subject": "address", "version": 1}])
    pair.source.delete("orders-value", 1)
    pair.source.register("orders-value", '"y"')
    left = [requests]

    def cut_off(method: str, path: str) -> None:
        left[0] -= method != "GET"
        if left[0] <= 0:
            raise ConnectionError

    pair.target.fault = cut_off
    assert pair.copy() != []
    pair.target.fault = lambda method, path: None
    assert pair.copy() == []
    assert {subject: pair.target.versions(subject) for subject in pair.target.subjects} == {
        subject: pair.source.versions(subject) for subject in pair.source.subjects
    }
    assert pair.target.modes == {}
    assert pair.sides.clusters().state.read(StateKey.IMPORTING) is None
    assert pair.plan() == []


def test_a_process_that_is_killed_while_registering_leaves_no_subject_in_mode_import(pair: Pair) -> None:
    pair.copy()
    pair.target.register("orders-value", AVRO)
    pair.target.answer("PUT", "/mode/orders-value?force=true", {"mode": "IMPORT"})
    pair.sides.clusters().state.write(StateKey.IMPORTING, {"orders-value": None, "old": "READONLY"})
    assert pair.plan() == [
        "restore the mode of subject old on b to READONLY (its registration was interrupted)",
        "restore the mode of subject orders-value on b to the registry's (its registration was interrupted)",
    ]
    assert pair.copy() == []
    assert pair.target.modes == {"old": "READONLY"}
    assert pair.plan() == []


def test_a_mode_of_its_own_is_given_back(pair: Pair) -> None:
    pair.source.register("orders-value", AVRO)
    pair.target.answer("PUT", "/mode/orders-value", {"mode": "READONLY"})
    assert pair.copy() == []
    assert pair.target.modes == {"orders-value": "READONLY"}


def test_a_text_that_the_targets_registry_writes_in_its_own_way_is_the_same_schema(pair: Pair) -> None:
    """As Confluent's registries of different versions do with Protobuf."""
    pair.target.canonical = lambda text: text.replace(" ", "")
    for subject in ("events-key", "events-value"):  # the same id in both
        pair.source.register(subject, "message A { }", kind="PROTOBUF")
    pair.source.register("events-value", "message B { }", kind="PROTOBUF")
    assert pair.copy() == []
    assert pair.target.answer("GET", "/schemas/ids/1")["schema"] == "messageA{}"
    assert pair.plan() == []
    pair.source.register("other-value", "message A { }", kind="PROTOBUF")
    assert pair.copy() == pair.plan() == []
    assert pair.target.versions("other-value") == {1: (1, False)}


@pytest.mark.parametrize("answer", [None, (422, b'{"error_code": 42201, "message": "Invalid schema"}')])
def test_another_schema_of_the_same_id_is_another_one(pair: Pair, answer: tuple[int, bytes] | None) -> None:
    pair.target.register("events-value", "message B { }", kind="PROTOBUF")
    pair.source.register("events-value", "message A { }", kind="PROTOBUF")
    pair.target.fault = lambda method, path: answer if method == "POST" else None
    (fault,) = pair.copy()
    assert fault.startswith("version 1: the target has another schema as this version (id 1; the source's has id 1)")
