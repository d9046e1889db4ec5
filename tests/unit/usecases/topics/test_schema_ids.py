"""Flows whose target's registry gives schemas ids of its own, on fake clusters and registries in the same process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from srm_common.domain.cluster import RegistrySettings
from srm_common.domain.flow import FlowName, GraphFlow
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.transforms.chain import parse_chain
from srm_common.testing import FakeCluster, LocalRegistry
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.slot_worker import here
from tests.unit.usecases.fakes import Sides

ADDRESS = '{"type": "record", "name": "Address", "fields": []}'
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "a", "type": "Address"}]}'
REFERENCE = [{"name": "Address", "subject": "address", "version": 1}]


def framed(number: int, body: bytes = b"body") -> bytes:
    return b"\0" + number.to_bytes(4) + body


class Mapping:
    """A flow ``a->b`` that maps ids; the target's registry is as Karapace, with schemas of its own."""

    def __init__(self, sides: Sides, source: LocalRegistry, target: LocalRegistry) -> None:
        self.sides, self.source, self.target = sides, source, target
        flow = sides.flow
        sides.set(
            sync_schemas=True,
            schemas_ids="map",
            source=replace(flow.source, schema_registry=RegistrySettings((source.url,))),
            target=replace(flow.target, schema_registry=RegistrySettings((target.url,))),
        )
        sides.close()

    def plan(self) -> list[str]:
        return [text for text in map(str, plan_topics(self.sides.clusters()).actions) if " subject" in text]

    def copy(self) -> list[str]:
        """The faults of a refresh."""
        return [str(result.error) for result in self.sides.refresh().results if result.error is not None]

    def fault(self) -> str:
        """Of a run in which one partition fails."""
        (failed,) = self.sides.run().failed_partitions
        return str(failed.error)


@pytest.fixture
def mapping(source_kafka: FakeCluster, target_kafka: FakeCluster) -> Iterator[Mapping]:
    with (
        LocalRegistry() as source,
        LocalRegistry(imports=False, contexts=False) as target,
        closing(Sides(source_kafka, target_kafka)) as sides,
    ):
        for number in range(40):
            target.register(f"other-{number}", f'{{"type": "fixed", "name": "F", "size": {number + 1}}}')
        source_kafka.create_topic("orders", 1)
        yield Mapping(sides, source, target)


def test_records_get_the_ids_of_the_target(mapping: Mapping) -> None:
    source, target, sides = mapping.source, mapping.target, mapping.sides
    source.register("address", ADDRESS)
    order = source.register("orders-value", ORDER, references=REFERENCE)
    event = source.register("events", 'syntax = "proto3";', kind="PROTOBUF")
    key = source.register("orders-key", '{"type": "object"}', kind="JSON")
    assert mapping.plan() == [
        "register version 1 of subject address on b with a new id instead of 1 (copy of address)",
        "register version 1 of subject events on b with a new id instead of 3 (copy of events)",
        "register version 1 of subject orders-key on b with a new id instead of 4 (copy of orders-key)",
        "register version 1 of subject orders-value on b with a new id instead of 2 (copy of orders-value)",
    ]
    values = [framed(order), None, framed(event, b""), b"\0\0\0", b"plain", b"", framed(order, b"\0" * 9)]
    sides.source.write("orders", [(framed(key, b"%d" % number), value) for number, value in enumerate(values)])
    sides.set(schemas_ids_keys=("orders",))
    assert mapping.copy() == []
    assert mapping.plan() == []
    assert sides.run().state is RunState.DONE

    new = {subject: target.versions(subject)[1][0] for subject in ("orders-value", "events", "orders-key")}
    assert min(new.values()) > 40
    assert sides.values("a.orders") == [
        framed(new["orders-value"]),
        None,
        framed(new["events"], b""),
        b"\0\0\0",
        b"plain",
        b"",
        framed(new["orders-value"], b"\0" * 9),
    ]
    keys = [record.key for record in sides.target.records("a.orders", 0)]
    assert keys == [framed(new["orders-key"], b"%d" % number) for number in range(7)]
    assert target.answer("GET", f"/schemas/ids/{new['orders-value']}")["references"] == REFERENCE
    assert source.changes() == []


