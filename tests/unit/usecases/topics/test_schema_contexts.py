"""Flows between registries with contexts, in each of which the same id is another schema: what is copied where, and
which ids records get, on fake clusters and registries in the same process."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import pytest

from srm_common.domain.cluster import RegistrySettings
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.formats import Side
from srm_common.usecases.transforms.transform_preview import preview_transforms
from tests.unit.usecases.topics.schema_pair import Pair

CARD = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "card", "type": "string"}]})
TOTAL = json.dumps({"type": "record", "name": "Total", "fields": [{"name": "card", "type": "long"}]})
MASK = {
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "value.format": "avro",
}
RENAME = {
    "transforms": "name",
    "transforms.name.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.name.renames": "card:number",
    "value.format": "avro",
}


def framed(number: int, body: bytes = b"body") -> bytes:
    return b"\0" + number.to_bytes(4) + body


def named(pair: Pair, source: str = "", target: str = "") -> None:
    """Contexts in the addresses of the registries."""
    flow = pair.sides.flow
    pair.sides.set(
        source=replace(flow.source, schema_registry=RegistrySettings((pair.source.url + source,))),
        target=replace(flow.target, schema_registry=RegistrySettings((pair.target.url + target,))),
    )
    pair.sides.close()


@pytest.fixture
def both(pair: Pair) -> Pair:
    """Both topics have records with the id 1: ``orders-totals`` of the default context, ``orders`` of another one."""
    assert pair.source.register("orders-totals-value", TOTAL) == 1
    assert pair.source.register(":.east:orders-value", CARD) == 1
    for topic, value in (("orders-totals", b"\x08"), ("orders", b"\x084111")):
        pair.sides.source.create_topic(topic, 1)
        pair.sides.source.write(topic, [(None, framed(1, value))])
    for number in range(4):
        pair.target.register(f"there-{number}", f'{{"type": "fixed", "name": "F", "size": {number + 1}}}')
    pair.target.register(":.east:there", '"int"')
    pair.sides.set(schemas_ids="map")
    return pair


def test_records_get_the_ids_of_the_context_of_their_topic(both: Pair) -> None:
    assert both.plan() == [
        "register version 1 of subject :.east:orders-value on b with a new id instead of 1 (copy of "
        ":.east:orders-value)",
        "register version 1 of subject orders-totals-value on b with a new id instead of 1 (copy of "
        "orders-totals-value)",
    ]
    assert both.copy() == []
    both.sides.run()
    assert both.sides.values("a.orders") == [framed(2, b"\x084111")]
    assert both.sides.values("a.orders-totals") == [framed(5, b"\x08")]
    assert both.target.versions(":.east:orders-value") == {1: (2, False)}
    assert both.target.versions("orders-totals-value") == {1: (5, False)}
    assert both.plan() == []


@pytest.mark.parametrize(("context", "place"), [("", ":.east"), ("copies", ":.copies.east")])
def test_transforms_see_the_context_of_the_copy(both: Pair, context: str, place: str) -> None:
    both.sides.set(transforms=parse_chain(RENAME), schemas_context=context)
    both.copy()
    both.sides.run()
    (value,) = both.sides.values("a.orders")
    (number,) = [number for number, _ in both.target.versions(f"{place}:a.orders-value").values()]
    assert value == framed(number, b"\x084111")
    assert json.loads(both.target.answer("GET", f"/schemas/ids/{number}?subject={place}:")["schema"])["fields"][0][
        "name"
    ] == ("number")
    assert len(both.sides.values("a.orders-totals")) == 1


def test_a_record_that_may_be_of_either_context_stops_its_partition(both: Pair) -> None:
    both.source.register(":.west:orders-value", TOTAL)
    both.copy()
    (failed,) = both.sides.run().failed_partitions
    assert "schema id 1 of the values of orders has no id at the target: the values of orders may have it from " in str(
        failed.error
    )
    assert "context .east and .west of the schema registry of a" in str(failed.error)
    assert both.sides.values("a.orders") == []
    assert len(both.sides.values("a.orders-totals")) == 1
    named(both, "/contexts/.east")
    both.copy()
    both.sides.run("again")
    assert both.target.versions("orders-value") == {1: (6, False)}
    assert both.sides.values("a.orders") == [framed(6, b"\x084111")]


def test_records_that_keep_their_ids_are_read_in_the_context_of_their_topic(both: Pair) -> None:
    """Without transforms a copy is the same bytes, whatever the registry has."""
    both.sides.set(schemas_ids="keep", transforms=parse_chain(MASK), sync_schemas=False)
    both.sides.refresh()
    both.sides.run()
    assert both.sides.values("a.orders") == [framed(1, b"\x00")]
    assert both.sides.values("a.orders-totals") == [framed(1, b"\x00")]


def test_a_preview_reads_each_topic_in_its_context(both: Pair) -> None:
    both.sides.set(transforms=parse_chain(MASK))
    found = preview_transforms(both.sides.clusters(), [], 10)
    assert found.schemas is not None
    shown = {}
    for one in found.records:
        assert one.before.value is not None
        shown[one.topic] = found.schemas.read(one.topic, Side.VALUE, one.before.value)
    assert {topic: one and one.text for topic, one in shown.items()} == {
        "orders": '{"card":"4111"}',
        "orders-totals": '{"card":4}',
    }


def test_an_address_with_a_context_is_a_registry_of_its_own(pair: Pair) -> None:
    pair.source.register("orders-value", TOTAL)
    pair.source.register(":.common:address", '"string"')
    reference = [{"name": "Address", "subject": ":.common:address", "version": 1}]
    pair.source.register(":.east:orders-value", CARD, references=reference)
    pair.source.register(":.east:payments-value", TOTAL)
    pair.source.set_level(":.east:", "NONE")
    pair.source.set_level(":.east:orders-value", "FULL")
    pair.sides.set(schemas_subjects=("orders.*",), schemas_compatibility="all")
    named(pair, "/contexts/.east", "/contexts/.prod")
    assert pair.copy() == []
    assert pair.target.subjects == [":.prod.common:address", ":.prod:orders-value"]
    assert pair.target.versions(":.prod:orders-value") == {1: (1, False)}
    assert pair.target.levels == {"": "BACKWARD", ":.prod:": "NONE", ":.prod:orders-value": "FULL"}
    assert pair.plan() == []
    assert pair.target.modes == {}


def test_the_context_of_an_address_may_be_called_as_the_target_is(pair: Pair) -> None:
    pair.source.register(":.b:orders-value", CARD)
    assert pair.plan() == []
    named(pair, "/contexts/.b", "/contexts/.b")
    assert pair.copy() == []
    assert pair.target.subjects == [":.b:orders-value"]
    back = pair.turned()
    with closing(back.sides):
        named(back, "/contexts/.b", "/contexts/.b")
        assert back.plan() == []


def test_a_context_of_the_same_registry_is_not_copied_into_itself(pair: Pair) -> None:
    pair.source.register("orders-value", CARD)
    pair.target = pair.source
    pair.connect()
    named(pair, target="/contexts/.copies")
    for _ in range(3):
        assert pair.copy() == []
    assert pair.source.subjects == [":.copies:orders-value", "orders-value"]