def test_keys_stay_unless_they_are_named_and_topics_that_are_not_go_unopened(mapping: Mapping) -> None:
    sides = mapping.sides
    number = mapping.source.register("orders-value", ADDRESS)
    sides.source.create_topic("orders-plain", 1)
    for topic in ("orders", "orders-plain"):
        sides.source.write(topic, [(framed(77), framed(number))])
    sides.set(schemas_ids_values=("orders",))
    mapping.copy()
    results: list[SlotResult] = []

    def watched(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        results.extend(here(job, tasks))
        return results

    replicate(sides.clusters(), RunOptions("r"), watched)
    assert [sides.target.records(f"a.{topic}", 0)[0].key for topic in ("orders", "orders-plain")] == [framed(77)] * 2
    assert sides.values("a.orders") == [framed(41)]
    assert sides.values("a.orders-plain") == [framed(number)]
    reencoded = {
        range_result.upstream_topic: range_result.copied.reencoded_batches
        for result in results
        for range_result in result.ranges
    }
    assert reencoded == {"orders": 1, "orders-plain": 0}


def test_a_schema_that_comes_during_a_run_is_registered_with_what_it_refers_to(mapping: Mapping) -> None:
    mapping.copy()
    mapping.source.register("address", ADDRESS)
    number = mapping.source.register("orders-value", ORDER, references=REFERENCE)
    # Another version there: references are to the target's.
    mapping.target.register("address", '"string"')
    mapping.sides.source.write("orders", [(None, framed(number))])
    mapping.sides.run()
    (value,) = mapping.sides.values("a.orders")
    assert value is not None
    found = mapping.target.answer("GET", f"/schemas/ids/{int.from_bytes(value[1:5])}")
    assert json.loads(found["schema"]) == json.loads(ORDER)
    assert found["references"] == [{**REFERENCE[0], "version": 2}]
    assert mapping.plan() == []


def test_a_soft_deleted_schema_has_an_id_once_a_record_needs_it(mapping: Mapping) -> None:
    number = mapping.source.register("orders-value", ADDRESS)
    mapping.source.register("orders-value", '"int"')
    mapping.source.delete("orders-value", 1)
    mapping.copy()
    assert mapping.target.versions("orders-value") == {1: (41, False)}
    mapping.sides.source.write("orders", [(None, framed(number))])
    mapping.sides.run()
    assert mapping.sides.values("a.orders") == [framed(42)]


def test_the_id_is_that_of_the_topics_own_subject(mapping: Mapping) -> None:
    for subject in ("aaa", "orders-value", "zzz"):
        number = mapping.source.register(subject, ADDRESS)
    mapping.sides.set(schemas_subjects=("aaa", "orders-value"))
    mapping.sides.source.write("orders", [(None, framed(number))])
    mapping.sides.refresh()
    del mapping.target.requests[:]
    mapping.sides.run()
    assert mapping.target.requests == [("POST", "/subjects/orders-value?deleted=true")]


def test_an_id_that_the_source_does_not_know_stops_the_partition_or_is_left_out(mapping: Mapping) -> None:
    number = mapping.source.register("orders-value", ADDRESS)
    mapping.sides.source.write("orders", [(None, framed(number)), (None, framed(999)), (None, framed(number))])
    mapping.copy()
    assert mapping.fault() == (
        "partition orders-0: offset 1, schemas.ids: the value has the schema id 999, which the registry of the source "
        "does not know; if the values of orders have no ids, leave it out of schemas.ids.values"
    )
    assert mapping.sides.values("a.orders") == [framed(41)]
    mapping.sides.set(errors_tolerance="all")
    assert [partition.skipped_records for partition in mapping.sides.run("again").partitions] == [1]
    assert mapping.sides.values("a.orders") == [framed(41)] * 2


def test_a_schema_of_a_subject_that_is_not_copied_stops_the_partition(mapping: Mapping) -> None:
    number = mapping.source.register("orders-value", ADDRESS)
    mapping.sides.set(schemas_subjects=("payments.*",))
    mapping.sides.source.write("orders", [(None, framed(number))])
    mapping.copy()
    assert mapping.fault() == (
        "partition orders-0: schema id 1 of the values of orders has no id at the target: at a it belongs to subject "
        "orders-value, which the flow does not copy; select a subject that has it with schemas.subjects, or leave the "
        "topic out of schemas.ids.values"
    )


def test_a_schema_that_the_target_refuses_stops_its_partition_only(mapping: Mapping) -> None:
    sides = mapping.sides
    sides.source.create_topic("orders-b", 1)
    refused = mapping.source.register("orders-value", ADDRESS)
    taken = mapping.source.register("orders-b-value", '"int"')
    mapping.target.fault = lambda method, path: (
        (409, b'{"error_code": 409, "message": "Incompatible schema"}')
        if (method, path) == ("POST", "/subjects/orders-value/versions")
        else None
    )
    sides.source.write("orders", [(None, framed(refused))])
    sides.source.write("orders-b", [(None, framed(taken))])
    (fault,) = mapping.copy()
    assert "refuses to register a schema for subject orders-value (HTTP 409): Incompatible schema" in fault
    assert "partition orders-0: schema id 1 of the values of orders has no id at the target" in mapping.fault()
    assert sides.values("a.orders-b") == [framed(41)]
    mapping.target.fault = lambda method, path: None
    assert mapping.copy() == []
    sides.run("again")
    assert sides.values("a.orders") == [framed(42)]


def test_levels_come_before_schemas_which_are_checked_by_them(mapping: Mapping) -> None:
    mapping.source.register("orders-value", ADDRESS)
    mapping.source.set_level("orders-value", "NONE")
    assert mapping.copy() == []
    done = [path for method, path in mapping.target.requests if method in ("PUT", "POST") and "orders" in path]
    assert done.index("/config/orders-value") < done.index("/subjects/orders-value/versions")


def test_transforms_read_and_write_by_the_targets_registry(mapping: Mapping) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "card", "type": "string"}]}
    number = mapping.source.register("orders-value", json.dumps(schema))
    mapping.sides.source.write("orders", [(None, framed(number, b"\x084111"))])
    mask = {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
        "transforms.mask.fields": "card",
        "value.format": "avro",
    }
    mapping.sides.set(transforms=parse_chain(mask))
    mapping.copy()
    mapping.sides.run()
    assert mapping.sides.values("a.orders") == [framed(41, b"\x00")]
    assert mapping.target.subjects[-1:] == ["other-9"]
    assert list(mapping.target.versions("a.orders-value")) == []


def test_an_id_that_transforms_miss_at_the_target_is_missing_there(mapping: Mapping) -> None:
    """Keys are not mapped unless they are named, but they are read as the values are: by the target's ids."""
    number = mapping.source.register("orders-value", ADDRESS)
    mapping.sides.source.write("orders", [(framed(999), framed(number))])
    mask = {
        "transforms": "mask",
        "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Key",
        "transforms.mask.fields": "card",
        "key.format": "avro",
    }
    mapping.sides.set(transforms=parse_chain(mask))
    mapping.copy()
    assert mapping.fault().endswith("the key has the schema id 999, which the registry of the target does not know")


def test_a_context_of_the_target_has_ids_of_its_own(
    mapping: Mapping, source_kafka: FakeCluster, target_kafka: FakeCluster
) -> None:
    with LocalRegistry() as target, closing(Sides(source_kafka, target_kafka)) as sides:
        for subject in ("x", "y"):
            target.register(f":.east:{subject}", f'{{"doc": "{subject}"}}')
        inside = Mapping(sides, mapping.source, target)
        sides.set(schemas_context="east")
        number = mapping.source.register("orders-value", ADDRESS)
        source_kafka.write("orders", [(None, framed(number))])
        assert inside.copy() == []
        sides.run()
        assert sides.values("a.orders") == [framed(3)]
        assert target.versions(":.east:orders-value") == {1: (3, False)}


def test_both_directions_bring_every_schema_once_and_every_record_its_id(mapping: Mapping) -> None:
    source, target, sides = mapping.source, mapping.target, mapping.sides
    number = source.register("orders-value", ADDRESS)
    own = target.register("orders-west-value", '"int"')
    sides.target.create_topic("orders-west", 1)
    sides.source.write("orders", [(None, framed(number))])
    sides.target.write("orders-west", [(None, framed(own))])
    with closing(Sides(sides.target, sides.source)) as turned:
        turned.set(name=FlowName("b", "a"), source=sides.flow.target, target=sides.flow.source)
        back = Mapping(turned, target, source)
        back.sides.set(schemas_subjects_exclude=("other-.*",))
        graph = tuple(GraphFlow.of(f.name, f.policy, f.source, f.target, "") for f in (sides.flow, back.sides.flow))
        sides.set(graph=graph)
        back.sides.set(graph=graph)
        for _ in range(2):
            assert mapping.copy() == back.copy() == []
            assert mapping.plan() == back.plan() == []
            sides.run()
            back.sides.run()
        assert sides.values("a.orders") == [framed(target.versions("orders-value")[1][0])]
        assert back.sides.values("b.orders-west") == [framed(source.versions("orders-west-value")[1][0])]
    assert list(source.versions("orders-value")) == list(target.versions("orders-value")) == [1]


def test_a_run_tells_that_ids_are_mapped_from_now_on(mapping: Mapping) -> None:
    number = mapping.source.register("orders-value", ADDRESS)
    mapping.sides.source.write("orders", [(None, framed(number))])
    mapping.sides.set(schemas_ids="keep", sync_schemas=False)
    mapping.sides.refresh()
    mapping.sides.run()
    mapping.sides.set(schemas_ids="map", sync_schemas=True)
    mapping.copy()
    (note,) = [note for note in mapping.sides.run("again").notes if "transforms" in note]
    assert note.startswith("the transforms have changed since run 'r' (none -> ")
